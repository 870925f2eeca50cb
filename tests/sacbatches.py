"""Algorithms and batches to try SAC on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.algorithms.sac.sac import SAC
from lanista.trainers.buffers.replay.sampler import ReplayBatch
from lanista.trainers.networks.modules.distributions import Actions
from lanista.trainers.networks.modules.passes import Precision
from lanista.trainers.settings.options import RunOptions
from mlagents_envs.base_env import ActionSpec, BehaviorSpec
from referencenets import spec_of_shapes

ACTIONS = {
    "continuous": ActionSpec(2, ()),
    "branches": ActionSpec(0, (3, 2)),
    "one branch": ActionSpec(0, (4,)),
    "hybrid": ActionSpec(2, (3, 3)),
}
SIGNALS = ("extrinsic", "rnd")


def spec_of(actions: ActionSpec, shapes: Sequence[tuple[int, ...]] = ((5,), (3,))) -> BehaviorSpec:
    return spec_of_shapes(shapes, (), actions.continuous_size, actions.discrete_branches)


def algorithm(
    spec: BehaviorSpec,
    *,
    network: dict[str, Any] | None = None,
    signals: Sequence[str] = SIGNALS,
    seed: int = 5,
    precision: Precision = Precision.FLOAT32,
    non_finite: NonFinitePolicy = NonFinitePolicy.STOP,
    **hyper: Any,
) -> SAC:
    behavior = {
        "trainer_type": "sac",
        "hyperparameters": hyper,
        "network_settings": {"hidden_units": 16, "normalize": True} | (network or {}),
        "reward_signals": {name: {} for name in signals},
        "max_steps": 1000,
    }
    settings = RunOptions.from_dict({"behaviors": {"B": behavior}}).behaviors["B"]
    return SAC(spec, settings, torch.device("cpu"), seed, non_finite, precision)


def some_batch(
    spec: BehaviorSpec,
    rows: int,
    *,
    signals: int = len(SIGNALS),
    masked: bool = False,
    weighted: bool = False,
    states: Sequence[int] | None = None,
    real: torch.Tensor | None = None,
    seed: int = 1,
) -> ReplayBatch:
    """Random steps; `states`: how many sequences begin, and the size of a memory."""
    g = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=g)

    branches = spec.action_spec.discrete_branches
    columns = [torch.randint(size, (rows,), generator=g) for size in branches]
    discrete = torch.stack(columns, 1) if columns else torch.zeros(rows, 0, dtype=torch.int64)
    mask = None
    if masked and branches:
        mask = torch.rand(rows, sum(branches), generator=g) < 0.3
        start = 0
        for chosen, size in zip(columns, branches, strict=True):
            mask[torch.arange(rows), start + chosen] = False
            start += size
    obs = [(normal(rows, *s.shape), normal(rows, *s.shape)) for s in spec.observation_specs]
    return ReplayBatch(
        obs=[now for now, _ in obs],
        next_obs=[then for _, then in obs],
        actions=Actions(normal(rows, spec.action_spec.continuous_size).tanh(), discrete),
        action_mask=mask,
        next_action_mask=None,
        rewards=normal(rows, signals),
        discounts=0.99 * (torch.rand(rows, signals, generator=g) < 0.8).float(),
        weights=torch.rand(rows, generator=g) if weighted else None,
        real=real,
        states=None if states is None else normal(*states),
        extra={} if states is None else {"value_states": normal(rows, states[1])},
    )
