"""`lanista scenes`: lists the embedded scenes, or writes one as an executable."""

from __future__ import annotations

import argparse

from ..utils.errors import CommandError
from ..utils.text import wrapped


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    actions.add_parser("list", help="the scenes, and how to train in each (also without an ACTION)")
    export = actions.add_parser(
        "export", help="write a scene as an executable that any ML-Agents tool can start"
    )
    export.add_argument("name", metavar="NAME", help="a scene of the list")
    export.add_argument("path", metavar="PATH", help="the file to write; .x86_64 is added if it is missing")


def run(arguments: argparse.Namespace) -> int:
    """Do what the arguments say."""
    from ...envs.scenes.registry import SCENES, UnknownSceneError, export

    if arguments.action != "export":
        from ..settings.presets import scene_preset
        from .pretrained import pretrained_names

        pretrained = pretrained_names()
        for name, scene in sorted(SCENES.items()):
            print(wrapped(f"scene:{name}: {scene.summary}", "  "))
            print(f"    {scene_preset(name).command()}")
            if name in pretrained:
                print(f"    lanista play --pretrained {name}")
        return 0
    try:
        written = export(arguments.name.removeprefix("scene:"), arguments.path)
    except UnknownSceneError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"The scene could not be written to {arguments.path}: {error}.") from error
    print(f"Wrote {written}. It starts with this Python: keep Lanista installed here.")
    return 0
