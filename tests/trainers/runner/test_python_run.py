"""Runs in an environment of the user's own: the one of docs/python-environments.md."""

import re
from pathlib import Path

import pytest
from console_runs import lanista, learn

pytestmark = pytest.mark.slow

pytest.importorskip("gymnasium")

PAGE = Path(__file__).parents[3] / "docs" / "python-environments.md"
SHORT = (
    "--set", "behaviors.Catch.max_steps=600", "--set", "behaviors.Catch.hyperparameters.buffer_size=256",
    "--set", "behaviors.Catch.summary_freq=200",
)  # fmt: skip


def code(language):
    """The first block of a language."""
    return re.search(rf"^```{language}\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)[1]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mygame.py").write_text(code("python"), "utf-8")
    return tmp_path


def extend(folder, text):
    """Add classes to the game's module."""
    game = folder / "mygame.py"
    game.write_text(game.read_text("utf-8") + text, "utf-8")


def test_the_game_of_the_docs_is_trained_evaluated_and_played(folder):
    tests = ("--set", "behaviors.Catch.test_frequency=300", "--set", "behaviors.Catch.test_episodes=2")
    ended = learn(
        folder, "--env", "python:mygame:make", "--num-areas", "4", *SHORT, *tests, yaml=code("yaml")
    )
    assert ended.good
    assert ended.out.count("Catch. Test at Step") == 2
    flags = ["--env", "python:mygame:make?width=9", "--record-demos", "demos", "--episodes", "2"]
    assert "Catch?team=0" in lanista(folder, "play", "results/r/Catch.onnx", *flags)
    assert (folder / "demos" / "Catch.demo").is_file()


def test_an_environment_that_violates_its_interface_ends_the_run_and_the_weights_are_saved(folder):
    extend(
        folder,
        """

class Late(Catch):
    steps = 0

    def seen(self):
        Late.steps += 1
        return super().seen() if Late.steps < 900 else np.zeros(3)

""",
    )
    yaml = code("yaml").replace("Catch:", "Late:")
    long = [part.replace("Catch", "Late").replace("=600", "=5000") for part in SHORT]
    ended = learn(folder, "--env", "python:mygame:Late", *long, yaml=yaml)
    assert "the observation 'observation' has the shape (3,); expected (2,)" in ended.error
    assert list((folder / "results" / "r" / "Late").glob("*.pt"))


def test_an_environment_that_fails_at_once_leaves_no_model_that_never_learned(folder):
    game = folder / "mygame.py"
    game.write_text(game.read_text("utf-8").replace("def step(", "def stepped("), "utf-8")
    ended = learn(folder, "--env", "python:mygame:make", *SHORT, yaml=code("yaml"))
    assert ended.error and "Exported" not in ended.out
    assert not [*(folder / "results").rglob("*.onnx"), *(folder / "results").rglob("*.pt")]


def test_a_mistyped_function_is_reported_before_anything_is_written(folder):
    ended = learn(folder, "--env", "python:mygame:mak", yaml=code("yaml"))
    assert "the module mygame has no function 'mak'. Did you mean make" in ended.error
    assert not (folder / "results").exists()


def test_an_environment_is_made_by_the_thread_that_steps_it(folder):
    """A connection to a database, for one, refuses to be used by another thread."""
    extend(
        folder,
        """

import sqlite3


class Recorded(Catch):
    def __init__(self):
        super().__init__()
        self.database = sqlite3.connect(":memory:")

    def step(self, action):
        self.database.execute("select 1")
        return super().step(action)

    def close(self):
        self.database.close()

""",
    )
    ended = learn(
        folder,
        *("--env", "python:mygame:Recorded", "--num-envs", "2"),
        *(part.replace("Catch", "Recorded") for part in SHORT),
        yaml=code("yaml").replace("Catch:", "Recorded:"),
    )
    assert ended.good, ended.err
    assert "could not be closed" not in ended.out + ended.err


@pytest.mark.parametrize("after", [450, 3])
def test_an_interrupt_that_an_environment_raises_ends_the_run_as_ctrl_c_does(folder, after):
    extend(
        folder,
        f"""

class Stopped(Catch):
    steps = 0

    def step(self, action):
        Stopped.steps += 1
        if Stopped.steps > {after}:
            raise KeyboardInterrupt
        return super().step(action)

""",
    )
    short = [part.replace("Catch", "Stopped").replace("=600", "=5000") for part in SHORT]
    ended = learn(
        folder, "--env", "python:mygame:Stopped", *short, yaml=code("yaml").replace("Catch:", "Stopped:")
    )
    if after > 10:
        assert ended.status == 0
        assert "--resume" in ended.out
        assert ended.files("Stopped.onnx")
    else:
        assert ended.status == 130
        assert "stopped before anything was learned" in ended.err
        assert not ended.files("*.onnx")
