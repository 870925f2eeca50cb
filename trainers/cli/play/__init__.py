"""`lanista play`: models act in an environment, are scored, filmed and watched."""
