"""Heads on a body: action distributions, state values, action values, and deterministic actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from mlagents_envs.base_env import ActionSpec
from torch import Tensor, nn

from ...settings.models.networks import Initialization, NetworkSettings, StateDependentExplorationSettings
from .distributions import ENGINE_RANGE, ActionDistribution, Branches, GreedyDistribution, clamp_log_sigma
from .layers import initialize_, kaiming_normal_, uniform_by_inputs_, xavier_uniform_

MU_GAIN = 0.2
LOGITS_GAIN = 0.1
VARIANCE_FLOOR = 1e-6
"""What is added to a variance that depends on the features, as in Stable-Baselines3."""
ORTHOGONAL_ACTION_GAIN, ORTHOGONAL_VALUE_GAIN = 0.01, 1.0
"""Of orthogonal heads of Gaussian or discrete policies and of their values, as in Stable-Baselines3."""


class ActingHead(nn.Module):
    """What acting and brains need of every head."""

    weight: nn.Parameter
    bias: nn.Parameter
    sigma_of_state = False
    action_range = ENGINE_RANGE
    """What is 1 for the engine, of continuous actions that are not squashed."""
    is_one_product = True
    """Whether `columns` are a product with `weight` and `bias` as they are."""
    exploration: StateDependentExplorationSettings | None = None
    """How exploration is a function of the features, see `ActionHead`; None: it is not."""
    greedy = False
    """Whether agents take the best known action: see `GreedyHead`."""

    def __init__(self, spec: ActionSpec, *, squashed: bool) -> None:
        super().__init__()
        self.continuous_size = spec.continuous_size
        self.branches = Branches(spec.discrete_branches)
        self.squashed = squashed

    def acting_layer(self) -> tuple[Tensor, Tensor]:
        """Weight [input, columns] and bias [columns] of the product that gives `columns`."""
        return self.weight, self.bias

    def columns(self, encoding: Tensor) -> Tensor:
        """The columns of [B, input]: means or actions before tanh, branches' logits or values, log sigmas."""
        return torch.addmm(self.bias, encoding, self.weight)


class ActionHead(ActingHead):
    """The head that maps an actor's encoding to the distribution of its actions.

    One product gives the means of all continuous components, the logits of all branches and, if they depend
    on the state, the log sigmas, in this order; otherwise log sigma is a free parameter. Acting, learning and
    brains all go through these columns.

    With `exploration` it is generalized state-dependent exploration (Raffin et al. 2021, arXiv 2005.05719; in
    formulas as Stable-Baselines3's `StateDependentNoiseDistribution`): what is added to the means is W^T f,
    with the features f [input] that the head reads and an agent's W [input, A], whose entries are Gaussian
    with deviations exp(log_sigma), [input, A] too. The likelihood of an action does not know W: it is that of
    a Gaussian with variance sum f^2 exp(log_sigma)^2 + 1e-6, and so is the entropy. The log sigmas are
    columns beside those of the product; their gradient reaches the features in SAC (`squashed`) alone, as
    there.
    """

    def __init__(
        self,
        input_size: int,
        spec: ActionSpec,
        generator: torch.Generator | None = None,
        *,
        squashed: bool = False,
        sigma_of_state: bool = False,
        initial_log_std: float = 0.0,
        action_range: float = ENGINE_RANGE,
        exploration: StateDependentExplorationSettings | None = None,
        orthogonal: bool = False,
    ) -> None:
        """Build the head, `orthogonal` or with Gaussian weights; for the rest see `ActionDistribution`."""
        super().__init__(spec, squashed=squashed)
        self.action_range = action_range
        self.exploration = exploration if self.continuous_size else None
        self.sigma_of_state = sigma_of_state and self.continuous_size > 0 and self.exploration is None
        shown = self.continuous_size + sum(self.branches.sizes)
        columns = shown + (self.continuous_size if self.sigma_of_state else 0)
        self._sections = (self.continuous_size, shown)
        self.weight = nn.Parameter(torch.empty(input_size, columns))
        self.bias = nn.Parameter(torch.zeros(columns))
        free = [0 if self.sigma_of_state else self.continuous_size]
        if self.exploration is not None:
            free = [input_size, self.continuous_size]
        self.log_sigma = nn.Parameter(torch.full(free, float(initial_log_std)))
        """The log sigmas of every state; empty where each state has its own; [input, A] of W."""
        mu, logits, log_sigma = self.weight.tensor_split(self._sections, dim=1)
        if orthogonal:
            for part in (mu, logits, log_sigma):
                initialize_(part[None], Initialization.ORTHOGONAL, ORTHOGONAL_ACTION_GAIN, generator)
            return
        kaiming_normal_(mu, input_size, MU_GAIN, generator)
        kaiming_normal_(logits, input_size, LOGITS_GAIN, generator)
        kaiming_normal_(log_sigma, input_size, MU_GAIN, generator)

    def distribution(self, columns: Tensor, action_mask: Tensor | None = None) -> ActionDistribution:
        """The distribution of B agents from their columns; mask as of `forward`."""
        mu, logits, log_sigma = columns.tensor_split(self._sections, dim=1)
        sigma = log_sigma
        if self.exploration is None:
            sigma = clamp_log_sigma(log_sigma) if self.sigma_of_state else self.log_sigma
        return ActionDistribution(
            mu, sigma, logits, self.branches, action_mask, self.squashed, self.action_range
        )

    def feature_log_sigma(self, features: Tensor) -> Tensor:
        """The log sigmas [B, A] of actions at features [B, input], for a head with `exploration`."""
        if not self.squashed:
            features = features.detach()
        variance = features.square() @ (2.0 * self.log_sigma).exp()
        return 0.5 * (variance + VARIANCE_FLOOR).log()

    def forward(self, encoding: Tensor, action_mask: Tensor | None = None) -> ActionDistribution:
        """B agents' distribution from [B, input] and a mask [B, sum of branch sizes] (True: forbidden)."""
        columns = self.columns(encoding)
        if self.exploration is not None:
            columns = torch.cat((columns, self.feature_log_sigma(encoding)), 1)
        return self.distribution(columns, action_mask)


