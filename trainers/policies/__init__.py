"""Acting, and the exported form."""
