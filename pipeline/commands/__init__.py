"""The commands of `tokenpath` that need this package alone; pipeline/cli.py registers them beside those that put packages together."""
