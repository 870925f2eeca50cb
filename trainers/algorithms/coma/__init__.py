"""Counterfactual multi-agent policy gradients: a centralised critic asks what an agent's action was worth."""