class ValueHead(nn.Module):
    """The head that maps a critic's encoding to one value per reward signal."""

    def __init__(
        self,
        input_size: int,
        signals: Sequence[str],
        generator: torch.Generator | None = None,
        initialization: Initialization = Initialization.KAIMING_NORMAL,
    ) -> None:
        super().__init__()
        self.signals = tuple(signals)
        self.weight = nn.Parameter(torch.empty(input_size, len(self.signals)))
        self.bias = nn.Parameter(torch.zeros(len(self.signals)))
        if initialization is Initialization.ORTHOGONAL:
            initialize_(self.weight[None], initialization, ORTHOGONAL_VALUE_GAIN, generator)
            return
        # Each signal's column is initialized like a layer of one output.
        xavier_uniform_(self.weight, fan_in=input_size, fan_out=1, generator=generator)

    def forward(self, encoding: Tensor) -> Tensor:
        """The values [B, signals] of encodings [B, input]."""
        return torch.addmm(self.bias, encoding, self.weight)


class GreedyHead(ActingHead):
    """What deterministic actions and action values have in common."""

    greedy = True

    def __init__(self, spec: ActionSpec, *, squashed: bool) -> None:
        super().__init__(spec, squashed=squashed)
        self.log_sigma = torch.zeros(0)
        """An empty tensor, no parameter, since there is no deviation."""

    def distribution(self, columns: Tensor, action_mask: Tensor | None = None) -> GreedyDistribution:
        """What B agents do by their columns; mask as of `ActionHead.forward`."""
        mu, values = columns.tensor_split([self.continuous_size], dim=1)
        return GreedyDistribution(mu, self.log_sigma, values, self.branches, action_mask, self.squashed)

    def forward(self, encoding: Tensor, action_mask: Tensor | None = None) -> GreedyDistribution:
        """What B agents do, from encodings [B, input] and a mask."""
        return self.distribution(self.columns(encoding), action_mask)


class DeterministicHead(GreedyHead):
    """mu(s): the continuous actions themselves, within -1 and 1 by tanh (Lillicrap et al. 2015)."""

    def __init__(self, input_size: int, spec: ActionSpec, generator: torch.Generator | None = None) -> None:
        super().__init__(spec, squashed=True)
        self.weight = nn.Parameter(torch.empty(input_size, self.continuous_size))
        self.bias = nn.Parameter(torch.zeros(self.continuous_size))
        kaiming_normal_(self.weight, input_size, MU_GAIN, generator)


