"""How much memory on-policy learning takes: the steps that are collected, and the gradient of a minibatch."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import psutil
import torch
from mlagents_envs.base_env import BehaviorSpec
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from ...agent_processor.blocks import RowLayout
from ..buffers.replay.memory_limit import shortage, size_text
from ..networks.multi_actor import MultiActor
from ..networks.observations import ObservationEncoder, as_float
from ..settings.models.behavior import TrainerSettings

if TYPE_CHECKING:
    from ..algorithms.base import OnPolicyAlgorithm

logger = logging.getLogger(__name__)

PICTURE = 3
"""The dimensions of an image."""
COPIES, COPIES_OF_IMAGES, COPIES_OF_TEAMS = 3, 1, 3
"""How often an update holds what was observed: in the buffer, as networks read it, and shuffled. Images are
read from the buffer; of teams each row is put together with those of teammates."""
_ROWS = 2
"""The number of rows of the pass that shows what a gradient needs."""
_PASSING = 2
"""How much more memory a gradient takes in passing, in sizes of the largest array that it needs. Measured:
what is estimated is between 0.94 and 1.27 of what PPO takes, with each encoder, of 64 x 84 and 457 x 120."""


@dataclass(frozen=True, slots=True)
class UpdateMemory:
    """How much memory updates take, in bytes and steps."""

    buffer_size: int
    step: int
    """Bytes of a step while an update is made."""
    batch_size: int
    row: int
    """Bytes of a step in a minibatch; 0 where that is in the memory of a GPU."""
    trajectory: int
    """Bytes of the longest trajectory, while it is collected."""
    sensors: tuple[tuple[str, int], ...]
    """The observations' names, and the bytes of all in a full buffer."""

    @classmethod
    def of(
        cls, spec: BehaviorSpec, settings: TrainerSettings, algorithm: OnPolicyAlgorithm[Any]
    ) -> UpdateMemory:
        """The sizes for a behavior, assuming that images come as bytes."""
        hyper = settings.hyperparameters
        is_team, on_cpu = algorithm.traits.is_team, algorithm.device.type == "cpu"
        step = step_bytes(spec, is_team=is_team)
        names = [str(sensor.name) for sensor in spec.observation_specs]
        if settings.threaded and algorithm.learns_from_older:
            step += _of_row(spec)  # while another process learns from them, the next ones are collected
        return cls(
            hyper.buffer_size,
            step,
            hyper.batch_size,
            gradient_bytes(_encoders(algorithm), apart=is_team) if on_cpu else 0,
            settings.time_horizon * _of_row(spec),
            tuple(zip(names, (hyper.buffer_size * size for size in sensor_bytes(spec)), strict=True)),
        )

    @property
    def rollout(self) -> int:
        """Bytes of a full buffer, and of what an update makes of all of it."""
        return self.buffer_size * self.step

    @property
    def minibatch(self) -> int:
        """Bytes of a gradient step."""
        return self.batch_size * self.row

    def report(self, name: str) -> None:
        """Log how much memory updates take; warn if it is more than there is.

        Args:
            name: the behavior's name.
        """
        gradient = f", a minibatch of {self.batch_size:,} steps about {size_text(self.minibatch)}"
        logger.info(
            "%s: the rollout will take %s of memory when it holds %s steps (observations: %s)%s, and the "
            "unfinished trajectory of each agent up to %s (time_horizon).",
            name,
            size_text(self.rollout),
            f"{self.buffer_size:,}",
            ", ".join(f"{sensor} {size_text(size)}" for sensor, size in self.sensors),
            gradient if self.row else "",
            size_text(self.trajectory),
        )
        wanted = self.rollout + self.minibatch
        if (lacking := shortage(wanted)) is None:
            return
        left, culprit = lacking
        share = left / wanted
        logger.warning(
            "%s: the rollout and a minibatch take about %s of memory, and %s leaves %s: the system may end "
            "the run when it first learns. Set hyperparameters.buffer_size to at most about %s and "
            "batch_size to at most about %s, send smaller images, or use a machine with more memory.",
            name,
            size_text(wanted),
            culprit,
            size_text(left),
            f"{int(self.buffer_size * share):,}",
            f"{int(self.batch_size * share):,}",
        )


