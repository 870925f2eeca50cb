"""The encoder that makes the input of a network's body from the observations of a behavior."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from mlagents_envs.base_env import ObservationSpec, ObservationType
from numpy.typing import NDArray
from torch import Tensor, nn

from ..settings.models.networks import ConditioningType, NetworkSettings
from ..utils.errors import nearest
from .custom import build_custom
from .modules.attention import ENTITY_SIZE, EntityEncoder
from .modules.normalizer import Normalizer
from .modules.visual import VisualEncoder
from .observation_kinds import ObservationKind, UnsupportedObservationError, observation_kind


@dataclass(frozen=True)
class ObservationGroup:
    """Observations that are read together: neighboring vectors, or a single one of another kind."""

    kind: ObservationKind
    indices: tuple[int, ...]
    """Indices in the behavior's list of observations."""
    sizes: tuple[int, ...]
    """The number of components of each vector; empty for other kinds."""

    @property
    def size(self) -> int:
        """The number of components of all vectors together."""
        return sum(self.sizes)

    @property
    def index(self) -> int:
        """The position of the only observation."""
        (index,) = self.indices
        return index


class ObservationEncoder(nn.Module):
    """Encodes the observations of a behavior.

    `prepare` does what has no parameters (normalizing, concatenating), so that a learner does it once per
    update and takes rows of the result afterwards; `forward` does the rest, with gradients. The output holds
    the vectors, images and others in the observations' order, then one vector of all entities. Neighboring
    vectors share one normalizer: their step counts are always the same.

    A policy and its critic take the same prepared observations. Those that `critic_only_observations` keeps
    from the policy are groups of their own: its encoder prepares them too, and does not read them.
    """

    def __init__(
        self,
        specs: Sequence[ObservationSpec],
        settings: NetworkSettings,
        generator: torch.Generator | None = None,
        *,
        normalize: bool | None = None,
        leave_out: Sequence[int] = (),
        of_critic: bool = False,
    ) -> None:
        """Build the encoder with fresh weights, drawn from `generator` or torch's own.

        Args:
            specs: of the behavior.
            settings: which encoders, and whether vectors are normalized.
            generator: of the first weights.
            normalize: instead of the settings'; False to read what another encoder has prepared.
            leave_out: indices of observations that are neither prepared nor read.
            of_critic: read the observations that are the critic's alone.

        Raises:
            UnsupportedObservationError: there is no observation to read, or one that cannot be encoded.
            TrainerError: a custom encoder cannot be built.
        """
        super().__init__()
        if not specs:
            raise UnsupportedObservationError(
                "The behavior has no observations: there is nothing to learn from."
            )
        self.specs = list(specs)
        self.settings = settings
        critic_only = critic_only_observations(specs, settings)
        self.unread = frozenset(() if of_critic else critic_only)
        """Indices of observations that are prepared for a critic."""
        read = [spec for i, spec in enumerate(specs) if i not in leave_out and i not in self.unread]
        _require_some(read, specs)
        self.whole = build_custom(settings.body, read, settings, generator) if settings.body else None
        """A custom network, which replaces encoders and hidden layers."""
        chosen = _chosen(specs, settings)
        self.encoders = nn.ModuleDict()
        """The encoders of images, and custom ones, by the observation's index."""
        self.groups = list(_groups(specs, set(chosen), leave_out, critic_only, join=self.whole is None))
        """The groups that `prepare` gives."""
        self.read = [group for group in self.groups if group.indices[0] not in self.unread]
        """The groups that `forward` reads."""
        if self.whole is None:
            _require_numbers(read)
            for group in self.read:
                spec, named = specs[group.indices[0]], chosen.get(group.indices[0])
                if named:
                    self.encoders[str(group.index)] = build_custom(named, spec, settings, generator)
                elif group.kind is ObservationKind.VISUAL:
                    kind, width = settings.vis_encode_type, settings.layer_sizes[0]
                    encoder = VisualEncoder(spec, kind, width, generator, settings.initialization)
                    self.encoders[str(group.index)] = encoder
        self.columns, own_size = self._layout()
        """The columns of each observation's encoding in the output; entities have none of their own."""
        self.set_indices = [group.index for group in self.read if self._is_set(group)]
        """The observations that are read as sets of entities."""
        sets = [int(specs[index].shape[1]) for index in self.set_indices]
        self.entities = EntityEncoder(sets, own_size, generator) if sets else None
        self.size = own_size + (ENTITY_SIZE if sets else 0)
        self.runs = [group for group in self.groups if group.kind is ObservationKind.VECTOR]
        """The groups of vectors."""
        normalize = settings.normalize if normalize is None else normalize
        self.normalizers = (
            nn.ModuleList(Normalizer(run.size) for run in self.runs) if normalize and self.runs else None
        )
        vectors = self.whole is None and len(self.runs) == len(self.groups) == 1 and not self.encoders
        self.is_vectors_only = vectors and not leave_out
        """Whether all observations are vectors, and read unchanged."""

    def _is_set(self, group: ObservationGroup) -> bool:
        own = self.whole is not None or str(group.indices[0]) in self.encoders
        return group.kind is ObservationKind.VARIABLE_LENGTH and not own

    def _layout(self) -> tuple[dict[int, slice], int]:
        """The columns of each observation's encoding, and the number of all."""
        if self.whole is not None:
            return {}, self.whole.size
        columns, start = {}, 0
        for group in self.read:
            for k, index in enumerate(group.indices):
                if self._is_set(group):
                    continue
                key = str(index)
                size = group.sizes[k] if key not in self.encoders else _size(self.encoders[key])
                columns[index] = slice(start, start + size)
                start += size
        return columns, start

    @property
    def has_parameters(self) -> bool:
        """Whether there are weights between `prepare` and the output."""
        return not self.is_vectors_only and any(True for _ in self.parameters())

    def prepare(self, obs: Sequence[Tensor]) -> list[Tensor]:
        """What `forward` takes, one tensor per group, from one [B, *shape] tensor per observation."""
        inputs = [_joined([obs[i] for i in group.indices]) for group in self.groups]
        if self.normalizers is None:
            return inputs
        normalizers = iter(self.normalizers)
        with torch.no_grad():
            return [
                next(normalizers)(rows) if group.kind is ObservationKind.VECTOR else rows
                for group, rows in zip(self.groups, inputs)
            ]

    def forward(self, inputs: Sequence[Tensor]) -> Tensor:
        """The body's input [B, size] from the output of `prepare`."""
        if self.is_vectors_only:
            return inputs[0]
        if self.unread:
            pairs = zip(self.groups, inputs, strict=True)
            inputs = [rows for group, rows in pairs if group.indices[0] not in self.unread]
        if self.whole is not None:
            read: Tensor = self.whole([as_float(rows) for rows in inputs])
            return read
        encodings, sets = [], []
        for group, rows in zip(self.read, inputs, strict=True):
            key = str(group.indices[0])
            if key in self.encoders:
                encodings.append(self.encoders[key](as_float(rows)))
            elif group.kind is ObservationKind.VECTOR:
                encodings.append(rows)
            else:
                sets.append(rows)
        own = _joined(encodings) if encodings else None
        if self.entities is None:
            assert own is not None
            return own
        pooled: Tensor = self.entities(sets, own)
        return pooled if own is None else torch.cat((own, pooled), 1)

    def goal_columns(self) -> list[slice]:
        """The columns of the goals from which a hypernetwork makes weights; empty without one.

        Raises:
            UnsupportedObservationError: one of the goals is of variable length.
        """
        if self.whole is not None or self.settings.goal_conditioning_type is ConditioningType.NONE:
            return []
        read = {index for group in self.read for index in group.indices}
        goals = [i for i in goal_observations(self.specs) if i in read and 0 not in self.specs[i].shape]
        for index in goals:
            if index not in self.columns:
                raise UnsupportedObservationError(
                    f"Observation {index} '{self.specs[index].name}' is a goal signal of variable length, "
                    "from which no weights can be made. Set network_settings.goal_conditioning_type to none "
                    "to read it like any other, or send the goal as a vector or an image."
                )
        return [self.columns[index] for index in goals]

    @property
    def goals_encoded(self) -> bool:
        """Whether some goal has an encoder."""
        return any(str(index) in self.encoders for index in goal_observations(self.specs))

    def observation_scale(self) -> list[tuple[Tensor | float, Tensor | float]]:
        """The mean and deviation of each observation where they are tracked, else 0 and 1."""
        scales: list[tuple[Tensor | float, Tensor | float]] = [(0.0, 1.0)] * len(self.specs)
        for run, normalizer in zip(self.runs, self.normalizers or ()):
            assert isinstance(normalizer, Normalizer)
            sizes = list(run.sizes)
            parts = zip(torch.split(normalizer.mean, sizes), torch.split(normalizer.deviation(), sizes))
            for index, (mean, deviation) in zip(run.indices, parts):
                scales[index] = (mean, deviation)
        return scales

    def update_normalization(self, obs: Sequence[Tensor], times: int = 1) -> bool:
        """Update the normalizers by one [k, *shape] tensor per observation, each row counted `times` times.

        Returns:
            False if one of them would overflow, and has not changed.
        """
        fine = True
        for run, normalizer in zip(self.runs, self.normalizers or ()):
            assert isinstance(normalizer, Normalizer)
            fine = normalizer.update(_joined([obs[i] for i in run.indices]), times) and fine
        return fine


