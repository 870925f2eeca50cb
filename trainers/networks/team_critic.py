"""The centralized critic of POCA and MAPPO: the value of a team, and for POCA its members' baselines.

    value        V(o_1 .. o_n)               each member with its observation
    baseline i   b_i(o_i, (o_j, a_j), j != i) member i with its observation, the others with their action too

Source: Cohen et al. 2021, "On the Use and Misuse of Absorbing States in Multi-agent Reinforcement Learning",
arXiv 2111.05992; shapes, initialization and constants are ML-Agents' (docs/algorithms.md, "POCA").

The sets of the n baselines of one group-step differ by one exchanged member. So each member is embedded and
projected twice, with its action and without, and what the sets share is computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from mlagents_envs.base_env import BehaviorSpec
from torch import Tensor

from ..settings.models.networks import NetworkSettings
from .modules.attention import (
    HEADS,
    Entities,
    EntityEmbedding,
    SelfAttention,
    by_head,
    normal_scale,
    pooled,
    weights,
)
from .modules.body import Body
from .modules.heads import ValueHead
from .modules.memory import RecurrentModule
from .observations import ObservationEncoder


class Members(NamedTuple):
    """G sets of up to n rows."""

    rows: Tensor | None
    """[G, n] each member's row, arbitrary in empty slots; None: the rows are the members in this order."""
    absent: Tensor | None
    """[G, n] bool, True where there is no member, never for the first; None: all sets have n."""
    sets: int
    width: int
    """G and n."""

    def counts(self, like: Tensor) -> Tensor:
        """[G] the number of members."""
        if self.absent is None:
            return like.new_full((self.sets,), float(self.width))
        return (~self.absent).sum(1).to(like.dtype)


