"""The mathematics; a file per paper."""
