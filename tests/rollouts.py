"""Rollouts and demonstrations of agents with random actions."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from lanista.agent_processor.trajectory import AgentKey, Rollout
from lanista.trainers.buffers.demonstrations import Demonstrations
from mlagents_envs.base_env import BehaviorSpec
from specs import vector_spec


def make_rollout(
    lengths: Sequence[int],
    obs: list[np.ndarray] | None = None,
    *,
    rows: int = 0,
    branches: Sequence[int] = (),
    **columns: Any,
) -> Rollout:
    """Trajectories of these lengths, each of an agent of its own; columns not given, or None, are zeros.

    By default agents see three random numbers, take one continuous action and one of `branches` each, earn
    nothing, and no episode ends; log-probabilities are -1, and there are neither memories nor teammates.
    `rows`: how many, if teammates' rows follow the trajectories' own.
    """
    columns = {name: column for name, column in columns.items() if column is not None}
    n, j = len(obs[0]) if obs else max(sum(lengths), rows), len(lengths)
    random, zeros, flags = np.random.default_rng(n), np.zeros(n, np.float32), np.zeros(j, bool)
    if branches:
        columns["discrete"] = np.stack([random.integers(0, size, n) for size in branches], 1).astype(np.int32)
        columns["action_mask"] = np.zeros((n, sum(branches)), bool)
    continuous = columns.setdefault("continuous", np.zeros((n, 0 if obs else 1), np.float32))
    obs = obs or [random.normal(size=(n, 3)).astype(np.float32)]
    discrete = columns.setdefault("discrete", np.zeros((n, 0), np.int32))
    defaults = {
        "numbers": np.arange(n),
        "log_probs": np.full((n, continuous.shape[1] + discrete.shape[1]), -1.0, np.float32),
        "action_mask": None,
        "reward": zeros,
        "group_reward": zeros,
        "done": zeros > 0,
        "interrupted": zeros > 0,
        "memory": None,
        "prev_discrete": np.zeros_like(discrete),
        "teammates": None,
        "next_obs": [np.zeros((j, *column.shape[1:]), column.dtype) for column in obs],
        "next_teammates_obs": None,
        "next_teammates": np.zeros(j, np.int64),
        "all_group_dones": ~flags,
        "agents": [AgentKey(0, k) for k in range(j)],
        "behavior_ids": ["A?team=0"] * j,
    }
    for name in ("done_reached", "interrupted_at_end"):
        columns[name] = np.asarray(columns.get(name, flags))
    return Rollout(obs=obs, lengths=np.array(lengths), **(defaults | columns))


def rollout_with_mates(
    lengths: Sequence[int], mates: np.ndarray, generator: np.random.Generator, **columns: Any
) -> Rollout:
    """Trajectories of random observations, a continuous action and one of 2, whose groups do not end.

    `mates`: [steps, M] rows; those after the steps are teammates'.
    """
    n = max(sum(lengths), int(mates.max(initial=-1)) + 1)
    default = {
        "numbers": 1000 + np.arange(n),
        "obs": [generator.normal(size=(n, 3)).astype(np.float32)],
        "continuous": generator.normal(size=(n, 1)).astype(np.float32),
        "all_group_dones": np.zeros(len(lengths), bool),
    }
    return make_rollout(lengths, rows=n, branches=(2,), teammates=mates, **{**default, **columns})


def team_rollout(
    generator: np.random.Generator, sizes: Sequence[int], length: int, **columns: Any
) -> Rollout:
    """One trajectory per member, all of one length; every step sees the others' of its time."""
    lengths: list[int] = []
    mates: list[list[int]] = []
    first = 0
    for size in sizes:
        for i in range(size):
            lengths.append(length)
            others = [first + j * length for j in range(size) if j != i]
            mates.extend([[o + t for o in others] + [-1] * (max(sizes) - size) for t in range(length)])
        first += size * length
    table = np.array(mates, np.int64).reshape(len(mates), max(sizes) - 1)
    return rollout_with_mates(lengths, table, generator, **columns)


