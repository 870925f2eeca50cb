"""The reference players play as described."""

import board_players
import numpy as np
import pytest
from board_players import BoardPlayer, OneStepAhead, Perfect, connects, every_game, value_of
from lanista.envs.python.sources import make_source
from lanista.trainers.tools.tournament.match import play_all_sides


def board(*rows):
    """A Connect Four board: x for the player's own marks, o for the other's."""
    full = ["." * 7] * (6 - len(rows)) + list(rows)
    return np.array([[[mark == "x", mark == "o"] for mark in row] for row in full])


@pytest.mark.parametrize(
    ("rows", "column", "plane"),
    [
        (["xxx.ooo"], 3, 0),
        (["xxx.ooo"], 3, 1),
        (["x......", "x......", "x......"], 0, 0),
        (["...o...", "..ox...", ".oxx...", "oxxx..."], 3, None),
        (["..ox...", ".oxx...", "oxxx..."], 3, 1),
        (["ooxo...", "xoox...", "xxxo..."], 3, None),
    ],
)
def test_four_in_a_row(rows, column, plane):
    found = [mine for mine in (0, 1) if connects(board(*rows), column, mine)]
    assert found == {0: [0], 1: [1]}.get(plane, []) or plane in found


def test_the_one_step_player_prefers_winning_to_blocking():
    player, all_columns = OneStepAhead((6, 7)), np.arange(7)
    assert player.move(board("xxx.ooo"), all_columns) == 3
    assert player.move(board("o......", "o..xx..", "o..xx.x"), all_columns) == 5
    assert player.move(board("o......", "o......", "o..x..."), all_columns) == 0


def test_perfect_players_draw():
    assert value_of((0,) * 9) == 0
    assert value_of((1, 1, 0, -1, -1, 0, 0, 0, 0)) == 1
    assert value_of((-1, -1, -1, 1, 1, 0, 0, 0, 0)) == -1


@pytest.mark.parametrize("boards", ["false", "true"])
def test_a_perfect_player_never_loses_to_a_random_one(boards):
    pytest.importorskip("pettingzoo")
    pytest.importorskip("pygame", reason="pettingzoo's classic games need pygame")
    source = f"pettingzoo:pettingzoo.classic.tictactoe_v3?boards={boards}"
    env = make_source(source, seed=1, areas=4, self_play=True)
    result = play_all_sides(env, Perfect((3, 3), 1), BoardPlayer((3, 3), 2), 40)
    assert result.losses == 0 and result.wins > 25


@pytest.mark.parametrize("seat", [0, 1])
def test_a_perfect_player_loses_none_of_all_games_and_a_random_one_some(seat):
    won, drawn, lost = every_game(Perfect((3, 3), 1), seat)
    assert lost == 0 and won > drawn > 0
    assert every_game(BoardPlayer((3, 3), 2), seat)[2] > 0


def test_all_games_of_the_first_free_square_are_counted():
    class First(BoardPlayer):
        def move(self, board, allowed):
            return int(allowed[0])

    def games(squares, ours):
        """Won, drawn and lost from here on, seen by the first free square's player."""
        if value := any(all(squares[k] == -1 for k in line) for line in board_players.LINES):
            return np.array([not ours, 0, ours]) * value
        free = [k for k in range(9) if not squares[k]]
        if not free:
            return np.array([0, 1, 0])
        moves = free[:1] if ours else free
        return sum(games(board_players.after_move(squares, move), not ours) for move in moves)

    for seat in (0, 1):
        assert every_game(First((3, 3)), seat) == tuple(games((0,) * 9, seat == 0))
