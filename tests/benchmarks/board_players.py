"""Players of PettingZoo's board games that need no training: random, one step ahead, perfect.

They read what a seat observes, its own marks in the first plane and the opponent's in the second: [rows,
columns, 2] in one vector, or [2, rows, columns] where the game is made with `boards`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from lanista.envs.base import BehaviorId, BehaviorName
from mlagents_envs.base_env import ActionTuple, DecisionSteps
from numpy.typing import NDArray

Board = NDArray[np.bool_]
"""[rows, columns, 2]."""
Squares = tuple[int, ...]
"""Nine: 1 for one's own mark, -1 for the opponent's, 0 if free."""

LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]


class BoardPlayer:
    """Base of the players; takes a random allowed move."""

    def __init__(self, shape: tuple[int, int], seed: int = 0) -> None:
        self.shape = shape
        self.random = np.random.default_rng(seed)

    def policy(self, behavior: BehaviorName) -> BoardPlayer:
        """It plays every seat."""
        return self

    def act(
        self, steps: DecisionSteps, deterministic: bool = False, behavior_id: BehaviorId = ""
    ) -> ActionTuple:
        """One move for each seat that waits."""
        seen = np.asarray(steps.obs[0], np.bool_)
        boards = np.moveaxis(seen, 1, 3) if seen.ndim == 4 else seen.reshape(len(steps), *self.shape, 2)
        allowed: Any = np.logical_not(steps.action_mask[0])
        moves = [self.move(board, np.flatnonzero(row)) for board, row in zip(boards, allowed)]
        return ActionTuple(discrete=np.array(moves, np.int32).reshape(-1, 1))

    def reset_agents(self, agent_ids: NDArray[np.int32], behavior_id: BehaviorId = "") -> None:
        """It has no state."""

    def move(self, board: Board, allowed: NDArray[np.int64]) -> int:
        """One of the allowed moves."""
        return int(self.random.choice(allowed))


class OneStepAhead(BoardPlayer):
    """Of Connect Four: wins if it can at once, else prevents the opponent from winning, else random."""

    def move(self, board: Board, allowed: NDArray[np.int64]) -> int:
        """See above."""
        for mine in (0, 1):
            winning = [column for column in allowed.tolist() if connects(board, column, mine)]
            if winning:
                return int(self.random.choice(winning))
        return super().move(board, allowed)


class Perfect(BoardPlayer):
    """Of tic-tac-toe: a random one of the best moves."""

    def move(self, board: Board, allowed: NDArray[np.int64]) -> int:
        """See above."""
        squares = tuple((board[..., 0].astype(int) - board[..., 1]).ravel().tolist())
        values = {move: -value_of(after_move(squares, move)) for move in allowed.tolist()}
        best = max(values.values())
        return int(self.random.choice([move for move, value in values.items() if value == best]))


def connects(board: Board, column: int, plane: int) -> bool:
    """Whether a mark of this plane, thrown into the column, makes four in a row. Row 0 is on top."""
    rows, columns = board.shape[:2]
    free = np.flatnonzero(~board[:, column].any(1))
    if not len(free):
        return False
    row, marks = int(free[-1]), board[..., plane]
    for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
        length = 1
        for way in (1, -1):
            r, c = row + way * down, column + way * right
            while 0 <= r < rows and 0 <= c < columns and marks[r, c]:
                length += 1
                r, c = r + way * down, c + way * right
        if length >= 4:
            return True
    return False


def every_game(policy: Any, seat: int) -> tuple[int, int, int]:
    """Games of tic-tac-toe won, drawn and lost against every sequence of moves that an opponent could play.

    Args:
        policy: That of a seat, which takes its most likely action.
        seat: 0 begins.
    """
    empty = (0,) * 9
    begun = [empty] if seat == 0 else [after_move(empty, move) for move in range(9)]
    won = drawn = lost = 0
    waiting = Counter(begun)
    while waiting:
        boards, seen = list(waiting), waiting
        steps = decision_steps(boards, seat)
        moves = policy.act(steps, True, f"player?team={seat}").discrete[:, 0].tolist()
        waiting = Counter()
        for squares, move in zip(boards, moves):
            assert not squares[move], f"square {move} is taken in {squares}"
            theirs = after_move(squares, move)
            if is_lost(theirs):
                won += seen[squares]
            elif all(theirs):
                drawn += seen[squares]
            for reply in () if is_lost(theirs) else np.flatnonzero(np.equal(theirs, 0)).tolist():
                mine = after_move(theirs, reply)
                if is_lost(mine):
                    lost += seen[squares]
                elif all(mine):
                    drawn += seen[squares]
                else:
                    waiting[mine] += seen[squares]
    return won, drawn, lost


def decision_steps(boards: Sequence[Squares], seat: int) -> DecisionSteps:
    """What a seat observes of these boards, as the game shows it."""
    squares, count = np.array(boards), len(boards)
    marks = np.stack([squares == 1, squares == -1], axis=2).reshape(count, 18).astype(np.float32)
    seats = np.tile(np.eye(2, dtype=np.float32)[seat], (count, 1))
    nothing, agents = np.zeros(count, np.float32), np.arange(count, dtype=np.int32)
    return DecisionSteps([marks, seats], nothing, agents, [squares != 0], 0 * agents, nothing)


def is_lost(squares: Squares) -> bool:
    """Whether the opponent has three in a row."""
    return any(all(squares[k] == -1 for k in line) for line in LINES)


def after_move(squares: Squares, move: int) -> Squares:
    """The squares after a move, from the opponent's side."""
    return tuple(-1 if k == move else -square for k, square in enumerate(squares))


@cache
def value_of(squares: Squares) -> int:
    """The result of the side to move if both play perfectly: 1 won, 0 drawn, -1 lost."""
    if is_lost(squares):
        return -1
    free = [k for k, square in enumerate(squares) if not square]
    return max((-value_of(after_move(squares, move)) for move in free), default=0)
