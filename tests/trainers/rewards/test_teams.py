"""Teams find and do what only novelty, or an expert, leads them to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from crowd import BEHAVIOR, Crowd, learn_from, make_learner
from lanista.envs.base import EnvironmentStep
from lanista.envs.demonstrations.recorder import DemonstrationWriter
from lanista.envs.protocol.engine import AgentBatch
from mlagents_envs.base_env import ActionTuple, BehaviorSpec, DecisionSteps, TerminalSteps
from specs import spec_of_shapes

CELLS, TICKS, GROUPS = 16, 32, 8
SPEC = spec_of_shapes([[CELLS + 1]], branches=(3,))
SMALL = {"hidden_units": 32, "num_layers": 1}
SIGNAL = {"strength": 0.1, "gamma": 0.95, "learning_rate": 1e-3, "network_settings": SMALL}
HYPER = {
    "batch_size": 128,
    "buffer_size": 512,
    "learning_rate": 3e-3,
    "learning_rate_schedule": "constant",
    "beta": 0.02,
}

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]


class Corridor(Crowd):
    """Pairs walk 16 cells, left, not at all or right, in 32 steps; who comes to the end wins for both.

    By chance a pair comes there in one of thousands of episodes. `stays`: the episode goes on there, and
    nothing is earned; a pair has won that has somebody there at last.
    """

    def __init__(self, spec: BehaviorSpec, *, stays: bool = False) -> None:
        super().__init__(spec, agents=2 * GROUPS)
        self.stays = stays
        self.cells, self.ages = np.zeros(2 * GROUPS, int), np.zeros(GROUPS, int)
        self.won: list[bool] = []

    def step(self) -> EnvironmentStep:
        """What all say after their latest actions."""
        if self.decided:
            moves = np.asarray(self.decided[BEHAVIOR].env_action.discrete)[:, 0] - 1
            self.cells = np.clip(self.cells + moves, 0, CELLS)
            self.ages += 1
        won = (self.cells.reshape(GROUPS, 2) == CELLS).any(1)
        late = self.ages == TICKS
        over = late if self.stays else won | late
        self.won += won[over].tolist()
        ends, of_agents = np.flatnonzero(np.repeat(over, 2)), np.repeat(won & (not self.stays), 2)
        zeros = np.zeros(len(self.ids), np.float32)
        terminals = TerminalSteps(
            [one_hot(self.cells[ends])],
            zeros[ends],
            ~of_agents[ends],
            self.ids[ends],
            self.groups[ends],
            of_agents[ends].astype(np.float32),
        )
        self.cells[ends], self.ages[over] = 0, 0
        decisions = DecisionSteps([one_hot(self.cells)], zeros, self.ids, None, self.groups, zeros)
        return EnvironmentStep(0, {BEHAVIOR: (decisions, terminals)}, self.decided)


def one_hot(cells: np.ndarray) -> np.ndarray:
    return np.eye(CELLS + 1, dtype=np.float32)[cells]


def write_expert(path: Path, *, stays: bool = True) -> Path:
    """Four walks straight to the end, where the expert stays, or its episode ends."""
    length = TICKS if stays else CELLS + 1
    cells = np.minimum(np.arange(length), CELLS)
    right = np.full((length, 1), 2, np.int32)
    zeros, done = np.zeros(length, np.int32), np.arange(length) == length - 1
    earned = np.zeros(length, np.float32)
    with DemonstrationWriter(path, BEHAVIOR, SPEC) as writer:
        for _ in range(4):
            batch = AgentBatch([one_hot(cells)], earned, done, done & stays, zeros, zeros, earned)
            writer.write(batch, ActionTuple(np.zeros((length, 0), np.float32), right))
    return path


def share_of_wins(
    folder: Path, trainer: str, signals: dict[str, Any], updates: int = 40, *, stays: bool = False
) -> float:
    """Of the last 40 episodes, after so many updates."""
    behavior = {
        "trainer_type": trainer,
        "hyperparameters": {**HYPER, "critic_epochs": 5} if trainer == "coma" else HYPER,
        "network_settings": SMALL,
        "time_horizon": TICKS,
        "reward_signals": signals,
    }
    learner, corridor = make_learner(folder, SPEC, behavior), Corridor(SPEC, stays=stays)
    for _ in range(updates):
        learn_from(learner, corridor.play(learner, TICKS))
    return float(np.mean(corridor.won[-40:]))


def test_without_a_signal_nobody_finds_the_end(tmp_path):
    assert share_of_wins(tmp_path, "poca", {"extrinsic": {"gamma": 0.95}}) == 0.0


@pytest.mark.parametrize(
    ("trainer", "signal"), [("poca", "rnd"), ("poca", "curiosity"), ("mappo", "curiosity"), ("coma", "rnd")]
)
def test_novelty_leads_teams_to_the_end(tmp_path, trainer, signal):
    assert share_of_wins(tmp_path, trainer, {"extrinsic": {"gamma": 0.95}, signal: SIGNAL}) > 0.8


@pytest.mark.parametrize("trainer", ["poca", "mappo"])
def test_an_expert_leads_teams_to_the_end(tmp_path, trainer):
    """Though nothing is earned there."""
    demo = str(write_expert(tmp_path / "expert.demo"))
    gail = {**SIGNAL, "strength": 1.0, "learning_rate": 3e-3, "demo_path": demo}
    assert share_of_wins(tmp_path, trainer, {"gail": gail}, 80, stays=True) > 0.8


@pytest.mark.parametrize("trainer", ["poca", "mappo"])
def test_an_expert_leads_teams_to_an_end_of_the_episode_only_with_absorbing_states(tmp_path, trainer):
    """A reward that is never negative pays for staying out of it (tried: 1.0 and 0.0 of the episodes)."""
    demo = str(write_expert(tmp_path / "expert.demo", stays=False))
    gail = {**SIGNAL, "strength": 1.0, "learning_rate": 3e-3, "demo_path": demo}
    wins = {
        absorbing: share_of_wins(
            tmp_path / str(absorbing), trainer, {"gail": {**gail, "absorbing_states": absorbing}}, 80
        )
        for absorbing in (True, False)
    }
    assert wins[True] > 0.8 and wins[False] < 0.2
