"""Environments as other people write them: legal ones work, others are named in one line."""

import itertools

import numpy as np
import pytest

pytest.importorskip("gymnasium")
pytest.importorskip("pettingzoo")

from gymnasium import spaces
from lanista.envs.errors import EnvContractError
from lanista.envs.python.action_spaces import action_decoder, forbidden_actions
from lanista.envs.python.checked import CheckedEnvironment
from lanista.envs.python.gymnasium.environment import GymnasiumEnvironment
from lanista.envs.python.pettingzoo.environment import PettingZooEnvironment
from lanista.envs.python.pettingzoo.turn_based import TurnBasedEnvironment
from lanista.envs.python.sources import check_source, make_source
from lanista.envs.python.spaces import UnsupportedSpaceError, sensors
from mlagents_envs.base_env import (
    ActionSpec,
    BaseEnv,
    BehaviorSpec,
    DecisionSteps,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
    TerminalSteps,
)
from mlagents_envs.exception import UnityEnvironmentException
from pettingzoo import AECEnv, ParallelEnv

SEEN, ACTS = spaces.Box(-1, 1, (3,)), spaces.Discrete(2)


class Three(ParallelEnv):
    """Episodes of three steps."""

    metadata = {"name": "three"}  # noqa: RUF012

    def __init__(self, agents):
        self.possible_agents, self.agents = list(agents), []

    def observation_space(self, agent):
        return SEEN

    def action_space(self, agent):
        return ACTS

    def reset(self, seed=None, options=None):
        self.agents, self.time = list(self.possible_agents), 0
        return self._of(SEEN.low), self._of({})

    def step(self, actions):
        self.time += 1
        over, found = self.time >= 3, self._of(SEEN.low)
        parts = found, self._of(1.0), self._of(over), self._of(False), self._of({})
        if over:
            self.agents = []
        return parts

    def _of(self, value):
        return dict.fromkeys(self.agents, value)

    def state(self):
        return np.concatenate([np.ones(2) for _ in self.agents])


class Turns(AECEnv):
    """A game that ends for all after six turns."""

    metadata = {"name": "turns"}  # noqa: RUF012
    dead_steps = True

    def __init__(self, agents):
        super().__init__()
        self.possible_agents, self.agents = list(agents), []

    def observation_space(self, agent):
        return SEEN

    def action_space(self, agent):
        return ACTS

    def observe(self, agent):
        return SEEN.low

    def reset(self, seed=None, options=None):
        self.agents, self.time = list(self.possible_agents), 0
        self.order = itertools.cycle(self.agents)
        self.agent_selection = next(self.order)
        self.rewards, self._cumulative_rewards = self._of(0), self._of(0)
        self.terminations, self.truncations, self.infos = self._of(False), self._of(False), self._of({})

    def step(self, action):
        if self.dead_steps and self.terminations[self.agent_selection]:
            return self._was_dead_step(action)
        self.time += 1
        self.rewards = self._of(1)
        if self.time >= 6:
            self.terminations = self._of(True)
        self.agent_selection = next(self.order)
        return None

    def _of(self, value):
        return dict.fromkeys(self.agents, value)


def stepped(env, steps=8):
    env.reset()
    for _ in range(steps):
        env.step()
    return list(env.behavior_specs)


@pytest.mark.parametrize("agents", [[0, 1], [("left", 0), ("right", 1)], ["3DBall?team=0?agent_id=4"]])
def test_agents_may_have_any_names(agents):
    assert all(name.count("?") == 1 for name in stepped(PettingZooEnvironment(lambda: Three(agents))))
    for self_play in (True, False):
        game = TurnBasedEnvironment(lambda: Turns(agents), self_play=self_play)
        assert all(name.count("?") == 1 for name in stepped(game))


def test_a_state_that_is_made_of_agents_is_the_last_one_where_none_is_left():
    env = PettingZooEnvironment(lambda: Three(["a_0", "a_1"]), state_observation=True)
    assert stepped(env) == ["a?team=0"]
    assert env.get_steps("a?team=0")[0].obs[-1].shape == (2, 4)


def test_a_state_that_fails_is_named():
    class Stateless(Three):
        def state(self):
            return {}["gone"]

    with pytest.raises(EnvContractError, match=r"state of .* raised KeyError"):
        PettingZooEnvironment(lambda: Stateless(["a"]), state_observation=True).reset()


def test_what_else_can_fail_is_named(own_module):
    class Spaceless(Three):
        def observation_space(self, agent):
            return {}[agent]

    class Nobody(Turns):
        def __init__(self):
            super().__init__(["p"])
            del self.possible_agents

    class Actionless:
        observation_space = SEEN

        def close(self):
            pass

    with pytest.raises(EnvContractError, match=r"observation_space of .* raised KeyError"):
        PettingZooEnvironment(lambda: Spaceless(["a"])).reset()
    with pytest.raises(EnvContractError, match="no possible_agents"):
        TurnBasedEnvironment(Nobody)
    with pytest.raises(UnsupportedSpaceError, match="has no action_space"):
        GymnasiumEnvironment(Actionless, "Mine")
    own_module("broken_game", "from math import nothere")
    with pytest.raises(UnityEnvironmentException, match="broken_game cannot be imported: ImportError"):
        make_source("pettingzoo:broken_game", 0, None, 1)


