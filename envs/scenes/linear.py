"""Small constant matrices that sum, repeat and rearrange the components of vectors [k, n]."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray


def _matrix(width: int, rows: Sequence[Mapping[int, float]]) -> NDArray[np.float32]:
    matrix = np.zeros((len(rows), width), np.float32)
    for row, entries in zip(matrix, rows):
        for column, value in entries.items():
            row[column] = value
    return matrix


_AXES = range(3)

SUM = np.ones((3, 3), np.float32)
"""[3, n] to the sum over the components, in each of 3 rows."""

# A matrix M [3, 3] lies flattened by rows; transpose(M) v = ROW_SUM (M * ROW_TILE v), M v = COLUMN_...
ROW_TILE = _matrix(3, [{i: 1} for i in _AXES for _ in _AXES])
ROW_SUM = _matrix(9, [{3 * i + j: 1 for i in _AXES} for j in _AXES])
COLUMN_TILE = _matrix(3, [{j: 1} for _ in _AXES for j in _AXES])
COLUMN_SUM = _matrix(9, [{3 * i + j: 1 for j in _AXES} for i in _AXES])

# a x b = CROSS_SUM (CROSS_LEFT a * CROSS_RIGHT b): the products a1 b2, a2 b0, a0 b1, a2 b1, a0 b2, a1 b0.
CROSS_LEFT = _matrix(3, [{k: 1} for k in (1, 2, 0, 2, 0, 1)])
CROSS_RIGHT = _matrix(3, [{k: 1} for k in (2, 0, 1, 1, 2, 0)])
CROSS_SUM = _matrix(6, [{i: 1, i + 3: -1} for i in _AXES])

# A quaternion (x, y, z, w) turned by an angle t about its own axis is cos(t/2) q + sin(t/2) TURN q.
TURN_Z = _matrix(4, [{1: 1}, {0: -1}, {3: 1}, {2: -1}])
TURN_X = _matrix(4, [{3: 1}, {2: 1}, {1: -1}, {0: -1}])

# The ten products of two components, and the rotation matrix that they make.
_PAIRS = [(i, j) for i in range(4) for j in range(i, 4)]
QUATERNION_FIRST = _matrix(4, [{i: 1} for i, _ in _PAIRS])
QUATERNION_SECOND = _matrix(4, [{j: 1} for _, j in _PAIRS])
_XX, _XY, _XZ, _XW, _YY, _YZ, _YW, _ZZ, _ZW, _WW = range(10)
QUATERNION_TO_MATRIX = _matrix(
    10,
    [
        {_WW: 1, _XX: 1, _YY: -1, _ZZ: -1},
        {_XY: 2, _ZW: -2},
        {_XZ: 2, _YW: 2},
        {_XY: 2, _ZW: 2},
        {_WW: 1, _YY: 1, _XX: -1, _ZZ: -1},
        {_YZ: 2, _XW: -2},
        {_XZ: 2, _YW: -2},
        {_YZ: 2, _XW: 2},
        {_WW: 1, _ZZ: 1, _XX: -1, _YY: -1},
    ],
)
