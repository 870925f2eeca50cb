"""Rollouts of agents that do anything, for reward signals and imitation to look at."""

from __future__ import annotations

import numpy as np
from lanista.agent_processor.trajectory import AgentKey, Rollout
from lanista.trainers.buffers.demonstrations import Demonstrations
from mlagents_envs.base_env import BehaviorSpec
from referencenets import vector_spec


def rollout_of_steps(
    lengths: list[int],
    seed: int,
    spec: BehaviorSpec | None = None,
    *,
    memory_size: int = 0,
    pixels: bool = False,
    done: bool = True,
) -> Rollout:
    """Trajectories of these lengths, of an agent each. `pixels`: pictures come as bytes."""
    spec = spec or vector_spec([3], continuous=1)
    random, n, j = np.random.default_rng(seed), sum(lengths), len(lengths)
    continuous, branches = spec.action_spec.continuous_size, spec.action_spec.discrete_branches
    zeros, flags = np.zeros(n, np.float32), np.zeros(n, bool)
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
    first = np.cumsum(lengths) - lengths
    memory = random.normal(size=(n, memory_size)).astype(np.float32) if memory_size else None
    if memory is not None:
        memory[first] = 0.0
    return Rollout(
        numbers=np.arange(n),
        obs=seen(n),
        continuous=random.uniform(-0.9, 0.9, (n, continuous)).astype(np.float32),
        discrete=np.stack(discrete, 1).astype(np.int32) if branches else np.zeros((n, 0), np.int32),
        log_probs=np.full((n, continuous + len(branches)), -1.0, np.float32),
        action_mask=np.zeros((n, sum(branches)), bool) if branches else None,
        reward=random.normal(size=n).astype(np.float32),
        group_reward=zeros,
        done=flags,
        interrupted=zeros > 0,
        memory=memory,
        prev_discrete=np.zeros((n, len(branches)), np.int32),
        mates=None,
        lengths=np.array(lengths),
        next_obs=seen(j),
        next_mates_obs=None,
        next_mates=np.zeros(j, np.int64),
        done_reached=np.full(j, done),
        interrupted_at_end=np.zeros(j, bool),
        all_group_dones=np.full(j, done),
        agents=[AgentKey(0, i) for i in range(j)],
    )


def demonstrations(spec, lengths, seed=0, acted=None):
    """Of somebody who does what `acted` says, or anything."""
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
