"""Run by a Python with `ueagents_envs`: a session of UnrealMLAgents in its own messages' bytes, as JSON.

record_unreal.py [SEED]   prints it; tests/envs/protocol/unreal_session.json is what it prints without a seed

Each of the engine's messages stands beside what that package's own code reads from it, each of the trainer's
beside what it says. With a seed, the numbers of agents and all values are random.
"""

import base64
import json
import sys

import numpy as np
from ueagents_envs.communicator_objects.agent_action_pb2 import AgentActionProto
from ueagents_envs.communicator_objects.agent_info_pb2 import AgentInfoProto
from ueagents_envs.communicator_objects.brain_parameters_pb2 import ActionSpecProto, BrainParametersProto
from ueagents_envs.communicator_objects.command_pb2 import RESET
from ueagents_envs.communicator_objects.observation_pb2 import ObservationProto
from ueagents_envs.communicator_objects.unreal_message_pb2 import UnrealMessageProto
from ueagents_envs.rpc_utils import behavior_spec_from_proto, steps_from_proto

ROLLER, SORTER = "Roller?team=0", "Sorter?team=1"
ACTIONS = {ROLLER: ActionSpecProto(num_continuous_actions=2)}
ACTIONS[SORTER] = ActionSpecProto(num_discrete_actions=2, discrete_branch_sizes=[3, 2])
SENSORS = {ROLLER: [("RayPerceptionSensor", [6]), ("VectorSensor_size3", [3])]}
SENSORS[SORTER] = [("Grid", [2, 4])]


def observation(name, shape, rng):
    values = rng.normal(size=shape).astype(np.float32).ravel().tolist()
    return ObservationProto(
        name=name,
        shape=shape,
        dimension_properties=[1] * len(shape),
        float_data=ObservationProto.FloatData(data=values),
    )


def agent(behavior, number, rng, done=False):
    info = AgentInfoProto(
        reward=float(rng.choice([0.0, 0.5, -1.25])),
        done=done,
        max_step_reached=done and number % 2 == 0,
        id=number,
        observations=[observation(name, shape, rng) for name, shape in SENSORS[behavior]],
    )
    if behavior == SORTER:
        info.action_mask.extend(bool(each) for each in rng.integers(0, 2, 5))
        info.group_id, info.group_reward = 7, 0.25
    return info


def engine(status=200):
    message = UnrealMessageProto()
    message.header.status = status
    return message


def step(agents, new):
    message = engine()
    for behavior, infos in agents.items():
        message.unreal_output.rl_output.agentInfos[behavior].value.extend(infos)
    for behavior in new:
        brain = BrainParametersProto(brain_name=behavior, is_training=True, action_spec=ACTIONS[behavior])
        message.unreal_output.rl_initialization_output.brain_parameters.append(brain)
    message.unreal_output.rl_output.side_channel = b"channels"
    return message


class Reader:
    """The package's own reading of the engine's steps."""

    def __init__(self):
        self.specs = {}

    def read(self, message):
        output = message.unreal_output
        infos = {name: list(listed.value) for name, listed in output.rl_output.agentInfos.items()}
        for brain in output.rl_initialization_output.brain_parameters:
            self.specs[brain.brain_name] = behavior_spec_from_proto(brain, infos[brain.brain_name][0])
        return {name: self._steps(infos.get(name, []), spec) for name, spec in sorted(self.specs.items())}

    def _steps(self, infos, spec):
        parts = dict(zip(("decision", "terminal"), steps_from_proto(infos, spec)))
        found = {
            kind: {
                "obs": [values.tolist() for values in steps.obs],
                "reward": steps.reward.tolist(),
                "agent_id": steps.agent_id.tolist(),
                "group_id": list(steps.group_id),
                "group_reward": steps.group_reward.tolist(),
            }
            for kind, steps in parts.items()
        }
        found["terminal"]["interrupted"] = parts["terminal"].interrupted.tolist()
        masks = parts["decision"].action_mask if infos else None
        found["decision"]["action_mask"] = None if masks is None else [mask.tolist() for mask in masks]
        found["spec"] = {
            "observations": [[each.name, list(each.shape)] for each in spec.observation_specs],
            "actions": [spec.action_spec.continuous_size, list(spec.action_spec.discrete_branches)],
        }
        return found


def answers(rng):
    """The trainer's messages, with what they say."""
    hello = engine()
    initialization = hello.unreal_input.rl_initialization_input
    initialization.seed, initialization.num_areas = 1234, 2
    initialization.communication_version = initialization.package_version = "1.0.0"
    yield hello, {"kind": "initialization", "seed": 1234, "num_areas": 2}
    reset = engine()
    reset.unreal_input.rl_input.command = RESET
    reset.unreal_input.rl_input.side_channel = b"parameters"
    yield reset, {"kind": "reset"}
    acted = engine()
    continuous = rng.uniform(-1, 1, (2, 2)).astype(np.float32).tolist()
    discrete = rng.integers(0, 2, (3, 2)).tolist()
    listed = acted.unreal_input.rl_input.agent_actions
    listed[ROLLER].value.extend(AgentActionProto(continuous_actions=row) for row in continuous)
    listed[SORTER].value.extend(AgentActionProto(discrete_actions=row) for row in discrete)
    yield acted, {"kind": "step", "actions": {ROLLER: [continuous, []], SORTER: [[], discrete]}}
    yield engine(400), {"kind": "quit"}


def encoded(message, meaning):
    data = message.SerializeToString(deterministic=True)
    return {"bytes": base64.b64encode(data).decode(), "means": meaning}


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else None
    rng = np.random.default_rng(seed or 0)
    rollers, sorters = (2, 3) if seed is None else rng.integers(1, 40, 2).tolist()
    hello, reader = engine(), Reader()
    greeting = hello.unreal_output.rl_initialization_output
    greeting.name = "AcademySingleton"
    greeting.communication_version = greeting.package_version = "1.0.0"
    messages = [step({ROLLER: [agent(ROLLER, k, rng) for k in range(rollers)]}, [ROLLER])]
    both = {ROLLER: [agent(ROLLER, k, rng, k == 1) for k in range(rollers)]}
    both[SORTER] = [agent(SORTER, 100 + k, rng) for k in range(sorters)]
    messages.append(step(both, [SORTER]))
    messages.append(
        step({ROLLER: [], SORTER: [agent(SORTER, 100 + k, rng, k == 0) for k in range(sorters)]}, [])
    )
    session = {
        "hello": encoded(hello, {"name": "AcademySingleton", "version": "1.0.0", "package": "1.0.0"}),
        "ready": encoded(engine(), None),
        "steps": [encoded(message, reader.read(message)) for message in messages],
        "answers": [encoded(message, meaning) for message, meaning in answers(rng)],
    }
    print(json.dumps(session))


if __name__ == "__main__":
    main()
