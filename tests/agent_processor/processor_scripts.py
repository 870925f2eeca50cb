"""Runs a script of events, in the form of the reference data, through the processor; tells what came out."""

from typing import Any

import numpy as np
from goldendata import array
from lanista.agent_processor.processor import AgentManager
from lanista.agent_processor.trajectory import Trajectory
from lanista.envs.base import Decision, StatsAggregationMethod
from mlagents_envs.base_env import (
    ActionSpec,
    ActionTuple,
    BehaviorSpec,
    DecisionSteps,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
    TerminalSteps,
)
from simple_engine import ListSink


def spec_of(given: dict[str, Any]) -> BehaviorSpec:
    observations = [
        ObservationSpec(
            tuple(o["shape"]),
            tuple(DimensionProperty(p) for p in o["dimension_property"]),
            ObservationType[o["observation_type"]],
            o["name"],
        )
        for o in given["observation_specs"]
    ]
    action = given["action_spec"]
    return BehaviorSpec(
        observations, ActionSpec(action["continuous_size"], tuple(action["discrete_branches"]))
    )


def decision_steps(spec: BehaviorSpec, given: dict[str, Any]) -> DecisionSteps:
    n = len(given["agent_id"])
    mask = given["action_mask"]
    branches = spec.action_spec.discrete_branches
    return DecisionSteps(
        _obs(spec, given),
        array(given["reward"]),
        array(given["agent_id"], np.int32),
        None if mask is None else [array(m, bool).reshape(n, size) for m, size in zip(mask, branches)],
        array(given["group_id"], np.int32),
        array(given["group_reward"]),
    )


def terminal_steps(spec: BehaviorSpec, given: dict[str, Any]) -> TerminalSteps:
    return TerminalSteps(
        _obs(spec, given),
        array(given["reward"]),
        array(given["interrupted"], bool),
        array(given["agent_id"], np.int32),
        array(given["group_id"], np.int32),
        array(given["group_reward"]),
    )


def _obs(spec: BehaviorSpec, given: dict[str, Any]) -> list[np.ndarray]:
    n = len(given["agent_id"])
    return [array(o).reshape(n, *s.shape) for o, s in zip(given["obs"], spec.observation_specs)]


def decision(spec: BehaviorSpec, given: dict[str, Any]) -> Decision:
    """What a policy decided; scaling for the engine is none of the processor's business."""
    n, action = len(given["agent_ids"]), spec.action_spec
    raw = ActionTuple(
        array(given["continuous"]).reshape(n, action.continuous_size),
        array(given["discrete"], np.int32).reshape(n, action.discrete_size),
    )
    kinds = [("continuous", action.continuous_size), ("discrete", action.discrete_size)]
    log_probs = [array(given[f"log_probs_{kind}"]).reshape(n, size) for kind, size in kinds]
    memory = given.get("memory_out")
    return Decision(
        agent_id=array(given["agent_ids"], np.int32),
        action=raw,
        env_action=raw,
        log_probs=np.concatenate(log_probs, axis=1),
        entropy=array(given.get("entropy", [])),
        memory=array(memory).reshape(n, -1) if n and memory is not None else None,
    )


class Player:
    """One behavior's `AgentManager` and its spec, fed with events."""

    def __init__(self, spec: BehaviorSpec, horizon: int, memory_size: int = 0) -> None:
        self.spec = spec
        self.sink = ListSink()
        self.manager = AgentManager("B?team=0", spec, horizon, self.sink, memory_size)

    def play(self, event: dict[str, Any]) -> list[Trajectory]:
        """Let the event happen; the trajectories that it finished."""
        if event["op"] == "end_episode":
            self.manager.end_episode(event.get("worker"))
        elif event["op"] == "forget":
            self.manager.reset_agents(event["worker"], np.array(event["agent_id"], np.int32))
        elif event["op"] == "env_stats":
            given = {
                key: [(value, StatsAggregationMethod[how]) for value, how in values]
                for key, values in event["stats"].items()
            }
            self.manager.record_environment_stats(given, event["worker"])
        else:
            acted = event["actions"]
            self.manager.add_experiences(
                decision_steps(self.spec, event["decision"]),
                terminal_steps(self.spec, event["terminal"]),
                event["worker"],
                None if acted is None else decision(self.spec, acted),
            )
        return self.manager.trajectory_queue.drain()
