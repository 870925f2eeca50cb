"""Which actions an algorithm can learn."""

from __future__ import annotations

from typing import Literal

from mlagents_envs.base_env import ActionSpec

from ...settings.models.networks import NetworkSettings


class UnsupportedActionError(ValueError):
    """Actions that the algorithm cannot learn."""


def require_some_actions(spec: ActionSpec, network: NetworkSettings) -> None:
    """Refuse agents without actions, or without those that the settings of a policy's network are of.

    Raises:
        UnsupportedActionError: they have none.
    """
    if not spec.continuous_size and not spec.discrete_branches:
        raise UnsupportedActionError("Its agents have no actions: there is nothing to learn. Give them some.")
    if network.state_dependent_exploration is not None and not spec.continuous_size:
        branches = tuple(int(size) for size in spec.discrete_branches)
        raise UnsupportedActionError(
            f"It has discrete actions alone (branches of sizes {branches}), and "
            "network_settings.state_dependent_exploration explores with continuous ones: remove that key."
        )


def require_actions(
    spec: ActionSpec, kind: Literal["discrete", "continuous"], why: str, instead: str
) -> None:
    """Refuse all but actions of one kind.

    Args:
        spec: of the behavior.
        kind: what the algorithm can learn.
        why: the reason: "DQN ... , so it needs discrete actions only".
        instead: which trainers there are for other actions, as a sentence.

    Raises:
        UnsupportedActionError: some are of the other kind, or there are none.
    """
    found = {}
    if spec.continuous_size:
        found["continuous"] = f"{spec.continuous_size} continuous actions"
    if spec.discrete_branches:
        branches = tuple(int(size) for size in spec.discrete_branches)
        found["discrete"] = f"discrete actions (branches of sizes {branches})"
    if list(found) != [kind]:
        has = " and ".join(found.values()) or "no actions at all"
        raise UnsupportedActionError(f"It has {has}, and {why}. {instead}")
