"""Every command that opens an environment does it as `lanista-learn`: with its flags, and its answers."""

import argparse
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import fields

import grpc
import pytest
from console_runs import PATIENCE, YAML, learn
from lanista.envs.engines.options import EngineOptions
from lanista.trainers.cli import opening
from lanista.trainers.cli.arguments import ENGINE_FLAGS, engine_words
from lanista.trainers.cli.main import _parsers, run
from lanista.trainers.settings.command_line import RENAMED, make_parser
from lanista.trainers.settings.errors import TrainerConfigError
from lanista.trainers.settings.models.run import EngineSettings, EnvironmentSettings
from lanista.trainers.settings.options import RunOptions
from lanista.trainers.tools.pretrained import find_pretrained
from lanista.trainers.tools.tournament.command import _environment
from scripted_engine import exchange_with, first_free_port, hello, message

OPENING = ("play", "tournament", "init", "card")
"""The commands that open an environment, besides `learn` and what starts that."""
OF_RUNS = {
    "num_envs",
    "env_workers",
    "max_lifetime_restarts",
    "restarts_rate_limit_n",
    "restarts_rate_limit_period_s",
    "non_finite",
    "engine_errors",
    "token_file",
    "tls_cert",
    "tls_key",
    "ray",
    "ray_cpus",
    "ray_listen",
    "ray_wait",
}
"""Settings about several environments, or about trajectories."""
NAMED = {"env_path", "env_args"}
"""`--env` and `--env-args`, of which the commands say themselves what they are for."""
GIVEN = {
    "seed": ("7", 7),
    "base_port": ("6001", 6001),
    "timeout_wait": ("17", 17),
    "num_areas": ("3", 3),
    "listen": ("10.0.0.1", "10.0.0.1"),
    "allow": ("10.0.0.0/8", ("10.0.0.0/8",)),
    "transport": ("grpcio", "grpcio"),
    "time_scale": ("1.5", 1.5),
    "no_graphics": (None, True),
    "no_graphics_monitor": (None, True),
    "width": ("101", 101),
    "height": ("102", 102),
    "quality_level": ("3", 3),
    "target_frame_rate": ("33", 33),
    "capture_frame_rate": ("44", 44),
}
"""A value of each flag: as it is typed, and as the environment is opened with it."""
WORDS = [word for key, (text, _) in GIVEN.items() for word in ("--" + key.replace("_", "-"), text) if word]


def parsed(command, *words):
    """The arguments of a command."""
    named = [] if command == "init" else ["model"]
    return _parsers(command)[1].parse_args([*named, "--env", "Game", *words])


def test_no_flag_of_an_environment_is_missing():
    keys = EnvironmentSettings.model_fields.keys() | EngineSettings.model_fields.keys()
    assert {flag.key for flag in ENGINE_FLAGS} == keys - OF_RUNS - NAMED == GIVEN.keys()


@pytest.mark.parametrize("command", OPENING)
def test_a_command_that_opens_an_environment_takes_every_option(command):
    arguments = parsed(command, *WORDS, "--env-args", "--level", "2")
    options = opening.play_options(arguments, arguments.env, arguments.env_args)
    for key, (_, value) in GIVEN.items():
        told = options.configuration if key in EngineSettings.model_fields and key[:2] != "no" else options
        assert getattr(told, key) == value, key
    assert (options.path, options.additional_args) == ("Game", ("--level", "2"))
    assert options.base_port == 6001


def test_the_options_of_a_run_come_from_the_same_flags():
    """And are told on as they were typed, as a card does, and what is to be typed after `lanista init`."""
    arguments = parsed("card", *WORDS)
    assert engine_words(arguments) == WORDS
    learns = vars(make_parser().parse_args(engine_words(arguments)))
    for flag in ENGINE_FLAGS:
        value = getattr(arguments, flag.key)
        assert learns[f"{flag.section}.{flag.key}"] == value, flag.name


