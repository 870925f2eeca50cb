"""The messages: names and field numbers as engines know them, and no conflict with an installed ML-Agents."""

import os
import subprocess
import sys

import pytest
from google.protobuf import descriptor_pool
from lanista.envs.protocol import generate, messages
from lanista.envs.protocol.handshake import API_VERSION, PACKAGE_VERSION, compatible


def test_descriptors_and_types_are_those_of_the_proto_files() -> None:
    pytest.importorskip("grpc_tools", reason="grpcio-tools compiles the .proto files")
    descriptors = generate.compile_protos()
    committed = type(descriptors).FromString(generate.DESCRIPTORS.read_bytes())
    assert committed == descriptors, "run `python -m lanista.envs.protocol.generate`"
    assert generate.TYPES.read_text(encoding="utf-8") == generate.type_stub(descriptors)


def test_file_and_message_names_are_the_protocols() -> None:
    descriptor = messages.UnityMessageProto.DESCRIPTOR
    assert descriptor.full_name == "communicator_objects.UnityMessageProto"
    assert descriptor.file.name == "mlagents_envs/communicator_objects/unity_message.proto"


NUMBERS = {
    "AgentInfoProto": (
        "reward=7 done=8 max_step_reached=9 id=10 action_mask=11 observations=13 group_id=14 group_reward=15"
    ),
    "ObservationProto": (
        "shape=1 compression_type=2 compressed_data=3 float_data=4 compressed_channel_mapping=5 "
        "dimension_properties=6 observation_type=7 name=8"
    ),
    "AgentActionProto": "vector_actions_deprecated=1 value=4 continuous_actions=6 discrete_actions=7",
    "UnityRLInputProto": "agent_actions=1 command=4 side_channel=5",
    "UnityRLOutputProto": "agentInfos=2 side_channel=3",
    "UnityRLInitializationInputProto": (
        "seed=1 communication_version=2 package_version=3 capabilities=4 num_areas=5"
    ),
    "UnityRLInitializationOutputProto": (
        "name=1 communication_version=2 log_path=3 brain_parameters=5 package_version=7 capabilities=8"
    ),
    "BrainParametersProto": (
        "vector_action_size_deprecated=3 vector_action_descriptions_deprecated=5 "
        "vector_action_space_type_deprecated=6 brain_name=7 is_training=8 action_spec=9"
    ),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_field_numbers_are_the_protocols(name: str) -> None:
    fields = getattr(messages, name).DESCRIPTOR.fields
    assert {f"{field.name}={field.number}" for field in fields} == set(NUMBERS[name].split())


def test_nothing_is_registered_where_ml_agents_registers_its_own() -> None:
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindMessageTypeByName("communicator_objects.UnityMessageProto")


def test_protobufs_python_implementation_does_as_well() -> None:
    """It is used where there is no compiled one for the platform."""
    script = """
from google.protobuf.internal import api_implementation
from lanista.envs.errors import WireError
from lanista.envs.protocol.decoder import Decoder
from lanista.envs.protocol.engine import encode_hello
assert api_implementation.Type() == "python", api_implementation.Type()
hello = encode_hello("x", "4.0.0")
assert Decoder().decode(hello).hello.name == "x"
try:
    Decoder().decode(hello.replace(b"4.0.0", b"4.\\xff.0"))
except WireError:
    pass
else:
    raise AssertionError("a text that is not UTF-8")
"""
    environment = {**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)


UNDERSTOOD = [
    *((engine, "1.5.0") for engine in ("1.5.0", "1.0.0", "1.9.3", "1.5", "1.6.0b2")),
    ("0.15.0", "0.15.2"),
]
NOT_UNDERSTOOD = [
    *((engine, "1.5.0") for engine in ("2.0.0", "0.15.0", "", "one", "1", "1.5.0-preview")),
    ("0.15.0", "0.16.0"),
]


@pytest.mark.parametrize(("engine", "ours"), UNDERSTOOD + NOT_UNDERSTOOD)
def test_versions_that_understand_each_other(engine: str, ours: str) -> None:
    assert compatible(engine, ours) is ((engine, ours) in UNDERSTOOD)


def test_our_versions_are_three_plain_numbers() -> None:
    for version in (API_VERSION, PACKAGE_VERSION):
        assert [part.isdigit() for part in version.split(".")] == [True] * 3
