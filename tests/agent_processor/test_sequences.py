"""Golden: what becomes of one trajectory's rows on their way into a training buffer; paddings and cuts."""

from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from goldendata import array, cases
from hypothesis import given
from hypothesis import strategies as st
from lanista.agent_processor.rollout import build_rollout, gather_teammates, newest, next_steps, pad_sequences
from lanista.agent_processor.rows import RowStore
from lanista.agent_processor.trajectory import AgentKey, Rollout, Trajectory
from simple_engine import vector_spec
from told_trajectories import same


def stored(given: dict[str, Any]) -> Trajectory:
    """A told trajectory, put into a row store."""
    steps = given["steps"]
    first = steps[0]
    k, a = len(first["action"]["discrete"]), len(first["action"]["continuous"])
    branches = tuple(len(m) for m in first["action_mask"]) if first["action_mask"] else (1,) * k
    shapes = [np.shape(o) for o in first["obs"]]
    memory = len(first["memory"] or [])
    store = RowStore(vector_spec(*shapes, continuous=a, branches=branches), memory, block_rows=4)

    def begin(obs: list[Any], step: dict[str, Any] | None = None) -> int:
        mask = None if step is None else step["action_mask"]
        return store.begin(
            [array(o)[None] for o in obs],
            1,
            None if mask is None else [array(m, bool)[None] for m in mask],
            array(step["memory"])[None] if step and memory else None,
            array(step["prev_action"], np.int32)[None] if step else None,
        ).start

    def put(step: dict[str, Any], own: bool) -> int:
        row = begin(step["obs"], step if own else None)
        log_probs = [0.0] * (a + k)
        if own:
            log_probs = step["log_probs"]["continuous"] + step["log_probs"]["discrete"]
        action = step["action"]
        store.act(
            np.array([row]),
            array(action["continuous"])[None],
            array(action["discrete"], np.int32)[None],
            array(log_probs)[None],
        )
        mates = [put(mate, False) for mate in step["group_status"]] if own else []
        store.finish(
            np.array([row]),
            array([step["reward"]]),
            array([step.get("group_reward", 0.0)]),
            np.array([mates], np.int64),
            np.array([step.get("interrupted", False)]) if step["done"] else None,
        )
        return row

    rows = [put(step, True) for step in steps]
    next_row, next_mates = begin(given["next_obs"]), [begin(obs) for obs in given["next_group_obs"]]
    return Trajectory(
        blocks=store.blocks,
        behavior_id=given["behavior_id"],
        agent=AgentKey(0, 1),
        rows=np.array(rows),
        next_row=next_row,
        next_teammates=np.array(next_mates, np.int64),
        done_reached=given["done_reached"],
        interrupted=given["interrupted"],
        all_group_dones_reached=given["all_group_dones_reached"],
    )


class Fields:
    """A rollout of one trajectory under the names of the reference's training buffer."""

    def __init__(self, rows: Rollout) -> None:
        n, split = rows.steps, rows.continuous.shape[1]
        self.rows, self.n, self.next = rows, n, next_steps(rows.lengths)
        self.teammates = (
            [m[m >= 0].tolist() for m in rows.teammates] if rows.teammates is not None else [[]] * n
        )
        own = {
            "masks": np.ones(n),
            "done": rows.done[:n],
            "continuous_action": rows.continuous[:n],
            "discrete_action": rows.discrete[:n],
            "continuous_log_probs": rows.log_probs[:n, :split],
            "discrete_log_probs": rows.log_probs[:n, split:],
            "prev_action": rows.prev_discrete[:n],
            "environment_rewards": rows.reward[:n],
            "group_reward": rows.group_reward[:n],
            "action_mask": np.zeros((n, 0)) if rows.action_mask is None else 1 - rows.action_mask[:n],
            "next_continuous_action": self.then(rows.continuous),
            "next_discrete_action": self.then(rows.discrete),
            "group_continuous_action": self.of(rows.continuous),
            "group_discrete_aaction": self.of(rows.discrete),
            "group_next_cont_action": self.later(self.of(rows.continuous)),
            "group_next_disc_action": self.later(self.of(rows.discrete)),
            "groupmate_reward": self.of(rows.reward),
            "group_dones": self.of(rows.done),
        }
        for i, obs in enumerate(rows.obs):
            ends = (
                []
                if rows.next_teammates_obs is None
                else list(rows.next_teammates_obs[i][0, : rows.next_teammates[0]])
            )
            own[f"obs:{i}"] = obs[:n]
            own[f"next_obs:{i}"] = np.concatenate([obs[:n], rows.next_obs[i]])[self.next]
            own[f"group_obs:{i}"] = self.of(obs)
            own[f"next_group_obs:{i}"] = [*self.of(obs)[1:], ends]
        if rows.memory is not None:
            own["memory"] = rows.memory[:n]
        self.columns = own

    def then(self, column: np.ndarray) -> np.ndarray:
        """The next step's entries; zeros behind the last."""
        return np.concatenate([column[: self.n], np.zeros_like(column[:1])])[self.next]

    def of(self, column: np.ndarray) -> list[Any]:
        """The teammates' entries, as ragged lists."""
        return [list(column[m]) for m in self.teammates]

    @staticmethod
    def later(ragged: list[Any]) -> list[Any]:
        return [*ragged[1:], ragged[-1]]


