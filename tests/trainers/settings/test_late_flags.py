"""Flags after --env-args are the engine's, as in ML-Agents; those of the trainer are warned of there."""

import pytest
from lanista.trainers.settings import parse_command_line
from lanista.trainers.settings.late_flags import warn_of_late_flags


def said(line, caplog):
    """The warning about a command line, and what the environment gets."""
    options = parse_command_line(line.split())
    warn_of_late_flags(options, line.split())
    return caplog.text, options.env_settings.env_args


@pytest.mark.parametrize("env", ["--env Game.x86_64", "--env godot:game", ""])
def test_flags_of_the_trainer_are_named_and_passed_on_nevertheless(env, caplog):
    passed = ["--num-areas", "4", "--level=3", "--resume", "--run-id=x", "--resume", "--seeds", "3", "-h"]
    text, given = said(f"--seed 3 {env} --env-args {' '.join(passed)}", caplog)
    assert "--num-areas, --resume, --run-id, --seeds after --env-args" in text
    assert "before --env-args" in text and given == passed


@pytest.mark.parametrize(
    "line",
    [
        "--resume --num-areas 4 --env Game.x86_64",
        "--resume --env Game.x86_64 --env-args --level 3 -num-areas --resumed",
        "--env scene:grid --env-args --width 9",
        "--env python:game:make --env-args --width 9",
        "--env gymnasium:Game-v0 --env-args --seed 9",
    ],
)
def test_arguments_of_the_environment_s_own_are_no_cause_to_warn(line, caplog):
    assert said(line, caplog)[0] == ""
