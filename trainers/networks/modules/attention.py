"""Self-attention over sets of entities (Vaswani et al. 2017, arXiv 1706.03762), as ML-Agents builds it.

x = LN(e),  q, k, v = linear(x),  weights = softmax(q . k / sqrt(h)) per head, h the size of x, not the head's
output = LN(linear(concatenated heads) + x), averaged over the set; LN without parameters

Encodes the sets of varying size that buffer sensors send. The vector of an agent's other observations is
prepended to each entity's features, the result is embedded, entities attend to each other, and their mean is
the encoding. Absent entities are sent as zeros: one whose squares sum to less than 0.01 counts as absent, as
in ML-Agents.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from ..fast.onednn import shape_multiple, small_matmul, uses_onednn
from .layers import Dense

HEADS = 4
LAYER_NORM_EPS = 1e-5
POOL_EPS = 1e-7
MASKED_LOGIT = -1e6
MOST_WEIGHTS = 1 << 25
"""The most attention weights that are kept for the gradient, all heads and sets together: 128 MiB."""


def normal_scale(size: int) -> float:
    """The deviation of the initial weights of attention and embeddings of this width."""
    return math.sqrt(0.125 / size)


class EntityEmbedding(Dense):
    """The layer that brings an entity's features to the size of the attention: Swish(x W + b)."""

    def __init__(self, in_features: int, size: int, generator: torch.Generator | None = None) -> None:
        super().__init__(in_features, size, normal_scale(size), generator)

    def forward(self, inputs: Tensor) -> Tensor:
        """Embed features [B, in] as [B, size]."""
        return functional.silu(super().forward(inputs))


class Entities(NamedTuple):
    """The members of G sets of n as attention sees them."""

    embedded: Tensor
    """The normalized embeddings [G, n, h]."""
    queries: Tensor
    keys: Tensor
    """The queries and keys, [G, n, heads, h / heads] each."""
    values: Tensor
    """The values after the output projection, [G, n, heads, h]."""


