"""The types of single values: what a YAML file, written by people, may hold for each.

YAML 1.1 reads `1e4` as text and `no` as false, and the command line knows only text; these types accept
whatever has one meaning, and refuse the rest with a sentence.
"""

import datetime
import math
import shlex
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StrictBool, StrictFloat, StrictInt, StrictStr, ValidationInfo
from pydantic_core import PydanticCustomError

from .notes import note

TRUE = frozenset({"true", "yes", "on", "1"})
FALSE = frozenset({"false", "no", "off", "0"})
LARGEST_FLOAT32 = (2 - 2**-23) * 2.0**127


def wrong(message: str, kind: str = "wrong_value") -> PydanticCustomError:
    """A validator's refusal, worded by us."""
    make: Any = PydanticCustomError  # pydantic's stubs ask for literal text, which some checkers insist on
    refusal: PydanticCustomError = make(kind, "{message}", {"message": message})
    return refusal


def found(value: Any) -> str:
    """How a message shows what was found: short, on one line."""
    if value is None:
        return "nothing"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _number(value: Any, expected: str) -> float:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise wrong(f"found {found(value)}, expected {expected}") from None
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
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            pass
    exact = _number(value, "a whole number")
    if exact != int(exact):
        note(info, f"{found(value)} is not a whole number; {int(exact)} is used.")
    return int(exact)


def flag(value: Any) -> bool:
    """True or false, also as the text that YAML or a command line makes of it."""
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
            return shlex.split(value)
        except ValueError as error:
            raise wrong(f"found {found(value)}, which a shell could not split: {error}") from None
    if isinstance(value, (list, tuple)):
        return list(value)
    raise wrong(f"found {found(value)}, expected a list such as [--areas, '4']")


def _integer_of_a_key(value: Any, info: ValidationInfo) -> int:
    return _integer(value, info)


Integer = Annotated[StrictInt, BeforeValidator(_integer_of_a_key)]
Number = Annotated[StrictFloat, BeforeValidator(number)]
WireInteger = Annotated[Integer, Field(ge=-(2**31), le=2**31 - 1)]
"""A whole number that an engine is told: it has 32 bits there."""
WireNumber = Annotated[Number, Field(ge=-LARGEST_FLOAT32, le=LARGEST_FLOAT32)]
"""The same for any number."""
Flag = Annotated[StrictBool, BeforeValidator(flag)]
Text = Annotated[StrictStr, BeforeValidator(text)]
Arguments = Annotated[list[Text], BeforeValidator(arguments)]
