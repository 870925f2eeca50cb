"""What agents observed, as a learner takes it in."""

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
from .optim import GuardedAdam


def tensors(columns: Sequence[NDArray[Any]], device: torch.device) -> list[Tensor]:
    """Columns on the learner's device; on the CPU without a copy where their rows lie one behind another."""
    return [torch.from_numpy(np.ascontiguousarray(column)).to(device) for column in columns]


def count_observations(
    rollout: Rollout,
    encoder: ObservationEncoder,
    count: Callable[[Sequence[Tensor]], bool],
    optimizer: GuardedAdam,
    spec: BehaviorSpec,
    device: torch.device,
) -> None:
    """Let running observation statistics, where there are any, take in the trajectories' own steps.

    Args:
        rollout: the trajectories.
        encoder: whose statistics they are.
        count: takes them in; False where their numbers are too large for that.
        optimizer: says what is to be done then.
        spec: of the behaviour, for the message.
        device: the learner's.

    Raises:
        FloatingPointError: numbers are too large, and `non_finite` is STOP.
    """
    if encoder.normalizers is None:
        return
    own = [column[: rollout.steps] for column in rollout.obs]
    if not count(tensors(own, device)):
        optimizer.leave_out(spec, own)
