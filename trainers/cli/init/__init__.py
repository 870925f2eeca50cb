"""`lanista init`: a configuration for what an environment shows."""
