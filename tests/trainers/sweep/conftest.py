"""A folder in which sweeps of pretended runs take place."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

DRIVER = Path(__file__).parents[2] / "sweep_with_fake.py"
RATE = "behaviors.Basic.hyperparameters.learning_rate"


class Place:
    """A folder with a sweep's file, what the pretended runs are to do, and what they did."""

    def __init__(self, folder):
        self.folder = folder
        self.told = {
            "preset": "ppo/basic",
            "env": "scene:basic",
            "max_steps": 1000,
            "parameters": {RATE: {"min": 1e-4, "max": 1e-2, "log": True}},
            "trials": 4,
            "pruner": "none",
        }

    def write(self, **change):
        told = {key: value for key, value in {**self.told, **change}.items() if value is not None}
        (self.folder / "mine.yaml").write_text(yaml.safe_dump(told))

    def fake(self, **how):
        (self.folder / "fake.json").write_text(json.dumps(how))

    def start(self, *arguments):
        """The sweep as a process."""
        return subprocess.Popen(
            [sys.executable, str(DRIVER), "mine.yaml", *arguments],
            cwd=self.folder,
            env={**os.environ, "COLUMNS": "200"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments):
        """The sweep from its start to its end: exit status and output."""
        with self.start(*arguments) as process:
            said, _ = process.communicate(timeout=120)
        return process.returncode, said

    def lines(self, name):
        file = self.folder / name
        return file.read_text().splitlines() if file.exists() else []

    @property
    def sweep(self):
        return self.folder / "results" / "mine"


@pytest.fixture
def place(tmp_path):
    pytest.importorskip("optuna")
    place = Place(tmp_path)
    place.write()
    return place
