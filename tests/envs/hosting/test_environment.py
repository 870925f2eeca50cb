"""An environment in a process of its own behaves as in the trainer's process, in all that a trainer sees."""

import os
from pathlib import Path

import pytest

pytest.importorskip("gymnasium")
pytest.importorskip("pettingzoo")

import psutil
from hosted_games import hosted, in_place, play
from lanista.envs.errors import EnvContractError
from lanista.envs.hosting.source import HostedSource
from lanista.trainers.settings.models.environment_parameters import UniformSettings
from mlagents_envs.exception import UnityEnvironmentException

CASES = {
    "CartPole": (HostedSource("gymnasium:CartPole-v1"), 3, 120),
    "stacked, continuous": (HostedSource("gymnasium:Pendulum-v1?stack=3", ("--g", "9.0")), 2, 30),
    "images, hybrid, masked": (HostedSource("python:hosted_games:Images"), 2, 40),
    "lives": (HostedSource("python:hosted_games:cat?lives=true"), 2, 20),
    "a BaseEnv": (HostedSource("python:foreign_env:Foreign"), 1, 12),
    "agents that come late": (HostedSource("python:hosted_games:Newcomers"), 1, 6),
    "turn-based, one policy": (
        HostedSource("pettingzoo:pettingzoo.classic.connect_four_v3", self_play=True), 2, 150,
    ),
    "turn-based, a behavior each": (HostedSource("pettingzoo:pettingzoo.classic.tictactoe_v3"), 2, 30),
}  # fmt: skip


@pytest.fixture(autouse=True)
def games_are_found(monkeypatch):
    """By the hosting processes too."""
    paths = [str(Path(__file__).parents[2]), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))


def both(source, areas, steps):
    """What is seen of it in this process and hosted, with its specifications."""
    found = []
    for make in (in_place, hosted):
        env = make(source, 7, areas)
        try:
            found.append((play(env, steps), dict(env.behavior_specs)))
        finally:
            env.close()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_hosted_and_in_process_environments_are_equal(case):
    (here, specs), (there, specs_there) = both(*CASES[case])
    assert there == here
    assert specs_there == specs


SAMPLED = {"length": UniformSettings(min_value=2, max_value=5, seed=11), "slope": 0.1}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Corridor", "Told", "Parallel", "Turns", "Own"])
def test_environment_parameters_are_equal_too(kind):
    """Agents observe the length of each of their episodes."""
    seen = []
    for make in (in_place, hosted):
        env = make(HostedSource(f"python:corridors:{kind}"), 7, 1 if kind == "Own" else 2)
        env.set_parameters(SAMPLED)
        seen.append([play(env, 9)])
        env.set_parameters({"length": 2.0})
        for _ in range(12):
            env.step()
        seen[-1].append({name: env.get_steps(name)[0].obs[0].tolist() for name in env.behavior_specs})
        env.close()
    assert seen[0] == seen[1]
    assert {row[-1] for rows in seen[0][1].values() for row in rows} == {2.0}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("game", "message"),
    [
        ("corridors:Corridor", r"no environment parameter lenght\. Did you mean length\?"),
        ("corridors:Closed", "its reset has no argument options"),
        ("foreign_env:Foreign", "has no method set_environment_parameters"),
    ],
)
def test_a_parameter_that_a_hosted_environment_does_not_take_ends_the_run(game, message):
    env = hosted(HostedSource(f"python:{game}"), 7, 1)
    env.set_parameters({"lenght": 2.0})
    with pytest.raises(EnvContractError, match=message):
        env.reset()
    env.close()


def test_teams_of_pettingzoo_keep_their_groups_and_state():
    pytest.importorskip("mpe2")
    source = HostedSource("pettingzoo:mpe2.simple_spread_v3?max_cycles=8", with_state=True)
    (here, specs), (there, specs_there) = both(source, 2, 20)
    assert there == here and specs_there == specs
    assert {len(set(step[1]["group_id"])) for step in here} == {2}


def test_statistics_arrive():
    env = hosted(HostedSource("pettingzoo:pettingzoo.classic.tictactoe_v3"), 1, 2)
    play(env, 30)
    statistics = env.statistics()
    env.close()
    lengths = [value for value, _ in statistics["Turns/Episode Length"]]
    assert lengths and all(5 <= each <= 9 for each in lengths)


@pytest.mark.parametrize(
    ("game", "message"),
    [
        (
            "Wrong?how=shape",
            r"'observation' has the shape \(7,\); expected \(1,\).*logged more to .*Player-0",
        ),
        ("Wrong?how=raise", r"raised KeyError: 'speed' \(hosted_games\.py, line \d+\)"),
        ("Wrong?how=die", "raised SystemExit"),
        ("odd?method=statistics", r"statistics of .*odd.* raised KeyError: 'speed' \(hosted_games"),
        ("odd?method=lost_lives", r"lost_lives of .*odd.* raised KeyError: 'speed'"),
        ("unmade", r"unmade raised RuntimeError: no licence for 7 \(hosted_games\.py"),
        ("not_there", "has no function 'not_there'"),
        (
            "sideways",
            r"'image' of the shape \(9, 9, 1\) would be taken for an image whose channels come last",
        ),
    ],
)
def test_errors_of_the_environment_are_the_same_as_in_process(game, message, tmp_path):
    env = hosted(HostedSource(f"python:hosted_games:{game}"), 7, 1, log_folder=tmp_path)
    with pytest.raises(EnvContractError, match=message):
        play(env, 9)
    env.close()


def test_what_an_environment_warns_of_is_in_its_log(tmp_path):
    env = hosted(HostedSource("python:hosted_games:Wrong?how=warn"), 7, 1, log_folder=tmp_path)
    play(env, 9)
    env.close()
    log = (tmp_path / "Player-0.log").read_text("utf-8")
    assert log.count("UserWarning: the physics is unstable") == 1 and "hosted_games.py:" in log


def test_a_killed_process_is_a_failure_that_permits_a_restart():
    env = hosted(HostedSource("gymnasium:CartPole-v1"), 7, 1)
    env.reset()
    (process,) = (each for each in psutil.Process().children() if "lanista.envs.hosting" in each.cmdline())
    process.kill()
    with pytest.raises(UnityEnvironmentException, match=r"SIGKILL|return code"):
        play(env, 3)
    env.close()
