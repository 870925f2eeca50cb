"""`lanista learn --seeds`."""
