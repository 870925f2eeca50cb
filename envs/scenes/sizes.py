"""A scene's settings by the name of a size, with single ones changed."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from typing import Any, TypeVar


@dataclass(frozen=True, slots=True)
class SceneSetting:
    """What a scene of several sizes settles: numbers, and texts, of which those of the sizes are allowed."""


Setting = TypeVar("Setting", bound=SceneSetting)


def choose(
    scene: str,
    settings: Mapping[str, Setting],
    size: str,
    areas: int,
    given: Mapping[str, Any],
    also: Mapping[str, str] | None = None,
) -> Setting:
    """The setting called `size`, with what is `given` in place of its own.

    Args:
        scene: Its name, for messages.
        settings: By the names of the sizes.
        size: The one to choose.
        areas: How many areas the scene is to have.
        given: By the setting's fields. What may be 0 (see `_may_be_zero`) is not given where it is negative,
            everything else where it is 0 or empty.
        also: By the setting's fields, a text that is allowed although no size has it.

    Raises:
        ValueError: No such size, or a number that makes no world.
    """
    if size not in settings:
        near = get_close_matches(size, settings, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{scene} has no size {size!r}.{hint} Sizes: {', '.join(settings)}.")
    changed = replace(settings[size], **{name: v for name, v in given.items() if _is_given(name, v)})
    for name, value in {"areas": areas, **asdict(changed)}.items():
        if isinstance(value, str):
            known = {getattr(setting, name) for setting in settings.values()}
            known |= {text for field, text in (also or {}).items() if field == name}
            if value not in known:
                raise ValueError(f"{scene} has no {name} {value!r}; it has {', '.join(sorted(known))}.")
        elif not (0 < value < math.inf or (value == 0 and _may_be_zero(name))):
            raise ValueError(
                f"{scene}: {name.replace('_', '-')} is {value}; it must be more than 0, and finite."
            )
    return changed


def _may_be_zero(name: str) -> bool:
    """Whether a setting counts what a world can do without."""
    return name == "linger" or name.endswith(("blocks", "columns", "goals"))


def _is_given(name: str, value: Any) -> bool:
    return not value < 0 if _may_be_zero(name) else bool(value)
