"""What trainers need of a behaviour's actions."""

from __future__ import annotations

from typing import NamedTuple

from mlagents_envs.base_env import ActionSpec
from torch import Tensor


class UpdateResult(NamedTuple):
    """What one gradient step of an off-policy algorithm reports."""

    figures: dict[str, float]
    """By statistics' names, such as "Losses/Value Loss"."""
    errors: Tensor | None
    """[B] the absolute temporal-difference error of each step, for priorities; None if there is none."""


class UnsupportedActionError(ValueError):
    """Actions that the algorithm has no way to learn."""


def require_discrete(spec: ActionSpec, because: str, instead: str) -> None:
    """Refuse all but discrete actions alone.

    Args:
        spec: of the behaviour.
        because: why they are needed: "DQN ... , so it needs discrete ones alone".
        instead: which trainers there are for other actions, as a sentence.

    Raises:
        UnsupportedActionError: some are continuous, or there are none.
    """
    if spec.continuous_size or not spec.discrete_branches:
        raise UnsupportedActionError(f"It has {_found(spec)}, and {because}. {instead}")


def require_continuous(spec: ActionSpec, because: str, instead: str) -> None:
    """The same of continuous actions.

    Raises:
        UnsupportedActionError: some are discrete, or there are none.
    """
    if spec.discrete_branches or not spec.continuous_size:
        raise UnsupportedActionError(f"It has {_found(spec)}, and {because}. {instead}")


def _found(spec: ActionSpec) -> str:
    branches = tuple(int(size) for size in spec.discrete_branches)
    discrete = f"discrete actions (branches of sizes {branches})" if branches else ""
    continuous = f"{spec.continuous_size} continuous actions" if spec.continuous_size else ""
    return " and ".join(filter(None, (continuous, discrete))) or "no actions at all"
