"""The behaviours of all environments of a run, which must agree about them."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from mlagents_envs.base_env import BehaviorSpec
from mlagents_envs.exception import UnityEnvironmentException

from .steps import BehaviorId

Refusal = Callable[[BehaviorId, BehaviorSpec, bool], str | None]
"""Why a behaviour cannot take part; None if it can. Told whether others take part already."""


class SpecConflictError(UnityEnvironmentException):  # type: ignore[misc]
    """Two environments, or two lives of one, describe a behaviour differently; or one has a behaviour that
    cannot take part.
    """


class MergedSpecs:
    """What environments have shown of their behaviours, put together."""

    def __init__(self, refusal: Refusal = lambda behavior, spec, among_others: None) -> None:
        """Nothing is known yet. `refusal` is asked of every new behaviour."""
        self._refusal = refusal
        self._specs: dict[BehaviorId, BehaviorSpec] = {}
        self._sources: dict[BehaviorId, str] = {}
        self.view: Mapping[BehaviorId, BehaviorSpec] = MappingProxyType(self._specs)
        """Follows what is added."""

    def take_over(
        self,
        shown: Mapping[BehaviorId, BehaviorSpec],
        before: Mapping[BehaviorId, BehaviorSpec],
        source: str,
    ) -> Mapping[BehaviorId, BehaviorSpec]:
        """Take over what an environment says of its behaviours: all of it, or with an error nothing.

        Args:
            shown: All its behaviours.
            before: What this has returned for it the last time.
            source: Its name.

        Returns:
            What has been taken over of it so far.

        Raises:
            SpecConflictError: Another environment has said otherwise, or a behaviour cannot take part.
        """
        new = {name: spec for name, spec in shown.items() if before.get(name) is not spec}
        if not new:
            return before
        for name, spec in new.items():
            self._check(name, spec, source)
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
