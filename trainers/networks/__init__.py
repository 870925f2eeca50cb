"""The networks: encoders of observations, bodies, and heads."""
