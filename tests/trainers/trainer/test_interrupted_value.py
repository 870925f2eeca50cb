"""What an interrupted episode is worth: the value of the last observation, for every trainer.

In state A an agent earns 2 and its episode ends, or it goes to B, where its episode is interrupted. Episodes
that start in B earn 10. With a discount of 0.9, going is worth 9; a trainer that bootstraps from the
observation before the interruption, which is A's own, learns that going is worth less than 2.
"""

import numpy as np
import pytest
import torch
from lanista import trainers
from mlagents_envs.base_env import (
    ActionSpec,
    BehaviorSpec,
    DecisionSteps,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
    TerminalSteps,
)

pytestmark = pytest.mark.slow

AGENTS = 16
A, B = np.eye(2, dtype=np.float32)
ON_POLICY = {
    "batch_size": 64,
    "buffer_size": 256,
    "learning_rate": 0.01,
    "learning_rate_schedule": "constant",
}
OFF_POLICY = {
    "batch_size": 64,
    "buffer_size": 4000,
    "learning_rate": 5e-3,
    "steps_per_update": 8,
    "tau": 0.1,
}
DQN = {**OFF_POLICY, "epsilon_decay_steps": 1500}
NOISE = {**OFF_POLICY, "noise_start": 1.0, "noise_end": 0.5, "noise_decay_steps": 2000}
CASES = {
    "PPOTrainer": (False, False, ON_POLICY),
    "POCATrainer": (False, True, ON_POLICY),
    "MAPPOTrainer": (False, True, ON_POLICY),
    "COMATrainer": (False, True, ON_POLICY),
    "SACTrainer": (False, False, OFF_POLICY),
    "DQNTrainer": (False, False, DQN),
    "DDPGTrainer": (True, False, NOISE),
    "TD3Trainer": (True, False, NOISE),
}
"""Trainer: whether actions are continuous, whether agents are groups of one, hyperparameters."""


class Trap:
    """Every step ends every agent's episode."""

    def __init__(self, continuous: bool, groups: bool) -> None:
        sensor = ObservationSpec((2,), (DimensionProperty.NONE,), ObservationType.DEFAULT, "state")
        actions = ActionSpec.create_continuous(1) if continuous else ActionSpec.create_discrete((2,))
        self.spec = BehaviorSpec([sensor], actions)
        self.groups = np.arange(1, AGENTS + 1, dtype=np.int32) * groups
        self.random = np.random.default_rng(0)
        self.started = 0
        self.went: list[bool] = []
        """Of each decision in A."""
        self.terminals = TerminalSteps.empty(self.spec)
        self.begin()

    def begin(self) -> None:
        self.in_b = self.random.random(AGENTS) < 0.5
        ids = np.arange(self.started, self.started + AGENTS, dtype=np.int32)
        self.started += AGENTS
        obs = np.where(self.in_b[:, None], B, A)
        nothing = np.zeros(AGENTS, np.float32)
        self.decisions = DecisionSteps([obs], nothing, ids, None, self.groups, nothing)

    def step(self, action) -> None:
        chosen = (
            action.continuous[:, 0] > 0
            if self.spec.action_spec.continuous_size
            else action.discrete[:, 0] == 1
        )
        goes = chosen & ~self.in_b
        self.went += goes[~self.in_b].tolist()
        reward = np.where(self.in_b, 10.0, np.where(goes, 0.0, 2.0)).astype(np.float32)
        nothing = np.zeros(AGENTS, np.float32)
        own, shared = (nothing, reward) if self.groups.any() else (reward, nothing)
        obs = np.where((goes | self.in_b)[:, None], B, A)
        ids = self.decisions.agent_id
        self.terminals = TerminalSteps([obs], own, goes, ids, self.groups, shared)
        self.begin()


@pytest.fixture(autouse=True)
def one_thread():
    """More would wait for each other: the networks are tiny."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def share_that_goes(name: str, **hyper: object) -> float:
    """Of the last decisions in A, after some thousand steps of training."""
    continuous, groups, own = CASES[name]
    game = Trap(continuous, groups)
    settings = {
        "hyperparameters": {**own, **hyper},
        "network_settings": {"hidden_units": 16, "num_layers": 1},
        "reward_signals": {"extrinsic": {"gamma": 0.9}},
        "max_steps": 4000,
        "time_horizon": 8,
        "summary_freq": 4000,
    }
    trainer = getattr(trainers, name)("Trap?team=0", game.spec, settings, seed=1)
    manager = trainer.make_manager("Trap?team=0")
    decided = None
    while trainer.should_still_train:
        manager.add_experiences(game.decisions, game.terminals, env=0, decided=decided)
        decided = trainer.act(game.decisions, manager)
        game.step(decided.env_action)
        trainer.advance()
    return float(np.mean(game.went[-200:]))


@pytest.mark.parametrize("name", CASES)
def test_an_interrupted_episode_is_worth_what_follows_its_last_observation(name):
    assert share_that_goes(name) > 0.7


def test_it_is_so_with_simba_s_recipe_too():
    assert share_that_goes("SACTrainer", recipe="simba", steps_per_update=4) > 0.7


@pytest.mark.parametrize("name", ["SACTrainer", "DQNTrainer", "DDPGTrainer", "TD3Trainer"])
def test_own_observation_bootstraps_from_the_observation_before_as_ml_agents_does(name):
    assert share_that_goes(name, interrupted_value="own_observation") < 0.4
