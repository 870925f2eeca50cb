"""A folder for sweeps of simulated runs (`tests/fake_learn.py`)."""

import io
import json
import subprocess
import sys
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import yaml
from lanista.trainers.cli.main import run
from sweep_with_fake import pretend

DRIVER = Path(__file__).parents[3] / "sweep_with_fake.py"
RATE = "behaviors.Basic.hyperparameters.learning_rate"


class Place:
    """A folder with a sweep's file, what the simulated runs should do, and what they did."""

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

    @contextmanager
    def start(self, *arguments):
        """The sweep as a process of its own, to be killed or interrupted; if a check fails, it is killed."""
        with subprocess.Popen(
            [sys.executable, str(DRIVER), "mine.yaml", *arguments],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                yield process
            except BaseException:
                process.kill()  # it and its runs might wait for what never comes
                (self.folder / "go").touch()
                raise

    def run(self, *arguments):
        """The whole sweep, in this process: exit status and output."""
        said = io.StringIO()
        with redirect_stdout(said), redirect_stderr(said):
            status = run(["sweep", "mine.yaml", *arguments])
        return status, said.getvalue()

    def lines(self, name):
        file = self.folder / name
        return file.read_text().splitlines() if file.exists() else []

    @property
    def sweep(self):
        return self.folder / "results" / "mine"


@pytest.fixture
def place(tmp_path, monkeypatch):
    pytest.importorskip("optuna")
    pretend(monkeypatch.setattr)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    place = Place(tmp_path)
    place.write()
    return place
