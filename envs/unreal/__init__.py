"""Unreal's plug-in UnrealMLAgents: how it speaks the communicator protocol, and how its games are started."""
