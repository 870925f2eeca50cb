"""Several engines as one: their agents side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack

import numpy as np
from mlagents_envs.base_env import (
    ActionTuple,
    BehaviorMapping,
    BehaviorSpec,
    DecisionSteps,
    TerminalSteps,
)
from numpy.typing import NDArray

from ..in_process import InProcessEnvironment
from ..steps import BehaviorSteps, no_steps
from ..unity import UnityEnvironment


class JoinedEnvironment(InProcessEnvironment):
    """n engines of one kind, answered together: they compute at the same time, and the slowest sets the pace.

    Rows of the first engine's agents come first. Of engine k, the agent a is a * n + k here; groups likewise.
    """

    def __init__(self, engines: Sequence[UnityEnvironment]) -> None:
        """Take them over; `close` ends them."""
        super().__init__()
        self._engines = list(engines)
        self._specs: dict[str, BehaviorSpec] = {}

    @property
    def behavior_specs(self) -> Mapping[str, BehaviorSpec]:
        """The behaviours that some engine has shown so far."""
        return BehaviorMapping(self._specs)  # type: ignore[no-any-return]

    def reset(self) -> None:
        """Let all engines begin anew. Raises as `UnityEnvironment.reset`."""
        for engine in self._engines:
            engine.send_reset()
        self._receive()

    def step(self) -> None:
        """Let all agents act. Raises as `UnityEnvironment.step`."""
        for name, action in self._actions.items():
            self._hand_out(name, action)
        for engine in self._engines:
            engine.send_step()
        self._receive()

    def set_parameters(self, parameters: Mapping[str, object]) -> None:
        """Set environment parameters in all engines."""
        for engine in self._engines:
            engine.set_parameters(parameters)

    def close(self) -> None:
        """End all engines, also where ending one of them fails."""
        with ExitStack() as stack:
            for engine in self._engines:
                stack.callback(engine.close)

    def _hand_out(self, name: str, action: ActionTuple) -> None:
        first = 0
        for engine in self._engines:
            if name not in engine.behavior_specs:
                continue
            rows = slice(first, first + len(engine.get_steps(name)[0]))
            engine.set_actions(name, ActionTuple(action.continuous[rows], action.discrete[rows]))
            first = rows.stop

    def _receive(self) -> None:
        for engine in self._engines:
            engine.receive()
        self._actions.clear()
        for engine in self._engines:
            for name, spec in engine.behavior_specs.items():
                self._specs.setdefault(name, spec)
        for name, spec in self._specs.items():
            self._steps[name] = self._joined(name, spec)

    def _joined(self, name: str, spec: BehaviorSpec) -> BehaviorSteps:
        told = [
            engine.get_steps(name) if name in engine.behavior_specs else no_steps(spec)
            for engine in self._engines
        ]
        decisions, terminals = [each for each, _ in told], [each for _, each in told]
        return (
            DecisionSteps(
                *(self._obs(decisions, spec), np.concatenate([each.reward for each in decisions])),
                *(self._numbers([each.agent_id for each in decisions]), _masks(decisions, spec)),
                self._groups([each.group_id for each in decisions]),
                np.concatenate([each.group_reward for each in decisions]),
            ),
            TerminalSteps(
                *(self._obs(terminals, spec), np.concatenate([each.reward for each in terminals])),
                np.concatenate([each.interrupted for each in terminals]),
                self._numbers([each.agent_id for each in terminals]),
                self._groups([each.group_id for each in terminals]),
                np.concatenate([each.group_reward for each in terminals]),
            ),
        )

    @staticmethod
    def _obs(
        batches: Sequence[DecisionSteps] | Sequence[TerminalSteps], spec: BehaviorSpec
    ) -> list[NDArray[np.float32]]:
        there = [batch for batch in batches if len(batch)] or batches[:1]  # the others know no dtype
        return [np.concatenate([batch.obs[k] for batch in there]) for k in range(len(spec.observation_specs))]

    def _numbers(self, ids: Sequence[NDArray[np.int32]]) -> NDArray[np.int32]:
        count = len(self._engines)
        return np.concatenate([each * count + k for k, each in enumerate(ids)]).astype(np.int32)

    def _groups(self, groups: Sequence[NDArray[np.int32]]) -> NDArray[np.int32]:
        """0 is no group anywhere."""
        found = [np.asarray(each) for each in groups]
        return np.where(np.concatenate(found) > 0, self._numbers(found), 0).astype(np.int32)


def _masks(decisions: Sequence[DecisionSteps], spec: BehaviorSpec) -> list[NDArray[np.bool_]] | None:
    """[rows, size] per branch; None where no engine tells of any."""
    if all(each.action_mask is None for each in decisions):
        return None
    return [
        np.concatenate(
            [
                np.zeros((len(each), size), np.bool_) if each.action_mask is None else each.action_mask[k]
                for each in decisions
            ]
        )
        for k, size in enumerate(spec.action_spec.discrete_branches)
    ]
