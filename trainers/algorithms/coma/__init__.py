"""Counterfactual multi-agent policy gradients: a centralized critic asks what an agent's action was worth."""
