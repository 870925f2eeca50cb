"""Lets the brains of runs play against each other, and rates them."""
