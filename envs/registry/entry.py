"""A registry's manifest and its entries: named environments, and how to make each."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import NoBuildError, RegistryError
from ..utils.regular_files import read_bytes
from .cache import Build, cache_folder
from .download import is_url, read

if TYPE_CHECKING:
    from mlagents_envs.base_env import BaseEnv

    from ..unity.environment import UnityEnvironment

PLATFORMS = {"linux": "linux_url", "darwin": "darwin_url", "win32": "win_url"}
"""The manifest's key for each platform's build, as in `sys.platform`."""


class BaseRegistryEntry(ABC):
    """An environment in a registry.

    Args:
        identifier: The environment's name.
        expected_reward: The mean reward of trained agents, if known.
        description: What the environment is.
    """

    def __init__(self, identifier: str, expected_reward: float | None, description: str | None) -> None:
        self._identifier = identifier
        self._expected_reward = expected_reward
        self._description = description

    @property
    def identifier(self) -> str:
        """The environment's name in the registry."""
        return self._identifier

    @property
    def expected_reward(self) -> float | None:
        """The mean reward per episode that shows that the task is solved."""
        return self._expected_reward

    @property
    def description(self) -> str | None:
        """What the environment is."""
        return self._description

    @abstractmethod
    def make(self, **kwargs: Any) -> BaseEnv:
        """Make the environment, with the arguments of `UnityEnvironment` except `file_name`."""


class RemoteRegistryEntry(BaseRegistryEntry):
    """An environment whose builds are zip archives on the network.

    Args:
        identifier: The environment's name.
        expected_reward: The mean reward of trained agents, if known.
        description: What the environment is.
        linux_url: The address of the Linux build; None if there is none.
        darwin_url: The address of the macOS build.
        win_url: The address of the Windows build.
        additional_args: Arguments for the program, after those of `make`.
        tmp_dir: The folder to unpack into; None for the cache.
        linux_sha256: The SHA-256 of the Linux archive, in hexadecimal digits; None if unknown.
        darwin_sha256: The SHA-256 of the macOS archive.
        win_sha256: The SHA-256 of the Windows archive.
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
            NoBuildError: There is no such build; the message lists those that exist.
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
            **kwargs: The arguments of `UnityEnvironment`, except `file_name`.

        Raises:
            RegistryError: There is no build for this platform, or it cannot be downloaded.
            UnityException: The environment cannot start, see `UnityEnvironment`.
        """
        from ..unity.environment import UnityEnvironment

        if "file_name" in kwargs:
            raise TypeError(f"make() takes no file_name: the entry {self.identifier} has its own program.")
        given = [*(kwargs.pop("additional_args", None) or ()), *self.additional_args]
        return UnityEnvironment(os.fspath(self.fetch()), additional_args=given, **kwargs)


logger = logging.getLogger(__name__)

MAX_BYTES = 4 << 20
"""The most bytes of a manifest on the network."""
_SHOWN = 200
"""The most letters of a value in a message."""
_KEYS = (
    *("expected_reward", "description", "linux_url", "darwin_url", "win_url"),
    *("additional_args", "tmp_dir", "linux_sha256", "darwin_sha256", "win_sha256"),
)


def read_manifest(path_or_url: str) -> list[RemoteRegistryEntry]:
    """The entries of a manifest on this machine or on the network.

    The last valid copy of a manifest on the network is kept, for when the network is not available.

    Raises:
        RegistryError: The manifest cannot be read, or is not valid.
    """
    remote = is_url(path_or_url)
    if remote:
        data = _read_remote(path_or_url)
        return list(_entries(data, path_or_url, None))
    path = Path(path_or_url).expanduser()
    try:
        data = read_bytes(path)
    except OSError as error:
        raise RegistryError(f"The manifest {path.absolute()} could not be read: {error.strerror}.") from error
    return list(_entries(data, path_or_url, path.absolute().parent))


def _read_remote(url: str) -> bytes:
    if url.lower().startswith("http://"):
        logger.warning(
            "The manifest %s is read unencrypted: anyone on the network path could name other programs in it "
            "and their checksums. An https:// address prevents it.",
            url,
        )
    copy = cache_folder() / "manifests" / f"{hashlib.sha256(url.encode()).hexdigest()[:16]}.yaml"
    try:
        data = read(url, MAX_BYTES)
        list(_entries(data, url, None))  # an invalid manifest does not replace a valid copy
    except RegistryError as error:
        if not copy.is_file():
            raise
        logger.warning("%s An earlier copy is used.", error)
        return copy.read_bytes()
    try:
        copy.parent.mkdir(parents=True, exist_ok=True)
        partial = copy.with_suffix(f".{os.getpid()}.partial")
        partial.write_bytes(data)
        os.replace(partial, copy)
    except OSError as error:
        logger.warning("No copy of %s could be kept: %s.", url, error.strerror)
    return data


