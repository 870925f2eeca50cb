"""UnityEnvironment over a scripted engine sends and gives what ML-Agents 1.1.0 does."""

import builtins
from uuid import UUID

import numpy as np
import pytest
from goldendata import array, bytes_of, cases
from lanista.envs.protocol import messages
from lanista.envs.protocol.encoder import Encoder
from lanista.envs.side_channels import SideChannelManager
from lanista.envs.unity import UnityEnvironment
from mlagents_envs import exception as exceptions
from mlagents_envs.base_env import ActionTuple, DimensionProperty, ObservationType
from scripted_engine import ScriptedEngine, free_port

ANALYTICS = "b664a4a9-d86f-5a5f-95cb-e8353a7e8356"


def exception_class(name: str) -> type[BaseException]:
    """An error of a call; Python's own where ML-Agents lets them out on purpose."""
    return getattr(exceptions, name, None) or getattr(builtins, name)


def decoding_error(name: str) -> type[BaseException]:
    """The error of a message that cannot be read.

    Where the reference lets errors of NumPy, Pillow or lists out, ours are ML-Agents' own, and say what is
    wrong. Its RuntimeError, for NaN, is meant.
    """
    return RuntimeError if name == "RuntimeError" else getattr(exceptions, name, exceptions.UnityException)


def side_messages(data: bytes) -> list[tuple[str, bytes]]:
    """(channel, content) of each message, without analytics, which Lanista does not send (pitfalls B18)."""
    found = [(str(UUID(bytes_le=key)), content) for key, content in SideChannelManager()._split(data)]
    return [(channel, content) for channel, content in found if channel != ANALYTICS]


def non_finite_numbers(output: bytes) -> tuple[bool, bool]:
    """Whether a UnityOutputProto has such numbers in images, and elsewhere."""
    in_images = elsewhere = False
    for agents in messages.UnityOutputProto.FromString(output).rl_output.agentInfos.values():
        for agent in agents.value:
            elsewhere |= not np.isfinite([agent.reward, agent.group_reward]).all()
            for seen in agent.observations:
                bad = not np.isfinite(np.array(seen.float_data.data)).all()
                in_images |= bad and len(seen.shape) == 3
                elsewhere |= bad and len(seen.shape) != 3
    return in_images, elsewhere


def check_sent(found, expected: bytes, deprecated: bool) -> None:
    """Compare what a UnityInputProto means; the order of behaviours in it is free."""
    wanted = messages.UnityInputProto.FromString(expected)
    assert found.HasField("rl_input") == wanted.HasField("rl_input")
    assert found.rl_initialization_input == wanted.rl_initialization_input
    assert found.rl_input.command == wanted.rl_input.command
    assert side_messages(found.rl_input.side_channel) == side_messages(wanted.rl_input.side_channel)

    def actions(sent):
        return {
            name: [
                (list(a.continuous_actions), list(a.discrete_actions))
                + ((list(a.vector_actions_deprecated),) if deprecated else ())
                for a in agents.value
            ]
            for name, agents in sent.rl_input.agent_actions.items()
            if agents.value
        }

    assert actions(found) == actions(wanted)


def check_specs(found, expected) -> None:
    assert set(found) == set(expected)
    for name, spec in expected.items():
        assert found[name].action_spec.continuous_size == spec["action_spec"]["continuous_size"]
        assert list(found[name].action_spec.discrete_branches) == spec["action_spec"]["discrete_branches"]
        assert len(found[name].observation_specs) == len(spec["observation_specs"])
        for seen, wanted in zip(found[name].observation_specs, spec["observation_specs"]):
            assert list(seen.shape) == wanted["shape"] and seen.name == wanted["name"]
            assert list(seen.dimension_property) == list(map(DimensionProperty, wanted["dimension_property"]))
            assert seen.observation_type is ObservationType[wanted["observation_type"]]


