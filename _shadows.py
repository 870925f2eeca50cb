"""Files of the current folder that would stand for modules of Python or of packages, such as a `random.py`.

Nothing is imported here that is not loaded already: such a file could stand for that too.
"""

import os
import sys
from importlib.machinery import PathFinder

COMMANDS = ("lanista", "lanista-learn")
_LIKELY = (AttributeError, ImportError, NameError, TypeError)
"""What is raised where a module is not the one that was meant."""
_left: "list[str]" = []
"""The current folder, which `python -m` had put before all others."""


def watch_own_commands() -> None:
    """Where this process is one of Lanista's commands, let it import nothing from the current folder.

    A console script does not look there; `python -m lanista...` does neither from here on. A file that was
    imported before, or by PYTHONPATH, is named when the command ends by an error.
    """
    first = (sys.argv or [""])[0]
    by_module = first == "-m" and _is_own(sys.orig_argv[-len(sys.argv)])  # while Python looks for it
    if by_module and not getattr(sys.flags, "safe_path", False) and sys.path[:1] == [os.getcwd()]:
        _left.append(sys.path.pop(0))
    if by_module or os.path.splitext(os.path.basename(first))[0] in COMMANDS:
        sys.excepthook = _explain


def _is_own(word: str) -> bool:
    """Whether this is one of Lanista's modules, or Python's options that end with `-m` and one of them."""
    module = word.partition("m")[2] if word.startswith("-") else word
    return module.partition(".")[0] == __package__


def shadowed(error: BaseException) -> str:
    """Which file was imported in place of a module, where the error may come from that; else empty."""
    if not isinstance(error, _LIKELY):
        return ""
    found = {place: os.path.realpath(place or ".") for place in sys.path}
    library = os.path.dirname(os.path.realpath(os.__file__))
    end = next((k for k, place in enumerate(found.values()) if place == library), 0)
    before = {*list(found.values())[:end], *map(os.path.realpath, _left)}
    after = [place for place, real in found.items() if real not in before]
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if not path or "." in name or name == __package__:
            continue
        folder = os.path.dirname(os.path.realpath(path))
        folder = os.path.dirname(folder) if hasattr(module, "__path__") else folder
        meant = PathFinder.find_spec(name, after) if folder in before else None
        if meant is not None and meant.origin is not None:
            return (
                f"{path} was imported as the module {name}, and hides the right one, {meant.origin} "
                f"({type(error).__name__}: {error}). Rename the file, or take its folder out of PYTHONPATH"
            )
    return ""


def _explain(kind: type, error: BaseException, traceback: object) -> None:
    """`sys.excepthook`: a sentence about such a file, or what Python says by itself."""
    hidden = shadowed(error)
    if hidden:
        print(f"lanista: error: {hidden}.", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, error.__traceback__)
