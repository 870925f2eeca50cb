"""Multi-agent PPO: generalized advantages against the value of the whole team."""