@pytest.mark.parametrize("case", cases("buffer", "trajectory_to_buffer"))
def test_columns_of_a_trajectory(case: dict[str, Any]) -> None:
    rows = build_rollout([stored(case["inputs"]["trajectory"])])
    fields, expected = Fields(rows), case["expected"]
    same(fields.columns, expected["fields"], "fields")
    assert set(fields.columns) == set(expected["fields"])
    for key, padded in expected.items():
        if key.startswith("padded_to_multiple_of_"):
            check_padding(fields, int(key.rpartition("_")[2]), padded)


def check_padding(fields: Fields, length: int, expected: dict[str, Any]) -> None:
    recipe = pad_sequences(fields.rows.lengths, length)
    same(recipe.real, [bool(m) for m in expected["masks"]], "masks")
    for key in ("done", "environment_rewards", "continuous_action"):
        same(recipe.column(fields.columns[key]), [np.zeros(()) + x for x in expected[key]], key)
    same(
        recipe.column(fields.columns["action_mask"], repeat_last=True), expected["action_mask"], "action_mask"
    )
    mates = [
        fields.columns["groupmate_reward"][i] if real else [] for i, real in zip(recipe.index, recipe.real)
    ]
    same(mates, expected["groupmate_reward"], "groupmate_reward")


@pytest.mark.parametrize("case", cases("buffer", "trajectory_to_buffer"))
def test_teammates_as_padded_arrays(case: dict[str, Any]) -> None:
    rows = build_rollout([stored(case["inputs"]["trajectory"])])
    expected = case["expected"]["group_obs_padded_with_nan"]["current"]  # [mate][sensor][step]
    mates = rows.teammates
    assert mates is not None
    assert mates.shape == (rows.steps, len(expected))
    for i, obs in enumerate(rows.obs):
        padded = gather_teammates(obs, mates, np.nan)
        for m in range(len(expected)):
            np.testing.assert_array_equal(padded[:, m], array(expected[m][i]))
    for m, action in enumerate(case["expected"]["group_actions_padded_with_zero"]):
        same(gather_teammates(rows.continuous, mates, 0)[:, m], action["continuous"], "continuous")
        same(gather_teammates(rows.discrete, mates, 0)[:, m].T, action["discrete_per_branch"], "discrete")


@pytest.mark.parametrize("case", cases("buffer", "truncate"))
def test_the_newest_entries_stay(case: dict[str, Any]) -> None:
    given, values = case["inputs"], case["inputs"]["values"]
    kept = newest(len(values), given["max_length"], given["sequence_length"])
    assert values[kept] == case["expected"]["values"]


@given(st.lists(st.integers(1, 20), min_size=1, max_size=8), st.integers(1, 7))
def test_padding_many_trajectories_is_padding_each(lengths: list[int], sequence_length: int) -> None:
    recipe = pad_sequences(np.array(lengths), sequence_length)
    steps = np.arange(1, sum(lengths) + 1)
    expected: list[int] = []
    for length, end in zip(lengths, accumulate(lengths)):
        expected += steps[end - length : end].tolist() + [0] * (-length % sequence_length)
    assert recipe.column(steps).tolist() == expected
    assert recipe.real.tolist() == [x > 0 for x in expected]
    assert (recipe.column(steps, repeat_last=True) > 0).all()


def test_the_last_step_of_each_trajectory_is_followed_by_its_end() -> None:
    assert next_steps(np.array([2, 1, 3])).tolist() == [1, 6, 7, 4, 5, 8]
