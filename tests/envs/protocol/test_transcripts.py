"""Whole sessions of a real Unity player, byte for byte, through the codec in both directions."""

import base64
import struct
import uuid
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lanista.envs.protocol import messages
from lanista.envs.protocol.decoder import Decoder, EngineMessage
from lanista.envs.protocol.encoder import Encoder, encode_quit
from lanista.envs.protocol.engine_decoder import ReplyDecoder
from lanista.envs.side_channels.engine_configuration import EngineConfigurationChannel
from lanista.envs.side_channels.environment_parameters import EnvironmentParametersChannel
from lanista.envs.side_channels.manager import SideChannelManager
from mlagents_envs.base_env import ActionTuple, BehaviorSpec
from transcripts import FILES, lines
from transcripts import messages_of as rpcs

ANALYTICS = "b664a4a9-d86f-5a5f-95cb-e8353a7e8356"

pytestmark = pytest.mark.parametrize("path", FILES, ids=[path.name for path in FILES])


def of_call(path: Path, kind: str, key: str) -> dict[int, list[dict[str, Any]]]:
    result: dict[int, list[dict[str, Any]]] = {}
    for line in lines(path):
        if line["kind"] == kind and key in line:
            result.setdefault(line[key], []).append(line)
    return result


@cache
def decoded(path: Path) -> dict[int, EngineMessage]:
    decoder = Decoder(path.name)
    return {i: decoder.decode(data) for i, data in rpcs(path, "engine->trainer")}


def array(recorded: dict[str, Any]) -> np.ndarray:
    if "b64" in recorded:
        values = np.frombuffer(base64.b64decode(recorded["b64"]), "<f4")
    else:
        values = np.array(recorded["data"], np.float64 if recorded["dtype"] == "float32" else None)
    return values.astype(recorded["dtype"]).reshape(recorded["shape"])


def assert_equal(found: np.ndarray, recorded: dict[str, Any]) -> None:
    expected = array(recorded)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert np.ascontiguousarray(found).tobytes() == expected.tobytes()


def side_channel_messages(data: bytes) -> list[tuple[str, bytes]]:
    """(channel, payload), channel by channel: the order of two channels depends on who registered first."""
    result = []
    while data:
        length = struct.unpack_from("<i", data, 16)[0]
        result.append((str(uuid.UUID(bytes_le=data[:16])), data[20 : 20 + length]))
        data = data[20 + length :]
    return sorted(result, key=lambda entry: entry[0])


def test_the_engines_greeting_is_read_as_recorded(path: Path) -> None:
    first = decoded(path)[0]
    handshake = next(line for line in lines(path) if line.get("op") == "handshake_done")
    meta = lines(path)[0]
    assert first.hello is not None
    assert first.hello.communication_version == meta["communicator"]
    assert first.hello.package_version == meta["sdk"].split()[-1]
    capabilities = first.hello.capabilities.proto()
    recorded = handshake["capabilities"]
    assert {name: getattr(capabilities, name) for name in recorded} == recorded
    assert first.steps is None
    assert all(message.hello is None for i, message in decoded(path).items() if i > 0)
    assert {message.status for message in decoded(path).values()} == {200}


def test_every_specification_is_read_as_recorded(path: Path) -> None:
    recorded = of_call(path, "behavior_spec", "i")
    for i, message in decoded(path).items():
        assert [line["behavior"] for line in recorded.get(i, [])] == sorted(message.specs)
        for line in recorded.get(i, []):
            spec: BehaviorSpec = message.specs[line["behavior"]]
            found = [
                {
                    "shape": list(o.shape),
                    "dimension_property": [int(value) for value in o.dimension_property],
                    "observation_type": o.observation_type.value,
                    "name": o.name,
                }
                for o in spec.observation_specs
            ]
            expected = line["spec"]
            assert found == [{key: o[key] for key in found[0]} for o in expected["observation_specs"]]
            action, sizes = spec.action_spec, expected["action_spec"]
            assert action.continuous_size == sizes["continuous_size"]
            assert list(action.discrete_branches) == sizes["discrete_branches"]


def test_every_step_is_decoded_to_the_bit(path: Path) -> None:
    recorded = of_call(path, "steps", "i")
    assert recorded
    for i, entries in recorded.items():
        steps = decoded(path)[i].steps
        assert steps is not None
        assert sorted(line["behavior"] for line in entries) == sorted(steps)
        for line in entries:
            for found, expected in zip(steps[line["behavior"]], (line["decision"], line["terminal"])):
                for name in ("reward", "agent_id", "group_id", "group_reward"):
                    assert_equal(getattr(found, name), expected[name])
                assert len(found.obs) == len(expected["obs"])
                for values, other in zip(found.obs, expected["obs"]):
                    assert_equal(values, other)
            decisions, terminals = steps[line["behavior"]]
            assert_equal(terminals.interrupted, line["terminal"]["interrupted"])
            masks = line["decision"]["action_mask"]
            assert (decisions.action_mask is None) == (masks is None)
            for mask, other in zip(decisions.action_mask or [], masks or []):
                assert_equal(mask, other)


