"""A BaseEnv that somebody else has written: valid answers are passed on, invalid ones are named."""

import numpy as np
import pytest
from foreign_env import NAME, SPEC, Foreign
from lanista.envs.errors import EnvContractError
from lanista.envs.python.checked import CheckedEnvironment, wrap_checked
from lanista.envs.scenes.in_process import make_in_process
from mlagents_envs.base_env import ActionTuple, DecisionSteps, TerminalSteps
from mlagents_envs.exception import UnityEnvironmentException


def started(env=None):
    env = CheckedEnvironment(env or Foreign(), "python:mine:make")
    env.reset()
    return env


def test_answers_are_passed_on_in_the_dtypes_of_the_api():
    env = started()
    for _ in range(4):
        env.step()
    decisions, terminals = env.get_steps(NAME)
    assert decisions.obs[0].dtype == decisions.reward.dtype == decisions.group_reward.dtype == np.float32
    assert decisions.agent_id.dtype == decisions.group_id.dtype == terminals.agent_id.dtype == np.int32
    assert decisions.obs[0].tolist() == [[4, 4, 4]] * 2 and decisions.reward.tolist() == [0.5, 1.5]
    assert decisions.agent_id.tolist() == [10, 5] and decisions.group_id.tolist() == [0, 3]
    masks = [mask.tolist() for mask in decisions.action_mask]
    assert masks == [[[False] * 2] * 2, [[False, True, False]] * 2]
    assert terminals.agent_id.tolist() == [0] and terminals.interrupted.tolist() == [True]


def test_reversed_axes_are_copied():
    """torch reads no array with negative strides, such as an image that was flipped; of any length."""

    class Flipped(Foreign):
        def get_steps(self, behavior_name):
            decisions, terminals = super().get_steps(behavior_name)
            decisions.obs[0] = np.arange(6, dtype=np.float32).reshape(2, 3)[:, ::-1]
            terminals.obs[0] = terminals.obs[0][::-1]  # of one agent at most
            return decisions, terminals

    env = started(Flipped())
    for _ in range(4):
        env.step()
    decisions, terminals = env.get_steps(NAME)
    assert decisions.obs[0].tolist() == [[2, 1, 0], [5, 4, 3]] and terminals.obs[0].tolist() == [[4, 4, 4]]
    assert min(*decisions.obs[0].strides, *terminals.obs[0].strides) > 0


def test_it_may_reuse_its_arrays_and_change_its_actions():
    """Rollouts are stored once: what was decided must stay what it was."""

    class Thrifty(Foreign):
        seen, earned = np.zeros((2, 3), np.float32), np.zeros(2, np.float32)
        ids, mask = np.array([0, 5], np.int32), [np.zeros((2, 2), bool), np.zeros((2, 3), bool)]

        def set_actions(self, behavior_name, action):
            action.continuous[:] = action.discrete[:] = 0

        def get_steps(self, behavior_name):
            for array in (self.seen, self.earned, *self.mask):
                array[:] = self.time
            self.ids[0] = 10 * self.time
            group = np.zeros(2, np.int32)
            steps = DecisionSteps([self.seen], self.earned, self.ids, self.mask, group, self.earned)
            return steps, terminals(obs=[np.zeros((0, 3))], agent_id=group[:0], group_id=group[:0])

    env = started(Thrifty())
    kept, given = env.get_steps(NAME)[0], ActionTuple(np.ones((2, 1)), np.ones((2, 2)))
    env.set_actions(NAME, given)
    env.step()
    assert (given.continuous == 1).all() and (given.discrete == 1).all()
    assert (
        not kept.obs[0].any() and not kept.reward.any() and not any(mask.any() for mask in kept.action_mask)
    )
    assert kept.agent_id.tolist() == [0, 5]


def test_actions_are_passed_on_and_default_to_zeros():
    env = started()
    env.set_actions(NAME, ActionTuple(np.full((2, 1), 0.5), np.array([[1, 2], [0, 1]])))
    env.step()
    env.step()
    assert env.env.given == [([[0.5], [0.5]], [[1, 2], [0, 1]]), ([[0.0], [0.0]], [[0, 0], [0, 0]])]


def test_closing_closes_it():
    env = started()
    env.close()
    assert env.env.closed


def test_an_environment_of_lanista_is_not_wrapped():
    scene = make_in_process("scene:basic")
    assert wrap_checked(scene, "x") is scene


