"""Environment parameters reach environments in Python, with new values in every episode of every copy."""

import logging
import re

import numpy as np
import pytest

pytest.importorskip("gymnasium")

import corridors
import gymnasium
from hypothesis import given
from hypothesis import strategies as st
from lanista.envs.errors import EnvContractError
from lanista.envs.python.episodes import EpisodeStarts
from lanista.envs.python.gymnasium.environment import GymnasiumEnvironment
from lanista.envs.python.pettingzoo.environment import PettingZooEnvironment
from lanista.envs.python.pettingzoo.turn_based import TurnBasedEnvironment
from lanista.envs.python.sources import check_source, make_source
from lanista.envs.side_channels import Distribution, EnvironmentParametersChannel, Parameters
from lanista.trainers.settings.models.environment_parameters import (
    ConstantSettings,
    GaussianSettings,
    MultiRangeUniformSettings,
    UniformSettings,
)

Samplers = EnvironmentParametersChannel.SamplerTypes
LENGTH = UniformSettings(min_value=2, max_value=5, seed=11)


def made(kind, seed=7, copies=2):
    """Copies of a corridor, and the walks in them."""
    games = []

    def make():
        games.append(corridors.KINDS[kind]())
        return games[-1]

    if kind == "parallel":
        env = PettingZooEnvironment(make, seed, copies)
    elif kind == "in turns":
        env = TurnBasedEnvironment(make, seed, copies)
    else:
        env = GymnasiumEnvironment(make, "Corridor", seed=seed, copies=copies)
    return env, [game.walk for game in games]


def lengths(walks):
    return [[given["length"] for _, given in walk.episodes] for walk in walks]


def step(env, times):
    for _ in range(times):
        env.step()


@pytest.mark.parametrize("kind", corridors.KINDS)
def test_every_episode_of_every_copy_has_values_of_its_own(kind):
    env, walks = made(kind)
    env.set_parameters({"length": LENGTH, "slope": 0.5})
    env.reset()
    step(env, 40)
    drawn = lengths(walks)
    assert all(len(each) > 4 and all(2 <= value <= 5 for value in each) for each in drawn)
    assert len({value for each in drawn for value in each}) == sum(map(len, drawn))
    assert {type(value) for _, given in walks[0].episodes for value in given.values()} == {float}
    assert {given["slope"] for _, given in walks[1].episodes} == {0.5}
    seeds = [[seed for seed, _ in walk.episodes] for walk in walks]
    assert seeds[0][0] == 7 and not any(seeds[0][1:]), (
        "the seed is the first episode's, as without parameters"
    )


@pytest.mark.parametrize("kind", corridors.KINDS)
def test_values_follow_from_the_seeds_and_differ_between_environments(kind):
    def drawn(seed, sampler=LENGTH):
        env, walks = made(kind, seed)
        env.set_parameters({"length": sampler})
        env.reset()
        step(env, 12)
        return lengths(walks)

    assert drawn(3) == drawn(3)
    assert drawn(3)[0][0] != drawn(4)[0][0] and drawn(3)[0][0] != drawn(3)[1][0]
    assert drawn(3)[0][0] != drawn(3, LENGTH.model_copy(update={"seed": 12}))[0][0]
    assert drawn(None) == drawn(None), "of random seeds too: samplers have their own"


@pytest.mark.parametrize("kind", corridors.KINDS)
def test_a_new_lesson_counts_from_the_next_episode_and_other_samplers_go_on(kind):
    env, walks = made(kind, copies=1)
    slope = GaussianSettings(mean=0.5, st_dev=0.1, seed=3)
    env.set_parameters({"length": 3.0, "slope": slope})
    env.reset()
    step(env, 1)
    env.set_parameters({"length": 4.0, "slope": slope})
    step(env, 30)
    (walk,) = walks
    assert lengths(walks)[0][:3] == [3.0, 4.0, 4.0]
    slopes = [given["slope"] for _, given in walk.episodes]
    assert len(set(slopes)) == len(slopes) > 4, "it is drawn from further, not from its start"


@pytest.mark.parametrize("kind", corridors.KINDS)
def test_without_parameters_environments_are_reset_as_ever(kind):
    env, walks = made(kind)
    env.set_parameters({})
    env.reset()
    step(env, 8)
    assert all(given == {} for walk in walks for _, given in walk.episodes)


class Tall(gymnasium.Wrapper):
    """A wrapper that takes parameters itself."""

    environment_parameters = ("height",)

    def set_environment_parameters(self, parameters):
        self.height = parameters["height"]


def test_a_wrapper_may_take_the_parameters_and_is_found_within_others():
    tall = Tall(corridors.Silent())
    starts = EpisodeStarts(gymnasium.wrappers.TimeLimit(tall, 5), 1)
    starts.set_parameters({"height": 2.0})
    starts.reset()
    assert tall.height == 2.0 and tall.unwrapped.walk.episodes == [(1, {})]


def test_a_base_env_gets_them_before_its_reset_and_whenever_an_episode_has_ended():
    env = make_source("python:corridors:Own")
    env.set_parameters({"length": LENGTH, "slope": 1.0})
    given = env.env.walk.episodes
    assert not given
    env.reset()
    (name,) = env.behavior_specs
    assert len(given) == 1 and given[0][1]["slope"] == 1.0
    assert env.get_steps(name)[0].obs[0][0, 0] == np.float32(given[0][1]["length"])
    step(env, 4)
    assert len(env.get_steps(name)[1]) == 1 and len(given) == 1
    step(env, 3)
    assert len(given) == 2 and given[1][1]["length"] != given[0][1]["length"]
    env.set_parameters({"length": 4.0})
    step(env, 6)
    assert [one["length"] for _, one in given[2:]] == [4.0], "constants once"