class TeamCritic(RecurrentModule):
    """One network for values and baselines; their memory is one, with states of each kind's own.

    Without baselines it is what MAPPO needs: the values alone, which do not depend on actions.
    """

    largest: Tensor

    def __init__(
        self,
        spec: BehaviorSpec,
        settings: NetworkSettings,
        reward_signals: Sequence[str],
        generator: torch.Generator | None = None,
        *,
        has_baselines: bool = True,
    ) -> None:
        """Build the network with fresh weights, drawn from `generator` or torch's own.

        Raises:
            UnsupportedObservationError: an observation cannot be encoded; the message names it.
            ValueError: `hidden_units` is not divisible by the number of attention heads.
        """
        super().__init__()
        hidden, specs = settings.hidden_units, spec.observation_specs
        self.encoder = ObservationEncoder(specs, settings, generator, normalize=False, of_critic=True)
        """Reads the actor's prepared inputs: the normalizers of both would always have seen the same."""
        self.action_size = spec.action_spec.continuous_size + sum(spec.action_spec.discrete_branches)
        self.embed_waiting = EntityEmbedding(self.encoder.size, hidden, generator)
        self.embed_acting: EntityEmbedding | None = None
        """Of members with their actions, for baselines."""
        if has_baselines:
            self.embed_acting = EntityEmbedding(self.encoder.size + self.action_size, hidden, generator)
        self.attention = SelfAttention(hidden, generator)
        self.body = Body(1, hidden, settings, generator, normal_scale(hidden))
        encoding_size = self.add_memories(1, hidden, settings.memory, generator)
        self.values = ValueHead(encoding_size + 1, reward_signals, generator)
        self.register_buffer("largest", torch.ones(()))
        """The largest number of members seen so far."""

    @property
    def has_baselines(self) -> bool:
        """Whether it can `encode` baselines too."""
        return self.embed_acting is not None

    def _waiting(self, encodings: Tensor, members: Members) -> Entities:
        return self._entities(self.embed_waiting(encodings), members)

    def _acting(self, encodings: Tensor, actions: Tensor, members: Members) -> Entities:
        assert self.embed_acting is not None, "a critic without baselines values observations alone"
        return self._entities(self.embed_acting(torch.cat((encodings, actions), 1)), members)

    def _entities(self, embeddings: Tensor, members: Members) -> Entities:
        normalized = self.attention.normalize(embeddings)
        columns = (normalized, *self.attention.project(normalized))
        if members.rows is not None:
            rows = members.rows.flatten()
            columns = tuple(column.index_select(0, rows) for column in columns)  # type: ignore[assignment]
        shape = (members.sets, members.width)
        return Entities(*(column.view(*shape, *column.shape[1:]) for column in columns))

    # Sets -----------------------------------------------------------------------------------------------

    def value(self, inputs: Sequence[Tensor], members: Members) -> Tensor:
        """[G, signals] from the observations alone; `inputs` as the actor's `prepare` gave them."""
        return self.heads(*self.encode_values(inputs, members))

    def evaluate(self, inputs: Sequence[Tensor], actions: Tensor, members: Members) -> tuple[Tensor, Tensor]:
        """Values [G, signals] and each member's baseline [G, n, signals]; arguments as of `encode`."""
        of_values, of_baselines, counts = self.encode(inputs, actions, members)
        both = torch.cat((of_values, of_baselines.flatten(0, 1)))
        heads = self.heads(both, torch.cat((counts, counts.repeat_interleave(members.width))))
        values, baselines = heads[: members.sets], heads[members.sets :]
        return values, baselines.view(members.sets, members.width, -1)

    def encode_values(self, inputs: Sequence[Tensor], members: Members) -> tuple[Tensor, Tensor]:
        """The input of the memory or the heads [G, hidden], and the numbers of members [G]."""
        waiting = self._waiting(self.encoder(inputs), members)
        encodings = self.body.stream(0, self.attention.pool(waiting, members.absent))
        return encodings, members.counts(encodings)

    def encode(
        self, inputs: Sequence[Tensor], actions: Tensor, members: Members
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Encodings of values [G, hidden] and of baselines [G, n, hidden], and the numbers of members [G].

        Args:
            inputs: as the actor's `prepare` gave them, R rows.
            actions: [R, action size] the rows' actions, see `flat_actions`.
            members: the sets.
        """
        encodings = self.encoder(inputs)
        waiting = self._waiting(encodings, members)
        acting = self._acting(encodings, actions, members)
        counts = members.counts(waiting.embedded)
        of_values = self.attention.pool(waiting, members.absent)
        of_baselines = self._baseline_encodings(acting, waiting, members)
        both = self.body.stream(0, torch.cat((of_values, of_baselines.flatten(0, 1))))
        values, baselines = both[: members.sets], both[members.sets :]
        return values, baselines.view(members.sets, members.width, -1), counts

    def _baseline_encodings(self, acting: Entities, waiting: Entities, members: Members) -> Tensor:
        """[G, n, h] of the sets in which member i waits and the others have acted.

        Logits are [G, i, head, query j, key k]: those between two that have acted are the same for every i;
        row and column i are of member i, which waits.
        """
        sets, n = members.sets, members.width
        between = self.attention.logits(acting.queries, acting.keys)  # [G, head, j, k]
        to_waiting = self.attention.logits(acting.queries, waiting.keys)  # [G, head, j, i]
        of_waiting = self.attention.logits(waiting.queries, acting.keys)  # [G, head, i, k]
        own = (waiting.queries * waiting.keys).sum(-1) * self.attention.scale  # [G, i, head]
        is_i = torch.eye(n, dtype=torch.bool, device=between.device)
        query_i, key_i = is_i[None, :, None, :, None], is_i[None, :, None, None, :]
        logits = torch.where(key_i, to_waiting.permute(0, 3, 1, 2).unsqueeze(-1), between.unsqueeze(1))
        from_i = torch.where(is_i[None, :, None, :], own.unsqueeze(-1), of_waiting.transpose(1, 2))
        logits = torch.where(query_i, from_i.unsqueeze(3), logits)
        absent = members.absent
        p = weights(logits, None if absent is None else absent[:, None, None, None])
        # What the acting give, and what member i gives, as one that waits, to each query j.
        by_acting = p.masked_fill(key_i, 0.0).permute(0, 1, 3, 2, 4).reshape(sets, n * n, HEADS * n)
        by_i = p.diagonal(dim1=1, dim2=4).permute(0, 3, 2, 1)  # [G, i, j, head]
        bias = self.attention.out.bias
        mixed = torch.where(
            is_i[None, :, :, None],
            (waiting.embedded + bias).unsqueeze(2),
            (acting.embedded + bias).unsqueeze(1),
        )
        mixed = torch.baddbmm(mixed.view(sets, n * n, -1), by_acting, by_head(acting.values))
        by_i = by_i.reshape(sets * n, n, -1)
        mixed = torch.baddbmm(mixed.view(sets * n, n, -1), by_i, waiting.values.flatten(0, 1))
        rows = self.attention.normalize(mixed).view(sets, n, n, -1)
        return pooled(rows, None if absent is None else absent.unsqueeze(1).expand(-1, n, -1))

    def heads(self, encodings: Tensor, counts: Tensor) -> Tensor:
        """Outputs of body or memory [B, size] and the numbers of members [B] -> [B, signals]."""
        with torch.no_grad():
            self.largest.copy_(torch.maximum(self.largest, counts.max()))
        share = (2.0 * counts / self.largest - 1.0).unsqueeze(1)
        values: Tensor = self.values(torch.cat((encodings, share), 1))
        return values
