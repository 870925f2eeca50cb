"""Images as bytes and as floats.

Engines send most images as PNG files, in which a pixel has a byte per channel. Users of a BaseEnv get them as
float32 in 0 to 1, as from ML-Agents. On the way to a trainer's networks they stay bytes, a quarter of the
size.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from mlagents_envs.base_env import BehaviorSpec, DecisionSteps, TerminalSteps
from numpy.typing import NDArray

from .base import BehaviorId, BehaviorSteps, ObsArray
from .errors import ObservationError

Images = Literal["float32", "uint8"]
"""The dtype of images that came as bytes: floats from 0 to 1, or the bytes themselves."""

FULL = np.float32(255)
BYTES = np.dtype(np.uint8)


def as_floats(pixels: ObsArray) -> NDArray[np.float32]:
    """Bytes divided by 255; floats as they are."""
    if pixels.dtype != BYTES:
        floats: NDArray[np.float32] = np.asarray(pixels, np.float32)
        return floats
    return np.divide(pixels, FULL, dtype=np.float32)


def as_bytes(numbers: ObsArray) -> NDArray[np.uint8] | None:
    """The bytes that `as_floats` converts to these numbers; None if some number has none."""
    whole = np.rint(numbers * FULL)
    if not ((whole >= 0) & (whole <= FULL) & (whole / FULL == numbers)).all():
        return None
    pixels: NDArray[np.uint8] = whole.astype(np.uint8)
    return pixels


class ImageDtypes:
    """The dtype of each image sensor of a run: as its first environment sent it.

    Agents of many environments act in one batch and are stored in one column. Where one sends a sensor
    compressed and another does not, the later one's images are converted to the dtype of the first one's.
    """

    def __init__(self) -> None:
        self.without_images: set[BehaviorId] = set()
        """Behaviors that `resolve` has found to have no images; it need not be called for them."""
        self._images: dict[BehaviorId, tuple[int, ...]] = {}
        self._bytes: dict[tuple[str, int], bool] = {}

    def resolve(
        self, behavior: BehaviorId, spec: BehaviorSpec, steps: BehaviorSteps, source: str
    ) -> BehaviorSteps:
        """The steps with every image in the dtype that the run uses.

        Raises:
            ObservationError: Images that are kept as bytes came as numbers that do not correspond to bytes.
        """
        images = self._images.get(behavior)
        if images is None:
            images = tuple(i for i, each in enumerate(spec.observation_specs) if len(each.shape) == 3)
            self._images[behavior] = images
        if not images:
            self.without_images.add(behavior)
            return steps
        for batch in steps:
            for index in images:
                if len(batch):
                    self._convert(behavior, spec, index, batch, source)
        return steps

    def _convert(
        self,
        behavior: BehaviorId,
        spec: BehaviorSpec,
        index: int,
        batch: DecisionSteps | TerminalSteps,
        source: str,
    ) -> None:
        found: ObsArray = batch.obs[index]
        are_bytes = found.dtype == BYTES
        # All teams of a behavior share a network.
        wanted = self._bytes.setdefault((behavior.partition("?")[0], index), are_bytes)
        if wanted == are_bytes:
            return
        kept: ObsArray | None = as_bytes(found) if wanted else as_floats(found)
        if kept is None:
            raise ObservationError(
                f"{source}: behavior {behavior!r}: observation {index} "
                f"({spec.observation_specs[index].name!r}) came as numbers that are no pixels / 255, where "
                "the run began with compressed pictures. Give this sensor the same compression in all "
                "environments."
            )
        batch.obs[index] = kept
