"""Channels and their framing, beyond the reference data."""

import json
import logging
import os
import struct
import subprocess
import sys
import uuid

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanista.envs.side_channels import (
    EngineConfig,
    EngineConfigurationChannel,
    EnvironmentParametersChannel,
    FloatPropertiesChannel,
    IncomingMessage,
    OutgoingMessage,
    RawBytesChannel,
    SideChannel,
    SideChannelManager,
    StatsSideChannel,
    TrainingAnalyticsSideChannel,
)
from mlagents_envs.exception import UnityException, UnitySideChannelException

RAW = uuid.UUID("0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0")


def deliver(data, channel, where=""):
    """A message from the engine, which the channel receives."""
    sender = RawBytesChannel(channel.channel_id)
    sender.send_raw_data(data)
    SideChannelManager([channel], where).process(SideChannelManager([sender]).generate())


def reading(read):
    """A user's own channel that does this with a message."""

    class Mine(SideChannel):
        def on_message_received(self, msg):
            read(msg)

    return Mine(RAW)


def test_the_documented_bytes_of_a_parameter():
    channel = EnvironmentParametersChannel()
    channel.set_float_parameter("scale", 1.5)
    assert SideChannelManager([channel]).generate().hex() == (
        "1e894c530f81ea11a9d0822485860400" + "11000000" + "05000000" + "7363616c65" + "00000000" + "0000c03f"
    )


@given(st.lists(st.binary(max_size=20), max_size=6))
def test_framing_delivers_every_message_in_order(messages):
    sender, receiver = RawBytesChannel(RAW), RawBytesChannel(RAW)
    for message in messages:
        sender.send_raw_data(message)
    SideChannelManager([receiver]).process(SideChannelManager([sender]).generate())
    assert receiver.get_and_clear_received_messages() == messages
    assert receiver.get_and_clear_received_messages() == []


@given(st.binary(max_size=60), st.sampled_from([0, 16, 20]))
def test_random_bytes_are_processed_or_refused(data, keep):
    real = FloatPropertiesChannel()
    real.set_property("speed", 1.0)
    start = SideChannelManager([real]).generate()[:keep]
    manager = SideChannelManager([FloatPropertiesChannel(), StatsSideChannel(), EngineConfigurationChannel()])
    try:
        manager.process(start + data)
    except UnityException as error:
        assert str(error)


def test_an_unknown_channel_is_reported_once(caplog):
    sender = RawBytesChannel(RAW)
    sender.send_raw_data(b"1")
    data = SideChannelManager([sender]).generate()
    manager = SideChannelManager()
    with caplog.at_level(logging.WARNING):
        manager.process(data * 3)
        manager.process(data)
    assert [record.getMessage() for record in caplog.records] == [
        f"Unknown side channel data received. Channel type: {RAW}."
    ]


def test_statistics_that_nobody_reads_are_named(caplog):
    """A number that no page mentions told nobody that a script lacks a channel."""
    sender = RawBytesChannel(StatsSideChannel().channel_id)
    sender.send_raw_data(b"x")
    SideChannelManager().process(SideChannelManager([sender]).generate())
    assert f"Channel type: {sender.channel_id}. It is the game's StatsRecorder" in caplog.text
    assert "StatsSideChannel" in caplog.text


def test_messages_are_made_and_processed_by_ml_agents_names_too():
    here, there = FloatPropertiesChannel(), FloatPropertiesChannel()
    here.set_property("mass", 2.0)
    data = SideChannelManager([here]).generate_side_channel_messages()
    SideChannelManager(side_channels=[there]).process_side_channel_message(data)
    assert there.get_property("mass") == 2.0


def test_an_unreadable_message_names_its_channel():
    with pytest.raises(UnitySideChannelException, match=r"StatsSideChannel.*a text of 9 bytes"):
        deliver(b"\x09\x00\x00\x00abc", StatsSideChannel())


def test_an_engine_that_sends_ever_new_channels_fills_neither_memory_nor_log(caplog):
    manager = SideChannelManager()
    for number in range(1000):
        manager.process(number.to_bytes(16, "little") + bytes(4))
    assert len(caplog.records) == 100


def test_an_unknown_aggregation_names_the_statistic():
    message = OutgoingMessage()
    message.write_string("Goals")
    message.write_float32(1.0)
    message.write_int32(9)
    with pytest.raises(UnitySideChannelException, match="'Goals' came with the aggregation 9"):
        StatsSideChannel().on_message_received(IncomingMessage(message.buffer))


def test_a_users_own_channel_needs_only_the_public_members():
    class Echo(SideChannel):
        def on_message_received(self, msg):
            answer = OutgoingMessage()
            answer.write_string(msg.read_string().upper())
            self.queue_message_to_send(answer)

    trainer, engine = Echo(RAW), RawBytesChannel(RAW)
    manager = SideChannelManager([trainer])
    hello = OutgoingMessage()
    hello.write_string("hello")
    engine.send_raw_data(hello.buffer)
    manager.process(SideChannelManager([engine]).generate())
    SideChannelManager([engine]).process(manager.generate())
    (answer,) = engine.get_and_clear_received_messages()
    assert IncomingMessage(answer).read_string() == "HELLO"