def test_every_side_channel_message_comes_through(path: Path) -> None:
    recorded = of_call(path, "side_channel_in", "i")
    for i, message in decoded(path).items():
        expected = [
            (entry["channel"], base64.b64decode(entry["b64"]))
            for line in recorded.get(i, [])
            for entry in line["messages"]
        ]
        assert side_channel_messages(message.side_channel) == sorted(expected, key=lambda entry: entry[0])


ALIASES = {"min": "min_value", "max": "max_value", "std_dev": "st_dev", "stddev": "st_dev"}


class Asked:
    """Our side channels, with the messages that the recording's trainer was asked to send."""

    def __init__(self, calls: list[dict[str, Any]]) -> None:
        self.configuration = EngineConfigurationChannel()
        self.parameters = EnvironmentParametersChannel()
        self.manager = SideChannelManager([self.configuration, self.parameters])
        for call in calls:
            details = {
                ALIASES.get(key, key): value
                for key, value in call.items()
                if key not in ("kind", "op", "reply_to")
            }
            if call["op"] == "engine_configuration":
                self.configuration.set_configuration_parameters(**details)
            elif call["op"] == "environment_parameter_float":
                self.parameters.set_float_parameter(**details)
            elif call["op"].startswith("environment_parameter_"):
                sampler = call["op"].removeprefix("environment_parameter_")
                getattr(self.parameters, f"set_{sampler}_sampler_parameters")(**details)


def reply_of(path: Path, i: int, calls: list[dict[str, Any]], acted: dict[str, ActionTuple]) -> bytes:
    """What our encoders write when they are asked for the same as the recording's trainer."""
    operations = {call["op"] for call in calls}
    side_channel = Asked(calls).manager.generate()
    if "close" in operations:
        return encode_quit()
    if "reset" in operations:
        return Encoder().reset(side_channel)
    steps = decoded(path)[i].steps or {}
    actions = {name: acted[name] for name, (decisions, _) in steps.items() if len(decisions)}
    return Encoder().actions(actions, side_channel)


def meaning(data: bytes) -> dict[str, Any]:
    message = messages.UnityMessageProto.FromString(data)
    rl_input = message.unity_input.rl_input
    side = [entry for entry in side_channel_messages(rl_input.side_channel) if entry[0] != ANALYTICS]
    actions = {
        name: [(list(action.continuous_actions), list(action.discrete_actions)) for action in listed.value]
        for name, listed in rl_input.agent_actions.items()
        if listed.value
    }
    return {"status": message.header.status, "command": rl_input.command, "side": side, "actions": actions}


def tuple_of(line: dict[str, Any]) -> ActionTuple:
    found = {name: None if line[name] is None else array(line[name]) for name in ("continuous", "discrete")}
    return ActionTuple(**found)


def test_every_answer_means_the_same_as_the_recorded_one(path: Path) -> None:
    calls, acted = of_call(path, "call", "reply_to"), of_call(path, "actions", "reply_to")
    seed = next(line["seed"] for line in lines(path) if line["kind"] == "meta")
    checked = 0
    for i, data in rpcs(path, "trainer->engine"):
        if i == 0:
            ours = messages.UnityMessageProto.FromString(Encoder().initialization(seed, 1))
            assert ours == messages.UnityMessageProto.FromString(data)
            continue
        actions = {line["behavior"]: tuple_of(line) for line in acted.get(i, [])}
        assert meaning(reply_of(path, i, calls.get(i, []), actions)) == meaning(data)
        checked += 1
    assert checked == len(list(rpcs(path, "trainer->engine"))) - 1


def test_our_engine_understands_every_recorded_answer(path: Path) -> None:
    for i, data in rpcs(path, "trainer->engine"):
        reply = ReplyDecoder().decode(data)
        expected = meaning(data)
        kind = {(200, 0): "step", (200, 1): "reset"}.get((expected["status"], expected["command"]), "quit")
        assert reply.kind == ("initialization" if i == 0 else kind)
        side = [entry for entry in side_channel_messages(reply.side_channel) if entry[0] != ANALYTICS]
        assert side == expected["side"]
        assert reply.actions.keys() == expected["actions"].keys()
        for name, rows in expected["actions"].items():
            continuous, discrete = reply.actions[name]
            assert [(list(c), list(d)) for c, d in zip(continuous.tolist(), discrete.tolist())] == rows


def test_every_message_but_the_greeting_is_known_to_be_of_a_session_under_way(path):
    """By itself: the behaviors of later messages are described in an earlier one."""
    under_way = {i: Decoder(path.name).is_mid_session(data) for i, data in rpcs(path, "engine->trainer")}
    assert under_way == {i: i > 0 for i in under_way}
