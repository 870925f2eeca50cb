"""A loaded policy: arrays in, arrays out; it keeps the recurrent states of its agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from mlagents_envs.base_env import ActionTuple, BehaviorSpec, DecisionSteps
from numpy.typing import ArrayLike, NDArray

from ....envs.base import BehaviorId
from ....envs.images import as_floats


class LoadError(Exception):
    """A policy that cannot be loaded; the message names the file and the reason."""


@runtime_checkable
class PlayablePolicy(Protocol):
    """A policy for agents that are identified by their behavior ids and agent ids, such as `Brain`."""

    continuous_size: int
    branches: tuple[int, ...]
    memory_size: int

    @property
    def has_deterministic(self) -> bool:
        """Whether it can choose the likeliest actions."""

    @property
    def observations(self) -> Mapping[int, tuple[int | None, ...]]:
        """The observations that it reads: position -> shape (None: any size)."""

    def act(
        self, steps: DecisionSteps, deterministic: bool = False, behavior_id: BehaviorId = ""
    ) -> ActionTuple:
        """Decide for these agents of a behavior."""

    def reset_agents(self, agent_ids: NDArray[np.int32], behavior_id: BehaviorId = "") -> None:
        """Drop the memories of these agents of a behavior."""


def misfits(policy: PlayablePolicy, spec: BehaviorSpec) -> list[str]:
    """All observations and actions in which the policy and the behavior differ, as clauses; empty if none."""
    shapes = [tuple(observation.shape) for observation in spec.observation_specs]
    problems = [
        problem
        for index, shape in policy.observations.items()
        if (problem := shape_mismatch(index, shape, shapes))
    ]
    if policy.continuous_size != spec.action_spec.continuous_size:
        problems.append(
            f"it gives {policy.continuous_size} continuous actions, the agents take "
            f"{spec.action_spec.continuous_size}"
        )
    if policy.branches != tuple(spec.action_spec.discrete_branches):
        problems.append(
            f"it gives discrete branches of sizes {policy.branches}, the agents take "
            f"{tuple(spec.action_spec.discrete_branches)}"
        )
    return problems


def shape_mismatch(index: int, shape: Sequence[int | None], found: Sequence[Sequence[int]]) -> str | None:
    """What is wrong with observation `index` among those `found`, or None."""
    if index >= len(found):
        return f"it reads observation {index}, and the agents have {len(found)}"
    actual = found[index]
    if len(actual) != len(shape) or any(want not in (None, have) for want, have in zip(shape, actual)):
        return f"it reads observation {index} with the shape {tuple(shape)}, the agents' is {tuple(actual)}"
    return None


class Action(NamedTuple):
    """Actions as an engine takes them."""

    continuous: NDArray[np.float32]
    """[n, A], or [A] of a single agent; -1 to 1."""
    discrete: NDArray[np.int32]
    """[n, K], or [K] of a single agent; an index for each branch."""


class LoadedPolicy:
    """A trained policy without an environment; not thread-safe."""

    def __init__(self, path: Path, policy: PlayablePolicy) -> None:
        self.path = path
        self._policy = policy
        self._agents: int | None = None
        """The number of agents of the last call, if they have memories."""

    # Description --------------------------------------------------------------------------------------

    @property
    def observations(self) -> dict[int, tuple[int | None, ...]]:
        """Position in the behavior's list of observations -> shape of one agent's (None: any size)."""
        return dict(self._policy.observations)

    @property
    def continuous_size(self) -> int:
        """A, the number of continuous actions."""
        return self._policy.continuous_size

    @property
    def branches(self) -> tuple[int, ...]:
        """The sizes of the K discrete branches."""
        return tuple(self._policy.branches)

    @property
    def memory_size(self) -> int:
        """Length of an agent's memory; 0 without one."""
        return self._policy.memory_size

    def __repr__(self) -> str:
        shapes = ", ".join(f"{index}: {shape}" for index, shape in self.observations.items())
        actions = f"{self.continuous_size} continuous, branches {self.branches}"
        return f"<policy {self.path}: observations {{{shapes}}}, actions {actions}>"

    # Acting -------------------------------------------------------------------------------------------

    def act(
        self,
        obs: ArrayLike | Sequence[ArrayLike],
        *,
        action_mask: ArrayLike | Sequence[ArrayLike] | None = None,
        deterministic: bool | None = None,
    ) -> Action:
        """Decide for one agent, or for n at once.

        Args:
            obs: one array per observation, in the behavior's order: [n, *shape] each, or [*shape] each for a
                single agent. If the policy reads one observation, the array alone suffices. Images are
                channels first, and 0 to 1 or uint8.
            action_mask: which discrete actions are forbidden (True), as in `DecisionSteps.action_mask`: one
                array [n, branch size] per branch, or all side by side [n, sum of sizes]; without n for a
                single agent.
            deterministic: the likeliest actions, or sampled ones. By default the likeliest, if the file has
                them.

        Returns:
            The actions, with the axis n if `obs` has it. With a memory, row k is always the same agent.

        Raises:
            ValueError: an array has another shape than the policy reads, or is not finite; or the number of
                agents with memories has changed. The message names what was found and expected.
        """
        arrays, single = self._arrays(obs)
        count = len(arrays[0])
        if self.memory_size and self._agents not in (None, count):
            raise ValueError(
                f"found {count} agents, and {self._agents} at the last call: row k is always the same agent, "
                "because of its memory. Call reset() before other agents act."
            )
        self._agents = count
        ids, zeros = np.arange(count, dtype=np.int32), np.zeros(count, np.float32)
        mask = None if action_mask is None else self._mask(action_mask, count, single)
        steps = DecisionSteps(arrays, zeros, ids, mask, ids, zeros)
        likeliest = self._policy.has_deterministic if deterministic is None else deterministic
        if likeliest and not self._policy.has_deterministic:
            raise ValueError(f"{self.path} has sampled actions only: omit deterministic, or pass False.")
        if count == 0:
            return Action(
                np.zeros((0, self.continuous_size), np.float32), np.zeros((0, len(self.branches)), np.int32)
            )
        actions = self._policy.act(steps, likeliest)
        continuous = actions.continuous.reshape(count, self.continuous_size)
        discrete = actions.discrete.reshape(count, len(self.branches))
        return Action(continuous[0], discrete[0]) if single else Action(continuous, discrete)

    def reset(self, agents: ArrayLike | None = None) -> None:
        """Reset the memories of agents whose episodes have ended.

        Args:
            agents: their rows, as numbers or as a mask [n]; all by default.
        """
        if agents is None:
            self._policy.reset_agents(np.arange(self._agents or 0, dtype=np.int32))
            self._agents = None
            return
        rows = np.asarray(agents)
        self._policy.reset_agents(
            (np.flatnonzero(rows) if rows.dtype == np.bool_ else rows.ravel()).astype(np.int32)
        )

    # Checks -------------------------------------------------------------------------------------------

    def _arrays(self, obs: Any) -> tuple[list[NDArray[np.float32]], bool]:
        """[n, *shape] of each observation, and whether there was no axis n."""
        read = self.observations
        if not isinstance(obs, (list, tuple)) or (list(read) == [0] and _is_numbers(obs)):
            obs = [obs]
        arrays = [
            as_floats(np.asarray(array)) if len(read.get(k, ())) == 3 else np.asarray(array, np.float32)
            for k, array in enumerate(obs)
        ]
        wanted = max(read) + 1
        if len(arrays) != wanted:
            raise ValueError(
                f"found a list of {len(arrays)} observations, expected {wanted}: {self._expected()}. A batch "
                "is one array: np.array([...])"
            )
        first = min(read)
        single = arrays[first].ndim == len(read[first])
        if single:
            arrays = [array[None] for array in arrays]
        for index, shape in read.items():
            found = arrays[index].shape
            fits = len(found) == len(shape) + 1 and all(w in (None, h) for w, h in zip(shape, found[1:]))
            if not fits or len(arrays[index]) != len(arrays[first]):
                shown = found[1:] if single else found
                raise ValueError(
                    f"found observation {index} with the shape {shown}, expected {self._expected()}"
                )
            if not np.isfinite(arrays[index]).all():
                raise ValueError(f"found NaN or infinite numbers in observation {index}")
        return arrays, single

    def _expected(self) -> str:
        shapes = "; ".join(
            f"observation {index} as {_shown(shape)} or {_shown(('n', *shape))}"
            for index, shape in self.observations.items()
        )
        return f"{shapes} (one agent, or n)"

    def _mask(self, mask: Any, count: int, single: bool) -> list[NDArray[np.bool_]]:
        """[n, size] of each branch."""
        ragged = isinstance(mask, (list, tuple)) and not _is_numbers(mask)
        parts = [np.asarray(part, np.bool_) for part in (mask if ragged else [mask])]
        whole = np.concatenate([part[None] if single else part for part in parts], axis=-1)
        expected = (count, sum(self.branches))
        if whole.shape != expected:
            raise ValueError(
                f"found an action mask of shape {whole.shape}, expected {expected}: branches of sizes "
                f"{self.branches}, side by side, True where forbidden"
            )
        cuts = np.cumsum(self.branches)[:-1]
        branches = np.split(whole, cuts, axis=1)
        if any(branch.all(axis=1).any() for branch in branches):
            raise ValueError("the action mask forbids every action of a branch")
        return branches


def _is_numbers(values: Any) -> bool:
    """Whether a list is one array, not a list of arrays."""
    return all(isinstance(value, (int, float, bool, np.number, np.bool_)) for value in values)


def _shown(shape: Sequence[object]) -> str:
    inner = ", ".join("any" if size is None else str(size) for size in shape)
    return f"({inner},)" if len(shape) == 1 else f"({inner})"