class QHead(GreedyHead):
    """Q(s, a) of every action of every branch, once per reward signal.

    Dueling (Wang et al. 2015, arXiv 1511.06581): Q = V + A - mean A, the mean over the branch's actions, with
    one V for all branches (Tavakoli et al. 2017, arXiv 1711.08946). Agents act by the sum over the signals,
    whose strengths are in the rewards already; and by A alone, since V does not depend on the action.
    """

    def __init__(
        self,
        input_size: int,
        spec: ActionSpec,
        signals: int,
        generator: torch.Generator | None = None,
        *,
        dueling: bool = False,
    ) -> None:
        super().__init__(spec, squashed=False)
        self.signals, self.actions = signals, sum(self.branches.sizes)
        self.is_one_product = signals == 1
        self.weight = nn.Parameter(torch.empty(input_size, signals * self.actions))
        """The weights; their columns are signal by signal, in each branch by branch."""
        self.bias = nn.Parameter(torch.zeros(signals * self.actions))
        uniform_by_inputs_(self.weight, input_size, generator)
        self.value_weight: nn.Parameter | None = None
        self.value_bias: nn.Parameter | None = None
        if dueling:
            self.value_weight = nn.Parameter(torch.empty(input_size, signals))
            self.value_bias = nn.Parameter(torch.zeros(signals))
            uniform_by_inputs_(self.value_weight, input_size, generator)
        self.register_buffer("_means", _branch_means(self.branches.sizes), persistent=False)

    def acting_layer(self) -> tuple[Tensor, Tensor]:
        """The layer of the greedy choice: the sum over the signals, without what all actions share."""
        if self.signals == 1:
            return self.weight, self.bias
        weight = self.weight.view(-1, self.signals, self.actions)
        return weight.sum(1), self.bias.view(self.signals, self.actions).sum(0)

    def columns(self, encoding: Tensor) -> Tensor:
        """The columns [B, sum of branch sizes] by which agents choose, from encodings [B, input]."""
        weight, bias = self.acting_layer()
        return torch.addmm(bias, encoding, weight)

    def q(self, encoding: Tensor) -> Tensor:
        """Q of every action, [B, signals, sum of branch sizes], from encodings [B, input]."""
        advantages = torch.addmm(self.bias, encoding, self.weight).view(-1, self.signals, self.actions)
        if self.value_weight is None or self.value_bias is None:
            return advantages
        value = torch.addmm(self.value_bias, encoding, self.value_weight).unsqueeze(-1)
        assert isinstance(self._means, Tensor)
        q: Tensor = value + advantages - advantages @ self._means
        return q


def _branch_means(sizes: Sequence[int]) -> Tensor:
    """The matrix [n, n] that maps a row of n actions to the branch's mean at every action."""
    branch = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    return (branch[:, None] == branch) / torch.tensor(sizes, dtype=torch.float32)[branch]


Head = ActionHead | DeterministicHead | QHead


@dataclass(frozen=True)
class HeadConfig:
    """The kind of head; by default a distribution that is sampled, as the on-policy trainers need."""

    squashed: bool = False
    """Whether continuous actions go through tanh, as SAC's."""
    sigma_of_state: bool = False
    """Whether the deviations of continuous actions depend on the state, as SAC's."""
    deterministic: bool = False
    """Whether there are continuous actions alone, and no distribution of them, as DDPG's and TD3's."""
    values: int = 0
    """The number of reward signals with a value for every discrete action, as DQN's; 0: there are none."""
    dueling: bool = False
    """Whether such values are sums of the state's value and the actions' own advantages."""

    def build(
        self,
        input_size: int,
        spec: ActionSpec,
        settings: NetworkSettings,
        generator: torch.Generator | None = None,
    ) -> Head:
        """The head with fresh weights, on encodings [B, input_size]; `settings` are its network's."""
        if self.values:
            return QHead(input_size, spec, self.values, generator, dueling=self.dueling)
        if self.deterministic:
            return DeterministicHead(input_size, spec, generator)
        return ActionHead(
            input_size,
            spec,
            generator,
            squashed=self.squashed,
            sigma_of_state=self.sigma_of_state,
            initial_log_std=settings.initial_log_std,
            orthogonal=settings.initialization is Initialization.ORTHOGONAL and not self.squashed,
            action_range=settings.action_range,
            exploration=settings.state_dependent_exploration,
        )
