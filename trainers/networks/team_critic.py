"""The centralized critic of POCA and MAPPO: the value of a team, and for POCA its members' baselines.

    value        V(o_1 .. o_n)               each member with its observation
    baseline i   b_i(o_i, (o_j, a_j), j != i) member i with its observation, the others with their action too

Source: Cohen et al. 2021, "On the Use and Misuse of Absorbing States in Multi-agent Reinforcement Learning",
arXiv 2111.05992; shapes, initialization and constants are ML-Agents' (docs/algorithms/poca.md).

The sets of the n baselines of one group-step differ by one exchanged member. So each member is embedded and
projected twice, with its action and without, and what the sets share is computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from mlagents_envs.base_env import BehaviorSpec
from torch import Tensor
from torch.nn import functional

from ..settings.models.networks import NetworkSettings
from .fast.onednn import pad_rows, small_matmul
from .modules.attention import (
    HEADS,
    Entities,
    EntityEmbedding,
    SelfAttention,
    by_head,
    normal_scale,
    pooled,
)
from .modules.body import Body
from .modules.heads import ValueHead
from .modules.memory import RecurrentModule
from .observations import ObservationEncoder


class TeamSets(NamedTuple):
    """Sets of rows, those of one size one after another, so that each size is a view without padding."""

    sizes: tuple[tuple[int, int], ...]
    """The pair (members, sets) of each size, the smallest first."""
    rows: Tensor | None = None
    """[M] each member's row, set by set; None: the rows are the members in this order."""
    padding: tuple[int, int] = (0, 0)
    """How many rows of zeros `pad` inserts after those of the sets of one, and at the end; with `rows`, only
    at the end."""

    @property
    def number(self) -> int:
        """The number G of all sets."""
        return sum(sets for _, sets in self.sizes)

    @property
    def alone(self) -> int:
        """The number of sets of one, which come first: their member's baseline is their value."""
        return sum(sets for size, sets in self.sizes if size == 1)

    def pad(self, rows: Tensor) -> Tensor:
        """Rows [R, size] with the rows of zeros among them."""
        if self.padding == (0, 0):
            return rows
        first = 0 if self.rows is not None else self.alone
        between, end = (rows.new_zeros(n, rows.shape[1]) for n in self.padding)
        return torch.cat((rows[:first], between, rows[first:], end))

    def teams(self) -> TeamSets:
        """The sets of two and more."""
        rows = None if self.rows is None else self.rows[self.alone :]
        return TeamSets(tuple(of for of in self.sizes if of[0] > 1), rows, (0, self.padding[1]))

    def counts(self, like: Tensor, *, of_members: bool = False) -> Tensor:
        """The number of members of each set [G], or of the set of each member [M]."""
        times = [size * sets if of_members else sets for size, sets in self.sizes]
        return torch.from_numpy(np.repeat([size for size, _ in self.sizes], times)).to(like)


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
            ValueError: the first of `hidden_units` is not divisible by the number of attention heads.
        """
        super().__init__()
        hidden, specs = settings.layer_sizes[0], spec.observation_specs
        self.encoder = ObservationEncoder(specs, settings, generator, normalize=False, of_critic=True)
        """The encoder of the actor's prepared inputs: normalizers of both would always have seen the same."""
        self.action_size = spec.action_spec.continuous_size + sum(spec.action_spec.discrete_branches)
        self.embed_waiting = EntityEmbedding(self.encoder.size, hidden, generator)
        self.embed_acting: EntityEmbedding | None = None
        """The embedding of members with their actions, for baselines; None without these."""
        if has_baselines:
            self.embed_acting = EntityEmbedding(self.encoder.size + self.action_size, hidden, generator)
        self.attention = SelfAttention(hidden, generator)
        self.body = Body(1, hidden, settings, generator, normal_scale(hidden))
        encoding_size = self.add_memories(1, self.body.hidden, settings.memory, generator)
        self.values = ValueHead(encoding_size + 1, reward_signals, generator, settings.initialization)
        self.register_buffer("largest", torch.ones(()))
        """The largest number of members seen so far."""

    @property
    def has_baselines(self) -> bool:
        """Whether the critic can `encode` baselines too."""
        return self.embed_acting is not None

    def _entities(self, embeddings: Tensor, sets: TeamSets) -> list[Entities]:
        """The entities of the sets of each size."""
        normalized = self.attention.normalize(embeddings)
        columns = (normalized, *self.attention.project(normalized))
        if sets.rows is not None:
            columns = tuple(column.index_select(0, sets.rows) for column in columns)  # type: ignore[assignment]
        after_alone, at_end = (0, 0) if sets.rows is not None else sets.padding
        # The size of the members of each part, 0 of rows that are no members.
        parts = [(size, size * n) for size, n in sets.sizes]
        parts.insert(1 if sets.alone else 0, (0, after_alone))
        lengths = [length for _, length in (*parts, (0, at_end))]
        # One split has one backward pass; slices would each be filled up with zeros.
        split = zip(*(torch.split(column, lengths) for column in columns), strict=True)
        return [
            Entities(*(column.view(-1, size, *column.shape[1:]) for column in part))
            for (size, _), part in zip(parts, split)
            if size
        ]

    # Sets -----------------------------------------------------------------------------------------------

    def value(self, inputs: Sequence[Tensor], sets: TeamSets) -> Tensor:
        """[G, signals] the values from observations alone; `inputs` as the actor's `prepare` gave them."""
        return self.heads(*self.encode_values(inputs, sets))[: sets.number]

    def evaluate(self, inputs: Sequence[Tensor], actions: Tensor, sets: TeamSets) -> tuple[Tensor, Tensor]:
        """Values [G, signals] and each member's baseline [M, signals]; arguments as of `encode`."""
        heads = self.heads(*self.encode(inputs, actions, sets))
        end = sets.number + sum(size * n for size, n in sets.teams().sizes)
        return heads[: sets.number], torch.cat((heads[: sets.alone], heads[sets.number : end]))

    def encode_values(self, inputs: Sequence[Tensor], sets: TeamSets) -> tuple[Tensor, Tensor]:
        """The input of the memory or the heads [G, hidden], and the numbers of members [G]."""
        waiting = self._entities(self.embed_waiting(sets.pad(self.encoder(inputs))), sets)
        means = [self.attention.pool(of_size) for of_size in waiting]
        return self._through_body(means, sets.counts(means[0]))

    def _through_body(self, means: list[Tensor], counts: Tensor) -> tuple[Tensor, Tensor]:
        """The encodings of sets of these means, and their numbers of members, padded as by `pad_rows`."""
        encodings = self.body.stream(0, pad_rows(torch.cat(means)))
        return encodings, functional.pad(counts, (0, len(encodings) - len(counts)), value=1.0)

    def encode(self, inputs: Sequence[Tensor], actions: Tensor, sets: TeamSets) -> tuple[Tensor, Tensor]:
        """The input of the memory or the heads [E, hidden], and the numbers of members [E].

        The G values come first, then the baselines of all members of sets of two and more, set by set.

        Args:
            inputs: as the actor's `prepare` gave them, R rows.
            actions: [R, action size] the rows' actions, see `flat_actions`.
            sets: of these rows.
        """
        assert self.embed_acting is not None, "a critic without baselines values observations alone"
        encodings, teams = sets.pad(self.encoder(inputs)), sets.teams()
        waiting = self._entities(self.embed_waiting(encodings), sets)
        means = [self.attention.pool(of_size) for of_size in waiting]
        counts = sets.counts(means[0])
        if teams.sizes:
            actions = sets.pad(actions)
            if sets.rows is None and sets.alone:
                first = sets.alone + sets.padding[0]
                encodings = torch.split(encodings, [first, len(encodings) - first])[1]
                actions = actions[first:]
            acting = self._entities(self.embed_acting(torch.cat((encodings, actions), 1)), teams)
            both = zip(acting, waiting[-len(acting) :], strict=True)
            means += [self._baseline_encodings(*of_size).flatten(0, 1) for of_size in both]
            counts = torch.cat((counts, teams.counts(counts, of_members=True)))
        return self._through_body(means, counts)

    def _baseline_encodings(self, acting: Entities, waiting: Entities) -> Tensor:
        """[G, n, h] the encodings of sets of n in which member i waits and the others have acted.

        Logits are [G, i, head, query j, key k]: those between two that have acted are the same for every i;
        row and column i are of member i, which waits.
        """
        sets, n = waiting.embedded.shape[:2]
        between = self.attention.logits(acting.queries, acting.keys)  # [G, head, j, k]
        to_waiting = self.attention.logits(acting.queries, waiting.keys)  # [G, head, j, i]
        of_waiting = self.attention.logits(waiting.queries, acting.keys)  # [G, head, i, k]
        own = (waiting.queries * waiting.keys).sum(-1) * self.attention.scale  # [G, i, head]
        is_i = torch.eye(n, dtype=torch.bool, device=between.device)
        query_i, key_i = is_i[None, :, None, :, None], is_i[None, :, None, None, :]
        logits = torch.where(key_i, to_waiting.permute(0, 3, 1, 2).unsqueeze(-1), between.unsqueeze(1))
        from_i = torch.where(is_i[None, :, None, :], own.unsqueeze(-1), of_waiting.transpose(1, 2))
        p = torch.where(query_i, from_i.unsqueeze(3), logits).softmax(-1)
        # What the acting give, and what member i gives, as one that waits, to each query j.
        by_acting = p.masked_fill(key_i, 0.0).permute(0, 1, 3, 2, 4).reshape(sets, n * n, HEADS * n)
        by_i = p.diagonal(dim1=1, dim2=4).permute(0, 3, 2, 1)  # [G, i, j, head]
        bias = self.attention.out.bias
        mixed = torch.where(
            is_i[None, :, :, None],
            (waiting.embedded + bias).unsqueeze(2),
            (acting.embedded + bias).unsqueeze(1),
        )
        mixed = small_matmul(by_acting, by_head(acting.values), mixed.view(sets, n * n, -1))
        by_i = by_i.reshape(sets * n, n, -1)
        mixed = small_matmul(by_i, waiting.values.flatten(0, 1), mixed.view(sets * n, n, -1))
        return pooled(self.attention.normalize(mixed).view(sets, n, n, -1), None)

    def heads(self, encodings: Tensor, counts: Tensor) -> Tensor:
        """Values [B, signals] of outputs of body or memory [B, size], given the numbers of members [B]."""
        with torch.no_grad():
            self.largest.copy_(torch.maximum(self.largest, counts.max()))
        share = (2.0 * counts / self.largest - 1.0).unsqueeze(1)
        values: Tensor = self.values(torch.cat((encodings, share), 1))
        return values
