"""The trainer's side: bytes to steps, actions to bytes."""

from collections.abc import Mapping
from dataclasses import dataclass

from mlagents_envs.base_env import (
    ActionSpec, ActionTuple, BehaviorSpec, DecisionSteps, DimensionProperty, ObservationSpec, ObservationType, TerminalSteps,
)
import numpy as np

from ..steps import BehaviorSteps
from . import messages
from .versions import API_VERSION, PACKAGE_VERSION


@dataclass(frozen=True, slots=True)
class Capabilities:
    base_rl: bool = True
    concatenated_png_observations: bool = True
    compressed_channel_mapping: bool = True
    hybrid_actions: bool = True
    training_analytics: bool = True
    variable_length_observation: bool = True
    multi_agent_groups: bool = True


@dataclass(frozen=True, slots=True)
class EngineHello:
    name: str
    communication_version: str
    package_version: str
    capabilities: Capabilities


@dataclass(frozen=True, slots=True)
class EngineMessage:
    status: int
    hello: EngineHello | None
    specs: dict[str, BehaviorSpec]
    steps: dict[str, BehaviorSteps] | None
    side_channel: bytes


class Decoder:
    def __init__(self, where: str = "environment 0") -> None:
        self.where = where
        self.specs: dict[str, BehaviorSpec] = {}

    def decode(self, data: bytes) -> EngineMessage:
        m = messages.UnityMessageProto.FromString(data)
        out = m.unity_output
        init = out.rl_initialization_output
        hello = None
        if init.communication_version:
            c = init.capabilities
            hello = EngineHello(init.name, init.communication_version, init.package_version, Capabilities(
                c.baseRLCapabilities, c.concatenatedPngObservations, c.compressedChannelMapping, c.hybridActions,
                c.trainingAnalytics, c.variableLengthObservation, c.multiAgentGroups))
        new = {}
        infos = {k: v.value for k, v in out.rl_output.agentInfos.items()}
        for brain in init.brain_parameters:
            if infos.get(brain.brain_name):
                a = brain.action_spec
                if a.num_continuous_actions == 0 and a.num_discrete_actions == 0:
                    sizes = tuple(brain.vector_action_size_deprecated)
                    action = (ActionSpec(sizes[0], ()) if brain.vector_action_space_type_deprecated == 1 else ActionSpec(0, sizes))
                else:
                    action = ActionSpec(a.num_continuous_actions, tuple(a.discrete_branch_sizes))
                obs = [ObservationSpec(tuple(o.shape), tuple(DimensionProperty(d) for d in (o.dimension_properties or [0] * len(o.shape))),
                       ObservationType(o.observation_type), o.name) for o in infos[brain.brain_name][0].observations]
                new[brain.brain_name] = BehaviorSpec(obs, action)
        self.specs.update(new)
        steps = None
        if out.HasField("rl_output"):
            steps = {name: _steps(infos.get(name, []), spec) for name, spec in self.specs.items()}
        return EngineMessage(m.header.status, hello, new, steps, out.rl_output.side_channel)


def _columns(infos, spec):
    n = len(infos)
    obs = []
    for k, o in enumerate(spec.observation_specs):
        obs.append(np.array([list(i.observations[k].float_data.data) for i in infos], np.float32).reshape((n, *o.shape)))
    f = lambda name, t: np.array([getattr(i, name) for i in infos], t)
    return obs, f


def _steps(infos, spec):
    going = [i for i in infos if not i.done]
    done = [i for i in infos if i.done]
    obs, f = _columns(going, spec)
    mask = None
    branches = spec.action_spec.discrete_branches
    if branches and going:
        total = sum(branches)
        flat = np.array([list(i.action_mask) if len(i.action_mask) == total else [False] * total for i in going], bool)
        mask = np.split(flat, np.cumsum(branches)[:-1], axis=1)
    d = DecisionSteps(obs, f("reward", np.float32), f("id", np.int32), mask, f("group_id", np.int32), f("group_reward", np.float32))
    obs, f = _columns(done, spec)
    t = TerminalSteps(obs, f("reward", np.float32), f("max_step_reached", bool), f("id", np.int32), f("group_id", np.int32), f("group_reward", np.float32))
    return d, t


def _message(status=200, **fields):
    return messages.UnityMessageProto(header=messages.HeaderProto(status=status), **fields).SerializeToString()


def encode_actions(spec_order: Mapping[str, ActionTuple], side_channel: bytes, deprecated_field: bool = False) -> bytes:
    rl = messages.UnityRLInputProto(side_channel=side_channel)
    for name, actions in spec_order.items():
        for c, d in zip(actions.continuous, actions.discrete):
            rl.agent_actions[name].value.append(messages.AgentActionProto(
                continuous_actions=c.tolist(), discrete_actions=d.tolist(),
                vector_actions_deprecated=[*c.tolist(), *map(float, d.tolist())] if deprecated_field else []))
    return _message(unity_input=messages.UnityInputProto(rl_input=rl))


def encode_reset(side_channel: bytes) -> bytes:
    return _message(unity_input=messages.UnityInputProto(rl_input=messages.UnityRLInputProto(command=1, side_channel=side_channel)))


def encode_quit() -> bytes:
    return _message(400)


def encode_initialization(seed: int, num_areas: int) -> bytes:
    every = messages.UnityRLCapabilitiesProto(**{f.name: True for f in messages.UnityRLCapabilitiesProto.DESCRIPTOR.fields})
    return _message(unity_input=messages.UnityInputProto(rl_initialization_input=messages.UnityRLInitializationInputProto(
        seed=seed, communication_version=API_VERSION, package_version=PACKAGE_VERSION, capabilities=every, num_areas=num_areas)))
