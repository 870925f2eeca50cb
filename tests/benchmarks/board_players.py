"""Players of PettingZoo's board games that nobody has to train: random, one step ahead, perfect.

They read what a seat observes, its own marks in the first plane and the other's in the second: [rows,
columns, 2] in one vector, or [2, rows, columns] where the game is made with `boards`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from lanista.envs.base import BehaviorName
from mlagents_envs.base_env import ActionTuple, DecisionSteps
from numpy.typing import NDArray

Board = NDArray[np.bool_]
"""[rows, columns, 2]."""
Squares = tuple[int, ...]
"""Nine: 1 of one's own, -1 of the other's, 0 free."""

LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]


class BoardPlayer:
    """Any of them; by itself it takes one of the allowed moves by chance."""

    def __init__(self, shape: tuple[int, int], seed: int = 0) -> None:
        self.shape = shape
        self.random = np.random.default_rng(seed)

    def policy(self, behavior: BehaviorName) -> BoardPlayer:
        """It plays every seat."""
        return self

    def act(self, steps: DecisionSteps, deterministic: bool = False) -> ActionTuple:
        """One move for each seat that waits."""
        seen = np.asarray(steps.obs[0], np.bool_)
        boards = np.moveaxis(seen, 1, 3) if seen.ndim == 4 else seen.reshape(len(steps), *self.shape, 2)
        allowed: Any = np.logical_not(steps.action_mask[0])
        moves = [self.move(board, np.flatnonzero(row)) for board, row in zip(boards, allowed)]
        return ActionTuple(discrete=np.array(moves, np.int32).reshape(-1, 1))

    def reset_agents(self, agent_ids: NDArray[np.int32]) -> None:
        """It remembers nobody."""

    def move(self, board: Board, allowed: NDArray[np.int64]) -> int:
        """One of the allowed moves."""
        return int(self.random.choice(allowed))


class OneStepAhead(BoardPlayer):
    """Of Connect Four: wins if it can at once, else hinders the other from doing so, else plays by chance."""

    def move(self, board: Board, allowed: NDArray[np.int64]) -> int:
        """See above."""
        for mine in (0, 1):
            winning = [column for column in allowed.tolist() if connects(board, column, mine)]
            if winning:
                return int(self.random.choice(winning))
        return super().move(board, allowed)


class Perfect(BoardPlayer):
    """Of tic-tac-toe: one of the best moves, by chance."""

    def move(self, board: Board, allowed: NDArray[np.int64]) -> int:
        """See above."""
        squares = tuple((board[..., 0].astype(int) - board[..., 1]).ravel().tolist())
        values = {move: -value_of(turned(squares, move)) for move in allowed.tolist()}
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


def turned(squares: Squares, move: int) -> Squares:
    """The squares after one's move, as the other sees them."""
    return tuple(-1 if k == move else -square for k, square in enumerate(squares))


@cache
def value_of(squares: Squares) -> int:
    """What whose turn it is reaches if both play perfectly: 1 won, 0 drawn, -1 lost."""
    if any(all(squares[k] == -1 for k in line) for line in LINES):
        return -1
    free = [k for k, square in enumerate(squares) if not square]
    return max((-value_of(turned(squares, move)) for move in free), default=0)
