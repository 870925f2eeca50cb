"""Trajectories told in the form of the reference data, and compared with it."""

from typing import Any

import numpy as np
from lanista.agent_processor.rollout import build_rollout
from lanista.agent_processor.trajectory import Rollout, Trajectory
from mlagents_envs.base_env import BehaviorSpec


def told(spec: BehaviorSpec, trajectories: list[Trajectory]) -> list[dict[str, Any]]:
    """Every trajectory, read out of one rollout of them all."""
    if not trajectories:
        return []
    rows = build_rollout(trajectories)
    starts = np.cumsum(rows.lengths) - rows.lengths
    return [
        {
            "agent_id": str(rows.agents[j]),
            "next_obs": [obs[j] for obs in rows.next_obs],
            "next_group_obs": [
                [obs[j, m] for obs in rows.next_teammates_obs or []] for m in range(rows.next_teammates[j])
            ],
            "done_reached": bool(rows.done_reached[j]),
            "all_group_dones_reached": bool(rows.all_group_dones[j]),
            "interrupted": bool(rows.interrupted_at_end[j]),
            "steps": [_step(spec, rows, int(starts[j]) + t) for t in range(rows.lengths[j])],
        }
        for j in range(len(trajectories))
    ]


def _step(spec: BehaviorSpec, rows: Rollout, t: int) -> dict[str, Any]:
    split = spec.action_spec.continuous_size
    sizes = spec.action_spec.discrete_branches
    mates = [] if rows.teammates is None else rows.teammates[t][rows.teammates[t] >= 0].tolist()
    return {
        **_status(rows, t),
        "group_reward": rows.group_reward[t],
        "interrupted": bool(rows.interrupted[t]),
        "log_probs": {"continuous": rows.log_probs[t, :split], "discrete": rows.log_probs[t, split:]},
        "prev_action": rows.prev_discrete[t],
        "action_mask": None
        if rows.action_mask is None
        else np.split(rows.action_mask[t], np.cumsum(sizes)[:-1]),
        "memory": None if rows.memory is None else rows.memory[t],
        "group_status": [_status(rows, m) for m in mates],
    }


def _status(rows: Rollout, t: int) -> dict[str, Any]:
    return {
        "obs": [obs[t] for obs in rows.obs],
        "reward": rows.reward[t],
        "done": bool(rows.done[t]),
        "action": {"continuous": rows.continuous[t], "discrete": rows.discrete[t]},
    }


def same(found: Any, expected: Any, path: str = "") -> None:
    """Compare nested values: keys of `expected`, lengths, and every number exactly (as float32)."""
    if isinstance(expected, dict):
        for key in expected:
            same(found[key], expected[key], f"{path}.{key}")
    elif expected is None or isinstance(expected, (str, bool)):
        assert found == expected, f"{path}: {found!r}, expected {expected!r}"
    elif isinstance(expected, (list, tuple, np.ndarray)):
        assert len(found) == len(expected), f"{path}: {len(found)} entries, expected {len(expected)}"
        for i, (a, b) in enumerate(zip(found, expected)):
            same(a, b, f"{path}[{i}]")
    else:
        assert np.float32(found) == np.float32(expected), f"{path}: {found!r}, expected {expected!r}"
