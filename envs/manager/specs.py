"""The behaviors of all environments of a run: their specs, which must agree, and groups that span several."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

import numpy as np
from mlagents_envs.base_env import ActionSpec, BehaviorSpec
from mlagents_envs.exception import UnityEnvironmentException

from ..base import BehaviorId, BehaviorName, EnvironmentStep
from ..engines.terms import kinds_of

logger = logging.getLogger(__name__)

MOST_BEHAVIORS = 200
"""Behaviors of a run, each of which has networks, buffers and files of its own."""
MOST_TEAMS = 2000
"""Teams of all behaviors together."""

Refusal = Callable[[BehaviorId, BehaviorSpec, bool], str | None]
"""Why a behavior cannot take part; None if it can. The flag: whether others take part already."""


class SpecConflictError(UnityEnvironmentException):  # type: ignore[misc]
    """Environments, or lives of one, describe a behavior differently, or a behavior cannot take part."""


class MergedSpecs:
    """The behaviors that the environments have described so far."""

    def __init__(self, refusal: Refusal = lambda behavior, spec, among_others: None) -> None:
        """`refusal`: called with every new behavior."""
        self._refusal = refusal
        self._specs: dict[BehaviorId, BehaviorSpec] = {}
        self._sources: dict[BehaviorId, str] = {}
        self.view: Mapping[BehaviorId, BehaviorSpec] = MappingProxyType(self._specs)
        """A read-only view of all that has been added."""

    def add(
        self,
        shown: Mapping[BehaviorId, BehaviorSpec],
        before: Mapping[BehaviorId, BehaviorSpec],
        source: str,
    ) -> Mapping[BehaviorId, BehaviorSpec]:
        """Add the behaviors that an environment describes; if there is an error, none of them.

        Args:
            shown: All its behaviors.
            before: What this method returned for it last.
            source: Its name.

        Returns:
            All that has been added of it so far.

        Raises:
            SpecConflictError: Another environment describes one differently, or a behavior cannot take part.
        """
        new = {name: spec for name, spec in shown.items() if before.get(name) is not spec}
        if not new:
            return before
        for name, spec in new.items():
            self._check(name, spec, source)
        together = {**self._specs, **new}
        _check_number(together, source)
        _check_teams(together)
        for name, spec in new.items():
            self._specs.setdefault(name, spec)
            self._sources.setdefault(name, source)
        return {**before, **new}

    def _check(self, name: BehaviorId, spec: BehaviorSpec, source: str) -> None:
        known = self._specs.get(name)
        if known is None:
            if (reason := self._refusal(name, spec, bool(self._specs))) is not None:
                raise SpecConflictError(f"{source}: {reason}")
        elif known != spec:
            first = self._sources[name]
            raise SpecConflictError(
                f"{source} and {first} describe the behavior {name!r} differently. {source}: {spec}. "
                f"{first}: {known}. All environments of a run must be the same build, with the same "
                "observations and actions."
            )


def _check_number(specs: Mapping[BehaviorId, BehaviorSpec], source: str) -> None:
    """Refuse a game that names its agents instead of what they do, as one that counts in the names does."""
    names = {BehaviorName.parse(behavior).name for behavior in specs}
    for what, found, most in (("behaviors", len(names), MOST_BEHAVIORS), ("teams", len(specs), MOST_TEAMS)):
        if found > most:
            newest = ", ".join(repr(behavior) for behavior in list(specs)[-3:])
            raise SpecConflictError(
                f"{source}: with {newest} the environments have shown {found:,} {what}; a run trains at most "
                f"{most:,}. Give agents that are to act alike one behavior name and one team."
            )


def _check_teams(specs: Mapping[BehaviorId, BehaviorSpec]) -> None:
    """Refuse teams of one behavior that one policy cannot act for."""
    first: dict[str, BehaviorId] = {}
    for team, spec in specs.items():
        other = first.setdefault(BehaviorName.parse(team).name, team)
        if _sizes(specs[other]) != _sizes(spec):
            raise SpecConflictError(
                f"{other} and {team} are teams of one behavior, which one policy plays, but they differ. "
                f"{other}: {_described(specs[other])}. {team}: {_described(spec)}. Give their agents the "
                "same observations and actions, or different behavior names."
            )


def _sizes(spec: BehaviorSpec) -> tuple[list[tuple[int, ...]], ActionSpec]:
    return [tuple(sensor.shape) for sensor in spec.observation_specs], spec.action_spec


def _described(spec: BehaviorSpec) -> str:
    shapes, actions = _sizes(spec)
    branches = f", discrete branches {actions.discrete_branches}" if actions.discrete_branches else ""
    return f"observations {shapes}, {actions.continuous_size} continuous actions{branches}"


class SharedGroups:
    """Warns once if a group of agents spans several behaviors.

    An environment is checked at its first, second, fourth, eighth step and so on: the scene sets the groups,
    and they need not be checked for ever.
    """

    def __init__(self, present: Callable[[], Iterable[object]] = lambda: ()) -> None:
        """`present`: the environments that are there, whose users are told."""
        self._present = present
        self._seen: dict[int, int] = {}
        self._warned = False

    def check(self, step: EnvironmentStep) -> None:
        """Check one environment's step, if it is time to."""
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
            "of their own behavior; the others count as strangers. %sThis is said once.",
            env,
            group,
            *behaviors,
            "".join(f"In {terms.name}, {terms.group}. " for terms in kinds_of(self._present())),
        )
