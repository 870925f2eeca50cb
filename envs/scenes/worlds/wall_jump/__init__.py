"""Wall jump."""
