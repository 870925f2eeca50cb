"""Settings of short runs of self-play with the line game."""

from pathlib import Path

YAML = """\
behaviors:
  {name}:
    trainer_type: {trainer}
    hyperparameters: {{batch_size: 16, buffer_size: 128{hyper}}}
    network_settings: {{normalize: {normalize}, hidden_units: 8, num_layers: 1{memory}}}
    checkpoint_interval: 300
    max_steps: 700
    time_horizon: 8
    summary_freq: 100
    self_play: {{save_steps: 90, team_change: 150, swap_steps: 40, window: 3}}
"""
LSTM = ", memory: {memory_size: 4, sequence_length: 8}"
TEAMS = ["Tiny?team=0", "Tiny?team=1"]
EVERY = {
    "ppo": ("", [3], 0),
    "poca": ("", [3], 0),
    "mappo": ("", [3], 0),
    "coma": ("", [3], 0),
    "sac": (", buffer_init_steps: 50, steps_per_update: 10", [], 1),
    "dqn": (", buffer_init_steps: 50, steps_per_update: 10", [3], 0),
    "ddpg": (", buffer_init_steps: 50, steps_per_update: 10", [], 1),
    "td3": (", buffer_init_steps: 50, steps_per_update: 10, noise_type: ornstein_uhlenbeck", [], 1),
}
OF_GROUPS = ("poca", "mappo", "coma")
"""Trainers that learn what groups earn."""


def configure(folder: Path, trainer="ppo", hyper="", normalize="true", memory="", names=("Tiny",)):
    """Write `c.yaml`, in which behaviors of these names are trained alike."""
    parts = [
        YAML.format(name=name, trainer=trainer, hyper=hyper, normalize=normalize, memory=memory)
        for name in names
    ]
    text = parts[0] + "".join(part.partition("\n")[2] for part in parts[1:])
    (folder / "c.yaml").write_text(text)
