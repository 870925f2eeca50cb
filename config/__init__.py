"""Ready configurations, one folder per trainer."""
