"""The processes of one machine: `up`, its HTTP front and API, and how other commands find them."""
