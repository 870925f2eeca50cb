"""Unity's Cooperative PushBlock."""