def as_float(obs: Tensor) -> Tensor:
    """An observation as networks compute with it: images of uint8 as float32 in 0 to 1, on their device.

    Images are stored and sent to a device as in the engine's PNG files, a byte per pixel and channel, and
    converted only within a pass. Any other observation is returned unchanged.
    """
    return obs.float().div_(255.0) if obs.dtype == torch.uint8 else obs


def to_tensors(columns: Sequence[NDArray[Any]], device: torch.device) -> list[Tensor]:
    """Columns on the learner's device; on the CPU without a copy where their rows are contiguous."""
    return [torch.from_numpy(np.ascontiguousarray(column)).to(device) for column in columns]


def only_vectors(specs: Sequence[ObservationSpec], settings: NetworkSettings) -> bool:
    """Whether all observations are vectors, and no custom network reads them."""
    own = settings.body is not None or settings.encoders
    return not own and all(observation_kind(spec) is ObservationKind.VECTOR for spec in specs)


def goal_observations(specs: Sequence[ObservationSpec]) -> list[int]:
    """Indices of the observations that are goal signals."""
    return [i for i, spec in enumerate(specs) if spec.observation_type == ObservationType.GOAL_SIGNAL]


def critic_only_observations(specs: Sequence[ObservationSpec], settings: NetworkSettings) -> tuple[int, ...]:
    """Indices of the observations that the settings keep from the policy.

    Raises:
        UnsupportedObservationError: one of the settings' names is no sensor's.
    """
    names, wanted = [str(spec.name) for spec in specs], settings.critic_only_observations
    unknown = [one for one in wanted if not any(is_named(name, one) for name in names)]
    if unknown:
        hints = [f" Did you mean {close!r}?" for one in unknown if (close := nearest(one, names))]
        raise UnsupportedObservationError(
            f"network_settings.critic_only_observations names {', '.join(map(repr, unknown))}, and no sensor "
            f"has such a name.{''.join(hints[:1])} Sensors: {', '.join(map(repr, names))}. A star at the end "
            "stands for the rest of a name."
        )
    return tuple(i for i, name in enumerate(names) if any(is_named(name, one) for one in wanted))


