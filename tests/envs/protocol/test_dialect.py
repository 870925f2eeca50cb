"""UnrealMLAgents' dialect: bytes that its own package wrote, and whole sessions of Unity's said in it."""

import json
from pathlib import Path

import numpy as np
import pytest
from lanista.envs.protocol import messages
from lanista.envs.protocol.decoder import Decoder
from lanista.envs.protocol.dialect import UNREAL
from lanista.envs.protocol.encoder import Encoder
from lanista.envs.protocol.engine import AgentBatch, StepEncoder, encode_hello
from lanista.envs.protocol.engine_decoder import ReplyDecoder
from lanista.envs.protocol.handshake import compatible
from mlagents_envs.base_env import (
    ActionSpec,
    BehaviorSpec,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
)
from transcripts import FILES, messages_of
from translated import spoken
from unreal_session import bytes_of, check_answers, check_engine_messages, our_answers
from wiremessages import NAME
from wirereference import assert_same

SESSION = json.loads((Path(__file__).parent / "unreal_session.json").read_text(encoding="utf-8"))

NUMBERS = {
    "AgentActionProto": "value=1 continuous_actions=2 discrete_actions=3",
    "AgentInfoProto": (
        "reward=1 done=2 max_step_reached=3 id=4 action_mask=5 observations=6 group_id=7 group_reward=8"
    ),
    "ObservationProto": "shape=1 float_data=2 dimension_properties=3 name=4",
    "BrainParametersProto": "brain_name=1 is_training=2 action_spec=3",
    "UnityRLInputProto": "agent_actions=1 command=2 side_channel=3",
    "UnityRLOutputProto": "agentInfos=1 side_channel=2",
    "UnityRLInitializationInputProto": "seed=1 communication_version=2 package_version=3 num_areas=4",
    "UnityRLInitializationOutputProto": (
        "name=1 communication_version=2 log_path=3 brain_parameters=4 package_version=5"
    ),
    "HeaderProto": "status=1 message=2",
    "ActionSpecProto": (
        "num_continuous_actions=1 num_discrete_actions=2 discrete_branch_sizes=3 action_descriptions=4"
    ),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_field_numbers_are_the_plug_ins(name: str) -> None:
    found = {f"{field}={number}" for field, number in UNREAL.numbers(name).items() if UNREAL.has(name, field)}
    assert found == set(NUMBERS[name].split())


def test_every_field_of_the_table_is_one_of_the_message() -> None:
    for name, numbers in UNREAL._numbers.items():
        assert numbers.keys() <= {field.name for field in getattr(messages, name).DESCRIPTOR.fields}


def test_the_engines_messages_are_read_as_the_plug_ins_package_reads_them() -> None:
    check_engine_messages(SESSION)


def test_our_engine_reads_the_plug_ins_answers() -> None:
    check_answers(SESSION)


def test_our_answers_are_the_plug_ins() -> None:
    """To the byte, but for the order of a map's entries, which is free."""
    message_class = UNREAL.messages.UnityMessageProto
    for ours, entry in zip(our_answers(SESSION), SESSION["answers"], strict=True):
        found, expected = message_class.FromString(ours), message_class.FromString(bytes_of(entry))
        assert found == expected
        assert len(ours) == len(bytes_of(entry)), "something is written that the plug-in does not know"


@pytest.mark.parametrize("path", FILES, ids=[path.name for path in FILES])
def test_a_session_of_unity_says_the_same_in_this_dialect(path: Path) -> None:
    unity, unreal = Decoder(), Decoder(dialect=UNREAL)
    for _, data in messages_of(path):
        proto = messages.UnityMessageProto.FromString(data)
        infos = [info for listed in proto.unity_output.rl_output.agentInfos.values() for info in listed.value]
        if any(each.compression_type for info in infos for each in info.observations):
            pytest.skip("its pictures are compressed, which this dialect has no field for")
        expected, found = unity.decode(data), unreal.decode(spoken(data, UNREAL))
        assert (found.status, found.side_channel) == (expected.status, expected.side_channel)
        assert (found.steps is None) == (expected.steps is None)
        for name, steps in (expected.steps or {}).items():
            assert_same((found.steps or {})[name], steps)


def test_a_reset_names_the_behaviors() -> None:
    """The plug-in reads no command from an answer without entries of actions."""
    reply = ReplyDecoder(UNREAL).decode(Encoder(UNREAL).reset(b"", ["A?team=0", "B?team=0"]))
    assert reply.kind == "reset"
    assert reply.actions.keys() == {"A?team=0", "B?team=0"}
    assert all(len(part) == 0 for parts in reply.actions.values() for part in parts)
    assert ReplyDecoder().decode(Encoder().reset(b"", ["A?team=0"])).actions == {}


def test_the_first_versions_of_the_plug_in_are_understood() -> None:
    hello = Decoder(dialect=UNREAL).decode(encode_hello("Arena", "1.0.0", dialect=UNREAL)).hello
    assert hello is not None
    assert hello.communication_version == "1.0.0"
    assert compatible(hello.communication_version, UNREAL.api_version)
    assert not compatible("2.0.0", UNREAL.api_version)


def test_pictures_of_our_scenes_are_sent_as_floats() -> None:
    sliding, none = DimensionProperty.TRANSLATIONAL_EQUIVARIANCE, DimensionProperty.NONE
    seen = ObservationSpec((3, 2, 4), (none, sliding, sliding), ObservationType.GOAL_SIGNAL, "camera")
    spec = BehaviorSpec([seen], ActionSpec(1, ()))
    pixels = np.arange(48, dtype=np.uint8).reshape(2, 3, 2, 4)
    zeros = np.zeros(2, np.float32)
    batch = AgentBatch(
        [pixels], zeros, zeros > 0, zeros > 0, np.arange(2, dtype=np.int32), zeros.astype(np.int32), zeros
    )
    data = StepEncoder({NAME: spec}, dialect=UNREAL).encode({NAME: batch})
    decoder = Decoder(dialect=UNREAL)
    steps = decoder.decode(data).steps
    assert steps is not None
    np.testing.assert_array_equal(steps[NAME][0].obs[0], pixels / np.float32(255))
    assert decoder.specs[NAME].observation_specs[0].observation_type is ObservationType.DEFAULT
