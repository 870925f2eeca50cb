"""Many environments stepped as one."""
