"""Who calls on the ports of a trainer, and who of them is admitted."""
