"""Tennis, a scene of our own."""
