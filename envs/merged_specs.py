"""The behaviours of all environments of a run, which must agree about them."""

from collections.abc import Mapping
from types import MappingProxyType

from mlagents_envs.base_env import BehaviorSpec
from mlagents_envs.exception import UnityEnvironmentException

from .steps import BehaviorId


class SpecConflictError(UnityEnvironmentException):  # type: ignore[misc]
    """Two environments, or two lives of one, describe a behaviour differently."""


class MergedSpecs:
    """What environments have shown of their behaviours, put together."""

    def __init__(self) -> None:
        self._specs: dict[BehaviorId, BehaviorSpec] = {}
        self._sources: dict[BehaviorId, str] = {}
        self.view: Mapping[BehaviorId, BehaviorSpec] = MappingProxyType(self._specs)
        """Follows what is added."""

    def add(self, name: BehaviorId, spec: BehaviorSpec, source: str) -> None:
        """Take over what the environment `source` says of a behaviour.

        Raises:
            SpecConflictError: Another environment has said otherwise.
        """
        known = self._specs.setdefault(name, spec)
        first = self._sources.setdefault(name, source)
        if known != spec:
            raise SpecConflictError(
                f"{source} and {first} describe the behavior {name!r} differently. {source}: {spec}. "
                f"{first}: {known}. All environments of a run must be the same build, with the same "
                "observations and actions."
            )
