"""The base of environments that are stepped in the trainer's process."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from mlagents_envs.base_env import ActionTuple, BaseEnv
from mlagents_envs.exception import UnityActionException

from ..base import BehaviorSteps
from ..side_channels import Parameters
from ..validation import check_shape, with_action
from .episodes import EpisodeStarts, check_parameters


class InProcessEnvironment(BaseEnv):  # type: ignore[misc]
    """Holds the last steps and the next actions of its agents, by behavior."""

    def __init__(self) -> None:
        """There are no steps before the first reset."""
        self._steps: dict[str, BehaviorSteps] = {}
        self._actions: dict[str, ActionTuple] = {}

    def get_steps(self, behavior_name: str) -> BehaviorSteps:
        """The last DecisionSteps and TerminalSteps of a behavior.

        Raises:
            UnityActionException: There is no such behavior, or there was no reset yet.
        """
        if behavior_name not in self._steps:
            known = ", ".join(self._steps) or "none before the first reset"
            raise UnityActionException(f"There is no behavior {behavior_name!r}; known: {known}.")
        return self._steps[behavior_name]

    def set_actions(self, behavior_name: str, action: ActionTuple) -> None:
        """Set the actions of the agents in the last DecisionSteps, one row each.

        Raises:
            UnityActionException: There is no such behavior, or a shape is wrong.
        """
        decisions, _ = self.get_steps(behavior_name)
        check_shape(self.behavior_specs[behavior_name], action, len(decisions), behavior_name)
        self._actions[behavior_name] = action

    def set_action_for_agent(self, behavior_name: str, agent_id: int, action: ActionTuple) -> None:
        """Set the action of one agent in the last DecisionSteps.

        Raises:
            UnityActionException: There is no such behavior, or a shape is wrong.
            IndexError: The agent did not request a decision.
        """
        decisions, _ = self.get_steps(behavior_name)
        spec = self.behavior_specs[behavior_name]
        check_shape(spec, action, 1, behavior_name)
        given = self._actions.get(behavior_name)
        self._actions[behavior_name] = with_action(
            given, spec.action_spec, decisions, agent_id, action, behavior_name
        )


class CopiedEnvironment(InProcessEnvironment):
    """Copies of a user's environment, each of which takes environment parameters when its episodes start."""

    def __init__(self) -> None:
        """Nothing is set."""
        super().__init__()
        self._parameters = Parameters()

    @abstractmethod
    def _starts(self) -> Sequence[EpisodeStarts]:
        """What starts the episodes of each copy."""

    def check_parameters(self, names: Collection[str]) -> None:
        """Refuse environment parameters that the environment does not take.

        Raises:
            EnvContractError: It does not take them, as far as it says so.
        """
        check_parameters(self._starts()[0].env, names)

    def set_parameters(self, parameters: Mapping[str, object]) -> None:
        """Set environment parameters; each copy gets them, and draws from samplers, when its episodes start.

        Args:
            parameters: Numbers, or samplers, as of `UnityEnvironment.set_parameters`.

        Raises:
            EnvContractError: As `check_parameters`.
            UnitySideChannelException: A value is neither a number nor a sampler.
        """
        self.check_parameters(parameters)
        self._parameters.take(parameters)
        for starts in self._starts():
            starts.set_parameters(self._parameters.values)


def make_copies(make: Callable[[], Any], count: int, first: Any = None) -> list[Any]:
    """`count` copies of an environment; if one cannot be made, those before it are closed.

    `first`: the first one, where it is there already.
    """
    with ExitStack() as made:
        copies: list[Any] = []
        for _ in range(count):
            copy = make() if first is None or copies else first
            made.callback(copy.close)
            copies.append(copy)
        made.pop_all()
    return copies
