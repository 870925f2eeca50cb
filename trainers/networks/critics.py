"""The critics of the off-policy algorithms, Q(o, a) and V(o), and SAC's entropy coefficients.

Several critics are streams of one body (Haarnoja et al. 2018, arXiv 1812.05905, section 5, after Fujimoto et
al. 2018, arXiv 1802.09477), computed in one batched product. They read what the policy's encoder has
prepared: a normalizer of their own would always have the same statistics.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from mlagents_envs.base_env import BehaviorSpec
from torch import Tensor, nn

from ..settings.models.networks import NetworkSettings
from .modules.body import Body, DenseStack, body_on
from .modules.heads import ValueHead
from .modules.layers import uniform_by_inputs_, xavier_uniform_
from .modules.memory import Memory, RecurrentModule
from .observations import ObservationEncoder

TWINS = 2


@dataclass(frozen=True, slots=True)
class BurnInSequences:
    """The layout of rows: sequences of `length` steps, of which the first are a burn-in."""

    length: int
    burn_in: int = 0
    """Steps that only bring the memory up to date (Kapturowski et al. 2019, "R2D2"), without gradients."""

    def learned(self, rows: Tensor) -> Tensor:
        """[n * length, ...] -> [n * (length - burn_in), ...], without the burn-in."""
        if not self.burn_in:
            return rows
        return self._by_sequence(rows)[:, self.burn_in :].flatten(0, 1)

    def _by_sequence(self, rows: Tensor) -> Tensor:
        return rows.reshape(len(rows) // self.length, self.length, *rows.shape[1:])

    def warm_up(self, memory: Memory, encodings: Tensor, states: Tensor) -> Tensor:
        """The states [n, size] after the burn-in, from those before it; the encodings are of all steps."""
        if not self.burn_in:
            return states
        burn_in = self._by_sequence(encodings)[:, : self.burn_in].flatten(0, 1)
        with torch.no_grad():
            warm: Tensor = memory(burn_in, states, self.burn_in)[1]
        return warm

    def run(self, memory: Memory, encodings: Tensor, states: Tensor) -> Tensor:
        """The memory's outputs [n * (length - burn_in), out] at the steps that are learned from.

        `encodings` [n * length, in] are of all steps, `states` [n, size] those before the first.
        """
        states = self.warm_up(memory, encodings, states)
        outputs: Tensor = memory(self.learned(encodings), states, self.length - self.burn_in)[0]
        return outputs


class StackedCritics(RecurrentModule):
    """C critics of observations and continuous actions, as streams of one body.

    A pass through all takes as many calls as through one. Each has encoder weights of its own.
    """

    def __init__(
        self, count: int, spec: BehaviorSpec, settings: NetworkSettings, generator: torch.Generator | None
    ) -> None:
        """Build encoders and body with initial weights from `generator`, or torch's own.

        Errors are those of `ObservationEncoder`.
        """
        super().__init__()
        self.count = count

        def encoder() -> ObservationEncoder:
            return ObservationEncoder(
                spec.observation_specs, settings, generator, normalize=False, of_critic=True
            )

        first = encoder()
        more = count - 1 if first.has_parameters else 0
        self.encoders = nn.ModuleList([first, *(encoder() for _ in range(more))])
        """One for each critic, or one for all if it has no weights."""
        # The action follows the encoding, also that of a custom network, and so needs layers after it.
        input_size = first.size + int(spec.action_spec.continuous_size)
        self.body = Body(count, input_size, settings, generator, encoder=first)

    def encoder(self, critic: int) -> ObservationEncoder:
        """The observation encoder of one of them."""
        encoder = self.encoders[min(critic, len(self.encoders) - 1)]
        assert isinstance(encoder, ObservationEncoder)
        return encoder


class ActionCritics(StackedCritics):
    """Q(o, a) of continuous actions, for DDPG and TD3."""

    def __init__(
        self,
        count: int,
        spec: BehaviorSpec,
        settings: NetworkSettings,
        signals: int,
        generator: torch.Generator | None = None,
    ) -> None:
        """Build C = `count` critics; errors as of `StackedCritics`."""
        super().__init__(count, spec, settings, generator)
        self.head = DenseStack(count, self.body.hidden, signals, generator)
        uniform_by_inputs_(self.head.weight, self.body.hidden, generator)

    def forward(self, inputs: Sequence[Tensor], actions: Tensor) -> Tensor:
        """Prepared observations and actions [B, A] -> [C, B, signals]."""
        encoded = [encoder(inputs) for encoder in self.encoders]
        if len(encoded) == 1:
            inputs_of_all = torch.cat((encoded[0], actions), 1)
        else:
            inputs_of_all = torch.cat((torch.stack(encoded), actions.expand(self.count, -1, -1)), 2)
        values: Tensor = self.head(self.body(inputs_of_all))
        return values

    def first(self, inputs: Sequence[Tensor], actions: Tensor) -> Tensor:
        """The first critic alone: [B, signals]."""
        own = torch.cat((self.encoders[0](inputs), actions), 1)
        return self.head.stream(0, self.body.stream(0, own))


class TwinQ(StackedCritics):
    """Q1 and Q2: of observations and continuous actions, a value for each discrete action and signal."""

    def __init__(
        self,
        spec: BehaviorSpec,
        settings: NetworkSettings,
        signals: Sequence[str],
        generator: torch.Generator | None = None,
    ) -> None:
        """Build both; errors as of `StackedCritics`."""
        super().__init__(TWINS, spec, settings, generator)
        self.signals = tuple(signals)
        self.outputs = max(sum(spec.action_spec.discrete_branches), 1)
        """Values per signal: one for each discrete action, branches side by side; 1 without any."""
        encoding_size = self.add_memories(TWINS, self.body.hidden, settings.memory, generator)
        self.head = DenseStack(TWINS, encoding_size, len(self.signals) * self.outputs, generator)
        xavier_uniform_(self.head.weight, encoding_size, self.outputs, generator)

    @property
    def is_dense_mlp(self) -> bool:
        """Whether both are dense layers with Swish on vectors."""
        return self.encoder(0).is_vectors_only and self.body.is_dense_mlp

    def encode(self, inputs: Sequence[Tensor]) -> Tensor:
        """Prepared observations -> [2, B, size]."""
        encoded = [encoder(inputs) for encoder in self.encoders]
        return torch.stack(encoded) if len(encoded) > 1 else encoded[0].expand(TWINS, -1, -1)

    def forward(self, encodings: Tensor, actions: Tensor) -> Tensor:
        """Encodings [2, B, size] and continuous actions [B, A] -> [2, B, signals, outputs]."""
        return self._values(self.bodies(encodings, actions))

    def over_sequences(
        self, before_memory: Tensor, states: Sequence[Tensor], sequences: BurnInSequences
    ) -> Tensor:
        """The same with memories, from `bodies` of all steps and each twin's states before the first ones.

        Returns:
            [2, rows that are learned from, signals, outputs].
        """
        outputs = [sequences.run(self.memory(k), before_memory[k], states[k]) for k in range(TWINS)]
        return self._values(torch.stack(outputs))

    def bodies(self, encodings: Tensor, actions: Tensor) -> Tensor:
        """The outputs of the hidden layers, [2, B, hidden]."""
        if actions.shape[1]:
            encodings = torch.cat((encodings, actions.expand(TWINS, -1, -1)), 2)
        hidden: Tensor = self.body(encodings)
        return hidden

    def _values(self, hidden: Tensor) -> Tensor:
        values: Tensor = self.head(hidden)
        return values.view(TWINS, -1, len(self.signals), self.outputs)


class ValueNetwork(RecurrentModule):
    """V: the expected return of each signal from an observation on, entropy bonus included."""

    def __init__(
        self,
        spec: BehaviorSpec,
        settings: NetworkSettings,
        signals: Sequence[str],
        generator: torch.Generator | None = None,
    ) -> None:
        """Build it with initial weights; arguments and errors as for `TwinQ`."""
        super().__init__()
        specs = spec.observation_specs
        self.encoder = ObservationEncoder(specs, settings, generator, normalize=False, of_critic=True)
        self.body = body_on(self.encoder, 1, settings, generator)
        encoding_size = self.add_memories(1, self.body.hidden, settings.memory, generator)
        self.values = ValueHead(encoding_size, signals, generator)

    @property
    def is_dense_mlp(self) -> bool:
        """Whether it is dense layers with Swish on vectors."""
        return self.encoder.is_vectors_only and self.body.is_dense_mlp

    def encoding(self, inputs: Sequence[Tensor]) -> Tensor:
        """The input of the memory, or of the head: [B, hidden]."""
        return self.body.stream(0, self.encoder(inputs))

    def forward(self, inputs: Sequence[Tensor]) -> Tensor:
        """Prepared observations -> [B, signals]. For networks without a memory."""
        values: Tensor = self.values(self.encoding(inputs))
        return values


DISCRETE_SHARE = 0.2
"""The target entropy of a branch, as a share of its maximum."""


class Coefficients(NamedTuple):
    """One scalar for all continuous components, and one value for each discrete branch, [K]."""

    continuous: Tensor
    discrete: Tensor


class Temperatures(nn.Module):
    """ln alpha of both kinds of actions, and their target entropies.

    The coefficient of a kind of actions that does not exist keeps its initial value. (Haarnoja et al. 2018,
    arXiv 1812.05905, section 6; targets as in ML-Agents.)
    """

    target_continuous: Tensor
    targets_discrete: Tensor

    def __init__(
        self, continuous_size: int, branches: Sequence[int], initial: float, target: float | None = None
    ) -> None:
        """`target`: the target entropy of the continuous actions; None: minus their number."""
        super().__init__()
        self.log_continuous = nn.Parameter(torch.tensor(math.log(initial)))
        self.log_discrete = nn.Parameter(torch.full((len(branches),), math.log(initial)))
        """[K]."""
        targets = torch.tensor([DISCRETE_SHARE * math.log(size) for size in branches])
        target = float(-continuous_size if target is None else target)
        self.register_buffer("target_continuous", torch.tensor(target), persistent=False)
        self.register_buffer("targets_discrete", targets, persistent=False)

    @property
    def log_alpha(self) -> Coefficients:
        """The parameters, ln alpha."""
        return Coefficients(self.log_continuous, self.log_discrete)

    @property
    def alpha(self) -> Coefficients:
        """The coefficients, without a gradient."""
        return Coefficients(self.log_continuous.detach().exp(), self.log_discrete.detach().exp())

    @property
    def entropies(self) -> Coefficients:
        """The target entropies."""
        return Coefficients(self.target_continuous, self.targets_discrete)

    @torch.no_grad()
    def hold(self, coefficient: float) -> None:
        """Set all coefficients to the one that is not learned."""
        self.log_continuous.fill_(math.log(coefficient))
        self.log_discrete.fill_(math.log(coefficient))

    def metrics(self) -> dict[str, float]:
        """The coefficients by statistics' names; that of discrete actions is the mean over branches."""
        discrete = self.log_discrete.tolist()
        return {
            "Policy/Discrete Entropy Coeff": float(np.exp(discrete).mean()) if discrete else math.nan,
            "Policy/Continuous Entropy Coeff": float(np.exp(self.log_continuous.item())),
        }
