"""From sets of entities of varying number, as buffer sensors send them, to one vector.

An agent's other observations, made one vector of their own, stand before each entity's features; the result
is embedded, entities look at each other (attention.py), and their mean is the encoding. What is not there is
sent as zeros: an entity whose squares sum up to less than 0.01 counts as absent, as in ML-Agents.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from .attention import EntityEmbedding, SelfAttention

ENTITY_SIZE = 128
"""Of an embedded entity, whatever hidden_units is."""
ABSENT_BELOW = 0.01


def absent(entities: Tensor) -> Tensor:
    """[B, n, features] -> [B, n] bool."""
    return entities.square().sum(-1) < ABSENT_BELOW


class EntityEncoder(nn.Module):
    """Reads all variable-length observations of a behaviour at once."""

    def __init__(
        self, features: Sequence[int], own_size: int, generator: torch.Generator | None = None
    ) -> None:
        """`features` of an entity of each observation; `own_size` of the other encodings, 0 without any."""
        super().__init__()
        self.own = EntityEmbedding(own_size, ENTITY_SIZE, generator) if own_size else None
        self.own_size = ENTITY_SIZE if own_size else 0
        self.embeddings = nn.ModuleList(
            EntityEmbedding(self.own_size + size, ENTITY_SIZE, generator) for size in features
        )
        self.attention = SelfAttention(ENTITY_SIZE, generator)

    def embedding(self, index: int) -> EntityEmbedding:
        """Of one of the observations."""
        embedding = self.embeddings[index]
        assert isinstance(embedding, EntityEmbedding)
        return embedding

    def forward(self, sets: Sequence[Tensor], encodings: Tensor | None) -> Tensor:
        """[B, n, features] of each observation and the others' encodings [B, own size] -> [B, 128]."""
        own = None if self.own is None else self.own(encodings)
        embedded = [self._embed(i, entities, own) for i, entities in enumerate(sets)]
        masks = [absent(entities) for entities in sets]
        if len(sets) == 1:
            return self._attend(embedded[0], masks[0])
        return self._attend(torch.cat(embedded, 1), torch.cat(masks, 1))

    def _attend(self, embedded: Tensor, mask: Tensor) -> Tensor:
        pooled: Tensor = self.attention(embedded, mask)
        return pooled

    def _embed(self, index: int, entities: Tensor, own: Tensor | None) -> Tensor:
        """[B, n, 128]. The columns of the own vector are multiplied once, not once for each entity."""
        layer = self.embedding(index)
        weight = layer.weight
        rows = torch.addmm(layer.bias, entities.flatten(0, 1), weight[self.own_size :])
        rows = rows.view(*entities.shape[:2], ENTITY_SIZE)
        if own is not None:
            rows = rows + torch.mm(own, weight[: self.own_size]).unsqueeze(1)
        return functional.silu(rows)
