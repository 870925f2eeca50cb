"""The engine's side: steps to bytes, bytes to actions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from mlagents_envs.base_env import BehaviorSpec
from numpy.typing import NDArray

from . import messages
from .versions import API_VERSION


@dataclass(frozen=True, slots=True)
class AgentBatch:
    obs: list[NDArray[np.float32]]
    reward: NDArray[np.float32]
    done: NDArray[np.bool_]
    interrupted: NDArray[np.bool_]
    agent_id: NDArray[np.int32]
    group_id: NDArray[np.int32]
    group_reward: NDArray[np.float32]
    action_mask: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True)
class TrainerReply:
    kind: Literal["initialization", "step", "reset", "quit"]
    seed: int = 0
    num_areas: int = 1
    actions: dict[str, tuple[NDArray[np.float32], NDArray[np.int32]]] = field(default_factory=dict)
    side_channel: bytes = b""


def _message(**fields):
    return messages.UnityMessageProto(header=messages.HeaderProto(status=200), **fields).SerializeToString()


def encode_hello(name: str = "LanistaScene", package_version: str = "4.0.0", communication_version: str = API_VERSION) -> bytes:
    every = messages.UnityRLCapabilitiesProto(**{f.name: True for f in messages.UnityRLCapabilitiesProto.DESCRIPTOR.fields})
    return _message(unity_output=messages.UnityOutputProto(rl_initialization_output=messages.UnityRLInitializationOutputProto(
        name=name, communication_version=communication_version, package_version=package_version, capabilities=every)))


def encode_ready() -> bytes:
    return _message()


class StepEncoder:
    """Writes step messages; a behaviour is described in the first message in which it has agents."""

    def __init__(self, specs: Mapping[str, BehaviorSpec]) -> None:
        self.specs = dict(specs)
        self._described: set[str] = set()

    def encode(self, batches: Mapping[str, AgentBatch], side_channel: bytes = b"") -> bytes:
        new = {n: self.specs[n] for n, b in batches.items() if n not in self._described and len(b.agent_id)}
        self._described |= set(new)
        return encode_steps(batches, new, side_channel)


def encode_steps(batches: Mapping[str, AgentBatch], new_specs: Mapping[str, BehaviorSpec], side_channel: bytes) -> bytes:
    out = messages.UnityOutputProto()
    out.rl_output.side_channel = side_channel
    for name, spec in new_specs.items():
        a = spec.action_spec
        out.rl_initialization_output.brain_parameters.append(messages.BrainParametersProto(brain_name=name, is_training=True,
            action_spec=messages.ActionSpecProto(num_continuous_actions=a.continuous_size, num_discrete_actions=len(a.discrete_branches),
            discrete_branch_sizes=a.discrete_branches)))
        _specs[name] = spec
    for name, b in batches.items():
        spec = _specs[name]
        value = out.rl_output.agentInfos[name].value
        for i in range(len(b.reward)):
            value.append(messages.AgentInfoProto(reward=b.reward[i], done=bool(b.done[i]), max_step_reached=bool(b.interrupted[i]),
                id=int(b.agent_id[i]), group_id=int(b.group_id[i]), group_reward=b.group_reward[i],
                action_mask=[] if b.action_mask is None else b.action_mask[i].tolist(),
                observations=[messages.ObservationProto(shape=o.shape, dimension_properties=[int(d) for d in o.dimension_property],
                    observation_type=o.observation_type.value, name=o.name,
                    float_data=messages.ObservationProto.FloatData(data=b.obs[k][i].ravel().tolist())) for k, o in enumerate(spec.observation_specs)]))
    return _message(unity_output=out)


_specs: dict[str, BehaviorSpec] = {}


def decode_reply(data: bytes) -> TrainerReply:
    m = messages.UnityMessageProto.FromString(data)
    if m.header.status != 200 or m.unity_input.rl_input.command == 2:
        return TrainerReply("quit")
    if m.unity_input.HasField("rl_initialization_input"):
        i = m.unity_input.rl_initialization_input
        return TrainerReply("initialization", i.seed, i.num_areas)
    rl = m.unity_input.rl_input
    actions = {name: (np.array([list(a.continuous_actions) for a in v.value], np.float32),
                      np.array([list(a.discrete_actions) for a in v.value], np.int32)) for name, v in rl.agent_actions.items()}
    return TrainerReply("reset" if rl.command == 1 else "step", actions=actions, side_channel=rl.side_channel)
