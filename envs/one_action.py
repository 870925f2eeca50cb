"""Actions as they are set: whether they fit, and one agent's after the other."""

from mlagents_envs.base_env import ActionSpec, ActionTuple, BehaviorSpec, DecisionSteps
from mlagents_envs.exception import UnityActionException


def with_action(
    given: ActionTuple | None,
    spec: ActionSpec,
    decisions: DecisionSteps,
    agent_id: int,
    action: ActionTuple,
    behavior: str,
) -> ActionTuple:
    """What is given so far, with one agent's action changed; arrays of the caller's stay as they are.

    Args:
        given: [n, continuous] and [n, branches]; None for zeros.
        spec: The behaviour's.
        decisions: Who waits for a decision, n agents.
        agent_id: One of them.
        action: [1, continuous] and [1, branches], already checked.
        behavior: Its name, for the message.

    Raises:
        IndexError: The agent does not wait for a decision.
    """
    rows = decisions.agent_id_to_index
    if agent_id not in rows:
        raise IndexError(
            f"agent_id {agent_id} did not request a decision at the previous step; of the behaviour "
            f"{behavior} these did: {decisions.agent_id[:20].tolist()}."
        )
    if given is None:
        changed = spec.empty_action(len(decisions))
    else:
        changed = ActionTuple(given.continuous.copy(), given.discrete.copy())
    changed.continuous[rows[agent_id]] = action.continuous
    changed.discrete[rows[agent_id]] = action.discrete
    return changed


def check_shape(spec: BehaviorSpec, action: ActionTuple, agents: int, behavior: str) -> None:
    """Refuse actions of another shape than the behaviour's, and actions without any part.

    Raises:
        UnityActionException: They are so.
    """
    sizes = {"continuous": spec.action_spec.continuous_size, "discrete": spec.action_spec.discrete_size}
    for kind, size in sizes.items():
        given = getattr(action, kind)
        shape = None if given is None else given.shape
        if shape != (agents, size):
            raise UnityActionException(
                f"The behavior {behavior} needs a {kind} input of dimension {(agents, size)} for "
                f"(<number of agents>, <action size>) but received input of dimension {shape}"
            )
