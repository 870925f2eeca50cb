"""The base class of all settings, and the types of single values.

Settings know their keys, explain wrong ones, convert back to plain values, and provide the type of each key's
value for the command line, the documentation and the schema.

YAML 1.1 reads `1e4` as text and `no` as false, and the command line knows only text; these types accept every
unambiguous value, and refuse the rest with an explanation.
"""

from __future__ import annotations

import datetime
import itertools
import math
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Union, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from ..utils.errors import nearest
from ..utils.text import words
from .errors import Problem, note
from .numerals import spellings

if TYPE_CHECKING:
    from typing_extensions import Self


OWN = "lanista"
"""Marks a key that ML-Agents does not have."""


def own(default: Any, **constraints: Any) -> Any:
    """A key of Lanista's own. Its default is ML-Agents' behavior; at its default it is not written out."""
    return Field(default=default, json_schema_extra={OWN: True}, **constraints)


UNKNOWN_KEY = "unknown_key"
"""The type of the validation error of a key that is not known where it stands."""
MOST_EXPLAINED = 50
"""Unknown keys of one mapping that are explained; the rest is hardly of another kind."""


def refuse(owner: str, *problems: Problem) -> ValidationError:
    """A validation error; paths begin at the model that is being validated, `owner`."""
    details = [InitErrorDetails(type=wrong(p.message), loc=p.path, input=None) for p in problems]
    return ValidationError.from_exception_data(owner, details)


