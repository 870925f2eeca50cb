"""The version of Lanista."""

__version__ = "0.1.0"
