"""The console scripts.

Little is imported here, and guarded, so that Ctrl-C while a command is loaded ends it in a line too.
"""

from __future__ import annotations

import os
import sys

try:
    from .._tools import COMPLETION_VARIABLE, provided
    from .utils.guard import guarded
    from .utils.quick_imports import quick_imports
except KeyboardInterrupt:
    print(f"\n{os.path.basename(sys.argv[0])}: stopped before it began.", file=sys.stderr)
    sys.exit(130)


def lanista() -> None:
    """The console script `lanista`."""

    def command() -> int:
        with quick_imports():
            from .cli.main import run

        return run(sys.argv[1:])

    sys.exit(guarded("lanista", command))


def lanista_learn() -> None:
    """The console script `lanista-learn`."""

    def command() -> int:
        if COMPLETION_VARIABLE in os.environ and (completion := provided("completion")) is not None:
            from .settings.command_line import make_parser

            completion.answer(make_parser())
        with quick_imports():
            from .learn import run

        return run()

    sys.exit(guarded("lanista-learn", command))
