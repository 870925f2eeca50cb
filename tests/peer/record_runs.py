"""Records runs of ML-Agents on the line game, as `tests/golden/training_status.json` holds them.

    DIR/bin/python tests/peer/record_runs.py CASES.json [RUNS.json]

CASES.json is a list of runs, each with a name and inputs (yaml, argv, environment, and the names of previous
runs in the same results folder); RUNS.json gets the same with what ML-Agents has written. Only two things are
not ML-Agents' own: the game, which is stepped in its environment process, and the exporter, as in
`run_peer.py`.
"""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
PATHS = [str(ROOT / "tests"), str(ROOT / ".cache")]
"""Where the game's module is, and the package that it takes its types from."""


def run(case: dict[str, Any]) -> None:
    """Train as `mlagents-learn` does, in the current folder."""
    import torch.onnx

    torch.onnx.export = functools.partial(torch.onnx.export, dynamo=False)
    from mlagents.trainers import learn

    rules, paths = case["environment"], PATHS

    def make(worker_id: int, side_channels: Any) -> Any:
        sys.path[:0] = paths
        from line_game import LineGame

        env = LineGame(worker_id + 17, **rules)
        env.academy_capabilities = SimpleNamespace(trainingAnalytics=False)
        return env

    learn.create_environment_factory = lambda *args, **kwargs: make
    Path("c.yaml").write_text(case["yaml"])
    sys.argv = ["mlagents-learn", "c.yaml", *case["argv"]]
    learn.main()


def record(folder: Path, printed: str) -> dict[str, Any]:
    """What a run has written to its results folder and to its console."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    files = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}
    curves = {}
    for path in sorted({path.parent for path in files.values() if "tfevents" in path.name}):
        events = EventAccumulator(str(path), {"scalars": 0, "histograms": 0}).Reload()
        scalars = {tag: events.Scalars(tag) for tag in events.Tags()["scalars"]}
        curves[str(path.relative_to(folder))] = {
            "scalars": {
                tag: {"steps": [one.step for one in curve], "values": [one.value for one in curve]}
                for tag, curve in scalars.items()
            },
            "histograms": {
                tag: {"steps": [one.step for one in events.Histograms(tag)]}
                for tag in events.Tags()["histograms"]
            },
        }
    timers = {
        name: json.loads(path.read_text()) for name, path in files.items() if path.name == "timers.json"
    }
    return {
        "console": [
            re.sub(r"Time Elapsed: [\d.]+ s", "Time Elapsed: <t> s", line)
            for line in printed.splitlines()
            if line.startswith("[INFO]")
        ],
        "files": sorted(re.sub(r"tfevents\..*", "tfevents.<time>.<host>.<pid>.<n>", name) for name in files),
        "tensorboard": curves,
        "configuration": {
            name: yaml.safe_load(path.read_text())
            for name, path in files.items()
            if path.name == "configuration.yaml"
        },
        "training_status": {
            name: json.loads(path.read_text())
            for name, path in files.items()
            if path.name == "training_status.json"
        },
        "timers": {
            name: {
                "top_level_keys": list(tree),
                "gauge_names": sorted(tree.get("gauges", {})),
                "metadata_keys": sorted(tree["metadata"]),
            }
            for name, tree in timers.items()
        },
    }


def main() -> None:
    """Run as the module says."""
    if sys.argv[1] == "--one":
        run(json.loads(Path(sys.argv[2]).read_text()))
        return
    cases = json.loads(Path(sys.argv[1]).read_text())
    folders: dict[str, Path] = {}
    with tempfile.TemporaryDirectory() as made:
        for case in cases:
            inputs = case["inputs"]
            previous = inputs["previous_runs_in_same_results_directory"]
            folder = folders[case["name"]] = folders[previous[0]] if previous else Path(made, case["name"])
            folder.mkdir(exist_ok=True)
            (folder / "case.json").write_text(json.dumps(inputs))
            command = [sys.executable, str(Path(__file__).resolve()), "--one", "case.json"]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
            case["expected"] = record(folder / "results", done.stdout)
    text = json.dumps(cases)
    if len(sys.argv) > 2:
        Path(sys.argv[2]).write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
