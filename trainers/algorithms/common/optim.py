"""What gradient steps are taken with: Adam on one vector, schedules of hyperparameters, target networks.

Formulas and floors of the schedules are ML-Agents' (docs/algorithms.md, "Schedules"), so that old settings
keep their meaning: an initial value below its floor rises to the floor.
"""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from mlagents_envs.base_env import BehaviorSpec
from torch import Tensor, nn

from ....envs.base import ObsArray
from ....envs.validation import NonFinitePolicy
from ...networks.fast.onednn import torch_products
from ...networks.observations import ObservationEncoder, to_tensors
from ...settings.models.algorithms import ClippedObjectiveSettings
from ...settings.models.hyperparameters import ScheduleType
from ...utils import distributed


class FlatParameters:
    """Lets parameters share one vector, and their gradients another.

    An optimizer step, a check for finite values or a copy of the weights is then one operation for any number
    of layers: with small networks these calls cost more than their arithmetic.
    """

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        members = [p for p in parameters if p.requires_grad]
        data = torch.cat([p.detach().reshape(-1) for p in members])
        self.vector = nn.Parameter(data)
        self.gradient = self.vector.grad = torch.zeros_like(data)
        """The gradients of all parameters as one vector, [total number of parameters]."""
        start = 0
        for p in members:
            end = start + p.numel()
            p.data = data[start:end].view_as(p)
            p.grad = self.gradient[start:end].view_as(p)
            start = end

    def zero_grad(self) -> None:
        """Reset the gradient; backward() adds to it in place."""
        self.gradient.zero_()


class FlatAdam:
    """Adam (Kingma and Ba 2015, arXiv 1412.6980) on one vector, with its usual decay rates.

    The arithmetic is that of torch.optim.Adam(fused=True), in one pass over the numbers, without what that
    does around it for any number of groups and devices, which costs more per step here than the arithmetic.
    With a weight decay it is AdamW (Loshchilov and Hutter 2019, arXiv 1711.05101).
    """

    BETA1, BETA2 = 0.9, 0.999

    def __init__(self, parameters: FlatParameters, learning_rate: float, weight_decay: float = 0.0) -> None:
        self.parameters = parameters
        self.learning_rate: float | Tensor = learning_rate
        self.weight_decay = weight_decay
        self.epsilon = 1e-8
        """What is added to the root of the mean square before the division by it."""
        self.mean = torch.zeros_like(parameters.vector.data)
        self.square = torch.zeros_like(parameters.vector.data)
        self._steps = torch.zeros((), device=parameters.vector.device)

    @property
    def steps(self) -> int:
        """The number of steps so far."""
        return int(self._steps)

    @torch.no_grad()
    def step(self, left_out: Tensor | None = None) -> None:
        """Update the weights by the current gradient, unless `left_out` is 1, a number on their device."""
        self._steps += 1
        learning_rate: Any = self.learning_rate  # torch's hints allow only a number, or only a tensor
        step = torch._fused_adamw_ if self.weight_decay else torch._fused_adam_
        step(
            [self.parameters.vector],
            [self.parameters.gradient],
            [self.mean],
            [self.square],
            [],
            [self._steps],
            lr=learning_rate,
            beta1=self.BETA1,
            beta2=self.BETA2,
            weight_decay=self.weight_decay,
            eps=self.epsilon,
            amsgrad=False,
            maximize=False,
            found_inf=left_out,
        )
        if left_out is not None:
            self._steps -= left_out

    def tensors(self) -> list[Tensor]:
        """What a step reads and changes, the gradient included."""
        weights, gradient = self.parameters.vector.detach(), self.parameters.gradient
        return [weights, gradient, self.mean, self.square, self._steps]

    def state_dict(self) -> dict[str, Any]:
        """Both moments and the number of steps."""
        return {"steps": self.steps, "mean": self.mean, "square": self.square}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._steps.fill_(state["steps"])
        self.mean.copy_(state["mean"])
        self.square.copy_(state["square"])


logger = logging.getLogger(__name__)