def warn_of_shortage(collected: Mapping[str, int], minibatch: int) -> None:
    """Warn if the behaviors of a run together take more memory than there is.

    Args:
        collected: by their names, the bytes that each has collected when it learns.
        minibatch: bytes of a gradient step of one of them; they learn one after another.
    """
    wanted = sum(collected.values()) + minibatch
    held = psutil.Process().memory_info().rss  # some of it may have been collected already
    if len(collected) > 1 and (lacking := shortage(wanted - held)) is not None:
        logger.warning(
            "What the behaviors %s have collected when they learn takes about %s of memory together, and %s "
            "leaves %s. Lower their hyperparameters.buffer_size, send smaller images, or use a machine with "
            "more memory.",
            ", ".join(collected),
            size_text(wanted),
            lacking[1],
            size_text(lacking[0]),
        )


def sensor_bytes(spec: BehaviorSpec) -> list[int]:
    """The bytes of each observation, assuming that images come as bytes."""
    shapes = [tuple(int(n) for n in o.shape) for o in spec.observation_specs]
    return [prod(shape) * (1 if len(shape) == PICTURE else 4) for shape in shapes]


def step_bytes(spec: BehaviorSpec, *, is_team: bool) -> int:
    """The bytes of a step while an update is made, its minibatches aside."""
    sizes = zip(sensor_bytes(spec), spec.observation_specs, strict=True)
    images = sum(size for size, o in sizes if len(o.shape) == PICTURE)
    return (COPIES_OF_TEAMS if is_team else COPIES_OF_IMAGES) * images + COPIES * (_of_row(spec) - images)


def gradient_bytes(encoders: Iterable[ObservationEncoder], *, apart: bool) -> int:
    """The bytes that a gradient step takes for each step of its minibatch.

    A pass of some rows shows what their gradient needs. Networks of the user's own are not asked.

    Args:
        encoders: those of the policy and its critics.
        apart: whether each reads rows of its own, or all the same.
    """
    kept: dict[int, Tensor] = {}
    read: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        if not tensor.requires_grad or tensor.grad_fn is not None:  # else it is a weight
            kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    observed = 0
    for encoder in encoders:
        if apart or not read:
            with torch.no_grad():
                read = [as_float(rows) for rows in encoder.prepare(list(_zeros(encoder)))]
            observed += sum(rows.nbytes for rows in read)
        if encoder.settings.body is None and not encoder.settings.encoders:
            with torch.enable_grad(), saved_tensors_hooks(keep, lambda tensor: tensor):
                encoder(read)
    sizes = [tensor.untyped_storage().nbytes() for tensor in kept.values()]
    return max(observed, sum(sizes) + _PASSING * max(sizes, default=0)) // _ROWS


def _zeros(encoder: ObservationEncoder) -> Iterator[Tensor]:
    for spec in encoder.specs:
        kind = torch.uint8 if len(spec.shape) == PICTURE else torch.float32
        yield torch.zeros(_ROWS, *(int(n) for n in spec.shape), dtype=kind)


def _encoders(algorithm: OnPolicyAlgorithm[Any]) -> Iterator[ObservationEncoder]:
    """The encoders through which gradients flow; one's of differing actors, as each reads its own rows."""
    targets = set(algorithm.target_modules())
    for key, network in algorithm.modules().items():
        if key not in targets:
            one = network.member(0) if isinstance(network, MultiActor) else network
            yield from (part for part in one.modules() if isinstance(part, ObservationEncoder))


def _of_row(spec: BehaviorSpec) -> int:
    """The bytes of a step where it is collected."""
    images = tuple(len(o.shape) == PICTURE for o in spec.observation_specs)
    layout = RowLayout.of(spec, as_bytes=images)
    return 4 * layout.words + layout.flags