def test_an_environment_that_cannot_be_closed_is_trained_in_nevertheless(own_module, caplog):
    own_module(
        "sticky",
        "import gymnasium\n"
        "class Sticky(gymnasium.Wrapper):\n"
        "    def close(self):\n"
        "        raise OSError('the window is stuck')\n"
        "def make():\n"
        "    return Sticky(gymnasium.make('CartPole-v1'))\n",
    )
    check_source("python:sticky:make", ())
    assert "close of <Sticky<" in caplog.text and "the window is stuck" in caplog.text


def test_a_game_that_keeps_agents_that_have_ended_is_refused():
    class Keeping(Turns):
        dead_steps = False

    with pytest.raises(EnvContractError, match=r"has ended, and step\(None\) did not remove it"):
        stepped(TurnBasedEnvironment(lambda: Keeping(["p_0", "p_1"])))


def test_boxes_of_truth_values_are_rounded():
    decoder = action_decoder(spaces.Box(0, 1, (4,), dtype=np.bool_))
    (values,) = decoder.decode(np.float32([[-0.99, -0.5, 0.1, 0.9]]), np.zeros((1, 0), np.int32))
    assert values.tolist() == [False, False, True, True]


ONE = np.array([1, 0], np.int8)
TWO = np.array([0, 1, 1], np.int8)
MASKS = [
    (spaces.Tuple([spaces.Discrete(2), spaces.Box(-1, 1, (2,))]), (ONE, None), [0, 1]),
    (spaces.Dict(b=spaces.Discrete(3), a=spaces.Discrete(2)), {"a": ONE, "b": TWO}, None),
    (spaces.MultiBinary(3), np.array([0, 1, 2], np.int8), [0, 1, 1, 0, 0, 0]),
    (spaces.MultiBinary(2), np.array([1, 1, 0, 1], np.int8), [0, 0, 1, 0]),
    (spaces.Tuple([spaces.MultiBinary(1), spaces.Discrete(3)]), (np.int8([1]), TWO), [1, 0, 1, 0, 0]),
]


@pytest.mark.parametrize(("space", "mask", "forbidden"), MASKS)
def test_masks_have_every_form_that_a_space_samples_with(space, mask, forbidden):
    decoder = action_decoder(space)
    if forbidden is None:  # in the order of the space's parts
        forbidden = [
            value for key in space.spaces for value in ([0, 1] if len(mask[key]) == 2 else [1, 0, 0])
        ]
    found = forbidden_actions(mask, decoder.spec.discrete_branches, decoder.space)
    assert found.astype(int).tolist() == forbidden


def test_a_mask_without_a_part_of_the_space_is_refused():
    space = spaces.Dict(a=spaces.Discrete(2), b=spaces.Discrete(2))
    with pytest.raises(ValueError, match=r"has the parts \['a'\]; the space has \['a', 'b'\]"):
        forbidden_actions({"a": ONE}, (2, 2), space)


@pytest.mark.parametrize("space", [spaces.Discrete(3, dtype=np.uint64), spaces.MultiDiscrete([3], np.uint64)])
def test_integers_without_a_sign_are_encoded(space):
    (sensor,) = sensors(space)
    row = np.zeros(3, np.float32)
    value = np.uint64(1) if isinstance(space, spaces.Discrete) else np.array([1], np.uint64)
    sensor.read(value, row)
    assert row.tolist() == [0, 1, 0]


def test_a_behavior_that_is_no_longer_listed_has_no_steps():
    sensor = ObservationSpec((1,), (DimensionProperty.NONE,), ObservationType.DEFAULT, "o")
    spec = BehaviorSpec([sensor], ActionSpec.create_discrete((2,)))

    class Leaving(BaseEnv):
        time = 0

        @property
        def behavior_specs(self):
            return dict.fromkeys(("A?team=0", "B?team=0")[: 1 if self.time > 1 else 2], spec)

        def reset(self):
            self.time = 0

        def step(self):
            self.time += 1

        def get_steps(self, behavior_name):
            one, ids = np.ones(1, np.float32), np.zeros(1, np.int32)
            return DecisionSteps([one[None] * self.time], one, ids, None, ids, one * 0), TerminalSteps.empty(
                spec
            )

        def set_actions(self, behavior_name, action):
            assert behavior_name in self.behavior_specs

        def set_action_for_agent(self, behavior_name, agent_id, action):
            raise NotImplementedError

        def close(self):
            pass

    env = CheckedEnvironment(Leaving(), "mine")
    env.reset()
    counts = []
    for _ in range(4):
        env.step()
        counts.append([len(env.get_steps(name)[0]) for name in env.behavior_specs])
    assert counts == [[1, 1], [1, 0], [1, 0], [1, 0]]