def recurrent_rollout(
    lengths: Sequence[int],
    agents: Sequence[AgentKey],
    starts: Sequence[bool],
    done: Sequence[bool] | None = None,
    memory_size: int = 4,
) -> Rollout:
    """Trajectories of three random observations and one continuous action.

    `starts`: those that start an episode, where the actor's state is zeros.
    """
    n = sum(lengths)
    memory = np.ones((n, memory_size), np.float32)
    memory[(np.cumsum(lengths) - lengths)[np.array(starts, bool)]] = 0.0
    return make_rollout(
        lengths,
        memory=memory,
        done_reached=done,
        agents=list(agents),
    )


def random_rollout(
    lengths: list[int],
    seed: int,
    spec: BehaviorSpec | None = None,
    *,
    memory_size: int = 0,
    pixels: bool = False,
    done: bool = True,
) -> Rollout:
    """Random observations, actions and rewards. `pixels`: images come as bytes."""
    spec = spec or vector_spec([3], continuous=1)
    random, n, j = np.random.default_rng(seed), sum(lengths), len(lengths)
    continuous, branches = spec.action_spec.continuous_size, spec.action_spec.discrete_branches
    flags = np.zeros(n, bool)
    if done:
        flags[np.cumsum(lengths) - 1] = True

    def seen(rows: int) -> list[np.ndarray]:
        return [
            random.integers(0, 256, (rows, *sensor.shape)).astype(np.uint8)
            if pixels and len(sensor.shape) == 3
            else random.normal(size=(rows, *sensor.shape)).astype(np.float32)
            for sensor in spec.observation_specs
        ]

    discrete = [random.integers(0, size, n) for size in branches]
    memory = random.normal(size=(n, memory_size)).astype(np.float32) if memory_size else None
    if memory is not None:
        memory[np.cumsum(lengths) - lengths] = 0.0
    return make_rollout(
        lengths,
        seen(n),
        continuous=random.uniform(-0.9, 0.9, (n, continuous)).astype(np.float32),
        discrete=np.stack(discrete, 1).astype(np.int32) if branches else np.zeros((n, 0), np.int32),
        action_mask=np.zeros((n, sum(branches)), bool) if branches else None,
        reward=random.normal(size=n).astype(np.float32),
        done=flags,
        memory=memory,
        next_obs=seen(j),
        done_reached=np.full(j, done),
        all_group_dones=np.full(j, done),
    )


def demonstrations(spec, lengths, seed=0, acted=None):
    """Of an agent that does what `acted` says, or anything."""
    random, n = np.random.default_rng(seed), sum(lengths)
    obs = [random.normal(size=(n, *sensor.shape)).astype(np.float32) for sensor in spec.observation_specs]
    actions, zeros = spec.action_spec, np.zeros(n, np.float32)
    continuous = random.uniform(-1, 1, (n, actions.continuous_size)).astype(np.float32)
    discrete = np.zeros((n, actions.discrete_size), np.int32)
    if acted is not None:
        continuous, discrete = acted(obs[0])
    done = zeros > 0
    done[np.cumsum(lengths) - 1] = True
    return Demonstrations(
        spec=spec,
        obs=obs,
        continuous=continuous,
        discrete=discrete,
        action_mask=None,
        reward=zeros,
        group_reward=zeros,
        done=done,
        interrupted=done & False,
        prev_continuous=np.zeros_like(continuous),
        prev_discrete=np.zeros_like(discrete),
        lengths=np.array(lengths),
        next_obs=[column[: len(lengths)] for column in obs],
    )


def reloaded(state: dict[str, Any]) -> dict[str, Any]:
    """A state after it was saved and loaded."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    loaded: dict[str, Any] = torch.load(file, weights_only=True)
    return loaded
