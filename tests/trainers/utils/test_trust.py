"""Nothing that a saved file names is started or imported, unless it is Lanista's own or the user says so."""

import io
import os
import sys

import pytest
from lanista.trainers.utils.text import typed
from lanista.trainers.utils.trust import Trust
from lanista.trainers.utils.trusted_names import Named, is_built_in

SHELL = Named(("python:os:system", "--command", "touch PWNED; true"))
NETWORK = Named(imports=("evil:Net",))


@pytest.mark.parametrize(
    "line",
    [
        [],
        ["scene:basic"],
        [" scene:basic "],
        ["scene:wall-jump?size=small"],
        ["scene:ball3d?areas=4", "--areas", "2"],
        ["scene:soccer-twos", "--max-steps=9"],
        ["godot:"],
        ["unreal:"],
    ],
)
def test_scenes_with_their_own_options_and_editors_are_lanistas(line):
    assert is_built_in(line) and not Trust().refusal(Named(tuple(line)))


@pytest.mark.parametrize(
    "line",
    [
        [""],
        ["scene:"],
        ["scene:evil"],
        ["scene:../basic"],
        ["unreal:scene:basic"],
        ["hosted:python:os:system"],
        ["scene:basic", "-logFile", "/home/me/.profile"],
        ["scene:basic", "-logFile=/home/me/.profile"],
        ["scene:basic", "-abslog", "x"],
        ["scene:basic", "--mlagents-port", "22"],
        ["scene:basic", "-mlAgentPort", "22"],
        ["scene:basic?mlagents-port=22"],
        ["scene:basic", "--", "-logFile", "x"],
        ["scene:basic", "--areas", "-logFile"],
        ["gymnasium:CartPole-v1"],
        ["gymnasium:evil:Env-v0"],
        ["pettingzoo:evil"],
        ["python:os:system"],
        ["registry:Basic"],
        ["registry:Basic?manifest=http://evil/m.yaml"],
        ["godot:game"],
        ["unreal:game"],
        ["./game.sh"],
        ["/bin/sh", "-c", "true"],
    ],
)
def test_everything_else_is_not(line):
    assert not is_built_in(line) and Trust().refusal(Named(tuple(line)))


def test_a_refusal_shows_the_whole_line_and_what_to_pass(tmp_path):
    told = Trust().refusal(SHELL, tmp_path / "configuration.yaml")
    assert typed(SHELL.environment) in told and "configuration.yaml" in told
    assert "--trust-run" in told and "--env" in told
    told = Trust(how="trust_run=True").refusal(NETWORK)
    assert "evil:Net" in told and "trust_run=True" in told and "--env" not in told


def test_what_is_shown_cannot_write_to_the_terminal():
    told = Trust().refusal(Named(("/bin/\x1b[2Jsh", "a\rb", "c\nd", "\u202ee")), None)
    assert told.isprintable() or set(told) - {"\n"} == {c for c in told if c.isprintable()}
    assert "\\x1b[2J" in told and "\\r" in told and "\\n" in told and "\\u202e" in told


def test_trust_that_was_given_is_not_asked_about():
    assert not Trust(True, ask=pytest.fail).refusal(SHELL)


def test_the_user_is_asked_once_for_each_thing():
    asked = []

    def ask(question):
        asked.append(question)
        return True

    trust = Trust(ask=ask)
    assert not trust.refusal(SHELL) and not trust.refusal(SHELL) and not trust.refusal(NETWORK)
    assert len(asked) == 2 and "touch PWNED" in asked[0] and "evil:Net" in asked[1]
    assert Trust(ask=lambda question: False).refusal(SHELL)


@pytest.mark.posix("terminals")
@pytest.mark.parametrize(
    ("answer", "granted"), [("y", True), ("YES", True), ("n", False), ("", False), ("yess", False)]
)
def test_a_terminal_is_asked_and_no_is_the_default(answer, granted, monkeypatch):
    primary, secondary = os.openpty()
    with open(secondary, "r+b", buffering=0) as raw, open(primary, "r+b", buffering=0) as keyboard:
        terminal = io.TextIOWrapper(raw, write_through=True)
        monkeypatch.setattr(sys, "stdin", terminal)
        monkeypatch.setattr(sys, "stderr", terminal)
        keyboard.write(f"{answer}\n".encode())
        assert bool(Trust.of_command(False).refusal(SHELL)) is not granted
        shown = b""
        while b"[y/N]" not in shown:  # one read may give what was typed alone, which the terminal echoes
            shown += keyboard.read(4096)


def test_without_a_terminal_nobody_is_asked(monkeypatch):
    for stream in (None, io.StringIO("y\n")):
        monkeypatch.setattr(sys, "stdin", stream)
        assert Trust.of_command(False).refusal(SHELL)
        assert not Trust.of_command(True).refusal(SHELL)
