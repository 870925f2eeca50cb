"""NaN and infinity from an engine: named, zeroed or dropped, never passed on."""

import logging
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanista.envs.scenes.in_process import make_in_process
from lanista.envs.scenes.parts.sensors import vector_spec
from lanista.envs.validation import NonFiniteError, NonFinitePolicy, check_finite, check_shape
from mlagents_envs.base_env import (
    ActionSpec,
    ActionTuple,
    BehaviorSpec,
    DecisionSteps,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
    TerminalSteps,
)
from mlagents_envs.exception import UnityActionException, UnityObservationException

BALL = "Ball?team=0"
GRID = ObservationSpec((2, 2), (DimensionProperty.NONE,) * 2, ObservationType.DEFAULT, "Grid")
SPEC = BehaviorSpec([vector_spec(3, "Rays"), GRID], ActionSpec(1, ()))


def make_steps(decisions=4, terminals=2):
    def columns(n):
        obs = [np.ones((n, 3), np.float32), np.ones((n, 2, 2), np.float32)]
        return obs, np.ones(n, np.float32), np.zeros(n, np.int32), np.ones(n, np.float32)

    obs, reward, group, group_reward = columns(decisions)
    ids = np.arange(10, 10 + decisions, dtype=np.int32)
    one = DecisionSteps(obs, reward, ids, None, group, group_reward)
    obs, reward, group, group_reward = columns(terminals)
    ids = np.arange(20, 20 + terminals, dtype=np.int32)
    two = TerminalSteps(obs, reward, np.zeros(terminals, bool), ids, group, group_reward)
    return one, two


def check(steps, policy, warned=None):
    return check_finite(steps, SPEC, "environment 3", BALL, policy, warned)


def arrays(steps):
    return [a for batch in steps for a in (*batch.obs, batch.reward, batch.group_reward)]


@pytest.mark.parametrize("policy", NonFinitePolicy)
def test_finite_numbers_pass_as_they_are_however_large(policy):
    steps = make_steps()
    steps[0].obs[0][:] = np.finfo(np.float32).max  # their sum is infinite, they are not
    checked, void = check(steps, policy)
    assert checked is steps
    assert len(void) == 0


@pytest.mark.parametrize("agents", [1, 3000, 3001])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("bytes_of", [np.ascontiguousarray, np.asfortranarray])
def test_one_number_among_few_or_many_is_found(agents, value, bytes_of):
    steps = make_steps(agents)
    obs = steps[0].obs[0] = bytes_of(np.full((agents, 3), -1e30, np.float32))
    obs[-1, 1] = value
    (checked, _), void = check(steps, NonFinitePolicy.DROP)
    assert void.tolist() == [9 + agents]
    assert np.count_nonzero(checked.obs[0] == 0) == 1


@pytest.mark.parametrize("agents", [4, 3001])
def test_numbers_with_infinite_squares_count_as_infinite_where_that_is_asked_for(agents):
    steps = make_steps(agents)
    steps[0].obs[0][:] = 1.8e19
    steps[0].obs[1][2, 1, 0] = -1.9e19
    with pytest.raises(NonFiniteError, match=r"'Grid' of agent 12 is -1\.9.*too large.* at index \[1, 0\]"):
        check_finite(steps, SPEC, "environment 3", BALL, NonFinitePolicy.STOP, squares=True)
    (checked, _), void = check_finite(steps, SPEC, "environment 3", BALL, NonFinitePolicy.DROP, squares=True)
    assert void.tolist() == [12]
    assert np.count_nonzero(checked.obs[1] == 0) == 1 and checked.obs[0].min() > 1e19


def test_stop_names_environment_behavior_sensor_agent_and_value():
    steps = make_steps()
    steps[0].obs[1][2, 1, 0] = np.nan
    with pytest.raises(NonFiniteError) as error:
        check(steps, NonFinitePolicy.STOP)
    parts = ("environment 3", BALL, "'Grid'", "agent 12", "is nan", "[1, 0]", "decision step", "non_finite")
    for part in parts:
        assert part in str(error.value)


@pytest.mark.parametrize(("name", "source"), [("reward", "the reward"), ("group_reward", "the group reward")])
def test_stop_names_rewards(name, source):
    steps = make_steps()
    getattr(steps[1], name)[1] = -np.inf
    with pytest.raises(NonFiniteError, match=f"{source} of agent 21 is -inf in a terminal step"):
        check(steps, NonFinitePolicy.STOP)


def test_scripts_that_catch_the_old_errors_still_work():
    steps = make_steps()
    steps[0].reward[0] = np.nan
    for kind in (RuntimeError, UnityObservationException):
        with pytest.raises(kind):
            check(steps, NonFinitePolicy.STOP)


def test_zero_replaces_values_in_a_copy_and_voids_no_agent():
    steps = make_steps()
    steps[0].obs[0][1, 2] = np.inf
    steps[1].obs[1][0, 0, 1] = np.nan
    for array in arrays(steps):
        array.flags.writeable = False  # as views of the engine's bytes are
    before = pickle.dumps([a.copy() for a in arrays(steps)])
    (decisions, terminals), void = check(steps, NonFinitePolicy.ZERO)
    assert decisions.obs[0][1].tolist() == [1, 1, 0]
    assert terminals.obs[1][0].tolist() == [[1, 0], [1, 1]]
    assert decisions.obs[0].dtype == np.float32
    assert len(void) == 0
    assert pickle.dumps([a.copy() for a in arrays(steps)]) == before


