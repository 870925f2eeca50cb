"""What environments that are stepped in the trainer's own process have in common."""

from __future__ import annotations

from mlagents_envs.base_env import ActionTuple, BaseEnv
from mlagents_envs.exception import UnityActionException

from ..base import BehaviorSteps
from ..validation import with_action


class InProcessEnvironment(BaseEnv):  # type: ignore[misc]
    """Holds what its agents said last, and what they are to do next, by behaviour."""

    def __init__(self) -> None:
        """Nobody has said anything before the first reset."""
        self._steps: dict[str, BehaviorSteps] = {}
        self._actions: dict[str, ActionTuple] = {}

    def get_steps(self, behavior_name: str) -> BehaviorSteps:
        """Who waits for a decision, and who ended.

        Raises:
            UnityActionException: There is no such behaviour, or no reset yet.
        """
        if behavior_name not in self._steps:
            known = ", ".join(self._steps) or "none before the first reset"
            raise UnityActionException(f"There is no behaviour {behavior_name!r}; known: {known}.")
        return self._steps[behavior_name]

    def set_actions(self, behavior_name: str, action: ActionTuple) -> None:
        """Set what the agents of the last DecisionSteps do, one row each.

        Raises:
            UnityActionException: There is no such behaviour, or a shape is wrong.
        """
        decisions, _ = self.get_steps(behavior_name)
        spec = self.behavior_specs[behavior_name].action_spec
        self._actions[behavior_name] = spec._validate_action(action, len(decisions), behavior_name)

    def set_action_for_agent(self, behavior_name: str, agent_id: int, action: ActionTuple) -> None:
        """Set what one agent of the last DecisionSteps does.

        Raises:
            UnityActionException: There is no such behaviour, or a shape is wrong.
            IndexError: The agent does not wait for a decision.
        """
        decisions, _ = self.get_steps(behavior_name)
        spec = self.behavior_specs[behavior_name].action_spec
        action = spec._validate_action(action, 1, behavior_name)
        given = self._actions.get(behavior_name)
        self._actions[behavior_name] = with_action(given, spec, decisions, agent_id, action, behavior_name)
