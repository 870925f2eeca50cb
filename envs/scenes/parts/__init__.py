"""What worlds are made of: physics, sensors, agents in teams."""