class CheckedAdam:
    """Adam that refuses, or skips, a gradient that is not finite."""

    def __init__(
        self,
        parameters: Iterable[nn.Parameter] | FlatParameters,
        learning_rate: float,
        non_finite: NonFinitePolicy,
        *,
        of: str = "the policy",
        weight_decay: float = 0.0,
    ) -> None:
        """Set up Adam; `of` says in messages what the gradient belongs to, `weight_decay` is AdamW's."""
        self.of = of
        self.flat = parameters if isinstance(parameters, FlatParameters) else FlatParameters(parameters)
        self.adam = FlatAdam(self.flat, learning_rate, weight_decay)
        self.non_finite = non_finite
        self.max_norm: float | None = None
        """The greatest Euclidean norm of a gradient, to which larger ones are scaled down; None: no limit."""
        self._norm_sum, self._norm_count = 0.0, 0
        self._unread = torch.zeros(3, device=self.flat.gradient.device)
        """Three sums over the steps on the device that were not read yet: the gradients' norms, the number of
        these, and the number of gradients that were not finite."""
        self._warned: set[str] = set()

    def zero_grad(self) -> None:
        """Reset the gradient."""
        self.flat.zero_grad()

    def step(self, learning_rate: float, policy_step: int) -> None:
        """Update the weights by the current gradient, if it and its square are finite.

        With several ranks it is the mean of their gradients, so all of them have to take the step.

        Args:
            learning_rate: of this step.
            policy_step: for messages.

        Raises:
            FloatingPointError: it is not, and `non_finite` is STOP; the weights have not changed.
        """
        self.adam.learning_rate = learning_rate
        distributed.all_reduce_mean(self.flat.gradient)
        with torch_products():
            square = self.flat.gradient.dot(self.flat.gradient).item()
        if math.isfinite(square):
            norm = math.sqrt(square)
            self._norm_sum += norm
            self._norm_count += 1
            if self.max_norm is not None and norm > self.max_norm:
                self.flat.gradient.mul_(self.max_norm / norm)
            self.adam.step()
            return
        self._refuse(policy_step)

    @torch.no_grad()
    def step_on_device(self, learning_rate: Tensor) -> None:
        """Like `step`, but without waiting for the device; call `read_steps` before the weights are used.

        After a gradient that is not finite no further step is taken until then, if `non_finite` is STOP.
        """
        gradient = self.flat.gradient
        norm = gradient.dot(gradient).sqrt()
        left_out = ~norm.isfinite()
        if self.non_finite is NonFinitePolicy.STOP:
            left_out = left_out | (self._unread[2] > 0)
        counted = torch.stack((norm.masked_fill(left_out, 0.0), ~left_out, left_out))
        self._unread += counted
        if self.max_norm is not None:
            gradient.mul_((self.max_norm / norm).clamp(max=1.0))
        self.adam.learning_rate = learning_rate
        self.adam.step(counted[2])

    def read_steps(self, policy_step: int) -> None:
        """Learn of the steps that were made on the device.

        Raises:
            FloatingPointError: a gradient was not finite, and `non_finite` is STOP; the weights are those
                from before it.
        """
        norms, count, left_out = self._unread.tolist()
        self._unread.zero_()
        self._norm_sum += norms
        self._norm_count += int(count)
        if left_out:
            self._refuse(policy_step)

    def tensors(self) -> list[Tensor]:
        """All that `step_on_device` changes."""
        return [*self.adam.tensors(), self._unread]

    def _refuse(self, policy_step: int) -> None:
        """Report a gradient that is not finite, for which the weights have not changed."""
        if self.non_finite is NonFinitePolicy.STOP:
            raise FloatingPointError(
                f"The gradient of {self.of} at step {policy_step} is not a finite number, or too large; the "
                "weights are still those from before it. Lower learning_rate, check the size of rewards, set "
                "network_settings.normalize: true, or let such minibatches be left out with "
                "env_settings.non_finite: drop."
            )
        found = f"at step {policy_step} its gradient, of {self.of}, is no finite number"
        self.warn_once("Minibatch left out", found)

    def pop_mean_norm(self) -> float | None:
        """The mean norm of the gradients since the last call, before they were clipped; None without any."""
        mean = self._norm_sum / self._norm_count if self._norm_count else None
        self._norm_sum, self._norm_count = 0.0, 0
        return mean

    def report_overflow(self, spec: BehaviorSpec, obs: Sequence[ObsArray]) -> None:
        """Report observations that would overflow their running statistics, which have not changed.

        Raises:
            FloatingPointError: `non_finite` is STOP.
        """
        largest = [float(np.abs(o).max(initial=0.0)) for o in obs]
        worst = max(range(len(obs)), key=largest.__getitem__)
        found = f"the observation {spec.observation_specs[worst].name!r} holds {largest[worst]:.3g}"
        if self.non_finite is NonFinitePolicy.STOP:
            raise FloatingPointError(
                f"The running statistics of the observations overflow: {found}. Correct what the agents "
                "collect, set network_settings.normalize: false, or let such steps be left out of the "
                "statistics with env_settings.non_finite: drop."
            )
        self.warn_once("Left out of the running statistics of observations", found)

    def warn_once(self, what: str, found: str) -> None:
        """Warn, the first time for each `what`."""
        if what not in self._warned:
            self._warned.add(what)
            logger.warning("%s: %s. This is said once.", what, found)

    def state_dict(self) -> dict[str, Any]:
        """Adam's state."""
        return self.adam.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.adam.load_state_dict(state)