class SelfAttention(nn.Module):
    """The four linear maps, and what can be done with each entity before its set is known.

    The output projection is linear, so it is applied to each entity's values, head by head, before they are
    mixed: an entity of many sets is projected once.
    """

    def __init__(self, size: int, generator: torch.Generator | None = None) -> None:
        """Build the four maps; `size` must be divisible by the number of heads."""
        super().__init__()
        if size % HEADS:
            raise ValueError(f"attention with {HEADS} heads needs a size divisible by {HEADS}, not {size}")
        self.size = size
        self.head_size = size // HEADS
        self.scale = 1.0 / math.sqrt(size)
        deviation = normal_scale(size)
        self.query = Dense(size, size, deviation, generator)
        self.key = Dense(size, size, deviation, generator)
        self.value = Dense(size, size, deviation, generator)
        self.out = Dense(size, size, deviation, generator)

    def normalize(self, entities: Tensor) -> Tensor:
        """Apply LN over the last axis."""
        return functional.layer_norm(entities, (self.size,), eps=LAYER_NORM_EPS)

    def project(self, entities: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries and keys [R, heads, h / heads] and projected values [R, heads, h] of entities [R, h].

        The bias of the output projection is not in the values.
        """
        shape = (-1, HEADS, self.head_size)
        by_head = self.value(entities).view(shape).transpose(0, 1)
        values = torch.bmm(by_head, self.out.weight.view(HEADS, self.head_size, self.size))
        return self.query(entities).view(shape), self.key(entities).view(shape), values.transpose(0, 1)

    def logits(self, queries: Tensor, keys: Tensor) -> Tensor:
        """The logits [G, heads, query, key] of queries and keys, [G, n, heads, d] each."""
        return small_matmul(queries.transpose(1, 2), keys.permute(0, 2, 3, 1)) * self.scale

    def forward(self, entities: Tensor, absent: Tensor | None = None) -> Tensor:
        """The encodings [G, h] of sets of embedded entities [G, n, h], some of them `absent` [G, n].

        What `pool` gives of sets that share no entities: here values are mixed before they are projected.
        """
        sets, n, _ = entities.shape
        x = self.normalize(entities.flatten(0, 1))
        shape = (sets, n, HEADS, self.head_size)
        q, k, v = (layer(x).view(shape).transpose(1, 2) for layer in (self.query, self.key, self.value))
        # Of the queries' type: torch's kernel for float64 reads a float32 mask as if it were float64.
        masked = None if absent is None else absent[:, None, None].to(x.dtype) * MASKED_LOGIT
        mixed = _attend(q, k, v, masked, self.scale)
        rows = self.normalize(self.out(mixed.transpose(1, 2).reshape(sets * n, self.size)) + x)
        return pooled(rows.view(sets, n, self.size), absent)

    def pool(self, entities: Entities) -> Tensor:
        """The encodings [G, h] as by `forward`, of entities that are normalized and projected already."""
        p = self.logits(entities.queries, entities.keys).softmax(-1)
        by_query = p.transpose(1, 2).flatten(2)
        mixed = small_matmul(by_query, by_head(entities.values), entities.embedded + self.out.bias)
        return pooled(self.normalize(mixed), None)


def weights_fit(sets: int, n: int) -> bool:
    """Whether the weights of attention in so many sets of n are few enough to be kept for the gradient."""
    return sets * HEADS * n * n <= MOST_WEIGHTS


def _attend(q: Tensor, k: Tensor, v: Tensor, masked: Tensor | None, scale: float) -> Tensor:
    """The values as attention mixes them; [G, heads, n, d] each.

    What torch has for this multiplies the few rows of each head by themselves, for which oneDNN takes ten
    times as long. There two products for all heads take its place, unless the weights need too much memory.
    """
    if not uses_onednn() or not weights_fit(q.shape[0], q.shape[2]):
        return functional.scaled_dot_product_attention(q, k, v, masked, scale=scale)
    logits = small_matmul(q * scale, k.mT)
    return small_matmul((logits if masked is None else logits + masked).softmax(-1), v)


def by_head(values: Tensor) -> Tensor:
    """Values [G, n, heads, h] as [G, heads * n, h]."""
    return values.transpose(1, 2).flatten(1, 2)


def pooled(rows: Tensor, absent: Tensor | None) -> Tensor:
    """The mean over axis -2 of [..., n, h] without the `absent` [..., n] rows."""
    if absent is None:
        return rows.sum(-2) / (rows.shape[-2] + POOL_EPS)
    kept = rows.masked_fill(absent.unsqueeze(-1), 0.0)
    counts = (~absent).sum(-1, keepdim=True)
    return kept.sum(-2) / (counts + POOL_EPS)


ENTITY_SIZE = 128
"""The size of an embedded entity, whatever hidden_units is."""
ABSENT_BELOW = 0.01
MOST_GROUPS = 4
"""The most groups of sets: with evenly spread lengths, four compute 62 % of the places; more could spare
10 % more at most."""
MIN_PLACES = 1024
"""The places for entities, per group, from which on groups are faster: each takes calls of its own."""


def absent(entities: Tensor) -> Tensor:
    """Whether each entity is absent: [B, n] bool, from [B, n, features]."""
    return entities.square().sum(-1) < ABSENT_BELOW


def _lengths(absent: Tensor) -> NDArray[np.int64]:
    """[B] the place up to which each set [B, n] has entities: sensors fill sets from the front."""
    there = ~absent.numpy()
    return np.asarray((there * np.arange(1, there.shape[1] + 1)).max(axis=1))


def _end(occupied: int, mask: Tensor) -> int:
    """How many places of sets [B, n] to compute if so many are occupied.

    One of eight numbers where oneDNN multiplies, which keeps a kernel for each.
    """
    n = mask.shape[1]
    step = max(1, -(-n // 8)) if shape_multiple(mask.device) > 1 else 1
    return min(n, -(-occupied // step) * step)


def _shortened(sets: Sequence[Tensor], masks: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Sets and masks of each observation without the places behind the last that one of the sets fills."""
    occupied = [np.flatnonzero(~mask.numpy().all(axis=0)) for mask in masks]
    ends = [_end(int(places[-1]) + 1 if len(places) else 1, mask) for places, mask in zip(occupied, masks)]
    return [x[:, :end] for x, end in zip(sets, ends)], [mask[:, :end] for mask, end in zip(masks, ends)]


class EntityEncoder(nn.Module):
    """Encodes all variable-length observations of a behavior at once."""

    def __init__(
        self, features: Sequence[int], own_size: int, generator: torch.Generator | None = None
    ) -> None:
        """Take the `features` of each observation's entities and the `own_size` of other encodings, or 0."""
        super().__init__()
        self.own = EntityEmbedding(own_size, ENTITY_SIZE, generator) if own_size else None
        self.own_size = ENTITY_SIZE if own_size else 0
        self.embeddings = nn.ModuleList(
            EntityEmbedding(self.own_size + size, ENTITY_SIZE, generator) for size in features
        )
        self.attention = SelfAttention(ENTITY_SIZE, generator)

    def embedding(self, index: int) -> EntityEmbedding:
        """The embedding of the entities of one of the observations."""
        embedding = self.embeddings[index]
        assert isinstance(embedding, EntityEmbedding)
        return embedding

    def forward(self, sets: Sequence[Tensor], encodings: Tensor | None) -> Tensor:
        """Encode [B, n, features] of each observation, with the others' encodings [B, own size], as [B, 128].

        On a CPU sets are encoded in groups of similar length, each without the places that none of them
        fills. A device would have to be waited for to know these.
        """
        own = None if self.own is None else self.own(encodings)
        masks = [absent(entities) for entities in sets]
        if masks[0].device.type != "cpu":
            return self._encode(sets, masks, own)
        places = sum(mask.numel() for mask in masks)
        groups = min(places // MIN_PLACES, MOST_GROUPS)
        if groups < 2:
            return self._encode(*_shortened(sets, masks), own)
        order = torch.from_numpy(np.argsort(sum(map(_lengths, masks)), kind="stable"))
        pooled = []
        for rows in order.chunk(groups):
            some = _shortened([x[rows] for x in sets], [mask[rows] for mask in masks])
            pooled.append(self._encode(*some, None if own is None else own[rows]))
        return torch.cat(pooled)[order.argsort()]

    def _encode(self, sets: Sequence[Tensor], masks: list[Tensor], own: Tensor | None) -> Tensor:
        embedded = [self._embed(i, entities, own) for i, entities in enumerate(sets)]
        if len(sets) == 1:
            return self._attend(embedded[0], masks[0])
        return self._attend(torch.cat(embedded, 1), torch.cat(masks, 1))

    def _attend(self, embedded: Tensor, mask: Tensor) -> Tensor:
        pooled: Tensor = self.attention(embedded, mask)
        return pooled

    def _embed(self, index: int, entities: Tensor, own: Tensor | None) -> Tensor:
        """The embeddings [B, n, 128]; the own vector's columns are multiplied once, not for each entity."""
        layer = self.embedding(index)
        weight = layer.weight
        rows = torch.addmm(layer.bias, entities.flatten(0, 1), weight[self.own_size :])
        rows = rows.view(*entities.shape[:2], ENTITY_SIZE)
        if own is not None:
            rows = rows + torch.mm(own, weight[: self.own_size]).unsqueeze(1)
        return functional.silu(rows)
