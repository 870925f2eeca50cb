"""A lost life ends the returns of an off-policy trainer, but not the episode in the statistics."""

import sys

import numpy as np
import pytest

pytest.importorskip("gymnasium")

import gymnasium
import torch
from lanista.trainers.callbacks import Callback
from lanista.trainers.learn import run_training
from lanista.trainers.settings.command_line import parse_command_line
from lanista.trainers.trainer import learner

GAMES = """\
import gymnasium
from gymnasium_games import Cat

gymnasium.register("Cat-v0", Cat)
"""
YAML = """\
behaviors:
  Cat-v0:
    trainer_type: {trainer}
    hyperparameters: {{batch_size: 16, buffer_size: 300, buffer_init_steps: 32, steps_per_update: 8}}
    network_settings: {{hidden_units: 8, num_layers: 1}}
    max_steps: 100
    time_horizon: 64
    summary_freq: 50
"""


class Episodes(Callback):
    """Records the episodes."""

    def __init__(self):
        self.seen = []

    def on_episode_end(self, event):
        self.seen.append((event.reward, event.length))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "cats.py").write_text(GAMES)
    before = torch.get_num_threads()
    yield tmp_path
    torch.set_num_threads(before)
    sys.modules.pop("cats", None)
    gymnasium.registry.pop("Cat-v0", None)


@pytest.mark.parametrize("trainer", ["sac", "dqn"])
@pytest.mark.parametrize("lives", [True, False])
def test_the_replay_ends_with_lives_and_episodes_with_games(folder, monkeypatch, trainer, lives):
    trainers, episodes = [], Episodes()
    make = learner.make_trainer
    monkeypatch.setattr(
        learner, "make_trainer", lambda *a, **k: trainers.append(make(*a, **k)) or trainers[-1]
    )
    (folder / "c.yaml").write_text(YAML.format(trainer=trainer))
    env = f"gymnasium:cats:Cat-v0?lives={str(lives).lower()}"
    run_training(
        parse_command_line(["c.yaml", "--env", env, "--run-id", "r", "--seed", "1"]), callbacks=[episodes]
    )
    (trained,) = trainers
    ended = trained.replay.columns.ended[: len(trained.replay)]
    # A life is lost with every third step, the third one with the game.
    expected = np.arange(1, len(ended) + 1) % (3 if lives else 9) == 0
    assert len(ended) >= 90 and (ended == expected).all()
    assert (trained.replay.columns.rewards[: len(ended)] == 1).all()
    assert len(episodes.seen) >= 10 and {reward for reward, _ in episodes.seen} == {9.0}
    assert len({length for _, length in episodes.seen}) == 1