def update_normalizer(
    obs: Sequence[ObsArray],
    encoder: ObservationEncoder,
    update: Callable[[Sequence[Tensor]], bool],
    optimizer: CheckedAdam,
    spec: BehaviorSpec,
    device: torch.device,
) -> None:
    """Let an encoder's running statistics, where it has any, see N steps, [N, *shape] of each sensor.

    `update` updates them, and returns False where they would overflow, which `optimizer` reports.

    Raises:
        FloatingPointError: the statistics would overflow, and `non_finite` is STOP.
    """
    if encoder.normalizers is None:
        return
    if not update(to_tensors(obs, device)):
        optimizer.report_overflow(spec, obs)


LEARNING_RATE_FLOOR = 1e-10
BETA_FLOOR = 1e-5


@dataclass(frozen=True)
class Schedule:
    """A value that is `initial` forever, or moves in a straight line to `floor`, reached at `max_step`."""

    initial: float
    floor: float
    max_step: int
    linear: bool

    def __call__(self, step: int) -> float:
        """The value at `step` (agent-steps of the policy)."""
        if not self.linear:
            return self.initial
        progress = min(step, self.max_step) / self.max_step if self.max_step > 0 else 1.0
        return (self.initial - self.floor) * (1.0 - progress) + self.floor


class AdaptiveRate:
    """A learning rate that keeps the policy's steps near a KL divergence, as in RSL-RL (Schwarke et al. 2025,
    arXiv 2509.10771): it falls after a larger step, and rises after a smaller one.
    """

    FACTOR, LOWEST, HIGHEST = 1.5, 1e-5, 1e-2

    def __init__(self, initial: float, target_kl: float) -> None:
        self.rate, self.target_kl = initial, target_kl

    def __call__(self, step: int) -> float:
        """The rate now; it depends on what has been learned, not on the step."""
        return self.rate

    def follow(self, approx_kl: float) -> None:
        """Adapt the rate to how far the policy is from the one that acted."""
        if approx_kl > 2.0 * self.target_kl:
            self.rate = max(self.rate / self.FACTOR, min(self.rate, self.LOWEST))
        elif approx_kl < 0.5 * self.target_kl:
            self.rate = min(self.rate * self.FACTOR, max(self.rate, self.HIGHEST))


DEFAULT_TARGET_KL = 0.01
"""The divergence that a learning rate is adapted to where `target_kl` names none."""


class ClippedSchedules(NamedTuple):
    """The schedules of trainers with PPO's clipped objective."""

    learning_rate: Schedule | AdaptiveRate
    epsilon: Schedule
    beta: Schedule

    @classmethod
    def of(cls, hyper: ClippedObjectiveSettings, max_steps: int) -> ClippedSchedules:
        """The schedules that the settings describe."""

        def schedule(initial: float, floor: float, shape: str) -> Schedule:
            return Schedule(initial, floor, max_steps, linear=shape == "linear")

        rate: Schedule | AdaptiveRate
        if hyper.learning_rate_schedule is ScheduleType.ADAPTIVE_KL:
            target = getattr(hyper, "target_kl", None)
            rate = AdaptiveRate(hyper.learning_rate, DEFAULT_TARGET_KL if target is None else target)
        else:
            rate = schedule(hyper.learning_rate, LEARNING_RATE_FLOOR, hyper.learning_rate_schedule)
        return cls(
            rate,
            schedule(hyper.epsilon, hyper.clip_end, hyper.epsilon_schedule),
            schedule(hyper.beta, BETA_FLOOR, hyper.beta_schedule),
        )

    def at(self, step: int) -> tuple[float, float, float]:
        """Learning rate, epsilon and beta at a step."""
        return self.learning_rate(step), self.epsilon(step), self.beta(step)

    def metrics(self, step: int) -> dict[str, float]:
        """Learning rate, epsilon and beta at a step, by statistics' names."""
        names = ("Policy/Learning Rate", "Policy/Epsilon", "Policy/Beta")
        return dict(zip(names, self.at(step), strict=True))


N = TypeVar("N", bound=nn.Module)


class TargetNetwork(Generic[N]):
    """A copy of a network that lags behind its weights, a steady target of its own learning.

    Buffers, such as a normalizer's statistics, stay as they were: target networks read what the trained
    network's own `prepare` returns.
    """

    def __init__(self, network: N) -> None:
        """Copy `network`, before an optimizer makes one vector of its parameters."""
        self.network = copy.deepcopy(network)
        self.weights = FlatParameters(self.network.parameters()).vector.data
        self.network.requires_grad_(False)

    def copy_from(self, network: N) -> None:
        """Take over all that the network has, also what no optimizer changes."""
        self.network.load_state_dict(network.state_dict())

    @torch.no_grad()
    def update(self, weights: FlatParameters, tau: float = 1.0) -> None:
        """Set target := tau weights + (1 - tau) target (Polyak); with tau = 1 a copy."""
        if tau == 1.0:
            self.weights.copy_(weights.vector.data)
        else:
            self.weights.lerp_(weights.vector.data, tau)
