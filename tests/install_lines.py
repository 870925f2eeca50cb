"""The lines with which pages install Lanista: from a clone, and since the first release from an index.

`tests/release.py` changes them, and `tests/test_docs.py` holds the pages to them.
"""

import re
from pathlib import Path

_EXTRAS = r"\[[\w,-]+\]"
_ADDRESS = " @ git+<address of this repository>"
_LINE = re.compile(r"pip install [^`\n;&]*")
_ALWAYS = r'-c constraints\.txt -e (?:\.|"\.\[dev\]")'
"""What is developed, and what pages do with the files of a clone."""
_CLONE = (
    rf'(?:-c constraints\.txt )?-e "(?:\.|path/to/lanista){_EXTRAS}"|"lanista{_EXTRAS}{re.escape(_ADDRESS)}"'
)
_INDEX = rf'lanista|"lanista{_EXTRAS}"'
_BEFORE = "No index has Lanista yet: it is installed from a clone."
_AFTER = (
    "Without a clone, `pip install lanista` installs the newest release. `--preset ppo/ball3d` then\n"
    "stands for `config/ppo/ball3d.yaml`."
)


def is_released(root: Path) -> bool:
    """Whether there has been a release of what lies here."""
    return "\ndate-released:" in (root / "CITATION.cff").read_text(encoding="utf-8")


def wrong_lines(page: str, *, released: bool) -> list[str]:
    """The lines of a page that install Lanista in another way than they should."""
    form = re.compile(rf"pip install (?:-q )?(?:{_ALWAYS}|{_INDEX if released else _CLONE})(?: [\w-]+)*\s*")
    lines = [line for line in _LINE.findall(page) if "lanista" in line or " -e " in line]
    return [line for line in lines if not form.fullmatch(line)] + [_BEFORE] * (released and _BEFORE in page)


def extras(page: str) -> set[str]:
    """The extras of Lanista that a page installs."""
    lines = " ".join(_LINE.findall(page))
    named = re.findall(r"(?:\.|lanista)\[([\w,-]+)\]", lines)
    return {extra for names in named for extra in names.split(",")}


def from_index(page: str) -> str:
    """A page as it is after a release."""
    page = re.sub(
        rf'pip install (?:-c constraints\.txt )?-e "(?:\.|path/to/lanista)(?!\[dev\])({_EXTRAS})"',
        r'pip install "lanista\1"',
        page,
    )
    page = re.sub(rf'("lanista{_EXTRAS}"`) in the clone', r"\1", page)
    return page.replace(_ADDRESS, "").replace(_BEFORE, _AFTER)
