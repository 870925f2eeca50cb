"""Notices groups whose members are of different behaviours: they are not learnt as one team."""

from __future__ import annotations

import logging

import numpy as np

from ..envs.steps import EnvironmentStep

logger = logging.getLogger(__name__)


class SharedGroups:
    """Looks at an environment's steps and warns once.

    Only at its first step, the second, the fourth, the eighth and so on: who belongs together is decided by
    the scene, and need not be looked for for ever.
    """

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}
        self._warned = False

    def look(self, step: EnvironmentStep) -> None:
        """Look at one environment's step, if it is time to."""
        if self._warned or len(step.steps) < 2:
            return
        seen = self._seen[step.env] = self._seen.get(step.env, 0) + 1
        if seen & (seen - 1):
            return
        owners: dict[int, str] = {}
        for behavior, batches in step.steps.items():
            ids = np.unique(np.concatenate([np.asarray(batch.group_id) for batch in batches]))
            for group in ids[ids > 0].tolist():
                owner = owners.setdefault(group, behavior)
                if owner != behavior:
                    self._warn(step.env, group, owner, behavior)
                    return

    def _warn(self, env: int, group: int, *behaviors: str) -> None:
        self._warned = True
        logger.warning(
            "Environment %d: the group %d has agents of %s and of %s. Agents learn as a team only with those "
            "of their own behavior; the others count as strangers. In Unity, give agents of one "
            "SimpleMultiAgentGroup one Behavior Name and one Team Id. This is said once.",
            *(env, group, *behaviors),
        )