def check_batch(found, expected) -> None:
    assert len(found.obs) == len(expected["obs"])
    for seen, wanted in zip(found.obs, expected["obs"]):
        np.testing.assert_array_equal(seen, array(wanted))
        assert seen.dtype == np.float32 and seen.shape == tuple(wanted["shape"])
    for field in ("reward", "agent_id", "group_reward", "interrupted"):
        if field in expected:
            np.testing.assert_array_equal(getattr(found, field), array(expected[field]))
            assert getattr(found, field).dtype == expected[field]["dtype"]
    assert list(found.group_id) == expected["group_id"]
    masks = expected.get("action_mask")
    assert (getattr(found, "action_mask", None) is None) == (masks is None)
    for seen, wanted in zip(found.action_mask, masks) if masks else ():
        np.testing.assert_array_equal(seen, array(wanted))
    if "per_agent_order" in expected:
        assert list(found) == expected["per_agent_order"]


def perform(env: UnityEnvironment, op) -> None:
    if op["op"].startswith("set_action"):
        action = ActionTuple(array(op["continuous"]), array(op["discrete"]))
        agent = [op["agent_id"]] if "agent_id" in op else []
        getattr(env, op["op"])(op["behavior"], *agent, action)
    else:
        getattr(env, op["op"])()


@pytest.mark.parametrize("case", cases("wire", "session"))
def test_session(case):
    inputs, expected = case["inputs"], case["expected"]
    outputs = [output and bytes_of(output) for output in inputs["engine_outputs"]]
    bad = [non_finite_numbers(output) for output in outputs if output]
    port = free_port()
    engine = ScriptedEngine(port, outputs)

    def connect() -> UnityEnvironment:
        # Lanista stops at NaN in images too, where the reference lets it pass: let it pass as well here.
        policy = None if any(in_images for in_images, _ in bad) else "stop"
        seed, areas = inputs["seed"], inputs["num_areas"]
        return UnityEnvironment(
            base_port=port, seed=seed, num_areas=areas, timeout_wait=20, non_finite=policy
        )

    if "init_error" in expected:
        with pytest.raises(decoding_error(expected["init_error"]["error_class"])):
            connect()
        return
    env = connect()
    try:
        run_operations(env, engine, inputs["ops"], expected["per_op"], any(elsewhere for _, elsewhere in bad))
        check_sent(engine.replies[0].unity_input, bytes_of(expected["init_input"]), True)
        assert env._loaded is not expected["closed"]
    finally:
        env._close(timeout=0.0)


def run_operations(env, engine, ops, expected, has_bad_numbers) -> None:
    sent = 0
    for op, wanted in zip(ops, expected, strict=True):
        if "error" in wanted:
            kind_of = exception_class if op["op"].startswith("set_action") else decoding_error
            kind = kind_of(wanted["error"]["error_class"])
            if kind is RuntimeError and not has_bad_numbers:
                return  # pitfalls F10: large finite numbers are no error
            with pytest.raises(kind):
                perform(env, op)
        else:
            perform(env, op)
        if wanted.get("sent_input"):
            sent += 1
            deprecated = not env.academy_capabilities.hybrid_actions
            check_sent(engine.replies[sent].unity_input, bytes_of(wanted["sent_input"]), deprecated)
        if "behavior_specs" in wanted:
            check_specs(env.behavior_specs, wanted["behavior_specs"])
        for name, steps in wanted.get("steps", {}).items():
            decisions, terminals = env.get_steps(name)
            check_batch(decisions, steps["decision"])
            check_batch(terminals, steps["terminal"])


@pytest.mark.parametrize("case", cases("wire", "init_input"))
def test_initialization(case):
    sent = messages.UnityMessageProto.FromString(
        Encoder().initialization(case["inputs"]["seed"], case["inputs"]["num_areas"])
    )
    assert sent.header.status == 200
    check_sent(sent.unity_input, bytes_of(case["expected"]["bytes"]), True)
