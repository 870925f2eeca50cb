"""Side channels write and read the bytes that ML-Agents 1.1.0 writes and reads."""

import json
import struct
import uuid
from importlib.util import find_spec

import pytest
from goldendata import bytes_of, cases, kinds, number
from google.protobuf.any_pb2 import Any
from lanista.envs import side_channels
from lanista.envs.protocol import messages
from lanista.envs.side_channels import (
    FloatPropertiesChannel,
    RawBytesChannel,
    SideChannelManager,
    StatsSideChannel,
)
from lanista.trainers.settings import RunOptions, TrainerSettings
from mlagents_envs import exception as exceptions


def error_of(name: str) -> type[Exception]:
    """The class of an error; ours say what is wrong where the reference lets Python's own errors out.

    Values that are no numbers are the caller's mistake: struct's own error, in both.
    """
    own = {"error": struct.error, "TypeError": TypeError}
    return getattr(exceptions, name, None) or own.get(name, exceptions.UnitySideChannelException)


def make(name: str, channel_id: str | None = None):
    kind = getattr(side_channels, name)
    return kind(uuid.UUID(channel_id)) if kind is RawBytesChannel else kind()


def plain(value):
    """Arguments as a caller would write them."""
    return bytes_of(value) if isinstance(value, dict) and set(value) == {"b64"} else value


def call(channel, method: str, arguments) -> None:
    if isinstance(arguments, dict):
        getattr(channel, method)(**arguments)
    elif method == "set_configuration":
        channel.set_configuration(side_channels.EngineConfig(*arguments[0]))
    else:
        getattr(channel, method)(*map(plain, arguments))


def non_ascii_texts(value) -> list[str]:
    """The texts among nested arguments that are not ASCII."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [text for part in value for text in non_ascii_texts(part)]
    return [value] if isinstance(value, str) and not value.isascii() else []


def test_every_kind_about_side_channels_is_run():
    known = {"side_out", "side_in", "analytics"}
    others = {"session", "decode_images", "init_input", "grpc", "behavior_name"}
    assert kinds("wire") <= known | others


@pytest.mark.parametrize("case", cases("wire", "side_out"))
def test_writes(case):
    inputs, expected = case["inputs"], case["expected"]
    names = inputs.get("channels_in_registration_order") or [inputs["channel"]]
    channels = {name: make(name, inputs.get("channel_id")) for name in names}
    manager = SideChannelManager(channels.values())

    def make_calls() -> None:
        for target, arguments in inputs["calls"]:
            name, _, method = target.rpartition(".")
            call(channels[name or names[0]], method, arguments)

    if texts := non_ascii_texts(inputs["calls"]):  # pitfalls F12: UTF-8, where the reference refuses
        make_calls()
        sent = manager.generate()
        assert all(text.encode() in sent for text in texts)
        return
    if expected.get("error"):
        with pytest.raises(error_of(expected["error"]["error_class"])):
            make_calls()
    else:
        make_calls()
    assert manager.generate() == bytes_of(expected["bytes"])
    assert manager.generate() == bytes_of(expected.get("second_call_bytes", {"b64": ""}))


def received(channels):
    """What the channels that read messages have got; numbers as texts, of which NaN equals NaN."""
    found = {}
    for channel in channels:
        if isinstance(channel, StatsSideChannel):
            stats = channel.get_and_reset_stats()
            found["stats"] = {k: [[repr(value), how.name] for value, how in v] for k, v in stats.items()}
        elif isinstance(channel, FloatPropertiesChannel):
            found["float_properties"] = {k: repr(v) for k, v in channel.get_property_dict_copy().items()}
        elif isinstance(channel, RawBytesChannel):
            found["raw"] = [bytes(message) for message in channel.get_and_clear_received_messages()]
    return found


def as_received(expected):
    """The reference data's messages as `received` has them."""
    convert = {
        "stats": lambda stats: {k: [[repr(number(x)), how] for x, how in v] for k, v in stats.items()},
        "float_properties": lambda properties: {k: repr(number(x)) for k, x in properties.items()},
        "raw": lambda raw: [bytes_of(message) for message in raw],
    }
    return {key: convert[key](value) for key, value in expected.items()}


