"""`lanista clone`: learning from demonstrations alone."""
