"""Action specs that keep the names of actions, which engines such as Godot's declare."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from mlagents_envs.base_env import ActionSpec


@dataclass(frozen=True)
class NamedAction:
    """One action of an agent."""

    name: str
    size: int
    """The number of components if continuous, of choices if discrete."""
    action_type: Literal["continuous", "discrete"]

    @property
    def discrete(self) -> bool:
        """Whether the action is one choice among `size`, a branch, not `size` numbers."""
        return self.action_type == "discrete"


class NamedActionSpec(ActionSpec):  # type: ignore[misc]
    """An `ActionSpec` made of named actions, and equal to any other of the same sizes.

    Its continuous components are those of the continuous actions side by side, its branches the discrete
    actions, both in the order of `actions`. It survives copying and pickling.
    """

    actions: tuple[NamedAction, ...]

    def __new__(
        cls, continuous_size: int, discrete_branches: tuple[int, ...], actions: Iterable[NamedAction] = ()
    ) -> NamedActionSpec:
        """Make a spec of these sizes; `named_action_spec` computes them from the actions."""
        spec: NamedActionSpec = super().__new__(cls, continuous_size, discrete_branches)
        spec.actions = tuple(actions)
        return spec


def named_action_spec(actions: Iterable[NamedAction]) -> NamedActionSpec:
    """The spec of an agent with these actions."""
    actions = tuple(actions)
    continuous = sum(action.size for action in actions if not action.discrete)
    return NamedActionSpec(continuous, tuple(a.size for a in actions if a.discrete), actions)


def actions_of(spec: ActionSpec) -> tuple[NamedAction, ...]:
    """The named actions of a spec.

    Where nobody has named them: `continuous` for all components together, `branch_0`, `branch_1` and so on.
    """
    if isinstance(spec, NamedActionSpec) and spec.actions:
        return spec.actions
    branches = [NamedAction(f"branch_{k}", int(b), "discrete") for k, b in enumerate(spec.discrete_branches)]
    if not spec.continuous_size:
        return tuple(branches)
    return (NamedAction("continuous", int(spec.continuous_size), "continuous"), *branches)
