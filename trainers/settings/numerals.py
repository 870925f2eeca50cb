"""Numbers in spellings that YAML reads as text, and how to write them."""

from __future__ import annotations

import re
from collections.abc import Iterator

_NUMERAL = re.compile(r"([+-]?)(\d[\d.,'’_\s]*)(?:e([+-]?\d+)|(?:\^|\*\*)([+-]?\d+)|([kKM%]))?")
_FACTORS = {"k": 3, "K": 3, "M": 6, "%": -2}
"""The powers of ten that suffixes stand for."""
_LARGEST_POWER = 18


def spellings(text: str, *, whole: bool) -> str:
    """How to write the number that `text` most likely is: `500000`, or `1500 or 1.5`; empty if it is none.

    Args:
        text: such as `500,000`, `0,0003`, `1.000.000`, `500k`, `10^6` or `5 %`.
        whole: only a whole number is expected.
    """
    match = _NUMERAL.fullmatch("".join(text.split()))
    if match is None:
        return ""
    sign, digits, exponent, power, suffix = match.groups()
    shift = int(exponent or 0) + _FACTORS.get(suffix, 0)
    if abs(shift) > _LARGEST_POWER or abs(int(power or 0)) > _LARGEST_POWER:
        return ""
    values = [float(plain) ** int(power or 1) * 10.0**shift for plain in _readings(digits)]
    shown = [sign.strip("+") + _shown(value) for value in values if not whole or value.is_integer()]
    return " or ".join(dict.fromkeys(shown[:1] if whole else shown))


def _shown(value: float) -> str:
    return str(int(value)) if value.is_integer() else f"{value:.12g}"


def _readings(digits: str) -> Iterator[str]:
    """What digits with separators may be, the likeliest first; `float` reads each."""
    plain = re.sub(r"['’_]", "", digits)
    marks = re.sub(r"\d", "", plain)
    if len(set(marks)) == 2 and marks.count(marks[-1]) == 1:  # the last one is the decimal mark
        head, _, tail = plain.rpartition(marks[-1])
        yield f"{re.sub('[.,]', '', head)}.{tail}"
        return
    if len(set(marks)) > 1:
        return
    groups = re.split("[.,]", plain)
    in_groups = len(groups[0]) <= 3 and all(len(group) == 3 for group in groups[1:])
    if len(marks) == 0 or (in_groups and groups[0].strip("0") and (marks == "," or len(marks) > 1)):
        yield "".join(groups)
    if len(marks) == 1:
        yield ".".join(groups)
