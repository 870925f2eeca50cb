"""How many steps of a behavior have room in memory, by what it observes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlagents_envs.base_env import BehaviorSpec, ObservationSpec

COLLECTED_BYTES = 2 << 30
"""The most bytes of a replay; or of an on-policy buffer, and of the trajectories on their way to it."""
MINIBATCH_BYTES = 1 << 30
"""The most bytes of a gradient step."""
HORIZON, LEAST_HORIZON = 64, 16
"""The most and the fewest steps of a trajectory that is learned from on-policy."""
LEAST_MINIBATCH, LEAST_REPLAY = 32, 2000
ON_THE_WAY = 4
"""How often trajectories that end at the same time are in memory, beside the buffer: where they were
collected, as the columns of a pass, as what the critic reads, and where they overfill the buffer."""
ENCODERS, ENCODERS_OFF_POLICY = 2, 4
"""The number of networks: a policy and its critic; or a policy and up to three networks of values."""
PICTURE = 3
"""The dimensions of an image."""
_COPIES_OF_NUMBERS = 4
"""The memory of a vector in a minibatch, and of what is computed from it, in sizes of the vector."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bytes of one step, and how much there may be of it."""

    on_policy: bool
    collected: int
    """The bytes of a step where it is collected, or remembered."""
    learned: int
    """The bytes of a step during an update, its minibatches aside."""
    gradient: int
    """The bytes of a step in a minibatch."""
    behaviors: int = 1
    """The number of behaviors that learn at the same time."""

    @classmethod
    def of(
        cls, spec: BehaviorSpec, network: Mapping[str, Any], *, on_policy: bool, is_team: bool, behaviors: int
    ) -> Bounds:
        """The bounds of a behavior.

        Args:
            spec: What the behavior observes.
            network: The behavior's `network_settings`.
            on_policy: Whether the trainer forgets what it has learned from.
            is_team: Whether the behavior learns with teammates.
            behaviors: How many learn at the same time.
        """
        from ...trainer.update_memory import sensor_bytes, step_bytes

        sensors = spec.observation_specs
        images = [sensor for sensor in sensors if len(sensor.shape) == PICTURE]
        numbers = sum(math.prod(sensor.shape) for sensor in sensors if len(sensor.shape) < PICTURE)
        gradient = 4 * _COPIES_OF_NUMBERS * numbers
        if images:
            gradient += _of_images(images, network, ENCODERS if on_policy else ENCODERS_OFF_POLICY)
        learned = step_bytes(spec, is_team=is_team)
        return cls(on_policy, max(sum(sensor_bytes(spec)), 1), learned, max(gradient, 1), behaviors)

    def horizon(self, agents: int) -> int:
        """Steps of a trajectory, so few that those of so many agents have room, and a buffer of them."""
        horizon = HORIZON
        while horizon > LEAST_HORIZON and not self._fits(agents * horizon):
            horizon //= 2
        return horizon

    def copies(self, agents: int, most: int) -> int:
        """The number of copies of an environment with so many agents in which all may act: a power of two."""
        while most > 1 and not self._fits(most * agents * HORIZON):
            most //= 2
        return most

    def apply(self, hyperparameters: dict[str, Any], agents: int) -> frozenset[str]:
        """Lower the sizes of minibatch and buffer to what has room; return the keys of the lowered ones."""
        before = dict(hyperparameters)
        if self.on_policy:
            least = power_above(self.horizon(agents) * agents)
            room = self._rollout_room - self._on_the_way(self.horizon(agents) * agents)
            most = max(_power_below(room // self.learned), least)
        else:
            most = max(COLLECTED_BYTES // self.behaviors // self.collected // 1000 * 1000, LEAST_REPLAY)
        if hyperparameters["buffer_size"] > most:
            hyperparameters["buffer_size"] = most
            if self.on_policy:
                hyperparameters["batch_size"] = min(hyperparameters["batch_size"], most // 8)
        most = max(_power_below(MINIBATCH_BYTES // self.gradient), LEAST_MINIBATCH)
        hyperparameters["batch_size"] = min(hyperparameters["batch_size"], most)
        return frozenset(key for key, value in before.items() if hyperparameters[key] != value)

    @property
    def _rollout_room(self) -> int:
        return COLLECTED_BYTES // self.behaviors

    def _on_the_way(self, steps: int) -> int:
        return ON_THE_WAY * steps * self.collected

    def _fits(self, steps: int) -> bool:
        """Whether so many steps that come in at once have room, with the least buffer for them."""
        return self._on_the_way(steps) + power_above(steps) * self.learned <= self._rollout_room


def _of_images(images: Sequence[ObservationSpec], network: Mapping[str, Any], encoders: int) -> int:
    """Bytes of a row of images in a minibatch that goes through so many encoders."""
    from ...networks.observation_kinds import UnsupportedObservationError
    from ...networks.observations import ObservationEncoder
    from ...settings.models.networks import NetworkSettings
    from ...trainer.update_memory import gradient_bytes

    try:
        made = [ObservationEncoder(images, NetworkSettings(**network)) for _ in range(encoders)]
    except UnsupportedObservationError:  # a run will say so
        return 4 * sum(math.prod(int(n) for n in image.shape) for image in images)
    return gradient_bytes(made, apart=encoders > ENCODERS)


def power_above(steps: int) -> int:
    """The least power of two that is no less."""
    return 1 << math.ceil(math.log2(max(steps, 1)))


def _power_below(steps: int) -> int:
    return 1 << (max(steps, 1).bit_length() - 1)