class Settings(BaseModel):
    """A mapping of the YAML. The attributes are its keys; the docstring below a key is its documentation."""

    # A run validates a few of the models: the others' validators are never made.
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, defer_build=True)

    yaml_order: ClassVar[tuple[str, ...]] = ()
    """The order in which keys are written, where it is not the order of declaration."""

    @model_validator(mode="wrap")
    @classmethod
    def _explain_keys(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Refuse unknown keys, together with everything else that is wrong."""
        if isinstance(data, cls):
            return handler(data)
        if not isinstance(data, dict):
            example = ", ".join(cls.written()[:3])
            raise wrong(
                f"found {found(data)}, expected a mapping of keys ({example}, ...); {{}} stands for defaults"
            )
        unknown = [key for key in data if key not in cls.model_fields]
        if not unknown:
            return handler(data)
        details = [
            InitErrorDetails(type=cls._explain(key), loc=(str(key),), input=data[key])
            for key in unknown[:MOST_EXPLAINED]
        ]
        try:
            handler({key: value for key, value in data.items() if key in cls.model_fields})
        except ValidationError as error:
            details += [_again(one) for one in error.errors(include_url=False)]
        raise ValidationError.from_exception_data(cls.__name__, details)

    def _refusal(self, key: str, message: str) -> ValidationError:
        """A validation error about the value of `key`."""
        return refuse(type(self).__name__, Problem((key,), message))

    @classmethod
    def written(cls) -> list[str]:
        """The keys in the order in which they are written."""
        written = [name for name, info in cls.model_fields.items() if not info.exclude]
        return [*cls.yaml_order, *(name for name in written if name not in cls.yaml_order)]

    @classmethod
    def _explain(cls, key: Any) -> PydanticCustomError:
        """That `key` is unknown here, and what was probably meant."""
        homes = (name for name, child in cls.children() if key in child.model_fields)
        hint = "".join(f" It belongs under `{name}`." for name in itertools.islice(homes, 1))
        if not hint:
            close = nearest(str(key), cls.written())
            hint = f" Did you mean `{close}`?" if close else ""
        known = f" Known here: {', '.join(cls.written())}."
        return _custom_error(UNKNOWN_KEY, message="unknown key.", hint=hint, known=known)

    @classmethod
    def children(cls) -> list[tuple[str, type[Settings]]]:
        """The keys that hold settings themselves, with their models."""
        return [
            (name, model)
            for name in cls.model_fields
            for model in _settings_in(cls.model_fields[name].annotation)
        ]

    @classmethod
    def is_own(cls, key: str) -> bool:
        """Whether `key` is Lanista's own."""
        extra = cls.model_fields[key].json_schema_extra
        return isinstance(extra, dict) and bool(extra.get(OWN))

    def complete(self, key: str, value: Any) -> None:
        """Set a key to what follows from others; it does not count as written."""
        self.__dict__[key] = value

    def as_written(self) -> dict[str, Any]:
        """Plain values of the keys that were written."""
        values = {key: getattr(self, key) for key in self.written() if key in self.model_fields_set}
        return {
            key: value.as_written() if isinstance(value, Settings) else plain(value)
            for key, value in values.items()
        }

    def as_dict(self) -> dict[str, Any]:
        """Plain values, key for key and in the order of ML-Agents' configuration.yaml.

        Lanista's own keys appear when they differ from their defaults, so that ML-Agents can read the rest.
        """
        return {
            key: plain(getattr(self, key))
            for key in self.written()
            if not (self.is_own(key) and getattr(self, key) == type(self).model_fields[key].default)
        }


def _again(error: ErrorDetails) -> InitErrorDetails:
    """An error that was caught, to be raised among others."""
    context = error.get("ctx") or {}
    if "message" in context:
        kind = _custom_error(error["type"], **context)
        return InitErrorDetails(type=kind, loc=error["loc"], input=error["input"])
    return InitErrorDetails(type=error["type"], loc=error["loc"], input=error["input"], ctx=context)


def plain(value: Any) -> Any:
    """Settings, enums and containers as what YAML and JSON know."""
    if isinstance(value, Settings):
        return value.as_dict()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def _settings_in(annotation: Any) -> list[type[Settings]]:
    """The settings that a value of this type may be, not those inside a list or a mapping."""
    if get_origin(annotation) in (Union, UnionType, Annotated):
        return [model for part in get_args(annotation) for model in _settings_in(part)]
    plain_class = get_origin(annotation) is None and isinstance(annotation, type)
    return [annotation] if plain_class and issubclass(annotation, Settings) else []


@dataclass(frozen=True)
class ValueType:
    """A type as people and schemas know it."""

    name: str
    """boolean, integer, number, string, array, object or any; as JSON schema names them."""
    nullable: bool = False
    choices: tuple[str, ...] = ()
    """The texts that are allowed, when not every text is."""
    model: type[Settings] | None = None
    """The settings that an object is."""
    or_list: bool = False
    """Whether it may also be a list of such values."""


_PLAIN = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}


def value_type(annotation: Any) -> ValueType:
    """The kind of value that a field with this annotation holds."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return value_type(parts[0])
    if origin is Literal:
        return ValueType("string", choices=tuple(parts))
    if origin in (Union, UnionType):
        inner = value_type(next(part for part in parts if part is not type(None)))
        or_list = any(get_origin(part) is list for part in parts[1:])
        return replace(inner, nullable=type(None) in parts, or_list=or_list)
    plain = origin or annotation
    if isinstance(plain, type) and issubclass(plain, Settings):
        return ValueType("object", model=plain)
    if isinstance(plain, type) and issubclass(plain, Enum):
        return ValueType("string", choices=tuple(member.value for member in plain))
    return ValueType(_PLAIN.get(plain, "any"))


TRUE = frozenset({"true", "yes", "on", "1"})
FALSE = frozenset({"false", "no", "off", "0"})
LARGEST_INTEGER = 2**63 - 1
LARGEST_FLOAT32 = (2 - 2**-23) * 2.0**127


def wrong(message: str) -> PydanticCustomError:
    """A validator's refusal with a message of ours."""
    return _custom_error("wrong_value", message=message)


