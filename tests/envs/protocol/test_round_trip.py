"""All that an engine sends arrives unchanged: the fast codec against protobuf's objects, on random data."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from lanista.envs.protocol.decoder import Decoder
from lanista.envs.protocol.encoder import Encoder
from lanista.envs.protocol.engine import AgentBatch, StepEncoder
from lanista.envs.protocol.engine_decoder import ReplyDecoder
from lanista.envs.scenes.parts.sensors import vector_spec
from mlagents_envs.base_env import (
    ActionSpec,
    ActionTuple,
    BehaviorSpec,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
)
from wiremessages import DIALECTS, decisions
from wirereference import PlainDecoder, assert_same, engine_message, trainer_message

PROFILE = settings(max_examples=60, deadline=None)
NAMES = st.sampled_from(["Ball?team=0", "Ball?team=1", "Läufer?team=0", ""])
FLOATS = st.floats(width=32)
INTS = st.one_of(st.integers(0, 200), st.integers(-(2**31), 2**31 - 1))


@st.composite
def observation_specs(draw: Any) -> ObservationSpec:
    rank = draw(st.integers(0, 3))
    shape = draw(st.tuples(*[st.integers(0 if rank < 3 else 1, 9)] * rank))
    if rank == 3:
        properties = (DimensionProperty.NONE, *[DimensionProperty.TRANSLATIONAL_EQUIVARIANCE] * 2)
    else:
        properties = tuple(DimensionProperty(draw(st.sampled_from([0, 1, 2, 4]))) for _ in shape)
    kind, name = draw(st.sampled_from(ObservationType)), draw(st.text(max_size=20))
    return ObservationSpec(shape, properties, kind, name)


@st.composite
def behavior_specs(draw: Any) -> BehaviorSpec:
    branches = tuple(draw(st.lists(st.integers(1, 5), max_size=3)))
    action = ActionSpec(draw(st.integers(0 if branches else 1, 3)), branches)
    return BehaviorSpec(draw(st.lists(observation_specs(), max_size=3)), action)


def column(count: int, dtype: Any, values: st.SearchStrategy) -> st.SearchStrategy:
    return npst.arrays(dtype, count, elements=values, fill=st.just(0))


@st.composite
def batches(draw: Any, spec: BehaviorSpec) -> AgentBatch:
    count = draw(st.one_of(st.integers(0, 6), st.integers(20, 60)))
    total = sum(spec.action_spec.discrete_branches)
    mask = draw(npst.arrays(np.bool_, (count, total))) if total and draw(st.booleans()) else None
    return AgentBatch(
        obs=[
            draw(npst.arrays(np.float32, (count, *o.shape), elements=FLOATS, fill=st.just(0.5)))
            for o in spec.observation_specs
        ],
        reward=draw(column(count, np.float32, FLOATS)),
        done=draw(column(count, np.bool_, st.booleans())),
        interrupted=draw(column(count, np.bool_, st.booleans())),
        agent_id=draw(column(count, np.int32, INTS)),
        group_id=draw(column(count, np.int32, INTS)),
        # No negative zero: group fields that are zero everywhere are left out.
        group_reward=draw(column(count, np.float32, FLOATS.map(lambda value: value + 0.0))),
        action_mask=mask,
    )


@st.composite
def sessions(draw: Any) -> tuple[dict[str, BehaviorSpec], list[dict[str, AgentBatch]]]:
    specs = draw(st.dictionaries(NAMES, behavior_specs(), min_size=1, max_size=2))
    count = draw(st.integers(1, 3))
    return specs, [{name: draw(batches(spec)) for name, spec in specs.items()} for _ in range(count)]


@pytest.mark.slow
@DIALECTS
@PROFILE
@given(session=sessions())
def test_a_message_that_protobuf_writes_is_decoded_as_protobuf_decodes_it(session: Any, dialect) -> None:
    specs, steps = session
    fast, plain = Decoder(dialect=dialect), PlainDecoder(dialect)
    for batch in steps:
        data = engine_message(batch, specs, new=True, side_channel=b"side", dialect=dialect)
        message = fast.decode(data)
        expected = plain.decode(data)
        assert message.side_channel == b"side"
        assert message.steps is not None
        assert message.steps.keys() == expected.keys()
        assert fast.specs == plain.specs
        for name, steps_ in expected.items():
            assert_same(message.steps[name], steps_)


@pytest.mark.slow
@DIALECTS
@PROFILE
@given(session=sessions())
def test_a_message_of_the_embedded_engine_is_read_alike_by_protobuf_and_the_decoder(
    session: Any, dialect
) -> None:
    specs, steps = session
    encoder = StepEncoder(specs, dialect=dialect)
    fast, plain, reference = Decoder(dialect=dialect), PlainDecoder(dialect), PlainDecoder(dialect)
    for batch in steps:
        data = encoder.encode(batch, b"side")
        expected_steps = reference.decode(engine_message(batch, specs, new=True, dialect=dialect))
        by_protobuf = plain.decode(data)
        message = fast.decode(data)
        assert message.steps is not None
        assert message.steps.keys() == expected_steps.keys()
        assert fast.specs == plain.specs == reference.specs
        for name, expected in expected_steps.items():
            assert_same(by_protobuf[name], expected)
            assert_same(message.steps[name], expected)


@st.composite
def actions(draw: Any) -> dict[str, ActionTuple]:
    result = {}
    for name in draw(st.lists(NAMES, unique=True, min_size=1)):
        count, size, branches = draw(st.integers(0, 30)), draw(st.integers(0, 3)), draw(st.integers(0, 3))
        if size + branches == 0:
            size = 1
        largest = draw(st.sampled_from([1, 127, 128, 20_000, 2**31 - 1]))
        discrete = npst.arrays(np.int32, (count, branches), elements=st.integers(0, largest))
        continuous = npst.arrays(np.float32, (count, size), elements=FLOATS)
        result[name] = ActionTuple(draw(continuous), draw(discrete))
    return result


@DIALECTS
@PROFILE
@given(given_=actions(), old=st.booleans())
def test_actions_mean_to_protobuf_and_to_our_engine_what_was_written(given_, old: bool, dialect) -> None:
    old = old and dialect.has("AgentActionProto", "vector_actions_deprecated")
    written = Encoder(dialect).actions(given_, b"side", old)
    for data in (written, trainer_message(given_, old, b"side", dialect)):
        reply = ReplyDecoder(dialect).decode(data)
        assert (reply.kind, reply.side_channel) == ("step", b"side")
        for name, action in given_.items():
            if len(action.continuous) == 0:
                assert name not in reply.actions
                continue
            continuous, discrete = reply.actions[name]
            assert continuous.tobytes() == action.continuous.tobytes()
            assert continuous.shape == action.continuous.shape
            np.testing.assert_array_equal(discrete, action.discrete, strict=True)


def test_negative_discrete_actions_are_written_as_protobuf_does() -> None:
    action = {"B": ActionTuple(discrete=np.array([[-1, 3]], np.int32))}
    np.testing.assert_array_equal(
        ReplyDecoder().decode(Encoder().actions(action, b"")).actions["B"][1], [[-1, 3]]
    )
    np.testing.assert_array_equal(
        ReplyDecoder().decode(trainer_message(action, False)).actions["B"][1], [[-1, 3]]
    )


@pytest.mark.parametrize("count", [1, 15, 16, 17, 100, 5000])
def test_runs_of_equal_agents_of_any_length_keep_their_order(count: int) -> None:
    """Long runs are found by one comparison; their ends must be exact."""
    spec = BehaviorSpec([vector_spec(2, "v")], ActionSpec(1, ()))
    rng = np.random.default_rng(count)
    zeros = np.zeros(count)
    batch = AgentBatch(
        obs=[rng.normal(size=(count, 2)).astype(np.float32)],
        reward=np.where(np.arange(count) % 40 == 39, 0, 1).astype(np.float32),
        done=zeros.astype(np.bool_),
        interrupted=zeros.astype(np.bool_),
        agent_id=np.arange(count, dtype=np.int32),
        group_id=zeros.astype(np.int32),
        group_reward=zeros.astype(np.float32),
    )
    data = engine_message({"B": batch}, {"B": spec}, new=True)
    found = decisions(Decoder(), data, "B")
    np.testing.assert_array_equal(found.agent_id, batch.agent_id)
    np.testing.assert_array_equal(found.reward, batch.reward)
    np.testing.assert_array_equal(found.obs[0], batch.obs[0])