@pytest.mark.parametrize("flag", ENGINE_FLAGS, ids=lambda flag: flag.key)
def test_a_flag_is_named_as_that_of_a_run_and_has_its_choices(flag):
    assert flag.key not in RENAMED
    action = make_parser()._option_string_actions[flag.name]
    assert (action.nargs == 0) == (flag.kind == "switch")
    assert isinstance(action, argparse._AppendAction) == (flag.kind == "repeated")


@pytest.mark.parametrize("command", OPENING)
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--timeout-wait", "0"], "found 0, expected at least 1"),
        (["--timeout-wait", "soon"], "found 'soon', expected a whole number"),
        (["--base-port", "70000"], "found 70000, expected at most 65535"),
        (["--seed", "-2"], "found -2, expected at least -1"),
        (["--time-scale", "fast"], "found 'fast', expected a number"),
        (["--transport", "fat"], "found 'fat', expected one of lean, grpcio"),
    ],
)
def test_a_value_is_checked_as_in_a_run(command, words, says, capsys):
    with pytest.raises(SystemExit):
        parsed(command, *words)
    assert f"argument {words[0]}: {says}" in capsys.readouterr().err


def test_an_engine_keeps_what_no_flag_says():
    told = opening.play_options(parsed("play"), "Game", []).configuration
    assert told == (None, None, None, 20.0, None, None)
    assert opening.play_options(parsed("play", "--width", "9"), "Game", []).configuration[:2] == (9, 84)


def test_games_in_parallel_are_asked_for_where_there_are_areas(monkeypatch):
    """A Godot game has none, and refuses those that a user asks for."""
    opened = []
    monkeypatch.setattr("lanista.envs.opening.open_environment", opened.append)
    for path in ("Game", "pettingzoo:chess", "godot:Game", "scene:tennis"):
        _environment(parsed("tournament"), path, [])
    assert [options.num_areas for options in opened] == [16, 16, 1, 1]
    assert opened[-1].additional_args == ("--areas", "16") and opened[-1].drawn
    with pytest.raises(TrainerConfigError, match="does not copy its training area"):
        _environment(parsed("tournament", "--num-areas", "2"), "godot:Game", [])


def test_an_engine_that_connects_by_itself_is_awaited_at_its_address():
    options = opening.play_options(parsed("play", "--listen", "10.0.0.1:6000"), None, [])
    assert (options.path, options.listen, options.base_port) == (None, "10.0.0.1", 6000)


def test_no_option_is_left_out_of_a_run():
    """What a run's settings say nothing about is what differs between its environments, or stays as it is."""
    own = {"worker_id", "log_folder", "connect", "engine_name", "errors", "drawn"}
    from lanista.trainers.runner.engine_options import engine_options

    env = {"env_path": "Game", "env_args": ["--level", "2"], "base_port": 6001, "num_areas": 3, "seed": 7}
    env |= {"timeout_wait": 17, "listen": "10.0.0.1", "allow": ["10.0.0.0/8"], "transport": "grpcio"}
    engine = {"no_graphics": True, "no_graphics_monitor": True, "time_scale": 1.5}
    behavior = {"trainer_type": "poca", "self_play": {}}
    run_options = RunOptions.from_dict(
        {"env_settings": env, "engine_settings": engine, "behaviors": {"A": behavior}}
    )
    made, default = engine_options(run_options), EngineOptions()
    same = {f.name for f in fields(EngineOptions) if getattr(made, f.name) == getattr(default, f.name)}
    assert same - own == {"hosted"} | ({"with_state"} if not made.with_state else set())


CONTAINER = """\
import os, sys, time
port = sys.argv[sys.argv.index("--mlagents-port") + 1]
open(f"calls-{port}-{os.getpid()}", "w").close()
time.sleep(600)
"""
"""Stands for `docker run`: the game that calls is no descendant of it."""
ADMITTED = ["--allow", "127.0.0.1"]


