"""Microseconds that a decision of a brain takes in Godot, headless: the table of docs/into-godot.md.

LANISTA_GODOT=path/to/godot .venv/bin/python tests/benchmarks/godot_decisions.py
"""

import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from godot_brains import MOVE, actor, make_game, memory, run_game
from lanista.envs.named_actions import NamedAction
from lanista.trainers.policies.godot.export import export_godot

WIDTHS = (64, 128, 256)
OBSERVATIONS = 8
BRANCH = (NamedAction("choice", 5, "discrete"),)
ROWS = {
    "2 continuous components": {"actions": MOVE},
    "a choice of 5": {"actions": BRANCH},
    "2 components, normalized layers": {"actions": MOVE, "layer_norm": True},
    "2 components, an LSTM of 128": {"actions": MOVE, **memory("lstm", 128)},
    "2 components, a GRU of 64": {"actions": MOVE, **memory("gru", 64)},
}
BUDGET = 40_000
"""Decisions times the width, in each of forty rounds."""


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        game, cases = make_game(Path(folder) / "game"), []
        for name, options in ROWS.items():
            for width in WIDTHS:
                path = game / f"{len(cases)}.tres"
                export_godot(actor((OBSERVATIONS,), hidden_units=width, **options), path, behavior=name)
                steps = [{"obs": [[0.5] * OBSERVATIONS]}]
                case = {"brain": f"res://{path.name}", "steps": steps, "microseconds": BUDGET // width}
                cases.append({**case, "deterministic": True})
        found, output = run_game(os.environ["LANISTA_GODOT"], game, cases, timeout=600)
    print(output.splitlines()[0])
    print(f"| decides | {' | '.join(f'2x{width}' for width in WIDTHS)} |")
    print("|---" * (1 + len(WIDTHS)) + "|")
    for k, name in enumerate(ROWS):
        row = found[k * len(WIDTHS) : (k + 1) * len(WIDTHS)]
        print(f"| {name} | {' | '.join(f'{value:.0f}' for value in row)} |")


if __name__ == "__main__":
    main()