class Unreadable:
    """Like a tensor with a gradient."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("use detach")


def decisions(count=2, **changed):
    parts = {
        "obs": [np.zeros((count, 3))], "reward": np.zeros(count), "agent_id": np.arange(count),
        "action_mask": None, "group_id": np.zeros(count, int), "group_reward": np.zeros(count),
    }  # fmt: skip
    return DecisionSteps(**{**parts, **changed})


def terminals(**changed):
    none = np.zeros(0)
    parts = {
        "obs": [np.zeros((0, 3))], "reward": none, "interrupted": none, "agent_id": none, "group_id": none,
        "group_reward": none,
    }  # fmt: skip
    return TerminalSteps(**{**parts, **changed})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"obs": [np.zeros((2, 4))]}, r"obs of 'count' has the shape \(2, 4\); expected \(2, 3\)"),
        ({"obs": []}, "obs is 0 arrays; expected a list of 1: count"),
        ({"obs": [[["a"] * 3] * 2]}, "obs of 'count' holds <U1; expected float32"),
        ({"obs": [[[1, 2, 3], [1]]]}, r"'count' has parts of unequal lengths; expected the shape \(2, 3\)"),
        ({"reward": np.zeros(3)}, r"DecisionSteps: reward has the shape \(3,\); expected \(2,\)"),
        ({"reward": [None, 1]}, "reward holds object; expected float32"),
        ({"agent_id": np.array([0.0, 1.0])}, "agent_id holds float64; expected int32"),
        ({"group_id": np.zeros(1, int)}, "group_id has the shape"),
        ({"agent_id": None}, "agent_id is None; expected an array of agents' ids"),
        ({"agent_id": np.zeros(2, int)}, "agent_id is .*, which has an agent twice; .* several areas"),
        ({"reward": Unreadable()}, "reward is a Unreadable that NumPy cannot read: use detach"),
        ({"action_mask": [np.zeros((2, 2))]}, "action_mask is .*expected None, or a list of 2"),
        ({"action_mask": [np.zeros((2, 2))] * 2}, r"of branch 1 has the shape \(2, 2\); expected \(2, 3\)"),
        ((decisions(), terminals(interrupted=np.zeros(2))), "TerminalSteps: interrupted has the shape"),
        ((terminals(), decisions()), "get_steps returned .*expected DecisionSteps and TerminalSteps"),
        (None, "get_steps returned None"),
    ],
)
def test_invalid_steps_are_named_with_what_was_expected(changed, message):
    env = started()
    steps = (decisions(**changed), terminals()) if isinstance(changed, dict) else changed
    env.env.get_steps = lambda name: steps
    with pytest.raises(EnvContractError, match=message) as fault:
        env.step()
    assert str(fault.value).startswith(f"python:mine:make: behavior {NAME!r}")


class Odd(Foreign):
    specs = None
    behavior_specs = property(lambda self: self.specs)


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        ({}, "its behavior_specs are {} after a reset"),
        (None, "its behavior_specs are None"),
        ({NAME: 3}, "spec of the behavior 'Counter.team=0' is 3; expected a BehaviorSpec"),
        ({NAME: SPEC._replace(observation_specs=[])}, "at least one ObservationSpec"),
    ],
)
def test_invalid_specifications_are_named(specs, message):
    env = Odd()
    env.specs = specs
    with pytest.raises(EnvContractError, match=message):
        started(env)


def test_a_specification_must_not_change():
    env = Odd()
    env.specs = {NAME: SPEC}
    env = started(env)
    env.env.specs = {NAME: SPEC._replace(observation_specs=SPEC.observation_specs * 2)}
    with pytest.raises(EnvContractError, match="has changed"):
        env.step()


def test_errors_are_reported_with_their_place_but_an_engines_failure_is_passed_on():
    env = started()
    env.env.step = lambda: {}["speed"]
    with pytest.raises(EnvContractError, match=r"step of python:mine:make raised KeyError.*test_checked\.py"):
        env.step()

    def lost():
        raise UnityEnvironmentException("gone")

    env.env.step = lost
    with pytest.raises(UnityEnvironmentException, match=r"^gone$"):
        env.step()


class Failing(Foreign):
    """After `fails` is set, what it names raises."""

    fails = ""

    @property
    def behavior_specs(self):
        self.fail_at("behavior_specs")
        return super().behavior_specs

    def lost_lives(self, behavior_name):
        self.fail_at("lost_lives")
        return np.zeros(0, np.int32)

    def statistics(self):
        self.fail_at("statistics")
        return {}

    def fail_at(self, here):
        if self.fails == here:
            raise KeyError("speed")


@pytest.mark.parametrize("what", ["behavior_specs", "lost_lives", "statistics"])
def test_errors_of_other_methods_are_reported_as_well(what):
    env = started(Failing())
    env.env.fails = what
    with pytest.raises(EnvContractError, match=f"{what} of python:mine:make raised KeyError"):
        env.step()
        env.lost_lives(NAME)
        env.statistics()


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        (
            "lost_lives",
            None,
            r"lost_lives\('Counter.team=0'\) returned is None; expected an array of agents' ids",
        ),
        ("lost_lives", [0.5], r"lost_lives\(.*\) returned holds float64; expected int32"),
        ("statistics", {"Height": 3}, "statistics returned {'Height': 3}; expected a dict of lists of pairs"),
        ("statistics", {"Height": [(3, "sum")]}, "expected a dict of lists of pairs: a number and a Stat"),
        (
            "draw",
            np.zeros((4, 6)),
            r"draw of python:mine:make returned an array of the shape \(4, 6\).*expected",
        ),
    ],
)
def test_what_other_methods_return_is_checked(name, given, message):
    env = started(Failing())
    setattr(env.env, name, lambda *_: given)
    with pytest.raises(EnvContractError, match=message):
        getattr(env, name)(*[NAME][: name == "lost_lives"])
