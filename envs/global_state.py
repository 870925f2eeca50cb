"""What an environment knows of its whole world, beside what each of its agents sees."""

STATE = "state"
"""The name of the sensor that shows it, the last of an agent's."""
