# Written by `python -m lanista.envs.protocol.generate`; do not edit.
# ruff: noqa
# fmt: off
from collections.abc import Mapping
from typing import Any

from google.protobuf.internal.containers import (
    MessageMap,
    RepeatedCompositeFieldContainer,
    RepeatedScalarFieldContainer,
)
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
from google.protobuf.message import Message
from typing_extensions import Self


def build(numbers: Mapping[str, Mapping[str, int]]) -> dict[str, Any]: ...


class AgentActionProto(Message):
    vector_actions_deprecated: RepeatedScalarFieldContainer[float]
    value: float
    continuous_actions: RepeatedScalarFieldContainer[float]
    discrete_actions: RepeatedScalarFieldContainer[int]
    def __init__(self, **fields: Any) -> None: ...
    @classmethod
    def FromString(cls, s: bytes) -> Self: ...
CompressionTypeProto: EnumTypeWrapper
NONE: int
PNG: int
ObservationTypeProto: EnumTypeWrapper
DEFAULT: int
GOAL_SIGNAL: int

class ObservationProto(Message):
    class FloatData(Message):
        data: RepeatedScalarFieldContainer[float]
        def __init__(self, **fields: Any) -> None: ...
        @classmethod
        def FromString(cls, s: bytes) -> Self: ...
    shape: RepeatedScalarFieldContainer[int]
    compression_type: int
    compressed_data: bytes
    float_data: ObservationProto.FloatData
    compressed_channel_mapping: RepeatedScalarFieldContainer[int]
    dimension_properties: RepeatedScalarFieldContainer[int]
    observation_type: int
    name: str
    def __init__(self, **fields: Any) -> None: ...
    @classmethod
    def FromString(cls, s: bytes) -> Self: ...

class AgentInfoProto(Message):
    reward: float
    done: bool
    max_step_reached: bool
    id: int
    action_mask: RepeatedScalarFieldContainer[bool]
    observations: RepeatedCompositeFieldContainer[ObservationProto]
    group_id: int
    group_reward: float
    def __init__(self, **fields: Any) -> None: ...
    @classmethod
    def FromString(cls, s: bytes) -> Self: ...

class AgentInfoActionPairProto(Message):
    agent_info: AgentInfoProto
    action_info: AgentActionProto
    def __init__(self, **fields: Any) -> None: ...
    @classmethod
    def FromString(cls, s: bytes) -> Self: ...
SpaceTypeProto: EnumTypeWrapper
discrete: int
continuous: int

class ActionSpecProto(Message):
    num_continuous_actions: int
    num_discrete_actions: int
    discrete_branch_sizes: RepeatedScalarFieldContainer[int]
    action_descriptions: RepeatedScalarFieldContainer[str]
    def __init__(self, **fields: Any) -> None: ...
    @classmethod
    def FromString(cls, s: bytes) -> Self: ...

class BrainParametersProto(Message):
    vector_action_size_deprecated: RepeatedScalarFieldContainer[int]
    vector_action_descriptions_deprecated: RepeatedScalarFieldContainer[str]
    vector_action_space_type_deprecated: int
    brain_name: str
    is_training: bool
    action_spec: ActionSpecProto
    def __init__(self, **fields: Any) -> None: ...
    @classmethod
    def FromString(cls, s: bytes) -> Self: ...

class UnityRLCapabilitiesProto(Message):
    baseRLCapabilities: bool
    concatenatedPngObservations: bool
    compressedChannelMapping: bool
    hybridActions: bool
    trainingAnalytics: bool
    variableLengthObservation: bool
    multiAgentGroups: bool
    def __init__(self, **fields: Any) -> None: ...
    @classmethod
    def FromString(cls, s: bytes) -> Self: ...
CommandProto: EnumTypeWrapper
STEP: int
RESET: int
QUIT: int

class CustomResetParametersProto(Message):
    def __init__(self, **fields: Any) -> None: ...
    @classmethod
    def FromString(cls, s: bytes) -> Self: ...

class DemonstrationMetaProto(Message):
    api_version: int
    demonstration_name: str
    number_steps: int
    number_episodes: int
    mean_reward: float
    def __init__(self, **fields: Any) -> None: ...
    @classmethod
    def FromString(cls, s: bytes) -> Self: ...

