"""The client of ClickHouse, embedded or over HTTP, and the migrations of its schema."""
