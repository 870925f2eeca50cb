"""Microseconds that a decision of a brain takes in Godot, headless: the tables of docs/into-godot.md.

LANISTA_GODOT=path/to/godot .venv/bin/python tests/benchmarks/godot_decisions.py
"""

import os
import sys
import tempfile
from itertools import chain
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from godot_brains import MOVE, actor, make_game, memory, run_game
from lanista.envs.named_actions import NamedAction
from lanista.trainers.networks.actor import Actor
from lanista.trainers.policies.godot.export import export_godot

VECTORS = {
    "2 continuous components": {"actions": MOVE},
    "a choice of 5": {"actions": (NamedAction("choice", 5, "discrete"),)},
    "2 components, normalized layers": {"actions": MOVE, "layer_norm": True},
    "2 components, an LSTM of 128": {"actions": MOVE, **memory("lstm", 128)},
    "2 components, a GRU of 64": {"actions": MOVE, **memory("gru", 64)},
}
WIDTHS = (64, 128, 256)
IMAGES = {"simple": {"vis_encode_type": "simple"}, "nature_cnn": {"vis_encode_type": "nature_cnn"}}
SIDES = (36, 64, 84)
ROUND = 10_000
"""Microseconds of each of forty rounds, at least."""


def main() -> None:
    """Print both tables."""
    vectors = {
        name: [actor((8,), hidden_units=width, **options) for width in WIDTHS]
        for name, options in VECTORS.items()
    }
    images = {
        name: [actor([(3, side, side)], hidden_units=128, **options) for side in SIDES]
        for name, options in IMAGES.items()
    }
    engine, found = measure([*vectors.values(), *images.values()])
    print(engine)
    print_table("8 observations", [f"2x{width}" for width in WIDTHS], dict(zip(vectors, found)))
    print_table(
        "an image, 2x128", [f"{side}x{side}" for side in SIDES], dict(zip(images, found[len(vectors) :]))
    )


def measure(rows: list[list[Actor]]) -> tuple[str, list[list[float]]]:
    """The engine's name, and microseconds for each network."""
    with tempfile.TemporaryDirectory() as folder:
        game, cases = make_game(Path(folder) / "game"), []
        for network in chain.from_iterable(rows):
            path = game / f"{len(cases)}.tres"
            export_godot(network, path, behavior="Agent")
            (shape,) = [spec.shape for spec in network.spec.observation_specs]
            obs = [{"bytes": [1] * int(np.prod(shape))} if len(shape) == 3 else [1.0] * shape[0]]
            case = {"brain": f"res://{path.name}", "steps": [{"obs": obs}], "deterministic": True}
            cases.append({**case, "microseconds": ROUND})
        found, output = run_game(os.environ["LANISTA_GODOT"], game, cases, timeout=600)
    values = iter(found)
    return output.splitlines()[0], [[next(values) for _ in row] for row in rows]


def print_table(title: str, columns: list[str], rows: dict[str, list[float]]) -> None:
    """As Markdown."""
    print(f"\n| {title} | {' | '.join(columns)} |")
    print("|---" * (1 + len(columns)) + "|")
    for name, values in rows.items():
        print(f"| {name} | {' | '.join(f'{value:,.0f}' for value in values)} |")


if __name__ == "__main__":
    main()
