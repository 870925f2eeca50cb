"""What is stored until it is learned from."""
