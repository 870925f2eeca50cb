"""Unity's Sorter."""
