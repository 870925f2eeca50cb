"""Sweeps: many runs that differ in a few settings, in search of the best values."""