@contextmanager
def containers(folder, monkeypatch, scene):
    """The path of a program that has a game of another process call; with a scene, or once in vain.

    Yields:
        The program, and what the callers were told.
    """
    program, told, over, games = folder / "container.py", [], threading.Event(), []
    program.write_text(CONTAINER)
    monkeypatch.chdir(folder)

    def call(port):
        if scene is not None:
            command = [sys.executable, "-m", "lanista.envs.scenes", scene, "--mlagents-port", str(port)]
            with (folder / "game.log").open("a") as log:
                games.append(subprocess.Popen(command, stdout=log, stderr=log))
            return
        channel, exchange = exchange_with(port)
        with channel:
            try:
                exchange(message(hello()))
            except grpc.RpcError as error:
                told.append(error.details())

    def watch():
        seen = set()
        while not over.wait(0.05):
            for file in set(folder.glob("calls-*")) - seen:
                seen.add(file)
                call(int(file.name.split("-")[1]))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield str(program), told
    finally:
        over.set()
        watcher.join(PATIENCE)
        for game in games:
            game.kill()
            game.wait(PATIENCE)


def brains(name):
    return [str(path) for path in find_pretrained(name).models]


def words_of(command, program):
    """A command that opens the program as `scene:basic`, or a tournament as `scene:tennis`."""
    if command == "tournament":
        (brain,) = brains("tennis")
        return [command, brain, brain, "--env", program, "--games", "1", "--num-areas", "1"]
    if command == "init":
        return [command, "--env", program, "-o", "made.yaml"]
    (brain,) = brains("basic")
    output = ["-o", "card.md"] if command == "card" else []
    return [command, brain, "--env", program, "--episodes", "1", *output]


@pytest.mark.slow
@pytest.mark.parametrize("command", OPENING)
def test_a_game_in_a_container_is_admitted_where_that_is_allowed(command, tmp_path, monkeypatch, capfd):
    scene = "tennis" if command == "tournament" else "basic"
    port = str(first_free_port(1))
    with containers(tmp_path, monkeypatch, scene) as (program, _):
        words = [*words_of(command, program), *ADMITTED, "--base-port", port, "--timeout-wait", "60"]
        assert run(words) == 0, capfd.readouterr().err
    if command == "init":
        typed = (tmp_path / "made.yaml").read_text()
        assert f"--base-port {port} --timeout-wait 60 --allow 127.0.0.1" in typed, "the run needs it too"


@pytest.mark.slow
@pytest.mark.parametrize("command", OPENING)
def test_a_game_in_a_container_is_turned_away_otherwise_and_the_remedy_is_true(
    command, tmp_path, monkeypatch, capfd
):
    with containers(tmp_path, monkeypatch, None) as (program, told):
        assert run([*words_of(command, program), "--timeout-wait", "8"]) == 1
    said = capfd.readouterr().err
    _refused_truly(next(line for line in said.splitlines() if "error:" in line), told)
    _parsers(command)[1].parse_args([*words_of(command, program)[1:], *ADMITTED])


def _refused_truly(said, told):
    assert told and "--allow 127.0.0.1 admits it" in told[0]
    assert "A program called, and was turned away: it is not the engine that was started" in said
    assert "--allow 127.0.0.1 admits it" in said
    assert "did not start" not in said and "has not called" not in said


TESTED = ("--set", "behaviors.Ball.test_frequency=200", "--set", "behaviors.Ball.test_episodes=1")


@pytest.mark.slow
def test_a_run_trains_and_is_evaluated_in_containers(tmp_path, monkeypatch):
    basic = YAML.replace("Ball:", "Basic:")
    tested = [word.replace("Ball", "Basic") for word in TESTED]
    with containers(tmp_path, monkeypatch, "basic") as (program, _):
        ports = ["--base-port", str(first_free_port(2))]
        ended = learn(tmp_path, "--env", program, *ADMITTED, *ports, *tested, yaml=basic)
    assert ended.status == 0, ended.err
    assert ended.out.count("Test at Step") == 2
    assert len({path.name.split("-")[1] for path in tmp_path.glob("calls-*")}) == 2, "of two environments"


@pytest.mark.slow
def test_a_run_turns_a_container_away_that_was_not_allowed(tmp_path, monkeypatch):
    with containers(tmp_path, monkeypatch, None) as (program, told):
        ended = learn(tmp_path, "--env", program, "--timeout-wait", "8")
    _refused_truly(ended.error, told)