class EngineConfigurationProto(Message):
    width: int
    height: int
    quality_level: int
    time_scale: float
    target_frame_rate: int
    show_monitor: bool
    def __init__(self, **fields: Any) -> None: ...
    @classmethod
    def FromString(cls, s: bytes) -> Self: ...

class HeaderProto(Message):
    status: int
    message: str
    def __init__(self, **fields: Any) -> None: ...
    @classmethod
    def FromString(cls, s: bytes) -> Self: ...

class TrainingEnvironmentInitialized(Message):
    mlagents_version: str
    mlagents_envs_version: str
    python_version: str
    torch_version: str
    torch_device_type: str
    num_envs: int
    num_environment_parameters: int
    run_options: str
    def __init__(self, **fields: Any) -> None: ...
    @classmethod
    def FromString(cls, s: bytes) -> Self: ...

class TrainingBehaviorInitialized(Message):
    behavior_name: str
    trainer_type: str
    extrinsic_reward_enabled: bool
    gail_reward_enabled: bool
    curiosity_reward_enabled: bool
    rnd_reward_enabled: bool
    behavioral_cloning_enabled: bool
    recurrent_enabled: bool
    visual_encoder: str
    num_network_layers: int
    num_network_hidden_units: int
    trainer_threaded: bool
    self_play_enabled: bool
    curriculum_enabled: bool
    config: str
    def __init__(self, **fields: Any) -> None: ...
    @classmethod
    def FromString(cls, s: bytes) -> Self: ...

class UnityRLInputProto(Message):
    class ListAgentActionProto(Message):
        value: RepeatedCompositeFieldContainer[AgentActionProto]
        def __init__(self, **fields: Any) -> None: ...
        @classmethod
        def FromString(cls, s: bytes) -> Self: ...
    agent_actions: MessageMap[str, UnityRLInputProto.ListAgentActionProto]
    command: int
    side_channel: bytes
    def __init__(self, **fields: Any) -> None: ...
    @classmethod
    def FromString(cls, s: bytes) -> Self: ...

class UnityRLInitializationInputProto(Message):
    seed: int
    communication_version: str
    package_version: str
    capabilities: UnityRLCapabilitiesProto
    num_areas: int
    def __init__(self, **fields: Any) -> None: ...
    @classmethod
    def FromString(cls, s: bytes) -> Self: ...

class UnityInputProto(Message):
    rl_input: UnityRLInputProto
    rl_initialization_input: UnityRLInitializationInputProto
    def __init__(self, **fields: Any) -> None: ...
    @classmethod
    def FromString(cls, s: bytes) -> Self: ...

class UnityRLOutputProto(Message):
    class ListAgentInfoProto(Message):
        value: RepeatedCompositeFieldContainer[AgentInfoProto]
        def __init__(self, **fields: Any) -> None: ...
        @classmethod
        def FromString(cls, s: bytes) -> Self: ...
    agentInfos: MessageMap[str, UnityRLOutputProto.ListAgentInfoProto]
    side_channel: bytes
    def __init__(self, **fields: Any) -> None: ...
    @classmethod
    def FromString(cls, s: bytes) -> Self: ...

class UnityRLInitializationOutputProto(Message):
    name: str
    communication_version: str
    log_path: str
    brain_parameters: RepeatedCompositeFieldContainer[BrainParametersProto]
    package_version: str
    capabilities: UnityRLCapabilitiesProto
    def __init__(self, **fields: Any) -> None: ...
    @classmethod
    def FromString(cls, s: bytes) -> Self: ...

class UnityOutputProto(Message):
    rl_output: UnityRLOutputProto
    rl_initialization_output: UnityRLInitializationOutputProto
    def __init__(self, **fields: Any) -> None: ...
    @classmethod
    def FromString(cls, s: bytes) -> Self: ...

class UnityMessageProto(Message):
    header: HeaderProto
    unity_output: UnityOutputProto
    unity_input: UnityInputProto
    def __init__(self, **fields: Any) -> None: ...
    @classmethod
    def FromString(cls, s: bytes) -> Self: ...
