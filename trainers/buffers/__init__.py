"""What is stored until it is learnt from."""