def _entries(data: bytes, name: str, folder: Path | None) -> Iterator[RemoteRegistryEntry]:
    """Parse the entries; `folder`: that of a manifest on this machine, to resolve its paths."""
    import yaml

    from ..utils.bounded_yaml import load_yaml

    try:
        tree = load_yaml(data.decode("utf-8"))
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        mark = getattr(error, "problem_mark", None)
        place = "" if mark is None else f", line {mark.line + 1}"
        cause = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise RegistryError(f"{name}{place}: it is not valid YAML: {cause}.") from error
    listed = tree.get("environments") if isinstance(tree, dict) else None
    if not isinstance(listed, list):
        raise RegistryError(
            f"{name}: expected a list under `environments`, each item of which is `NAME: {{...}}`."
        )
    for number, item in enumerate(listed):
        if not isinstance(item, dict) or not item:
            raise RegistryError(f"{name}: item {number} of `environments`: expected `NAME: {{...}}`.")
        for identifier, fields in item.items():
            yield _entry(str(identifier), fields, name, folder)


def _entry(identifier: str, fields: Any, name: str, folder: Path | None) -> RemoteRegistryEntry:
    where = f"{name}: {identifier}"
    if not identifier.strip() or not identifier.isprintable():
        raise RegistryError(f"{name}: found the name {identifier!r}, expected text on one line.")
    if not isinstance(fields, dict):
        raise RegistryError(f"{where}: expected a mapping with {', '.join(_KEYS[:5])}.")
    for key in fields:
        if key not in _KEYS:
            near = get_close_matches(str(key), _KEYS, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise RegistryError(f"{where}: {key}: unknown key.{hint} Known: {', '.join(_KEYS)}.")
    return RemoteRegistryEntry(
        identifier,
        _reward(fields.get("expected_reward"), where),
        _text(fields, "description", where),
        additional_args=_arguments(fields.get("additional_args"), where),
        tmp_dir=_text(fields, "tmp_dir", where),
        linux_url=_address(fields, "linux_url", where, folder),
        darwin_url=_address(fields, "darwin_url", where, folder),
        win_url=_address(fields, "win_url", where, folder),
        linux_sha256=_checksum(fields, "linux_sha256", where),
        darwin_sha256=_checksum(fields, "darwin_sha256", where),
        win_sha256=_checksum(fields, "win_sha256", where),
    )


def _reward(value: Any, where: str) -> float | None:
    if value is None:
        return None
    from ..utils.bounded_yaml import finite_number

    number = finite_number(value)
    if number is None:
        raise RegistryError(f"{where}: expected_reward: found {_short(value)}, expected a number.")
    return number


def _short(value: Any) -> str:
    """The beginning of a value of the file, for a message."""
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."


def _text(fields: Mapping[str, Any], key: str, where: str) -> str | None:
    value = fields.get(key)
    if value is not None and not isinstance(value, str):
        raise RegistryError(f"{where}: {key}: found {_short(value)}, expected text.")
    # Control characters of a stranger must not reach a terminal.
    return value and "".join(letter for letter in value if letter.isprintable() or letter.isspace())


def _address(fields: Mapping[str, Any], key: str, where: str, folder: Path | None) -> str | None:
    value = _text(fields, key, where)
    if not value:
        return None
    if is_url(value):
        return value
    if folder is None or re.match(r"[a-z][a-z0-9+.-]+:", value, re.IGNORECASE):
        raise RegistryError(
            f"{where}: {key}: found {_short(value)}, expected an address that starts with https://."
        )
    return str(folder / value)


def _checksum(fields: Mapping[str, Any], key: str, where: str) -> str | None:
    value = fields.get(key)
    if value is None:
        return None
    text = str(value).lower()
    if not re.fullmatch(r"[0-9a-f]{64}", text):
        raise RegistryError(
            f"{where}: {key}: found {_short(value)}, expected the 64 hexadecimal digits of sha256sum, in "
            "quotes."
        )
    return text


def _arguments(value: Any, where: str) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list) or any(isinstance(item, (list, dict)) for item in value):
        raise RegistryError(
            f"{where}: additional_args: found {_short(value)}, expected a list such as [--areas, '4']."
        )
    return [str(item) for item in value]
