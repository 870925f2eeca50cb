"""The settings as typed models, one file per section."""
