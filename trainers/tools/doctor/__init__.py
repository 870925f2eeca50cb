"""`lanista doctor`: whether this machine and this installation can train."""
