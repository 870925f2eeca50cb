"""The command line of a hosting process, and what it reports besides its agents."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanista.envs.engines.own_program import own_program
from lanista.envs.hosting.environment import ReportReader, ReportSender
from lanista.envs.hosting.source import HostedSource, parse
from lanista.envs.scenes.options import UsageError
from lanista.envs.side_channels import SideChannelManager
from lanista.envs.unity.launch import resolve

WORDS = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=9)


@given(
    st.sampled_from(["python:a:b", "gymnasium:X-v0?k=1&l=--x"]),
    st.lists(WORDS),
    st.booleans(),
    st.sampled_from([True, False, None]),
    st.integers(1, 65535),
)
def test_options_survive_the_command_line(path, arguments, with_state, self_play, port):
    source = HostedSource(path, tuple(arguments), with_state, self_play)
    found = parse([source.path, "--mlagents-port", str(port), "-logFile", "x.log", *source.options()])
    assert (found.source, found.port, found.log_file) == (source, port, "x.log")


def test_the_trainer_starts_the_process_by_its_name():
    command = resolve("hosted:python:a:b?c=1")
    assert command == own_program("lanista.envs.hosting", "python:a:b?c=1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "ENV"),
        (
            ["scene:ball3d", "--mlagents-port", "5"],
            "found the environment 'scene:ball3d'; expected gymnasium:ID",
        ),
        (["python:a:b"], r"no --mlagents-port: .*--env python:a:b --env-workers 2"),
        (["python:a:b", "--size", "3"], "unknown option --size; the environment's own arguments follow --"),
        (["python:a:b", "--mlagents-port", "x"], "invalid int value: 'x'"),
    ],
)
def test_an_invalid_command_line_is_a_usage_error(arguments, message):
    with pytest.raises(UsageError, match=message):
        parse(arguments)


@pytest.mark.slow
def test_a_usage_error_ends_the_process_with_status_2():
    command = [sys.executable, "-m", "lanista.envs.hosting", "scene:x"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2 and "Traceback" not in ended.stderr


def receive(write):
    """What the trainer's end holds after the engine's end has written."""
    reports, reader = ReportSender(), ReportReader()
    write(reports)
    SideChannelManager([reader]).process(SideChannelManager([reports]).generate())
    return reader


@given(WORDS, st.dictionaries(WORDS, st.lists(st.integers(0, 2**31 - 1)), max_size=3))
def test_reports_arrive_as_they_were_sent(fault, lives):
    def write(reports):
        for name, agents in lives.items():
            reports.lives(name, np.array(agents, np.int32))
        reports.fault(fault)

    found = receive(write)
    assert found.fault == fault
    assert {name: agents.tolist() for name, agents in found.lives.items()} == {
        name: agents for name, agents in lives.items() if agents
    }
    found.start_message()
    assert not found.lives
