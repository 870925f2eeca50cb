"""Posthumous credit assignment: PPO for teams whose members may die early."""
