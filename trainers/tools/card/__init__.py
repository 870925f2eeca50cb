"""`lanista card`: what a model is, what made it and how well it plays, as a model card."""
