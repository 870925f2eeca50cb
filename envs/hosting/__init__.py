"""Python environments as engines: stepped in processes of their own, which speak the wire."""
