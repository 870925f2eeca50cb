"""Reward signals: what a step was worth, by the environment's account or by others."""
