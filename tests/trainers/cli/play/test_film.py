"""`lanista play --render` films whatever can draw itself, in the format that the file's name says."""

import numpy as np
import pytest
from lanista.trainers.checkpoints.file import save_checkpoint
from lanista.trainers.checkpoints.metadata import describe_network
from lanista.trainers.cli.main import run
from lanista.trainers.networks.actor import Actor
from lanista.trainers.settings.models.networks import NetworkSettings
from PIL import Image
from specs import vector_spec

GAMES = """
import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from foreign_env import Foreign

class Walk(gymnasium.Env):
    def __init__(self, render_mode=None):
        self.observation_space, self.action_space = Box(-1, 1, (3,)), Discrete(2)
        self.render_mode, self.time = render_mode, 0
    def reset(self, *, seed=None, options=None):
        self.time = 0
        return np.zeros(3, np.float32), {}
    def step(self, action):
        self.time += 1
        return np.zeros(3, np.float32), 1.0, self.time == 4, False, {}
    def render(self):
        return np.full((20, 30, 3), 50 * self.time, np.uint8) if self.render_mode else None

class Pair:
    agents = possible_agents = ["player_0", "player_1"]
    def __init__(self, render_mode=None):
        self.render_mode, self.time = render_mode, 0
    def reset(self, seed=None):
        self.time = 0
        return {agent: np.zeros(3, np.float32) for agent in self.agents}, {}
    def step(self, actions):
        self.time += 1
        no, ended = dict.fromkeys(self.agents, False), dict.fromkeys(self.agents, self.time == 4)
        seen = {agent: np.zeros(3, np.float32) for agent in self.agents}
        return seen, dict.fromkeys(self.agents, 1.0), ended, no, {}
    def observation_space(self, agent):
        return Box(-1, 1, (3,))
    def action_space(self, agent):
        return Discrete(2)
    def render(self):
        return np.full((20, 30, 3), 50 * self.time, np.uint8)
    def close(self):
        pass

parallel_env = Pair

class Shown(Foreign):
    def draw(self):
        return np.full((20, 30, 3), 50 * (self.time % 4), np.uint8)

class Broken(Foreign):
    def draw(self):
        raise RuntimeError("no screen")
"""


def checkpoint(path, spec):
    """A checkpoint of an untrained network for a behavior."""
    settings = NetworkSettings(hidden_units=4, num_layers=1)
    network = Actor(spec, settings)
    brain = describe_network("any", spec, settings, [], None)
    save_checkpoint(path, {"Policy": network.state_dict(), "step": 1, "brain": brain})
    return str(path)


@pytest.fixture
def choosing(tmp_path, monkeypatch):
    """A checkpoint that sees three numbers and chooses from two actions."""
    (tmp_path / "shown.py").write_text(GAMES)
    monkeypatch.syspath_prepend(tmp_path)
    return checkpoint(tmp_path / "choosing.pt", vector_spec([3], 0, [2]))


@pytest.mark.parametrize("env", ["python:shown:Walk", "python:shown:Pair", "pettingzoo:shown"])
def test_games_in_python_are_filmed_from_their_reset(env, choosing, tmp_path, capsys):
    pytest.importorskip("gymnasium")
    film = tmp_path / "film.gif"
    arguments = ["--env", env, "--episodes", "2", "--sampled", "--render", str(film), "--render-steps", "3"]
    assert run(["play", choosing, *arguments]) == 0
    with Image.open(film) as shown:
        assert shown.size == (30, 20)
        levels = []
        for k in range(shown.n_frames):
            shown.seek(k)
            levels.append(int(np.asarray(shown.convert("L")).mean()))
    assert levels == [0, 50, 100]
    assert f"Filmed in {film}." in capsys.readouterr().out


def test_a_base_env_is_filmed_by_its_method_draw(choosing, tmp_path, capsys):
    pytest.importorskip("gymnasium")
    counting = checkpoint(tmp_path / "counting.pt", vector_spec([3], 1, [2, 3]))
    film = tmp_path / "film.gif"
    arguments = ["--max-decisions", "9", "--episodes", "2", "--render", str(film), "--render-steps", "4"]
    assert run(["play", counting, "--env", "python:shown:Shown", *arguments]) == 0
    with Image.open(film) as shown:
        assert shown.n_frames == 4
    capsys.readouterr()
    assert run(["play", counting, "--env", "python:shown:Broken", *arguments]) == 1
    said = capsys.readouterr().err
    assert "python:shown:Broken cannot draw itself: " in said and "no screen" in said


@pytest.mark.parametrize(
    ("env", "file", "says"),
    [
        (
            "Builds/Game.x86_64",
            "film.gif",
            "cannot be filmed or watched: it draws itself",
        ),
        ("python:shown:Foreign", "film.gif", "cannot be filmed: it has no method draw()"),
        ("scene:basic", "film.mov", "expected a film's name to end in .gif, .mp4 or .webm"),
        ("scene:basic", "nowhere/film.gif", "there is no folder"),
    ],
)
def test_what_cannot_be_filmed_is_refused_before_it_is_played(env, file, says, choosing, tmp_path, capsys):
    assert run(["play", choosing, "--env", env, "--render", str(tmp_path / file)]) == 1
    assert says in capsys.readouterr().err


@pytest.mark.slow
def test_all_areas_of_a_scene_are_filmed(tmp_path):
    walking = checkpoint(tmp_path / "basic.pt", vector_spec([20], 0, [3]))
    films = []
    for areas in ("1", "9"):
        films.append(tmp_path / f"{areas}.gif")
        arguments = ["--env", "scene:basic", "--num-areas", areas, "--episodes", "1", "--max-decisions", "3"]
        assert run(["play", walking, *arguments, "--render", str(films[-1]), "--render-steps", "2"]) == 0
    first, second = (np.asarray(Image.open(film).convert("RGB")) for film in films)
    assert (first != second).any()
