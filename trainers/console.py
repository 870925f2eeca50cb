"""The console scripts.

Little is imported here, and guarded, so that Ctrl-C while a command is loaded ends it in a line too.
"""

from __future__ import annotations

import os
import sys

try:
    from .cli.completion import ASKED
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
        if ASKED in os.environ:
            from .cli.completion import answer
            from .settings.command_line import make_parser

            answer(make_parser())
        with quick_imports():
            from .learn import run

        return run()

    sys.exit(guarded("lanista-learn", command))
