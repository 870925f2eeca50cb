"""Networks of many shapes, and a game of one script in which their brains act."""

import json
import shutil
import subprocess
from pathlib import Path

import lanista
import numpy as np
import torch
from lanista.envs.named_actions import NamedAction, named_action_spec
from lanista.trainers.networks.actor import Actor
from lanista.trainers.networks.modules.heads import HeadConfig
from lanista.trainers.settings.models.networks import NetworkSettings
from mlagents_envs.base_env import BehaviorSpec
from specs import spec_of_shapes

MIXED = (
    NamedAction("jump", 2, "discrete"),
    NamedAction("move", 3, "continuous"),
    NamedAction("weapon", 5, "discrete"),
    NamedAction('"aim" \U0001f3af\n', 1, "continuous"),
)
MOVE = (NamedAction("move", 2, "continuous"),)
CHOICES = (NamedAction("gear", 6, "discrete"), NamedAction("brake", 2, "discrete"))
SAC = HeadConfig(squashed=True, sigma_of_state=True)
ADDON = Path(lanista.__file__).parent / "envs" / "godot" / "addon"
SCRIPT = Path(__file__).parent / "godot" / "play_brains.gd"


def actor(sizes=(8,), actions=MOVE, head=None, seed=0, **settings):
    """A network with a moved normalizer, weights of all layers that matter, and deviations that differ.

    `sizes`: of vectors; triples are the shapes of images.
    """
    shapes = [(size,) if isinstance(size, int) else size for size in sizes]
    spec = BehaviorSpec(spec_of_shapes(shapes).observation_specs, named_action_spec(actions))
    options = {"normalize": True, "hidden_units": 32, **settings}
    random = torch.Generator().manual_seed(seed)
    network = Actor(spec, NetworkSettings(**options), random, head=head)
    network.update_normalization([torch.randn(50, *shape, generator=random) * 3 - 2 for shape in shapes])
    with torch.no_grad():
        network.actions.weight.mul_(5.0)
        for name, parameter in network.named_parameters():
            if "bias" in name or "log_sigma" in name:
                parameter.add_(torch.rand(parameter.shape, generator=random) - 0.5)
    return network.requires_grad_(False)


def memory(kind, size):
    """Settings of a network with a memory."""
    return {"memory": {"memory_type": kind, "memory_size": size}}


BY_STATE = {"state_dependent_exploration": {"resample_interval": 4}, "initial_log_std": -1.0}


def networks():
    """By a name: every kind of layer, action and head, in sizes that fill blocks of four and that do not."""
    found = {
        "2x64": actor(hidden_units=64),
        "widths": actor((8,), MIXED, hidden_units=[24, 13], layer_norm=True),
        "discrete": actor((5, 2), CHOICES, hidden_units=30),
        "mixed": actor((3, 1, 7), MIXED, hidden_units=21),
        "not normalized": actor((9,), MIXED, normalize=False, hidden_units=7, num_layers=3),
        "smallest": actor((1,), (NamedAction("a", 1, "continuous"),), hidden_units=1, num_layers=1),
        "layer norm": actor((6,), MIXED, hidden_units=13, layer_norm=True),
        "layer norm 32": actor((6,), MOVE, layer_norm=True, activation="relu"),
        "residual": actor((6,), MIXED, hidden_units=10, residual=True),
        "residual 32": actor((4,), MOVE, hidden_units=32, residual=True, activation="gelu"),
        "lstm": actor((5,), MIXED, hidden_units=18, **memory("lstm", 18)),
        "lstm 64": actor((8,), MOVE, hidden_units=64, **memory("lstm", 128)),
        "gru": actor((5,), MIXED, hidden_units=18, **memory("gru", 22)),
        "gru of choices": actor((5,), CHOICES, hidden_units=32, **memory("gru", 32)),
        "action range": actor((6,), MIXED, action_range=1.0),
        "explored": actor((6,), MIXED, action_range=1.0, hidden_units=10, **BY_STATE),
        "sac explored": actor((5,), MOVE, SAC, hidden_units=19, **BY_STATE, **memory("gru", 22)),
        "sac": actor((6,), MOVE, SAC),
        "sac mixed": actor((6,), MIXED, SAC, hidden_units=19),
        "ddpg": actor((6,), MOVE, HeadConfig(deterministic=True)),
        "dqn": actor((6,), CHOICES, HeadConfig(values=2, dueling=True)),
        "critic alone": actor((3, 4, 2), MIXED, critic_only_observations=["obs1"]),
        "image": actor([(3, 24, 36)], MOVE, hidden_units=16),
        "image and vectors": actor((2, (1, 21, 20), 3), MIXED, hidden_units=10, **memory("gru", 6)),
        "nature_cnn": actor([(3, 36, 44), 4], CHOICES, hidden_units=16, vis_encode_type="nature_cnn"),
        "match3": actor([(6, 7, 5)], CHOICES, hidden_units=16, vis_encode_type="match3"),
        "fully connected": actor([(5, 4, 3), (3, 6, 2)], vis_encode_type="fully_connected"),
    }
    for kind in ("relu", "leaky_relu", "elu", "swish", "gelu", "tanh"):
        found[kind] = actor((7,), MIXED, hidden_units=14, activation=kind)
    random = np.random.default_rng(0)
    for seed in range(8):
        sizes = tuple(map(int, random.integers(1, 12, random.integers(1, 4))))
        hidden, layers = (int(random.integers(1, top)) for top in (80, 4))
        found[f"random {seed}"] = actor(sizes, MIXED, seed=seed, hidden_units=hidden, num_layers=layers)
    return found


def make_game(folder, project=None):
    """A copy of a project that has Lanista's addon (or a new one) with the script that plays `cases.json`."""
    if project is None:
        shutil.copytree(ADDON, folder / "addons" / "lanista")
        (folder / "project.godot").write_text('config_version=5\n[application]\nconfig/name="brains"\n')
    else:
        shutil.copytree(project, folder)
    shutil.copy(SCRIPT, folder)
    return folder


def run_game(engine, folder, cases, timeout=120):
    """Play cases, see play_brains.gd; what the agents did, and what the engine printed."""
    (folder / "cases.json").write_text(json.dumps(cases))
    command = [str(engine), "--headless", "--path", str(folder), "-s", SCRIPT.name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    output = done.stdout + done.stderr
    results = folder / "results.json"
    assert done.returncode == 0 and results.is_file(), output
    return json.loads(results.read_text(encoding="utf-8")), output
