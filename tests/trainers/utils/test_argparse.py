"""A secret on the command line is refused before it is shown; what is meant for environments is let be."""

import argparse

import pytest
from lanista.trainers.cli.main import run
from lanista.trainers.settings.command_line import parse_command_line
from lanista.trainers.utils.argparse import OneLineParser, secret_flag

SECRET = "aVerySecretTokenOfFortyThreeCharacters12345"


@pytest.mark.parametrize(
    "typed", [["--token", SECRET], [f"--tok={SECRET}"], ["--password", SECRET], ["--api-key", SECRET]]
)
@pytest.mark.parametrize("command", ["relay", "learn", "play"])
def test_a_secret_on_the_command_line_is_refused_and_not_shown(command, typed, capsys):
    status = None
    try:
        status = run([command, *(["host:5004"] if command == "relay" else []), *typed])
    except SystemExit as ended:
        status = ended.code
    shown = capsys.readouterr()
    assert status == 2 and SECRET not in shown.out + shown.err


@pytest.mark.parametrize("typed", [["--token", SECRET], [f"--token-fil={SECRET}"], ["--to", SECRET]])
def test_short_forms_of_the_token_file_are_told_where_a_token_belongs(typed, capsys):
    with pytest.raises(SystemExit):
        parse_command_line(typed)
    shown = capsys.readouterr().err
    assert SECRET not in shown and "give --token-file FILE" in shown
    assert run(["relay", "host:5004", *typed]) == 2
    shown = capsys.readouterr().err
    assert SECRET not in shown and "give --token-file FILE" in shown


@pytest.mark.parametrize(
    "typed",
    [["--token-file", "x"], ["--token-file=x"], ["--torch-device", "cpu"], ["--env-args", "--token", "x"]],
)
def test_other_flags_and_those_of_the_engine_are_left_alone(typed):
    assert secret_flag(typed) is None


@pytest.mark.parametrize("before", [[], ["play"]])
def test_the_rest_of_the_line_may_hold_what_is_short_for_several_flags(before):
    parser = OneLineParser(prog="test")
    reader = parser.add_subparsers().add_parser("play") if before else parser
    reader.add_argument("--num-envs")
    reader.add_argument("--num-areas")
    reader.add_argument("--env-args", nargs=argparse.REMAINDER)
    read = parser.parse_args([*before, "--num-envs", "3", "--env-args", "--num", "2", "--num-envs=4"])
    assert read.num_envs == "3" and read.env_args == ["--num", "2", "--num-envs=4"]
    with pytest.raises(SystemExit):
        parser.parse_args([*before, "--num", "2"])
