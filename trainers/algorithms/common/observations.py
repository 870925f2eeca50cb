"""Observations on the learner's device, and their running statistics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from mlagents_envs.base_env import BehaviorSpec
from numpy.typing import NDArray
from torch import Tensor

from ....agent_processor.trajectory import Rollout
from ...networks.observations import ObservationEncoder
from .optim import CheckedAdam


def to_tensors(columns: Sequence[NDArray[Any]], device: torch.device) -> list[Tensor]:
    """Columns on the learner's device; on the CPU without a copy where their rows are contiguous."""
    return [torch.from_numpy(np.ascontiguousarray(column)).to(device) for column in columns]


def update_normalizer(
    rollout: Rollout,
    encoder: ObservationEncoder,
    update: Callable[[Sequence[Tensor]], bool],
    optimizer: CheckedAdam,
    spec: BehaviorSpec,
    device: torch.device,
) -> None:
    """Let running observation statistics, where there are any, see the trajectories' own steps.

    Args:
        rollout: the trajectories.
        encoder: whose statistics they are.
        update: updates them; returns False where they would overflow.
        optimizer: knows what to do in that case.
        spec: of the behavior, for the message.
        device: the learner's.

    Raises:
        FloatingPointError: the statistics would overflow, and `non_finite` is STOP.
    """
    if encoder.normalizers is None:
        return
    own = [column[: rollout.steps] for column in rollout.obs]
    if not update(to_tensors(own, device)):
        optimizer.report_overflow(spec, own)
