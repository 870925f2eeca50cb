"""The engine's end of the environment parameters reads what the trainer's end writes."""

import numpy as np
import pytest
from lanista.envs.scenes.world import Parameters
from lanista.envs.side_channels import EnvironmentParametersChannel, OutgoingMessage, SideChannelManager
from mlagents_envs.exception import UnitySideChannelException


def sent(send) -> Parameters:
    channel, parameters = EnvironmentParametersChannel(), Parameters()
    send(channel)
    SideChannelManager([parameters]).process(SideChannelManager([channel]).generate())
    return parameters


def draws(parameters, count=4000):
    return np.array([parameters.get("x", -1.0) for _ in range(count)])


def test_a_parameter_has_its_default_until_it_is_set_and_the_revision_grows():
    assert Parameters().get("mass", 1.5) == 1.5
    parameters = sent(lambda channel: channel.set_float_parameter("mass", 2.5))
    assert (parameters.get("mass", 1.0), parameters.revision) == (2.5, 1)


def test_samplers_are_sampled_at_each_read():
    uniform = draws(sent(lambda channel: channel.set_uniform_sampler_parameters("x", 2, 5, 7)))
    assert 2 <= uniform.min() <= uniform.max() <= 5
    assert uniform.mean() == pytest.approx(3.5, abs=0.1)
    normal = draws(sent(lambda channel: channel.set_gaussian_sampler_parameters("x", 4, 0.5, 7)))
    assert (normal.mean(), normal.std()) == pytest.approx((4, 0.5), abs=0.05)


def test_intervals_are_sampled_by_their_length():
    intervals = [[0, 1], [10, 13]]
    values = draws(sent(lambda c: c.set_multirangeuniform_sampler_parameters("x", intervals, 7)))
    low = values < 5
    assert values[low].max() <= 1
    assert 10 <= values[~low].min() <= values[~low].max() <= 13
    assert low.mean() == pytest.approx(0.25, abs=0.04)


@pytest.mark.parametrize(
    "send",
    [
        lambda channel: channel.set_uniform_sampler_parameters("x", 0.0, -0.0, 7),
        lambda channel: channel.set_gaussian_sampler_parameters("x", 0.0, -0.0, 7),
        lambda channel: channel.set_multirangeuniform_sampler_parameters("x", [[0.0, -0.0]], 7),
    ],
)
def test_a_range_from_zero_to_minus_zero_is_zero(send):
    assert draws(sent(send), 3).tolist() == [0.0] * 3


def test_the_samplers_seed_decides():
    first, second = (sent(lambda c: c.set_uniform_sampler_parameters("x", 0, 1, -3)) for _ in range(2))
    np.testing.assert_array_equal(draws(first, 5), draws(second, 5))


@pytest.mark.parametrize(
    ("kind", "rest", "message"),
    [(7, [], "type 7"), (1, [0, 9], "sampler 9"), (1, [0, 2, 0], "intervals")],
)
def test_messages_that_cannot_be_read_are_refused_by_name(kind, rest, message):
    outgoing = OutgoingMessage()
    outgoing.write_string("mass")
    for number in (kind, *rest):
        outgoing.write_int32(number)
    channel = EnvironmentParametersChannel()
    channel.queue_message_to_send(outgoing)
    with pytest.raises(UnitySideChannelException, match=f"'mass' .*{message}"):
        SideChannelManager([Parameters()]).process(SideChannelManager([channel]).generate())
