"""PettingZoo environments: parallel and turn-based."""
