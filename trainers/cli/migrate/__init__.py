"""For those who come from ML-Agents: what differs for their files, and their weights in our networks."""
