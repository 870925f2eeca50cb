"""Engines on the nodes of a Ray cluster, whose connections come to this machine."""
