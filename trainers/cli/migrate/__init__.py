"""Migration from ML-Agents: what differs for its configurations, and old configurations converted."""
