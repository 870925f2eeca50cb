"""`lanista runs`: the runs of a results folder."""
