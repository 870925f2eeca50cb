"""Policies that act in one tick."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch
from mlagents_envs.base_env import DecisionSteps

from ...envs.base import Decision
from ..networks.fast.sampling import JointSampler
from .policy import NO_CONTEXT, ActContext, Policy, check_finite, decision_of, joined, split

MOST_SAMPLERS = 16
"""Sets of policies whose samplers are kept: which ones act together changes with the agents that wait."""


class ActRequest(NamedTuple):
    """What `Policy.act` is called with."""

    policy: Policy
    batches: Sequence[DecisionSteps]
    context: ActContext = NO_CONTEXT
    by_snapshot: bool = False
    """Mark the decisions so."""

    def decide(self) -> list[Decision]:
        """One Decision per batch."""
        return self.policy.act(self.batches, self.context)

    def marked(self, decisions: list[Decision]) -> list[Decision]:
        """The decisions, marked if they are to be."""
        if not self.by_snapshot:
            return decisions
        return [replace(decision, by_snapshot=True) for decision in decisions]


class JointPolicies:
    """Policies that decide in one tick, as a learner and its opponents or several behaviors do.

    The actions of policies of one kind are drawn together, which takes the calls of one draw. What comes out
    is what each policy gives by itself, bit for bit.
    """

    def __init__(self) -> None:
        self._samplers: dict[tuple[Policy, ...], JointSampler] = {}

    def act(self, requests: Sequence[ActRequest]) -> list[list[Decision]]:
        """The decisions of each request, one per batch.

        Raises:
            FloatingPointError: the output of a network is not finite.
        """
        if len(requests) == 1:
            return [requests[0].marked(requests[0].decide())]
        groups: dict[object, list[int]] = {}
        for index, (policy, _, context, _) in enumerate(requests):
            kind = None if context.uniform else policy.kind()
            key = index if kind is None else (kind, context.exploration)
            groups.setdefault(key, []).append(index)
        decided: dict[int, list[Decision]] = {}
        for group in groups.values():
            chosen = [requests[k] for k in group]
            answers = [chosen[0].decide()] if len(chosen) == 1 else self._draw_together(chosen)
            decided.update(zip(group, answers, strict=True))
        return [request.marked(decided[k]) for k, request in enumerate(requests)]

    @torch.inference_mode()
    def _draw_together(self, requests: Sequence[ActRequest]) -> list[list[Decision]]:
        policies = tuple(request.policy for request in requests)
        if policies not in self._samplers:
            if len(self._samplers) >= MOST_SAMPLERS:
                self._samplers.clear()
            self._samplers[policies] = JointSampler([policy.sampler for policy in policies])
        agents, columns, masks = [], [], []
        for policy, batches, context, _ in requests:
            obs, ids = joined(batches)
            agents.append(ids)
            columns.append(policy.forward(obs, None, context)[0])
            masks.append(policy.action_mask(batches, ids))
        deterministic = policies[0].deterministic
        generators = [None if deterministic else policy.generator for policy in policies]
        exploration = 0.0 if deterministic else requests[0].context.exploration
        rows, counts = torch.cat(columns), [len(ids) for ids in agents]
        drawn = self._samplers[policies](rows, counts, masks, generators, exploration)
        whole = decision_of(np.concatenate(agents), drawn, None, exploration)
        waiting = [(request.policy.spec, batch) for request in requests for batch in request.batches]
        check_finite(whole, rows, waiting)
        each = iter(split(whole, [batch for _, batch in waiting]))
        return [list(islice(each, len(request.batches))) for request in requests]