def _custom_error(kind: str, **parts: str) -> PydanticCustomError:
    """A refusal whose message is all of its parts, in order; who shows it may leave some out."""
    make: Any = PydanticCustomError  # pydantic's stubs ask for literal text, which some checkers insist on
    refusal: PydanticCustomError = make(kind, "".join(f"{{{name}}}" for name in parts), parts)
    return refusal


def found(value: Any) -> str:
    """A value as messages show it: short, on one line."""
    if value is None:
        return "nothing"
    try:
        text = repr(value)
    except ValueError:  # Python writes no number of more than 4,300 digits
        return "a number with thousands of digits"
    return text if len(text) <= 60 else text[:57] + "..."


def _number(value: Any, expected: str, *, whole: bool = False) -> float:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            meant = spellings(value, whole=whole)
            hint = f": write {meant}" if meant else ""
            raise wrong(f"found {found(value)}, expected {expected}{hint}") from None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise wrong(f"found {found(value)}, expected {expected}")
    try:
        result = float(value)
    except OverflowError:
        raise wrong(f"found {found(value)}, which is too large for a number") from None
    if not math.isfinite(result):
        raise wrong(f"found {found(value)}, expected a finite number")
    return result


def number(value: Any) -> float:
    """A finite number: 0.1, 3, '3e-4'."""
    return _number(value, "a number")


def integer(value: Any) -> int:
    """A whole number: 64, 1.0e4, '1e4'. A fraction is cut off, as ML-Agents does, but not silently."""
    return _integer(value, None)


def _integer(value: Any, info: ValidationInfo | None) -> int:
    if isinstance(value, str):
        with suppress(ValueError):
            value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        if abs(value) > LARGEST_INTEGER:
            raise wrong(
                f"found {found(value)}, expected a whole number of 64 bits, at most {LARGEST_INTEGER}"
            )
        return value
    exact = _number(value, "a whole number", whole=True)
    if abs(exact) > LARGEST_INTEGER:
        raise wrong(f"found {found(value)}, expected a whole number of 64 bits, at most {LARGEST_INTEGER}")
    if exact != int(exact):
        note(info, f"{found(value)} is not a whole number; {int(exact)} is used.", value)
    return int(exact)


def flag(value: Any) -> bool:
    """True or false, also as text from YAML or a command line."""
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower() if isinstance(value, (str, int)) else ""
    if text in TRUE:
        return True
    if text in FALSE:
        return False
    raise wrong(f"found {found(value)}, expected true or false")


def text(value: Any) -> str:
    """Text; a number or a date that YAML made of it becomes text again."""
    if isinstance(value, str):
        return value
    if isinstance(value, (int, float, datetime.date)) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, bool):
        raise wrong(f"found {value} (YAML reads yes, no, on and off so), expected text: put it in quotes")
    raise wrong(f"found {found(value)}, expected text")


def arguments(value: Any) -> list[Any]:
    """A list of command-line arguments; one text is split as a shell would."""
    if isinstance(value, str):
        try:
            return words(value)
        except ValueError as error:
            raise wrong(f"found {found(value)}, which a shell could not split: {error}") from None
    if isinstance(value, (list, tuple)):
        return list(value)
    raise wrong(f"found {found(value)}, expected a list such as [--areas, '4']")


def integer_of_key(value: Any, info: ValidationInfo) -> int:
    """The same, with a note about a fraction where the key was written."""
    return _integer(value, info)


Integer = Annotated[StrictInt, BeforeValidator(integer_of_key)]
Number = Annotated[StrictFloat, BeforeValidator(number)]
WireInteger = Annotated[Integer, Field(ge=-(2**31), le=2**31 - 1)]
"""A whole number that is sent to an engine, as 32 bits."""
WireNumber = Annotated[Number, Field(ge=-LARGEST_FLOAT32, le=LARGEST_FLOAT32)]
"""The same for any number."""
Flag = Annotated[StrictBool, BeforeValidator(flag)]
Text = Annotated[StrictStr, BeforeValidator(text)]
Arguments = Annotated[list[Text], BeforeValidator(arguments)]
