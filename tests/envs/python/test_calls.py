"""Errors in the user's code are reported with their place in it."""

import asyncio
import logging
import os
import runpy
import threading

import pytest

pytest.importorskip("gymnasium")

from console_runs import until
from lanista.envs.errors import EnvContractError
from lanista.envs.python.call_watch import CallWatch
from lanista.envs.python.calls import call_method, describe_error, working_folder_kept
from mlagents_envs.exception import UnityEnvironmentException

GAME = """
from lanista.envs.python.pettingzoo.turn_based import TurnBasedEnvironment
from lanista.envs.python.action_spaces import forbidden_actions

def deep():
    TurnBasedEnvironment(None)

def deeper():
    forbidden_actions([1, 1], (3,))
"""


@pytest.mark.parametrize(("name", "line"), [("deep", 6), ("deeper", 9)])
def test_the_place_is_the_users_last_line_even_if_lanista_raises_below_it(tmp_path, name, line):
    (tmp_path / "game.py").write_text(GAME)
    function = runpy.run_path(str(tmp_path / "game.py"))[name]
    with pytest.raises((TypeError, ValueError)) as raised:
        function()
    # As where it is caught in a run: the frames above the user's are not part of it.
    error = raised.value.with_traceback(raised.value.__traceback__.tb_next)
    assert describe_error(error).endswith(f"(game.py, line {line})")


@pytest.mark.parametrize("error", [ValueError, SystemExit, GeneratorExit, asyncio.CancelledError])
def test_whatever_a_game_raises_is_named_but_for_the_users_own_ctrl_c(error):
    class Game:
        def step(self, error):
            raise error

    with pytest.raises(EnvContractError, match=rf"step of .*Game> raised {error.__name__} \(test_calls\.py"):
        call_method(Game(), "step", error)
    with pytest.raises(KeyboardInterrupt):
        call_method(Game(), "step", KeyboardInterrupt)


def test_a_call_that_does_not_return_is_named_once_with_its_place(caplog):
    told = threading.Event()
    caplog.handler.addFilter(lambda record: told.set() or True)
    watch = CallWatch(seconds=0.01, poll_seconds=0.001)

    def hang():
        assert told.wait(60)
        threading.Event().wait(0.05)

    with caplog.at_level(logging.WARNING):
        watch.call(hang, "step of mine")
        watch.call(lambda: None, "reset of mine")
    (text,) = caplog.messages
    assert text.startswith(
        "step of mine has not returned for 0.01 s, and is waited for (test_calls.py, line "
    )


def test_two_calls_that_hang_at_once_are_each_named_once(caplog):
    """By turns they had been named again and again."""
    watch = CallWatch(seconds=0.01, poll_seconds=0.001)
    released = threading.Event()
    threads = [
        threading.Thread(target=watch.call, args=(lambda: released.wait(60), f"step of {name}"))
        for name in ("one", "other")
    ]
    with caplog.at_level(logging.WARNING):
        for thread in threads:
            thread.start()
        assert until(lambda: len(caplog.messages) >= 2)
        threading.Event().wait(0.05)  # fifty more looks
        released.set()
        for thread in threads:
            thread.join()
    assert sorted(text.partition(" has ")[0] for text in caplog.messages) == ["step of one", "step of other"]


def test_an_environment_that_changes_the_working_directory_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "assets").mkdir()
    with (
        pytest.raises(
            UnityEnvironmentException, match=r"python:mine:make has changed .*assets.*--env-workers"
        ),
        working_folder_kept("python:mine:make"),
    ):
        os.chdir("assets")
    assert os.getcwd() == str(tmp_path)
    with working_folder_kept("python:mine:make", refuse=False):
        os.chdir("assets")
    assert os.getcwd() == str(tmp_path)
