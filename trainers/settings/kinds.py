"""What kind of value a key holds, for the command line, the documentation and the schema."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from .base import Settings


@dataclass(frozen=True)
class Kind:
    """A type as people and schemas know it."""

    name: str
    """boolean, integer, number, string, array, object or any; as JSON schema names them."""
    nullable: bool = False
    choices: tuple[str, ...] = ()
    """The texts that are allowed, when not every text is."""
    model: type[Settings] | None = None
    """The settings that an object is."""


_PLAIN = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}


def kind_of(annotation: Any) -> Kind:
    """The kind of value that a field with this annotation holds."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return kind_of(parts[0])
    if origin is Literal:
        return Kind("string", choices=tuple(parts))
    if origin in (Union, UnionType):
        inner = kind_of(next(part for part in parts if part is not type(None)))
        return Kind(inner.name, True, inner.choices, inner.model)
    plain = origin or annotation
    if isinstance(plain, type) and issubclass(plain, Settings):
        return Kind("object", model=plain)
    if isinstance(plain, type) and issubclass(plain, Enum):
        return Kind("string", choices=tuple(member.value for member in plain))
    return Kind(_PLAIN.get(plain, "any"))
