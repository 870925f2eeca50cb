"""Checks a session that `tests/peer/record_unreal.py` wrote against our two sides of the protocol."""

import base64
from typing import Any

import numpy as np
from lanista.envs.protocol.decoder import Decoder
from lanista.envs.protocol.dialect import UNREAL
from lanista.envs.protocol.encoder import Encoder, encode_quit
from lanista.envs.protocol.engine_decoder import ReplyDecoder
from mlagents_envs.base_env import ActionTuple, BehaviorSpec


def bytes_of(entry: dict[str, Any]) -> bytes:
    return base64.b64decode(entry["bytes"])


def check_engine_messages(session: dict[str, Any]) -> None:
    """Our trainer reads from the engine's messages what UnrealMLAgents' own package reads from them."""
    decoder = Decoder(dialect=UNREAL)
    hello, expected = decoder.decode(bytes_of(session["hello"])).hello, session["hello"]["means"]
    assert hello is not None
    found = (hello.name, hello.communication_version, hello.package_version)
    assert found == (expected["name"], expected["version"], expected["package"])
    assert hello.capabilities.base_rl
    assert hello.capabilities.hybrid_actions
    ready = decoder.decode(bytes_of(session["ready"]))
    assert (ready.status, ready.hello, ready.steps) == (200, None, None)
    for entry in session["steps"]:
        message = decoder.decode(bytes_of(entry))
        assert (message.status, message.side_channel) == (200, b"channels")
        assert message.steps is not None
        assert message.steps.keys() == entry["means"].keys()
        for name, meaning in entry["means"].items():
            _check_spec(decoder.specs[name], meaning["spec"])
            for kind, steps in zip(("decision", "terminal"), message.steps[name]):
                _check_steps(steps, meaning[kind])


def _check_spec(spec: BehaviorSpec, expected: dict[str, Any]) -> None:
    assert [[each.name, list(each.shape)] for each in spec.observation_specs] == expected["observations"]
    actions = spec.action_spec
    assert [actions.continuous_size, list(actions.discrete_branches)] == expected["actions"]


def _check_steps(steps: Any, expected: dict[str, Any]) -> None:
    for name, values in expected.items():
        found = getattr(steps, name)
        if name in ("obs", "action_mask"):
            assert [each.tolist() for each in found or []] == (values or [])
        else:
            assert found.tolist() == values


def check_answers(session: dict[str, Any]) -> None:
    """Our engine's side reads the trainer's messages as they were meant."""
    decoder = ReplyDecoder(UNREAL)
    for entry in session["answers"]:
        reply, meaning = decoder.decode(bytes_of(entry)), entry["means"]
        assert reply.kind == meaning["kind"]
        if reply.kind == "initialization":
            assert (reply.seed, reply.num_areas) == (meaning["seed"], meaning["num_areas"])
            assert reply.communication_version == UNREAL.api_version
        for name, (continuous, discrete) in meaning.get("actions", {}).items():
            assert [part.tolist() for part in reply.actions[name]] == [
                continuous or [[]] * len(discrete),
                discrete or [[]] * len(continuous),
            ]


def our_answers(session: dict[str, Any]) -> list[bytes]:
    """The same answers by our trainer."""
    encoder = Encoder(UNREAL)
    acted = next(entry["means"]["actions"] for entry in session["answers"] if "actions" in entry["means"])
    actions = {
        name: ActionTuple(
            np.array(continuous, np.float32) if continuous else None,
            np.array(discrete, np.int32) if discrete else None,
        )
        for name, (continuous, discrete) in acted.items()
    }
    return [
        encoder.initialization(1234, 2),
        encoder.reset(b"parameters"),
        encoder.actions(actions, b""),
        encode_quit(),
    ]
