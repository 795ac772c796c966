"""Brings telemetry in. Knows OpenTelemetry and the log, never ClickHouse."""
