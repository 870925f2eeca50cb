"""What a file may name that would be started or imported, and which of it is part of Lanista."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...envs.python import GYMNASIUM, PETTINGZOO, PYTHON
from .plugins import NETWORKS, plugins


@dataclass(frozen=True)
class Named:
    """Names in a file that become a program, or modules."""

    environment: tuple[str, ...] = ()
    """What would be started: as `--env` takes it, and the arguments; empty if nothing is."""
    imports: tuple[str, ...] = ()
    """`package.module:Class`, names of entry points of networks, and `group:NAME` of other plug-ins."""

    def each(self) -> Iterator[tuple[str, ...]]:
        """Each thing by itself."""
        if self.environment:
            yield ("start", *self.environment)
        for name in dict.fromkeys(self.imports):
            yield ("import", name)

    @property
    def foreign(self) -> Named:
        """What of it is no part of Lanista."""
        return Named(() if is_built_in(self.environment) else self.environment, self.imports)

    def __bool__(self) -> bool:
        return bool(self.environment or self.imports)


def modules_of(words: Sequence[str]) -> list[str]:
    """The modules that one of `Named.each` imports."""
    kind, name = words[0], words[1].strip()
    if kind == "import":
        group, _, plugin = name.rpartition(":")
        entry = plugins(group or NETWORKS).get(plugin)
        return [name.partition(":")[0] if entry is None else entry.value.partition(":")[0].strip()]
    for prefix in (PYTHON, PETTINGZOO):
        if name.startswith(prefix):
            return [name.removeprefix(prefix).partition("?")[0].partition(":")[0]]
    if name.startswith(GYMNASIUM):
        module = name.removeprefix(GYMNASIUM).partition("?")[0].rpartition(":")[0]
        return ["gymnasium", *([module] if module else [])]
    return []


def is_built_in(environment: Sequence[str]) -> bool:
    """Whether nothing but Lanista is started: a scene with its own options, or an editor, which is awaited.

    A scene has other flags too, which name a file to write (`-logFile`) and a port.
    """
    if not environment:
        return True
    from ...envs.engines.options import SCENE
    from ...envs.godot import is_godot_editor
    from ...envs.unity.names import is_unreal_editor

    path = environment[0].strip()
    if is_godot_editor(path) or is_unreal_editor(path):
        return True
    return path.startswith(SCENE) and _has_own_options(path, environment[1:])


def _has_own_options(path: str, arguments: Sequence[str]) -> bool:
    from mlagents_envs.exception import UnityEnvironmentException

    from ...envs.scenes.options import options_of
    from ...envs.scenes.registry import SCENES
    from ...envs.unity.launch import scene_words

    try:
        name, *options = scene_words(path)
    except UnityEnvironmentException:
        return False
    if name not in SCENES:
        return False
    words = [word for word in (*options, *arguments) if word.startswith("-") and not _is_number(word)]
    if not words:
        return True
    known = {f"--{option.replace('_', '-')}" for option in options_of(SCENES[name].load())}
    return all(word.partition("=")[0] in known for word in words)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
