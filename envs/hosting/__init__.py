"""Python environments as engines: processes of their own that speak ML-Agents' protocol."""