REFUSED = {
    "a name that it lacks": (
        ("Corridor", {"lenght": 1.0}),
        r"no environment parameter lenght. Did you mean length\? It declares length, slope",
    ),
    "a list": (
        ("Parallel", {"slope": 0.0, "mass": 1.0}),
        r"no environment parameter mass\..*declares length",
    ),
    "in turns": (("Turns", {"mass": 1.0}), "no environment parameter mass"),
    "no way to give them": (
        ("Closed", {"length": 1.0}),
        r"no environment parameters \(length\): its reset has no argument options, and .* no method set_env",
    ),
    "another form": (
        ("Odd", {"length": 1.0}),
        "environment_parameters of .*Odd.* is 5; expected a dict of the names",
    ),
    "a BaseEnv": (("Own", {"mass": 1.0}), "no environment parameter mass"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_an_environment_does_not_take_is_refused_before_a_run_and_when_it_is_set(case):
    (kind, parameters), message = REFUSED[case]
    path = f"python:corridors:{kind}"
    with pytest.raises(EnvContractError, match=message) as refused:
        check_source(path, parameters=parameters)
    assert "\n" not in str(refused.value)
    check_source(path)
    env = make_source(path)
    with pytest.raises(EnvContractError, match=message):
        env.set_parameters(parameters)


def test_a_base_env_without_the_method_takes_none():
    with pytest.raises(EnvContractError, match="Foreign has no method set_environment_parameters"):
        check_source("python:foreign_env:Foreign", parameters=["length"])


def test_named_environments_are_asked_too():
    pytest.importorskip("pettingzoo")
    check_source("pettingzoo:pettingzoo.classic.tictactoe_v3", parameters=["size"])
    with pytest.raises(EnvContractError, match="no environment parameter mass"):
        check_source("pettingzoo:corridors:Parallel", parameters=["mass"])
    check_source("gymnasium:CartPole-v1", parameters=["low", "high"])  # its reset reads them as options
    env = make_source("gymnasium:CartPole-v1", 3)
    env.set_parameters({"low": 0.01, "high": 0.02})
    env.reset()
    seen = env.get_steps("CartPole-v1?team=0")[0].obs[0]
    assert ((seen >= 0.01) & (seen <= 0.02)).all()


def test_who_does_not_say_what_it_takes_is_warned_of_once(caplog):
    with caplog.at_level(logging.WARNING):
        check_source("python:corridors:Silent", parameters=["length"])  # the run itself will say it
        assert not caplog.text
        for _ in range(3):
            env = make_source("python:corridors:Silent", areas=2)
            env.set_parameters({"length": 2.0})
    (message,) = [record.getMessage() for record in caplog.records]
    assert re.search(
        r"Silent.* gets length as the options of reset, and does not say whether it reads", message
    )


def test_what_the_method_raises_names_it():
    env, _ = made("by a method")
    env.set_parameters({"slope": -1.0})
    with pytest.raises(EnvContractError, match=r"set_environment_parameters of .*a slope of less than 0"):
        env.reset()


FLOATS, SEEDS = st.floats(-100, 100, width=32), st.integers(0, 2**31 - 1)
PAIRS = st.tuples(FLOATS, FLOATS).map(sorted)
SETTINGS = st.one_of(
    st.builds(ConstantSettings, value=FLOATS),
    st.tuples(PAIRS, SEEDS).map(
        lambda drawn: UniformSettings(min_value=drawn[0][0], max_value=drawn[0][1], seed=drawn[1])
    ),
    st.builds(GaussianSettings, mean=FLOATS, st_dev=st.just(2.0), seed=SEEDS),
    st.builds(MultiRangeUniformSettings, intervals=st.lists(PAIRS, min_size=1, max_size=3), seed=SEEDS),
)


@given(st.dictionaries(st.text(min_size=1, max_size=4), SETTINGS, max_size=3))
def test_what_was_received_can_be_passed_on_as_it_is(parameters):
    """As a hosting process does; then both draw the same."""
    received, passed = Parameters(), Parameters()
    received.take(parameters)
    passed.take(received.values)
    assert passed.values == received.values
    for name in parameters:
        assert [received.get(name, 0.0) for _ in range(3)] == [passed.get(name, 0.0) for _ in range(3)]


@pytest.mark.parametrize(
    ("distribution", "mean", "deviation"),
    [
        (Distribution(Samplers.UNIFORM, (2.0, 5.0), 7), 3.5, 3 / 12**0.5),
        (Distribution(Samplers.GAUSSIAN, (4.0, 0.5), 7), 4.0, 0.5),
        (Distribution(Samplers.MULTIRANGEUNIFORM, (0.0, 1.0, 10.0, 13.0), 7), 0.25 * 0.5 + 0.75 * 11.5, None),
    ],
)
def test_copies_draw_from_the_distribution_that_was_sent(distribution, mean, deviation):
    values = []
    for copy in range(40):
        random = distribution.generator(copy)
        values += [distribution.draw(random) for _ in range(100)]
    assert np.mean(values) == pytest.approx(mean, abs=0.25)
    assert deviation is None or np.std(values) == pytest.approx(deviation, rel=0.05)