@pytest.mark.parametrize(
    "read",
    [
        lambda msg: msg.get_raw_bytes().decode(),
        lambda msg: json.loads(msg.get_raw_bytes()[1:]),
        lambda msg: struct.unpack("<q", msg.get_raw_bytes()),
        lambda msg: {}[msg.read_int32()],
        lambda msg: [][msg.read_int32()],
        lambda msg: 1 / msg.read_int32(99) - 1 / 0,
        lambda msg: [msg.read_float32() for _ in range(2)] and msg.read_string() + msg.read_string(),
    ],
)
def test_bytes_that_a_users_channel_does_not_expect_name_it_and_the_environment(read):
    with pytest.raises(UnitySideChannelException, match=rf"environment 3: Side channel {RAW} \(Mine\): "):
        deliver(b"\xff\xfe{]\x01\x02", reading(read), where="environment 3")


def test_a_bug_in_a_users_own_code_is_not_mistaken_for_bad_bytes():
    with pytest.raises(AttributeError):
        deliver(b"x", reading(lambda msg: msg.misspelt))


class PickyError(UnitySideChannelException):
    def __init__(self, code, reason):
        super().__init__(f"{reason} ({code})")


def test_a_users_own_exception_keeps_its_cause():
    def refuse(msg):
        raise PickyError(7, "too salty")

    with pytest.raises(UnitySideChannelException, match=r"\(Mine\): too salty \(7\)") as caught:
        deliver(b"x", reading(refuse))
    assert isinstance(caught.value.__cause__, PickyError)


THEIRS = """
import uuid
from mlagents_envs.side_channel.side_channel import SideChannel
from mlagents_envs.side_channel.outgoing_message import OutgoingMessage
from lanista.envs.side_channels import RawBytesChannel, SideChannelManager

class Echo(SideChannel):
    def on_message_received(self, msg):
        values = msg.read_string(), msg.read_int32(), msg.read_float32_list(), msg.read_bool()
        answer = OutgoingMessage()
        answer.write_string(values[0] + "!")
        answer.write_int32(values[1] + 1)
        answer.write_float32_list(values[2][::-1])
        answer.write_bool(not values[3])
        super().queue_message_to_send(answer)

key = uuid.UUID("0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0")
theirs, ours = Echo(key), RawBytesChannel(key)
message = OutgoingMessage()
message.write_string("hello")
message.write_int32(41)
message.write_float32_list([1.0, 2.0])
message.write_bool(True)
ours.queue_message_to_send(message)
manager = SideChannelManager([theirs])
manager.process(SideChannelManager([ours]).generate())
SideChannelManager([ours]).process(manager.generate())
(answer,) = ours.get_and_clear_received_messages()
expected = OutgoingMessage()
expected.write_string("hello!")
expected.write_int32(42)
expected.write_float32_list([2.0, 1.0])
expected.write_bool(False)
assert bytes(answer) == bytes(expected.buffer)
"""


def test_channels_and_messages_of_ml_agents_work_with_ours():
    """In a separate process: ML-Agents' generated code needs protobuf in Python, and is slow."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", THEIRS],
        env={**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_analytics_contain_no_names_and_no_paths():
    channel = TrainingAnalyticsSideChannel()
    behavior = {"trainer_type": "ppo", "init_path": "/home/me/secret.pt", "reward_signals": {"gail": {}}}
    lessons = [{"name": "secret", "completion_criteria": {"behavior": "secret"}}]
    options = {
        "behaviors": {"secret": behavior},
        "env_settings": {"env_path": "secret.exe", "env_args": ["--token", "secret"], "num_envs": 4},
        "environment_parameters": {"secret": {"curriculum": lessons}},
        "checkpoint_settings": {"run_id": "secret", "results_dir": "/home/me/secret"},
        "torch_settings": None,
    }
    channel.environment_initialized(options)
    channel.training_started("secret", behavior)
    assert len(channel.message_queue) == 2
    assert not any(b"secret" in message for message in channel.message_queue)


def test_engine_settings_that_are_none_are_not_sent():
    channel = EngineConfigurationChannel()
    channel.set_configuration(EngineConfig(None, None, None, 1.0, None, None))
    assert len(channel.message_queue) == 1


def test_the_default_engine_settings_are_those_of_training():
    assert EngineConfig.default_config() == (80, 80, 1, 20.0, -1, 60)


@pytest.mark.parametrize("interval", [[1.0], [1.0, 2.0, 3.0]])
def test_an_interval_is_two_numbers(interval):
    channel = EnvironmentParametersChannel()
    with pytest.raises(UnitySideChannelException, match="'mass'"):
        channel.set_multirangeuniform_sampler_parameters("mass", [[0.0, 1.0], interval], seed=1)
    assert not channel.message_queue


def test_parameters_are_numbers_or_samplers():
    class Uniform:
        def apply(self, key, env_channel):
            env_channel.set_uniform_sampler_parameters(key, 0.0, 2.0, seed=7)

    together, single = EnvironmentParametersChannel(), EnvironmentParametersChannel()
    together.set_parameters({"mass": np.float32(1.5), "scale": Uniform(), "areas": 3})
    single.set_float_parameter("mass", 1.5)
    single.set_uniform_sampler_parameters("scale", 0.0, 2.0, 7)
    single.set_float_parameter("areas", 3)
    assert together.message_queue == single.message_queue
    with pytest.raises(UnitySideChannelException, match="'mass' is 'heavy'"):
        together.set_parameters({"mass": "heavy"})


def test_properties_can_be_read_where_they_were_set():
    channel = FloatPropertiesChannel()
    channel.set_property("a", 2.0)
    assert channel.get_property("a") == 2.0 and channel.get_property("b") is None
    assert channel.list_properties() == ["a"]
