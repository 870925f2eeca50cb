"""Errors in the user's code are reported with their place in it."""

import runpy

import pytest

pytest.importorskip("gymnasium")

from lanista.envs.python.calls import describe_error

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
