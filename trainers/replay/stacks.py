"""Which observations are stacks of frames."""

from __future__ import annotations

import re
from collections.abc import Sequence

_STACKING = re.compile(r"StackingSensor_size(\d+)_")


def stack_sizes(names: Sequence[str], shapes: Sequence[tuple[int, ...]], given: int = 1) -> list[int]:
    """For each observation the number of frames that it is a stack of, 1 where it is none.

    Only pictures, of three axes [channels, height, width], are stacks here: their frames lie one behind
    another along the first axis, the newest last.

    Args:
        names: of the sensors. Unity names one that stacks `StackingSensor_size4_<the sensor's own name>`.
        shapes: of the observations, without the axis of the batch.
        given: the size for pictures whose sensor's name does not tell.
    """
    return [_stack(name, shape, given) for name, shape in zip(names, shapes, strict=True)]


def _stack(name: str, shape: tuple[int, ...], given: int) -> int:
    if len(shape) != 3:
        return 1
    told = _STACKING.search(name)
    size = int(told[1]) if told else given
    return size if size > 1 and shape[0] % size == 0 else 1
