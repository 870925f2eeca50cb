"""The entries of a registry: environments with a name, and how each is made."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import NoBuildError
from .cache import Build, fetched

if TYPE_CHECKING:
    from mlagents_envs.base_env import BaseEnv

    from ..unity.environment import UnityEnvironment

PLATFORMS = {"linux": "linux_url", "darwin": "darwin_url", "win32": "win_url"}
"""Which of an entry's addresses is for which platform."""


class BaseRegistryEntry(ABC):
    """An environment that a registry knows.

    Args:
        identifier: its name.
        expected_reward: what trained agents earn, if somebody knows.
        description: what it is.
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
        """The mean reward of an episode that shows that agents have learnt it."""
        return self._expected_reward

    @property
    def description(self) -> str | None:
        """What it is."""
        return self._description

    @abstractmethod
    def make(self, **kwargs: Any) -> BaseEnv:
        """The environment, with the arguments of `UnityEnvironment` but for `file_name`."""


class RemoteRegistryEntry(BaseRegistryEntry):
    """An environment whose builds are zip archives on the network.

    Args:
        identifier: its name.
        expected_reward: what trained agents earn, if somebody knows.
        description: what it is.
        linux_url: of the build for Linux; None where there is none.
        darwin_url: of that for macOS.
        win_url: of that for Windows.
        additional_args: arguments that the program gets, behind those of `make`.
        tmp_dir: the folder in which it is unpacked; None for the cache.
        linux_sha256: of the archive for Linux, in hexadecimal digits; None where nobody knows it.
        darwin_sha256: of that for macOS.
        win_sha256: of that for Windows.
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
        """Those for which there is a build, as `sys.platform` names them."""
        return [platform for platform, url in self._urls.items() if url]

    def build(self, platform: str = sys.platform) -> Build:
        """The build for a platform.

        Raises:
            NoBuildError: there is none; names those that there are.
        """
        url = self._urls.get("linux" if platform.startswith("linux") else platform)
        if not url:
            there = ", ".join(PLATFORMS[one] for one in self.platforms) or "none"
            wanted = PLATFORMS.get(platform, f"a build for {platform}")
            raise NoBuildError(
                f"The entry {self.identifier} does not contain a valid URL for this platform: {wanted} is "
                f"missing (there is {there})."
            )
        sha256 = self._sums.get("linux" if platform.startswith("linux") else platform)
        folder = None if self._tmp_dir is None else Path(self._tmp_dir).expanduser() / "lanista-environments"
        return Build(self.identifier, url, sha256, folder)

    def fetch(self) -> Path:
        """The program on this machine, downloaded unless it is there.

        Raises:
            RegistryError: there is no build for this platform, or it cannot be had.
        """
        return fetched(self.build())

    def make(self, **kwargs: Any) -> UnityEnvironment:
        """Start the environment, downloaded unless it is there.

        Args:
            **kwargs: those of `UnityEnvironment`; the entry says what its `file_name` is.

        Raises:
            RegistryError: there is no build for this platform, or it cannot be had.
            whatever `UnityEnvironment` raises.
        """
        from ..unity.environment import UnityEnvironment

        if "file_name" in kwargs:
            raise TypeError(f"make() takes no file_name: the entry {self.identifier} knows its own.")
        given = [*(kwargs.pop("additional_args", None) or ()), *self.additional_args]
        return UnityEnvironment(os.fspath(self.fetch()), additional_args=given, **kwargs)
