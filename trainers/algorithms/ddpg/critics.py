"""Q(o, a) of continuous actions, by one critic or by two at once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from mlagents_envs.base_env import BehaviorSpec
from torch import Tensor, nn

from ...networks.modules.body import Body
from ...networks.modules.layers import DenseStack, uniform_by_inputs_
from ...networks.observations import ObservationEncoder
from ...settings.models.networks import NetworkSettings


class ActionCritics(nn.Module):
    """C critics of one shape as streams of one body: a pass through all takes as many calls as through one.

    They read what the policy's encoder has prepared; the action follows the encoded observations. Each critic
    has encoder weights of its own.
    """

    def __init__(
        self,
        count: int,
        spec: BehaviorSpec,
        settings: NetworkSettings,
        signals: int,
        generator: torch.Generator | None = None,
    ) -> None:
        """Build C = `count` critics with initial weights from `generator`, or torch's own.

        Raises:
            UnsupportedObservationError: an observation cannot be encoded; the message names it.
            TrainerError: a custom network cannot be built.
        """
        super().__init__()
        self.count = count

        def encoder() -> ObservationEncoder:
            return ObservationEncoder(spec.observation_specs, settings, generator, normalize=False)

        first = encoder()
        more = count - 1 if first.has_parameters else 0
        self.encoders = nn.ModuleList([first, *(encoder() for _ in range(more))])
        # The action also follows the encoding of a custom network, so there are layers after that one too.
        self.body = Body(
            count,
            first.size + int(spec.action_spec.continuous_size),
            settings.hidden_units,
            settings.num_layers,
            generator,
            activation=settings.activation,
            initialization=settings.initialization,
            layer_norm=settings.layer_norm,
            goal_columns=first.goal_columns(),
            goals_encoded=first.goals_encoded,
        )
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
