"""Types shared with the layers above: behavior names, steps, decisions, statistics."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from urllib.parse import parse_qs

import numpy as np
from mlagents_envs.base_env import ActionTuple, BehaviorSpec, DecisionSteps, TerminalSteps
from numpy.typing import NDArray

MAX_IDLE_STEPS = 10_000
"""Environment steps without a request for a decision after which an environment is given up."""


@dataclass(frozen=True, slots=True)
class BehaviorName:
    """A behavior's full name taken apart."""

    behavior_id: str
    """The full name as the engine sent it."""
    name: str
    """What the user's configuration calls the behavior: the part before the question mark."""
    team_id: int = 0
    """The team, 0 where the full name tells none."""

    @classmethod
    def parse(cls, behavior_id: str) -> "BehaviorName":
        """Take a full name apart; anything in its query but the first `team` is ignored.

        Raises:
            ValueError: The team is not a whole number.
        """
        name, _, query = behavior_id.partition("?")
        team = parse_qs(query).get("team", ["0"])[0]
        try:
            return cls(behavior_id, name, int(team))
        except ValueError:
            raise ValueError(
                f"The behavior {behavior_id!r} has the team {team!r}, which is not a whole number. "
                "Full names look like 'Name?team=0'."
            ) from None

    @property
    def rebuilt(self) -> str:
        """The full name in its usual form, `Name?team=0`."""
        return behavior_id(self.name, self.team_id)


def behavior_id(name: str, team_id: int = 0) -> str:
    """The full name of a behavior's team."""
    return f"{name}?team={team_id}"


class StatsAggregationMethod(Enum):
    """What becomes of the values that one key collects between two summaries. Numbers as on the wire."""

    AVERAGE = 0
    MOST_RECENT = 1
    SUM = 2
    HISTOGRAM = 3


BehaviorId = str
"""The engine's full name of a behavior, such as `3DBall?team=0`."""

ObsArray = NDArray[np.float32 | np.uint8]
"""Some agents' observations of one sensor, [n, *shape]: numbers, or the bytes of pictures (see `pixels`)."""

BehaviorSteps = tuple[DecisionSteps, TerminalSteps]
EngineStatistics = Mapping[str, Sequence[tuple[float, StatsAggregationMethod]]]


def no_steps(spec: BehaviorSpec) -> BehaviorSteps:
    """The steps of no agents, which `empty` of mlagents-envs cannot make with NumPy 1.24 to 1.26."""
    obs = [np.zeros((0, *sensor.shape), np.float32) for sensor in spec.observation_specs]
    reward, ids = np.zeros(0, np.float32), np.zeros(0, np.int32)
    return (
        DecisionSteps(obs, reward, ids, None, ids, reward),
        TerminalSteps(list(obs), reward, np.zeros(0, np.bool_), ids, ids, reward),
    )


@dataclass(frozen=True, slots=True)
class Decision:
    """What a policy decided for the n agents of one `DecisionSteps`, row for row."""

    agent_id: NDArray[np.int32]
    """The agents' ids [n], as in the DecisionSteps."""
    action: ActionTuple
    """The actions as sampled, before scaling: what a trainer learns from. [n, continuous], [n, branches]."""
    env_action: ActionTuple
    """The actions as the engine gets them."""
    log_probs: NDArray[np.float32]
    """The log-probability [n, continuous + branches] of each component of `action`."""
    entropy: NDArray[np.float32]
    """The policy's entropy for each agent [n]."""
    memory: NDArray[np.float32] | None = None
    """The recurrent state [n, memory_size] that comes out of this decision."""
    exploration: float = 0.0
    """The share of the policy that was chance alone, 0 to 1: see the trainer `coma`."""
    by_snapshot: bool = False
    """Whether a snapshot of earlier weights decided, where its steps are told apart from the newest's."""

    @classmethod
    def of_actions(cls, decisions: DecisionSteps, action: ActionTuple) -> "Decision":
        """Actions that no policy sampled: a script's, an expert's. Log-probabilities and entropies are 0."""
        n = len(decisions)
        components = action.continuous.shape[1] + action.discrete.shape[1]
        nothing = np.zeros((n, components), np.float32)
        return cls(np.asarray(decisions.agent_id), action, action, nothing, np.zeros(n, np.float32))


@dataclass(frozen=True, slots=True)
class EnvironmentStep:
    """One environment's answer."""

    env: int
    """The environment's index, 0 to num_envs - 1 (Unity's worker id)."""
    steps: Mapping[BehaviorId, BehaviorSteps]
    decisions: Mapping[BehaviorId, Decision]
    """The decisions that this step answers; empty for the first step after a start or a reset."""
    statistics: EngineStatistics = field(default_factory=dict)
    fresh: bool = False
    """Whether the environment was reset or started again: its unfinished trajectories are void then."""
    left: bool = False
    """Whether the environment has gone and cannot be sent anything; with `fresh`, and without any agents."""
    void_agents: Mapping[BehaviorId, NDArray[np.int32]] = field(default_factory=dict)
    """Agents whose numbers were not finite and whose unfinished trajectories are void therefore."""
    lost_lives: Mapping[BehaviorId, NDArray[np.int32]] = field(default_factory=dict)
    """Agents that lost a life on the way to their decision step: their trajectories end there as those of
    agents that have terminated, but their episodes go on."""


STATE = "state"
"""The name of the sensor that shows the global state, the last of an agent's."""


def processors() -> int:
    """The number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
