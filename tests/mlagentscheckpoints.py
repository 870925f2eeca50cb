"""Checkpoints of ML-Agents' own: how they are made, and what its networks compute with them.

Each folder of tests/real/checkpoints holds one: case.json (how it was made), checkpoint.pt, and said.npz,
some inputs and what ML-Agents' networks answered. They are made again by
`python tests/mlagentscheckpoints.py PEER_PYTHON`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from scripted_engine import free_port

HERE = Path(__file__).parent
FOLDER = HERE / "real" / "checkpoints"
NAMES = sorted(path.parent.name for path in FOLDER.glob("*/case.json"))


def case_of(name: str) -> dict[str, Any]:
    return json.loads((FOLDER / name / "case.json").read_text())


def make(python: str | Path, name: str, folder: Path) -> None:
    """checkpoint.pt and said.npz of this case, in `folder`, by the Python in which ML-Agents is installed."""
    case, path = case_of(name), folder / "checkpoint.pt"
    if case["scene"]:
        run = _train(python, case, folder / "run")
        shutil.copy(run / case["behavior"] / "checkpoint.pt", path)
    judged = [FOLDER / name / "case.json", path, folder / "said.npz"]
    run_python(python, HERE / "peer" / "judge_checkpoint.py", *judged, *([] if case["scene"] else ["--new"]))


def _train(python: str | Path, case: dict[str, Any], folder: Path) -> Path:
    """The run folder of a short training in one of our scenes."""
    from lanista.envs.scenes.registry import export

    folder.mkdir()
    behavior = {
        "trainer_type": case["trainer"],
        "hyperparameters": _hyperparameters(case),
        "network_settings": case["network_settings"],
        "reward_signals": {name: {} for name in case["signals"]},
        "max_steps": case["steps"],
        "time_horizon": 16,
        "summary_freq": 500,
    }
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump({"behaviors": {case["behavior"]: behavior}}))
    scene = export(case["scene"], folder / case["scene"])
    arguments = [f"--env={scene}", f"--base-port={free_port()}", "--run-id=real"]
    arguments += [f"--results-dir={folder}", "--seed=1"]
    run_python(
        python, HERE / "peer" / "run_peer.py", config, *arguments, "--env-args", *case["scene_arguments"]
    )
    return folder / "real"


def _hyperparameters(case: dict[str, Any]) -> dict[str, Any]:
    if case["trainer"] == "sac":
        return {"batch_size": 32, "buffer_size": 2000, "steps_per_update": 20, "tau": 0.1}
    epochs = {"batch_size": 32, "buffer_size": 200, "num_epoch": 2}
    return epochs | ({"shared_critic": True} if case["shared_critic"] else {})


def run_python(python: str | Path, *arguments: object, timeout: float = 300.0) -> str:
    """What ML-Agents' Python prints; fails with all of that."""
    done = subprocess.run(
        [str(python), "-W", "ignore", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        env={k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")},
        check=False,
    )
    assert done.returncode == 0, f"{arguments[0]} ended with {done.returncode}:\n{done.stdout}"
    return done.stdout


def main() -> None:
    for name in sys.argv[2:] or NAMES:
        folder = FOLDER / name
        make(sys.argv[1], name, folder)
        shutil.rmtree(folder / "run", ignore_errors=True)


if __name__ == "__main__":
    main()
