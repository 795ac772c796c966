"""Log to store to attribution to bills. Never imports collectors."""
