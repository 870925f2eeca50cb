"""Sorter."""