def first_texts(data):
    """The text with which a message on each known channel begins, and whether it has the announced length."""
    texts = []
    for key, content in SideChannelManager()._split(data):
        if uuid.UUID(bytes_le=key) in (StatsSideChannel().channel_id, FloatPropertiesChannel().channel_id):
            length = int.from_bytes(content[:4], "little", signed=True)
            texts.append((content[4 : 4 + max(0, length)], 0 <= length <= max(0, len(content) - 4)))
    return texts


@pytest.mark.parametrize("case", cases("wire", "side_in"))
def test_reads(case):
    given, expected = case["inputs"]["channels"], case["expected"]
    channels = [make(*entry) if isinstance(entry, list) else make(entry) for entry in given]

    data = bytes_of(case["inputs"]["bytes"])

    def read() -> None:
        SideChannelManager(channels).process(data)

    if expected.get("error_class") == "UnicodeDecodeError":
        read()  # pitfalls F12: UTF-8, where the reference refuses
        (text,) = [text.decode() for text, _ in first_texts(data) if not text.isascii()]
        assert text in str(received(channels))
        return
    if "received" in expected and not all(whole for _, whole in first_texts(data)):
        with pytest.raises(exceptions.UnitySideChannelException, match="should hold a text"):
            read()  # where the reference takes what there is of a text
        return
    if "error_class" in expected:
        with pytest.raises(error_of(expected["error_class"])):
            read()
        return
    read()
    found = received(channels)
    if isinstance(expected["received"], str):  # described in words: the known channel got its message
        assert any(found.values())
    else:
        assert {key: found[key] for key in expected["received"]} == as_received(expected["received"])


def packed(channel):
    """The messages that wait in a channel, as what they say they are."""
    return [Any.FromString(bytes(message)) for message in channel.message_queue]


def fields(message: Any) -> dict:
    """What a packed message holds; fields at their defaults are left out, as in the reference data."""
    content = getattr(messages, message.type_url.rpartition(".")[2]).FromString(message.value)
    return {field.name: value for field, value in content.ListFields()}


@pytest.mark.parametrize("case", cases("wire", "analytics"))
def test_analytics_mean_the_same_as_the_references(case):
    """Versions are those of the installation, and configurations hold what each trainer's do."""
    given, expected = case["inputs"], case["expected"]["messages"]
    assert str(side_channels.TrainingAnalyticsSideChannel.CHANNEL_ID) == given["channel_id"]
    if "training_started" in given["calls"]:
        channel = side_channels.TrainingAnalyticsSideChannel()
        settings = TrainerSettings(trainer_type=given["trainer"])
        options = RunOptions(behaviors={given["behavior"]: settings})
        arguments = {
            "environment_initialized": (options.as_dict(), "cpu"),
            "training_started": (given["behavior"], settings.as_dict()),
        }
        for name in given["calls"]:
            getattr(channel, name)(*arguments[name])
    else:
        channel = side_channels.DefaultTrainingAnalyticsSideChannel()
        channel.environment_initialized()
    found = packed(channel)
    assert [message.type_url for message in found] == [message["type_url"] for message in expected]
    installed = {"python_version", "torch_version"}
    for message, reference in zip(map(fields, found), expected):
        wanted = reference["fields"]
        assert set(message) == set(wanted)
        for key, value in wanted.items():
            if key in ("config", "run_options"):
                compare_configurations(json.loads(message[key]), json.loads(value))
            elif key in installed:
                absent = key == "torch_version" and find_spec("torch") is None
                assert message[key][0].isdigit() or message[key] == ("Unknown" if absent else value)
            else:
                assert message[key] == value


def compare_configurations(found, expected, key=""):
    """Equal, but for names and paths, which the reference hashes in part and differently in each process."""
    if isinstance(expected, dict):
        assert set(found) == set(expected)
        for name, value in expected.items():
            compare_configurations(found[name], value, name)
    elif key not in ("run_id", "results_dir"):
        assert found == expected


@pytest.mark.parametrize("case", cases("wire", "analytics"))
def test_the_references_analytics_have_our_bytes(case):
    for message in case["expected"]["messages"]:
        content = getattr(messages, message["type_url"].rpartition(".")[2])(**message["fields"])
        outer = Any()
        outer.Pack(content)
        assert outer.SerializeToString() == bytes_of(message["payload_bytes"])
