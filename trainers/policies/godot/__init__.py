"""Brains for Godot: resources that play in GDScript, and ONNX files for the plugin godot_rl_agents."""