def is_named(name: str, wanted: str) -> bool:
    """Whether a sensor's name is the wanted one, at whose end a star stands for the rest."""
    return name.startswith(wanted[:-1]) if wanted.endswith("*") else name == wanted


def require_equal_groups(encoder: ObservationEncoder, of_critic: ObservationEncoder) -> None:
    """Refuse a critic whose inputs differ from those that the policy's encoder prepares.

    Raises:
        UnsupportedObservationError: it has custom networks for other observations.
    """
    if encoder.groups != of_critic.groups:
        raise UnsupportedObservationError(
            "network_settings.critic has networks of your own for other observations than the policy has, "
            "and both read the same prepared observations. Name `encoders` for the same sensors, and give "
            "both a `body` or neither."
        )


def _groups(
    specs: Sequence[ObservationSpec],
    alone: set[int],
    leave_out: Sequence[int],
    critic_only: Sequence[int],
    *,
    join: bool,
) -> Iterator[ObservationGroup]:
    """The observations in order, neighboring vectors together except those in `alone`.

    Observations of the policy and those of the critic alone are never together.
    """
    indices: list[int] = []

    def run() -> Iterator[ObservationGroup]:
        if indices:
            sizes = tuple(int(specs[i].shape[0]) for i in indices)
            yield ObservationGroup(ObservationKind.VECTOR, tuple(indices), sizes)
            indices.clear()

    for index, spec in enumerate(specs):
        if index in leave_out:
            continue
        kind = observation_kind(spec, any_shape=not join or index in alone)
        together = join and index not in alone and kind is ObservationKind.VECTOR
        if not together or (indices and (index in critic_only) is not (indices[-1] in critic_only)):
            yield from run()
        if kind is ObservationKind.VECTOR:
            indices.append(index)
            if not together:
                yield from run()
        else:
            yield ObservationGroup(kind, (index,), ())
    yield from run()


def _require_some(read: Sequence[ObservationSpec], specs: Sequence[ObservationSpec]) -> None:
    if not read:
        raise UnsupportedObservationError(
            "network_settings.critic_only_observations leaves no sensor for the agents to act by. "
            f"Sensors: {', '.join(repr(str(spec.name)) for spec in specs)}."
        )


def _require_numbers(read: Sequence[ObservationSpec]) -> None:
    if not any(math.prod(spec.shape) for spec in read):
        raise UnsupportedObservationError(
            f"The observations ({', '.join(repr(str(spec.name)) for spec in read)}) have no numbers in them: "
            "there is nothing to learn from. Give the agent's sensors something to observe."
        )


def _chosen(specs: Sequence[ObservationSpec], settings: NetworkSettings) -> dict[int, str]:
    """The observations with a custom encoder, by their indices."""
    names = [str(spec.name) for spec in specs]
    unknown = [name for name in settings.encoders if name not in names]
    if unknown:
        raise UnsupportedObservationError(
            f"network_settings.encoders names {', '.join(map(repr, unknown))}, and no sensor has that name. "
            f"Sensors: {', '.join(map(repr, names))}."
        )
    return {i: settings.encoders[name] for i, name in enumerate(names) if name in settings.encoders}


def _size(encoder: nn.Module) -> int:
    assert isinstance(encoder.size, int)
    return encoder.size


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), dim=1)
