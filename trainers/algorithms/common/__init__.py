"""What several algorithms share: optimizers, returns, target networks."""
