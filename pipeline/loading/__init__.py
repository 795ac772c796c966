"""Log to store: one INSERT a batch, what cannot be decoded to the dead letters."""
