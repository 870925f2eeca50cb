"""No knowledge of training."""
