"""From the observations of a behaviour to the input of a network's body."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import torch
from mlagents_envs.base_env import BehaviorSpec, DimensionProperty, ObservationSpec, ObservationType
from torch import Tensor, nn

from ..normalizer import Normalizer
from .settings import ConditioningType, NetworkSettings


class UnsupportedObservationError(ValueError):
    """An observation that no encoder takes."""


class ObservationKind(Enum):
    """What an observation is, and with it which encoder reads it."""

    VECTOR = "vector"
    VISUAL = "visual"
    VARIABLE_LENGTH = "variable length"


_NONE, _UNSPECIFIED = DimensionProperty.NONE, DimensionProperty.UNSPECIFIED
_TRANSLATIONAL = DimensionProperty.TRANSLATIONAL_EQUIVARIANCE
_KINDS: dict[tuple[DimensionProperty, ...], ObservationKind] = {
    (_NONE,): ObservationKind.VECTOR,
    (_UNSPECIFIED,): ObservationKind.VECTOR,
    (_NONE, _TRANSLATIONAL, _TRANSLATIONAL): ObservationKind.VISUAL,
    (_UNSPECIFIED,) * 3: ObservationKind.VISUAL,
    (DimensionProperty.VARIABLE_SIZE, _NONE): ObservationKind.VARIABLE_LENGTH,
}


def observation_kind(spec: ObservationSpec) -> ObservationKind:
    """The kind of an observation, from its number of dimensions and their properties.

    Raises:
        UnsupportedObservationError: no encoder takes such dimensions; the message names the observation.
    """
    kind = _KINDS.get(tuple(spec.dimension_property))
    if kind is None or len(spec.shape) != len(spec.dimension_property):
        properties = ", ".join(f"{p!s}".removeprefix("DimensionProperty.") for p in spec.dimension_property)
        known = "; ".join(
            f"{kind.value}: ({', '.join(str(p.name) for p in dimensions)})"
            for dimensions, kind in _KINDS.items()
        )
        raise UnsupportedObservationError(
            f"Observation '{spec.name}' of shape {tuple(spec.shape)} has the dimension properties "
            f"({properties}). What can be learned from is {known}. Change the sensor's observation spec."
        )
    return kind


@dataclass(frozen=True)
class VectorRun:
    """Neighbouring vector observations, which are encoded as one vector."""

    indices: tuple[int, ...]
    """Positions in the behaviour's list of observations."""
    sizes: tuple[int, ...]

    @property
    def size(self) -> int:
        """Components of all of them together."""
        return sum(self.sizes)


class ObservationEncoder(nn.Module):
    """Reads the observations of a behaviour.

    `prepare` does what has no parameters in it (normalising, concatenating), so that a learner does it once
    per update and takes rows of the result afterwards; `forward` does the rest, with gradients.
    All vector observations of a run share one normaliser: their step counts are always the same.
    """

    def __init__(self, specs: Sequence[ObservationSpec], normalize: bool) -> None:
        """Build the encoder.

        Raises:
            UnsupportedObservationError: there is no observation, or one that cannot be encoded.
        """
        super().__init__()
        _refuse_what_is_missing(specs)
        self.runs = [VectorRun(tuple(range(len(specs))), tuple(spec.shape[0] for spec in specs))]
        self.size = sum(run.size for run in self.runs)
        self.normalizers = nn.ModuleList(Normalizer(run.size) for run in self.runs) if normalize else None

    def prepare(self, obs: Sequence[Tensor]) -> list[Tensor]:
        """One [B, *shape] tensor per observation -> what `forward` takes: one [B, size] tensor per run."""
        inputs = [_joined([obs[i] for i in run.indices]) for run in self.runs]
        if self.normalizers is None:
            return inputs
        with torch.no_grad():
            return [normalizer(rows) for normalizer, rows in zip(self.normalizers, inputs)]

    def forward(self, inputs: Sequence[Tensor]) -> Tensor:
        """What `prepare` gave -> the body's input [B, size]."""
        return _joined(inputs)

    def observation_scale(self) -> list[tuple[Tensor | float, Tensor | float]]:
        """The mean and the deviation of each observation as far as they are known, else 0 and 1."""
        scales: list[tuple[Tensor | float, Tensor | float]] = [(0.0, 1.0)] * sum(
            len(run.indices) for run in self.runs
        )
        for run, normalizer in zip(self.runs, self.normalizers or ()):
            assert isinstance(normalizer, Normalizer)
            sizes = list(run.sizes)
            parts = zip(torch.split(normalizer.mean, sizes), torch.split(normalizer.deviation(), sizes))
            for index, (mean, deviation) in zip(run.indices, parts):
                scales[index] = (mean, deviation)
        return scales

    def update_normalization(self, obs: Sequence[Tensor], times: int = 1) -> bool:
        """Let the normalisers see one [k, *shape] tensor per observation, each row counted `times` times.

        Returns:
            Whether all of them could; False where numbers are too large.
        """
        fine = True
        for run, normalizer in zip(self.runs, self.normalizers or ()):
            assert isinstance(normalizer, Normalizer)
            fine = normalizer.update(_joined([obs[i] for i in run.indices]), times) and fine
        return fine


def as_float(obs: Tensor) -> Tensor:
    """An observation as networks compute with it: pictures of uint8 as float32 in 0 to 1, on their device.

    Pictures are stored and sent to a device as the engine's PNG files have them, a byte a pixel and channel,
    and are numbers only within one pass. Any other observation is passed on as it is.
    """
    return obs.float().div_(255.0) if obs.dtype == torch.uint8 else obs


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), dim=1)


def _refuse_what_is_missing(specs: Sequence[ObservationSpec]) -> None:
    if not specs:
        raise UnsupportedObservationError(
            "The behaviour has no observations: there is nothing to learn from."
        )
    for index, spec in enumerate(specs):
        kind = observation_kind(spec)
        if kind is not ObservationKind.VECTOR:
            raise UnsupportedObservationError(
                f"Observation {index} '{spec.name}' of shape {tuple(spec.shape)} is a {kind.value} "
                f"observation; this version of Lanista learns from vector observations only."
            )


def goal_observations(specs: Sequence[ObservationSpec]) -> list[int]:
    """Positions of the observations that are goal signals."""
    return [i for i, spec in enumerate(specs) if spec.observation_type == ObservationType.GOAL_SIGNAL]


def refuse_hyper_networks(spec: BehaviorSpec, settings: NetworkSettings) -> None:
    """Goal signals may not ask for a policy whose weights they generate.

    Raises:
        UnsupportedObservationError: they do; the message names the first.
    """
    goals = goal_observations(spec.observation_specs)
    if goals and settings.goal_conditioning_type is not ConditioningType.NONE:
        name = spec.observation_specs[goals[0]].name
        raise UnsupportedObservationError(
            f"Observation {goals[0]} '{name}' is a goal signal, and this version of Lanista has no hyper "
            f"networks; set network_settings.goal_conditioning_type to none to read it like any other."
        )
