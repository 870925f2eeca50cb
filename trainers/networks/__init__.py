"""The networks: what reads observations, the bodies, and the heads that stand on them."""
