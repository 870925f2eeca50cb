"""Completion: a shell that asks the program gets commands, flags and names, and nothing is run or loaded."""

import os
import shutil
import subprocess
import sys

import pytest
from lanista.trainers.cli.main import COMMANDS, run
from lanista.trainers.tools.completion import SHELLS

pytest.importorskip("argcomplete", reason="it came with a later version: install Lanista again")
PROGRAM = "import sys; sys.argv = ['{0}']; from lanista.trainers import console; console.{1}()"


def completions(folder, line, shell="bash"):
    """What the program offers for a line, asked as the scripts of the shells ask."""
    name = line.split()[0]
    answer = folder / "answer"
    variables = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_SHELL": shell,
        "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "COMP_TYPE": "9",
    }
    (folder / "torch.py").write_text("raise ImportError('no completion needs torch')")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(name, name.replace("-", "_"))],
        cwd=folder,
        env={**os.environ, **variables, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and not done.stdout, (done.stdout, done.stderr)
    return {word.strip() for word in answer.read_text().split("\n")} - {""}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("lanista re", {"relay", "report"}),
        ("lanista play --ep", {"--episodes"}),
        ("lanista learn --see", {"--seed", "--seeds"}),
        ("lanista-learn --see", {"--seed"}),
        ("lanista learn --preset dqn/", {"dqn/basic", "dqn/cartpole"}),
        ("lanista-learn --preset dqn/", {"dqn/basic", "dqn/cartpole"}),
        ("lanista init --env scene:ba", {"scene:ball3d", "scene:baton-pass", "scene:basic"}),
        ("lanista scenes export scene:ba", {"scene:ball3d", "scene:baton-pass", "scene:basic"}),
        ("lanista scenes ", {"list", "export", "--help"}),
        ("lanista init --trainer s", {"sac"}),
        ("lanista completion f", {"fish"}),
        ("lanista play first --en", {"--env", "--env-args"}),
        ("lanista play --pretrained bal", {"ball3d"}),
    ],
)
def test_names_are_offered(line, offered, tmp_path):
    # fish is given words as they are: in bash, a colon begins a new word.
    assert completions(tmp_path, line, shell="fish") == offered


def test_every_command_is_offered(tmp_path):
    assert completions(tmp_path, "lanista ") >= {"learn", *COMMANDS}


@pytest.mark.parametrize("line", ["lanista play fi", "lanista report fi", "lanista-learn --run-id fi"])
def test_runs_are_offered(line, tmp_path):
    for name in ("first", "filmed", "second"):
        (tmp_path / "results" / name / "run_logs").mkdir(parents=True)
    assert completions(tmp_path, line) == {"first", "filmed"}


def test_configuration_files_are_offered(tmp_path):
    (tmp_path / "mine.yaml").touch()
    assert completions(tmp_path, "lanista-learn mi") == {"mine.yaml"}


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_of_each_shell_names_both_programs(shell, capsys):
    assert run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "lanista-learn" in script and "_ARGCOMPLETE" in script


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_by_what_is_printed(tmp_path):
    """The programs are put on the search path, since tests run where they need not be installed."""
    for name in ("lanista", "lanista-learn"):
        program = tmp_path / name
        code = PROGRAM.format(name, name.replace("-", "_"))
        program.write_text(f"#!/bin/sh\nexec '{sys.executable}' -c \"{code}\"\n")
        program.chmod(0o755)
    (tmp_path / "script").write_text(_script("bash"))
    line = "lanista-learn --preset td3/p"
    asked = (
        f"source ./script; COMP_LINE='{line}' COMP_POINT={len(line)} COMP_TYPE=9; "
        f"_python_argcomplete lanista-learn td3/p --preset; printf '%s' \"${{COMPREPLY[@]}}\"; "
        "complete -p lanista"
    )
    variables = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", asked], cwd=tmp_path, env=variables, capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("td3/pendulum") and "-F _python_argcomplete lanista" in done.stdout


def _script(shell):
    import argcomplete
    from lanista.trainers.tools.completion import PROGRAMS

    return argcomplete.shellcode(PROGRAMS, shell=shell)
