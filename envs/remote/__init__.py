"""Engines that run already and connect on their own, from this machine or from others."""
