"""The steps that wait for the next policy update."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray


@dataclass(slots=True)
class EvaluatedSteps:
    """Columns of N steps with what the critic made of them; S reward signals."""

    obs: list[NDArray[np.float32]]
    continuous: NDArray[np.float32]
    discrete: NDArray[np.int32]
    log_probs: NDArray[np.float32]
    action_mask: NDArray[np.bool_] | None
    values: NDArray[np.float32]
    """[N, S], of the critic when the steps came in."""
    returns: NDArray[np.float32]
    """[N, S]."""
    advantages: NDArray[np.float32]
    """[N], mean over the signals, not normalised."""

    def __len__(self) -> int:
        return len(self.advantages)

    @staticmethod
    def concatenate(parts: list[EvaluatedSteps]) -> EvaluatedSteps:
        """One block of columns out of several (at least one)."""

        def column(get: Callable[[EvaluatedSteps], Any]) -> Any:
            return np.concatenate([get(p) for p in parts])

        return EvaluatedSteps(
            obs=[column(lambda p, i=i: p.obs[i]) for i in range(len(parts[0].obs))],  # type: ignore[misc]
            continuous=column(lambda p: p.continuous),
            discrete=column(lambda p: p.discrete),
            log_probs=column(lambda p: p.log_probs),
            action_mask=None if parts[0].action_mask is None else column(lambda p: p.action_mask),
            values=column(lambda p: p.values),
            returns=column(lambda p: p.returns),
            advantages=column(lambda p: p.advantages),
        )


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What an algorithm makes of some trajectories."""

    steps: EvaluatedSteps
    """For the update buffer."""
    estimates: Mapping[str, NDArray[np.float32]]
    """What the critic expects of each of the trajectories' own steps [steps, S], by the statistic's name."""


class UpdateBuffer:
    """Collects evaluated steps until an update takes them all."""

    def __init__(self) -> None:
        self._parts: list[EvaluatedSteps] = []
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def append(self, steps: EvaluatedSteps) -> None:
        """Add the steps of some trajectories."""
        self._parts.append(steps)
        self._length += len(steps)

    def columns(self) -> EvaluatedSteps:
        """All steps, in the order in which they came; the buffer must not be empty."""
        self._parts = [EvaluatedSteps.concatenate(self._parts)]
        return self._parts[0]

    def clear(self) -> None:
        """Forget everything."""
        self._parts, self._length = [], 0

    def state_dict(self) -> dict[str, Any]:
        """Tensors for a checkpoint; {} when empty."""
        if not self._parts:
            return {}
        steps = self.columns()
        fields = {name: getattr(steps, name) for name in EvaluatedSteps.__slots__}
        obs = [torch.from_numpy(o) for o in fields.pop("obs")]
        return {"obs": obs, **{k: torch.from_numpy(v) for k, v in fields.items() if v is not None}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        self.clear()
        if state:
            columns = {k: v.numpy() for k, v in state.items() if k != "obs"}
            columns.setdefault("action_mask", None)
            self.append(EvaluatedSteps(obs=[o.numpy() for o in state["obs"]], **columns))
