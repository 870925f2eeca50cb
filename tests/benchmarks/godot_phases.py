"""Where the time of a step with a Godot game goes: what phases.py measures, and the parts of its messages.

    bash tests/godot/install.sh .cache/godot
    python tests/benchmarks/godot_phases.py [--steps 30720] [--game FILE]

Trains as godot.py does, with one game, and leaves docs/results/godot-phases.json, which godot.py shows.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml
from godot import AGENTS, BEHAVIOR, PHASES_JSON, Way, settings
from godot_game import exported_game
from phases import Phases, Window, after_summaries, install, table
from results import RESULTS
from script_options import parse_options


def profile(game: Path, steps: int) -> dict[str, Any]:
    """Train in this process; microseconds per agent-step of every phase."""
    from lanista.envs.godot import environment
    from lanista.envs.godot.messages import AgentLists
    from lanista.trainers.learn import run

    phases = Phases()
    window = Window(phases, steps)
    after_summaries(window.on_summary)
    install(phases)
    for owner, name, phase in [
        (environment, "parse_message", "decode: JSON"),
        (AgentLists, "read", "decode: columns"),
        (AgentLists, "encode_step", "encode"),
    ]:
        phases.wrap(owner, name, phase)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        config = Path(folder, "config.yaml")
        config.write_text(yaml.safe_dump({"behaviors": {BEHAVIOR: settings(Way(steps=steps))}}))
        options = [f"--env=godot:{game}", "--no-graphics", "--seed=1", "--run-id=run"]
        if status := run([str(config), *options, f"--results-dir={folder}"]):
            raise SystemExit(status)
    return window.described(f"{AGENTS} agents")


def main() -> None:
    given = parse_options(
        __doc__, steps=30_720, game={"default": "", "help": "an exported tests/godot/upstream_project"}
    )
    with tempfile.TemporaryDirectory() as folder:
        found = profile(Path(given.game) if given.game else exported_game(Path(folder)), given.steps)
    (RESULTS / PHASES_JSON).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(table([found]))


if __name__ == "__main__":
    main()
