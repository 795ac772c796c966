"""Runs of real serving software against a running `tokenpath up`: `make e2e`. The files are named live_*.py: `make test` passes them by."""
