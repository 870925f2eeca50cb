"""Several learners, one process each, that make a policy's updates together."""
