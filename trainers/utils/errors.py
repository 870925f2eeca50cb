"""Errors of a run that are no fault of the program, and what their messages suggest."""

import difflib
import traceback
from collections.abc import Callable, Iterable


class TrainerError(Exception):
    """A run cannot start or continue; the message says why and what to do."""


class CheckpointError(TrainerError):
    """A checkpoint that cannot be read, or a state that must not be saved."""


class ProcessLostError(TrainerError):
    """Another process of the run, which learns for it, has ended, or does not answer."""


class CommandError(Exception):
    """A subcommand cannot do what it was asked; shown as one message without a traceback, exit status 1."""


def call_without_exit(call: Callable[[], object], outcome: str = "What was learned is saved.") -> None:
    """Make a call. Raises TrainerError for `sys.exit()` in it, as in a user's network: it ends in silence."""
    try:
        call()
    except SystemExit as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        raise TrainerError(
            f"Something that the run calls has ended it by sys.exit({error.code!r}) ({last.filename}, line "
            f"{last.lineno}). {outcome} Let it raise an error, or return."
        ) from error


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the system refused memory; torch has no type of its own for that on CPUs."""
    refused_by_torch = isinstance(error, RuntimeError) and "allocate" in str(error).partition("\n")[0]
    return refused_by_torch or isinstance(error, MemoryError)


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known word that `word` most likely was meant to be, or None."""
    by_spelling = {name.lower().replace("-", "_"): name for name in known}
    matches = difflib.get_close_matches(word.lower().replace("-", "_"), by_spelling, n=1, cutoff=cutoff)
    return by_spelling[matches[0]] if matches else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` Did you mean ...?` with the nearest known word, to follow a sentence; empty if none is near."""
    close = nearest(word, known)
    return f" Did you mean {close}?" if close else ""
