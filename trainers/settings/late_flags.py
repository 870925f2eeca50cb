"""Warns of trainer flags after --env-args, where they are arguments of the environment."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ...envs.python import in_process
from .command_line import make_parser
from .errors import logger
from .options import RunOptions
from .presets import SCENE

_ENV_ARGS = "--env-args"
_SEEDS = "--seeds"
"""Which `lanista learn` has in addition."""


def warn_of_late_flags(options: RunOptions, argv: Sequence[str] | None = None) -> None:
    """Warn of the trainer's flags among what --env-args passes to an engine, which may ignore them silently.

    Scenes and environments in Python refuse what they do not know, and may have options of these names.

    Args:
        options: of the run.
        argv: the command line (sys.argv by default).
    """
    path = (options.env_settings.env_path or "").strip()
    late = [] if in_process(path) or path.startswith(SCENE) else _late_flags(argv)
    if late:
        logger.warning(
            "%s after %s: everything there is passed to the environment. What is meant for the trainer has "
            "to come before %s.",
            ", ".join(late),
            _ENV_ARGS,
            _ENV_ARGS,
        )


def _late_flags(argv: Sequence[str] | None) -> list[str]:
    """Flags of the trainer after --env-args, each once."""
    words = list(sys.argv[1:] if argv is None else argv)
    passed = words[words.index(_ENV_ARGS) + 1 :] if _ENV_ARGS in words else []
    if not passed:
        return []
    known = {*make_parser().long_flags, _SEEDS}
    return [flag for flag in dict.fromkeys(word.partition("=")[0] for word in passed) if flag in known]
