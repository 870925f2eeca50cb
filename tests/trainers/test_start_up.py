"""What a command loads until it does something: the start of a run is little more than that of torch."""

import json
import subprocess
import sys

import pytest

SLOW = {"torch", "onnx", "onnxruntime", "tensorboard", "gymnasium", "pettingzoo", "ray"}
"""Packages that take from tens of milliseconds to seconds."""

LOADED = """
import atexit, json, sys
atexit.register(lambda: print("\\n" + json.dumps(list(sys.modules)), file=sys.stderr))
from lanista.trainers.console import lanista, lanista_learn
sys.argv = sys.argv[1:]
{}()
"""


def run(script, *arguments, cwd=None):
    """What a process prints that runs this script, and the last line of its errors as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, cwd=cwd, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(done.stderr.splitlines()[-1])


@pytest.mark.parametrize("word, most", [("--help", 150), ("runs", 300), ("scenes", 450)])
def test_small_commands_load_little(word, most, tmp_path):
    (tmp_path / "results" / "first" / "run_logs").mkdir(parents=True)
    (tmp_path / "results" / "first" / "configuration.yaml").write_text("behaviors: {}")
    said, loaded = run(LOADED.format("lanista"), "lanista", word, cwd=tmp_path)
    assert said
    assert SLOW.isdisjoint(loaded)
    assert len(loaded) < most, sorted(loaded)


def test_the_help_of_a_run_loads_no_torch():
    said, loaded = run(LOADED.format("lanista_learn"), "lanista-learn", "--help")
    assert "--num-envs" in said and "Number of environments" in " ".join(said.split())
    assert SLOW.isdisjoint(loaded)


UNTIL_THE_FIRST_STEP = """
import json, sys, time
import psutil
from lanista.trainers import learn

seen = {}
load_torch = learn.load_torch

def after_the_launch():
    # A thread launches the engine, and imports modules to do so: it gets the time that a busy machine needs,
    # and gets it here, since whoever waits within an import's find_spec holds the lock of all imports.
    seen["torch"] = "torch" in sys.modules
    deadline = time.monotonic() + 60
    while not psutil.Process().children() and time.monotonic() < deadline:
        time.sleep(0.01)
    seen["engines"] = len(psutil.Process().children())
    load_torch()

class Watching:
    def find_spec(self, name, path=None, target=None):
        if name == "onnx":
            seen["loaded"] = list(sys.modules)
        return None

learn.load_torch = after_the_launch
sys.meta_path.insert(0, Watching())
status = learn.run(sys.argv[1:])
print("\\n" + json.dumps(seen), file=sys.stderr)
sys.exit(status)
"""


@pytest.mark.slow
def test_a_run_launches_its_engine_before_it_loads_torch_and_loads_the_rest_after_the_first_step(tmp_path):
    config = tmp_path / "ball.yaml"
    config.write_text("behaviors: {3DBall: {trainer_type: ppo, max_steps: 64, summary_freq: 64}}")
    words = [str(config), "--env=scene:ball3d", "--run-id=run", f"--results-dir={tmp_path}"]
    _, seen = run(UNTIL_THE_FIRST_STEP, *words)
    assert not seen["torch"]
    assert seen["engines"] >= 1
    loaded = seen["loaded"]
    assert "lanista.trainers.algorithms.ppo.ppo" in loaded
    others = ("coma", "ddpg", "dqn", "mappo", "poca", "sac")
    assert {f"lanista.trainers.algorithms.{name}.{name}" for name in others}.isdisjoint(loaded)
    assert {"onnx", "onnxruntime", "tensorboard", "matplotlib"}.isdisjoint(loaded)
    beside = [name for name in loaded if name.partition(".")[0] not in ("torch", "torchgen", "numpy")]
    assert len(beside) < 1200, len(beside)
    assert (tmp_path / "run" / "3DBall.onnx").exists()
