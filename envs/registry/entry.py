"""The entries of a registry: named environments, and how to make each."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import NoBuildError
from .cache import Build

if TYPE_CHECKING:
    from mlagents_envs.base_env import BaseEnv

    from ..unity.environment import UnityEnvironment

PLATFORMS = {"linux": "linux_url", "darwin": "darwin_url", "win32": "win_url"}
"""The manifest's key for each platform's build, as in `sys.platform`."""


class BaseRegistryEntry(ABC):
    """An environment in a registry.

    Args:
        identifier: Its name.
        expected_reward: The mean reward of trained agents, if known.
        description: What it is.
    """

    def __init__(self, identifier: str, expected_reward: float | None, description: str | None) -> None:
        self._identifier = identifier
        self._expected_reward = expected_reward
        self._description = description

    @property
    def identifier(self) -> str:
        """Its name in the registry."""
        return self._identifier

    @property
    def expected_reward(self) -> float | None:
        """The mean reward per episode that shows that the task is solved."""
        return self._expected_reward

    @property
    def description(self) -> str | None:
        """What it is."""
        return self._description

    @abstractmethod
    def make(self, **kwargs: Any) -> BaseEnv:
        """Make the environment, with the arguments of `UnityEnvironment` except `file_name`."""


class RemoteRegistryEntry(BaseRegistryEntry):
    """An environment whose builds are zip archives on the network.

    Args:
        identifier: Its name.
        expected_reward: The mean reward of trained agents, if known.
        description: What it is.
        linux_url: Of the Linux build; None if there is none.
        darwin_url: Of the macOS build.
        win_url: Of the Windows build.
        additional_args: Arguments for the program, after those of `make`.
        tmp_dir: The folder to unpack into; None for the cache.
        linux_sha256: Of the Linux archive, in hexadecimal digits; None if unknown.
        darwin_sha256: Of the macOS archive.
        win_sha256: Of the Windows archive.
    """

    def __init__(
        self,
        identifier: str,
        expected_reward: float | None,
        description: str | None,
        linux_url: str | None,
        darwin_url: str | None,
        win_url: str | None,
        additional_args: Sequence[str] | None = None,
        tmp_dir: str | None = None,
        *,
        linux_sha256: str | None = None,
        darwin_sha256: str | None = None,
        win_sha256: str | None = None,
    ) -> None:
        super().__init__(identifier, expected_reward, description)
        self._urls = {"linux": linux_url, "darwin": darwin_url, "win32": win_url}
        self._sums = {"linux": linux_sha256, "darwin": darwin_sha256, "win32": win_sha256}
        self.additional_args = tuple(additional_args or ())
        self._tmp_dir = tmp_dir

    @property
    def platforms(self) -> list[str]:
        """The platforms that have a build, as in `sys.platform`."""
        return [platform for platform, url in self._urls.items() if url]

    def build(self, platform: str = sys.platform) -> Build:
        """The build for a platform.

        Raises:
            NoBuildError: There is none; the message lists those that exist.
        """
        platform = "linux" if platform.startswith("linux") else platform
        url = self._urls.get(platform)
        if not url:
            there = ", ".join(PLATFORMS[one] for one in self.platforms) or "none"
            wanted = PLATFORMS.get(platform, f"a build for {platform}")
            raise NoBuildError(
                f"The entry {self.identifier} does not contain a valid URL for this platform: {wanted} is "
                f"missing (there is {there})."
            )
        folder = None if self._tmp_dir is None else Path(self._tmp_dir).expanduser() / "lanista-environments"
        return Build(self.identifier, url, self._sums[platform], folder)

    def fetch(self) -> Path:
        """The program on this machine, downloaded if necessary.

        Raises:
            RegistryError: There is no build for this platform, or it cannot be downloaded.
        """
        return self.build().fetch()

    def make(self, **kwargs: Any) -> UnityEnvironment:
        """Start the environment, downloaded if necessary.

        Args:
            **kwargs: Those of `UnityEnvironment`, except `file_name`.

        Raises:
            RegistryError: There is no build for this platform, or it cannot be downloaded.
            UnityException: As `UnityEnvironment`.
        """
        from ..unity.environment import UnityEnvironment

        if "file_name" in kwargs:
            raise TypeError(f"make() takes no file_name: the entry {self.identifier} has its own program.")
        given = [*(kwargs.pop("additional_args", None) or ()), *self.additional_args]
        return UnityEnvironment(os.fspath(self.fetch()), additional_args=given, **kwargs)
