"""The command lines of the scripts in tests/benchmarks and tests/reliability."""

import argparse
from collections.abc import Sequence
from typing import Any


def parse_options(
    description: str | None, arguments: Sequence[str] | None = None, **options: Any
) -> argparse.Namespace:
    """Parse the options of a script.

    Args:
        description: The script's docstring, printed by --help as it stands.
        arguments: The command line; that of the process when None.
        options: By name, the default, or a dict of arguments of `add_argument` with the default among them.
            The type is the default's; a list takes several values of the type of its first; False is a flag.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, option in options.items():
        settings = dict(option) if isinstance(option, dict) else {"default": option}
        default = settings["default"]
        if default is False:
            settings["action"] = "store_true"
        else:
            if "type" not in settings:
                settings["type"] = type(default[0] if isinstance(default, list) else default)
            if isinstance(default, list):
                settings.setdefault("nargs", "+")
        parser.add_argument(f"--{name.replace('_', '-')}", *settings.pop("aliases", ()), **settings)
    return parser.parse_args(arguments)
