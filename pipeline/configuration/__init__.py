"""The user's configuration directory as immutable versions in the store."""
