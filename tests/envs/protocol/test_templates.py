"""Messages that differ from an earlier one in numbers alone are recognized, and read as protobuf does."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanista.envs.errors import WireError
from lanista.envs.protocol import decoder as module
from lanista.envs.protocol import messages
from lanista.envs.protocol.decoder import Decoder
from lanista.envs.protocol.engine import AgentBatch
from specs import vector_spec
from wirereference import PlainDecoder, assert_same, engine_message

SPECS = {
    "A?team=0": vector_spec([3], continuous=1, branches=(2, 3)),
    "B?team=0": vector_spec([2], continuous=2),
}


def batch(ids, size, *, branches=0, done=(), unrewarded=(), seed=0):
    """Agents with random numbers; zeros are not sent, so that some have layouts of their own."""
    rng = np.random.default_rng(seed)
    n = len(ids)
    reward = rng.uniform(0.1, 1, n).astype(np.float32)
    reward[list(unrewarded)] = 0
    ended = np.zeros(n, np.bool_)
    ended[list(done)] = True
    return AgentBatch(
        obs=[rng.normal(size=(n, size)).astype(np.float32)],
        reward=reward,
        done=ended,
        interrupted=np.zeros(n, np.bool_),
        agent_id=np.array(ids, np.int32),
        group_id=np.zeros(n, np.int32),
        group_reward=np.zeros(n, np.float32),
    )


def sent(seed, a=(), b=(), **how):
    steps = {"A?team=0": batch(a, 3, seed=seed, **how), "B?team=0": batch(b, 2, seed=seed + 1)}
    return engine_message(steps, SPECS, new=False)


def greeted():
    """A decoder and its reference, which know both behaviors."""
    both = Decoder(), PlainDecoder()
    steps = {"A?team=0": batch([1], 3), "B?team=0": batch([2], 2)}
    for decoder in both:
        decoder.decode(engine_message(steps, SPECS, new=True))
    return both


KINDS = (
    {"a": (1, 2, 3)},
    {"b": (4, 5)},
    {"a": (126, 127, 128, 129), "b": (300,)},
    {"a": (0, 1, 128, 2), "unrewarded": (1, 2)},
    {"a": (5, 6, 7), "done": (1,)},
    {"a": (7, 6, 5), "unrewarded": (0, 1, 2)},
    {},
)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 1000)), min_size=1, max_size=25))
def test_messages_in_any_order_are_read_as_protobuf_reads_them(order) -> None:
    fast, plain = greeted()
    for kind, seed in order:
        data = sent(seed, **kind)
        found, expected = fast.decode(data).steps, plain.decode(data)
        for name in SPECS:
            assert_same(found[name], expected[name])


def test_from_the_third_message_of_its_length_on_none_is_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    fast, _ = greeted()
    kinds = [kind for kind in KINDS if kind]
    for seed in (0, 1):
        for kind in kinds:
            fast.decode(sent(seed, **kind))
    monkeypatch.setattr(module, "_index", None)
    for seed in (2, 3):
        for kind in kinds:
            steps = fast.decode(sent(seed, **kind)).steps
            assert steps is not None and any(len(one[0]) for one in steps.values())


def test_no_more_lengths_are_kept_than_a_few() -> None:
    fast, plain = greeted()
    for agents in range(1, 80):
        for seed in (0, 1, 2):
            data = sent(seed, a=tuple(range(1, agents + 1)))
            assert_same(fast.decode(data).steps["A?team=0"], plain.decode(data)["A?team=0"])
    assert len(fast._templates) <= module._MOST_TEMPLATES


def test_what_was_recognized_is_forgotten_when_a_behavior_is_described_anew() -> None:
    fast, _ = greeted()
    for seed in (0, 1, 2):
        fast.decode(sent(seed, a=(1, 2)))
    wider = dict(SPECS, **{"A?team=0": vector_spec([5], continuous=1, branches=(2, 3))})
    described, other = (
        messages.UnityMessageProto.FromString(engine_message({"A?team=0": batch([9], size)}, specs, new=new))
        for size, specs, new in ((5, wider, True), (3, SPECS, False))
    )
    agents = "A?team=0"
    described.unity_output.rl_output.agentInfos[agents].value.extend(
        other.unity_output.rl_output.agentInfos[agents].value
    )
    with pytest.raises(WireError, match="does not fit"):  # its second agent is not as its first one says
        fast.decode(described.SerializeToString())
    with pytest.raises(WireError, match="does not fit"):
        fast.decode(sent(3, a=(1, 2)))