def test_drop_voids_each_agent_once():
    steps = make_steps()
    steps[0].obs[0][3, 0] = np.nan
    steps[0].reward[3] = np.nan
    steps[0].reward[0] = np.inf
    steps[1].group_reward[1] = np.nan
    checked, void = check(steps, NonFinitePolicy.DROP)
    assert void.tolist() == [10, 13, 21]
    assert void.dtype == np.int32
    assert all(np.isfinite(a).all() for a in arrays(checked))


def test_drop_keeps_the_episode_that_ended_in_the_step_in_which_a_faulty_one_starts():
    steps = make_steps()
    steps[1].agent_id[0] = steps[0].agent_id[3]
    steps[0].obs[0][3, 0] = np.nan
    steps[0].reward[0] = np.nan
    _, void = check(steps, NonFinitePolicy.DROP)
    assert void.tolist() == [10]
    steps[1].reward[0] = np.nan
    _, void = check(steps, NonFinitePolicy.DROP)
    assert void.tolist() == [10, 13]


def test_all_other_fields_of_a_corrected_step_are_kept():
    steps = make_steps()
    steps[0].action_mask = [np.array([[True, False]] * 4)]
    steps[0].reward[0] = np.nan
    steps[1].reward[0] = np.nan
    steps[1].interrupted[1] = True
    (decisions, terminals), _ = check(steps, NonFinitePolicy.ZERO)
    assert decisions.action_mask is steps[0].action_mask
    assert decisions.agent_id is steps[0].agent_id
    assert decisions.group_id is steps[0].group_id
    assert terminals.interrupted.tolist() == [False, True]
    assert terminals.agent_id is steps[1].agent_id


def test_each_sensor_is_warned_about_once(caplog):
    warned: set[tuple[str, str]] = set()
    steps = make_steps()
    steps[0].obs[0][0, 0] = np.nan
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            check(steps, NonFinitePolicy.ZERO, warned)
        assert len(caplog.records) == 1
        assert "'Rays' of agent 10" in caplog.text
        steps[0].obs[1][0, 0] = np.nan
        check(steps, NonFinitePolicy.ZERO, warned)
    assert len(caplog.records) == 2


def test_steps_without_agents_pass():
    steps = (DecisionSteps.empty(SPEC), TerminalSteps.empty(SPEC))
    assert check(steps, NonFinitePolicy.STOP)[0] is steps


@given(st.data())
def test_no_such_value_passes(data):
    steps = make_steps(data.draw(st.integers(0, 4)), data.draw(st.integers(0, 3)))
    spoiled = set()
    for batch in steps:
        for array in (*batch.obs, batch.reward, batch.group_reward):
            for place in (
                data.draw(st.lists(st.integers(0, array.size - 1), max_size=2)) if array.size else ()
            ):
                array.reshape(-1)[place] = data.draw(st.sampled_from([np.nan, np.inf, -np.inf]))
                spoiled.add(int(batch.agent_id[place * len(batch.agent_id) // array.size]))
    checked, void = check(steps, NonFinitePolicy.DROP)
    assert all(np.isfinite(a).all() for a in arrays(checked))
    assert set(void.tolist()) == spoiled
    for old, new in zip(arrays(steps), arrays(checked), strict=True):
        assert np.array_equal(np.where(np.isfinite(old), old, 0), new)
    if spoiled:
        with pytest.raises(NonFiniteError):
            check(steps, NonFinitePolicy.STOP)


@pytest.mark.parametrize(
    ("continuous", "branches", "given", "message"),
    [
        (
            0,
            (3,),
            (1, 0, 1),
            r"a discrete input of dimension \(2, 1\).* received .* \(1, 1\): .*agent.*2 in all",
        ),
        (0, (3, 2), (2, 0, 1), r"a discrete input of dimension \(2, 2\).* received .* \(2, 1\)$"),
        (2, (), (3, 2, 0), r"a continuous input of dimension \(2, 2\).* received .* \(3, 2\): give a row"),
        (2, (3,), (2, 2, 2), r"a discrete input of dimension \(2, 1\).* received .* \(2, 2\)$"),
        (0, (3,), (2, 1, 1), r"a continuous input of dimension \(2, 0\).* received .* \(2, 1\)$"),
    ],
    ids=["too few rows", "too few branches", "too many rows", "hybrid", "continuous ones too many"],
)
def test_actions_of_another_shape_are_named_by_a_kind_that_the_behavior_has(
    continuous, branches, given, message
):
    spec = SPEC._replace(action_spec=ActionSpec(continuous, branches))
    agents, *sizes = given
    action = ActionTuple(*(np.zeros((agents, size)) for size in sizes))
    with pytest.raises(UnityActionException, match=f"The behavior Ball needs {message}"):
        check_shape(spec, action, 2, "Ball")


def test_actions_are_checked_alike_where_this_process_steps_the_agents():
    env = make_in_process("scene:basic?areas=2")
    env.reset()
    (name,) = env.behavior_specs
    with pytest.raises(UnityActionException, match=r"a discrete input of dimension \(2, 1\)"):
        env.set_actions(name, ActionTuple(discrete=np.zeros((1, 1))))
    with pytest.raises(UnityActionException, match="received input of dimension None"):
        env.set_actions(name, ActionTuple())
    with pytest.raises(UnityActionException, match=r"a discrete input of dimension \(1, 1\)"):
        env.set_action_for_agent(name, 0, ActionTuple(discrete=np.zeros((2, 1))))
