"""`lanista hub push` and `lanista hub load`, as ML-Agents' commands for the Hugging Face Hub.

A run is uploaded as its folder without logs, its settings as config.json, and a model card, the folder's own
or a new one.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from ...envs.utils.bounded_yaml import load_yaml
from ...envs.utils.installation import install_command
from ...envs.utils.regular_files import links_out, open_file, read_text
from ..cli.runs.record import CARD
from ..settings.yaml_source import UNREADABLE_YAML
from ..utils.errors import CommandError
from ..utils.text import typed

_PRINTED = shutil.ignore_patterns("*.log", "engine_errors*.json")
"""What engines and warnings say, which may name paths and secrets of the user: it is not uploaded."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    ways = parser.add_subparsers(dest="way", required=True, metavar="push|load")
    push = ways.add_parser("push", help="upload a run's folder", description="Upload a run's folder.")
    push.add_argument("--run-id", required=True, help="name of the run, for the model card")
    push.add_argument(
        "--local-dir", type=Path, default=Path("./"), help="the run's folder, such as results/first (./)"
    )
    push.add_argument(
        "--repo-id", required=True, type=_repository, help="USER/NAME; created if it does not exist"
    )
    push.add_argument("--commit-message", default="Push to Hub", help="(Push to Hub)")
    push.add_argument(
        "--configfile-name", default="configuration.yaml", help="the run's settings (configuration.yaml)"
    )
    load = ways.add_parser("load", help="download a run's folder", description="Download a run's folder.")
    load.add_argument("--repo-id", required=True, type=_repository, help="USER/NAME")
    load.add_argument(
        "--local-dir", type=Path, default=Path("./"), help="the folder in which a folder NAME is created (./)"
    )
    load.add_argument("--force", action="store_true", help="overwrite the files of an existing folder")


def run(arguments: argparse.Namespace) -> int:
    """Push or load."""
    hub = _hub()
    if arguments.way == "load":
        return _load(hub, arguments)
    with _copy_to_upload(arguments) as folder:
        print(f"Uploading {arguments.local_dir} to {arguments.repo_id} ...", flush=True)
        try:
            hub.create_repo(repo_id=arguments.repo_id, exist_ok=True)
            hub.upload_folder(
                repo_id=arguments.repo_id, folder_path=str(folder), commit_message=arguments.commit_message
            )
        except Exception as error:  # huggingface_hub raises those of several HTTP libraries
            raise _refused(arguments.repo_id, error) from error
    print(f"Uploaded. Others get it by: lanista hub load --repo-id {arguments.repo_id}")
    return 0


def _load(hub: Any, arguments: argparse.Namespace) -> int:
    target: Path = arguments.local_dir / arguments.repo_id.partition("/")[2]
    if target.exists() and any(target.iterdir()) and not arguments.force:
        raise CommandError(
            f"{target} is there already and not empty: give another --local-dir, or --force to write over "
            "its files."
        )
    if (link := next(links_out(target), None)) is not None:  # what it leads to would be written
        raise CommandError(
            f"{link} leads to {os.path.realpath(link)}, outside of {target}, and nothing is downloaded. "
            "Remove the link."
        )
    try:
        hub.snapshot_download(repo_id=arguments.repo_id, local_dir=str(target))
    except Exception as error:  # as above
        raise _refused(arguments.repo_id, error) from error
    print(f"Downloaded {arguments.repo_id} to {target}")
    return 0


def _repository(text: str) -> str:
    user, slash, name = text.partition("/")
    if not (user and slash and name) or "/" in name or name in (".", "..") or "\\" in name:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected USER/NAME")
    return text


def _hub() -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise CommandError(
            f"this needs the package huggingface_hub ({error}): {install_command('hub')}, or pip install "
            "huggingface_hub."
        ) from error
    return huggingface_hub


def _refused(repository: str, error: Exception) -> CommandError:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    cause = lines[0] if lines else "without a reason"
    return CommandError(
        f"{repository}: {type(error).__name__}: {cause} `hf auth login` stores a token that may write."
    )


@contextmanager
def _copy_to_upload(arguments: argparse.Namespace) -> Iterator[Path]:
    """A copy of a run's folder with its settings as JSON and a card; the folder itself is not changed.

    Raises:
        CommandError: it is no run's folder, or cannot be copied.
    """
    source: Path = arguments.local_dir
    settings = _settings(source / arguments.configfile_name)
    with tempfile.TemporaryDirectory(prefix="lanista-hub-") as temporary:
        copy = Path(temporary) / "run"
        try:
            shutil.copytree(
                source, copy, ignore=partial(_left_out, source), copy_function=partial(_copy, source)
            )
            (copy / "config.json").write_text(json.dumps(settings, default=str), encoding="utf-8")
            if not (copy / CARD).exists():
                (copy / CARD).write_text(_card(source, arguments), encoding="utf-8")
        except OSError as error:
            raise CommandError(f"{source} could not be copied for the upload: {error}.") from error
        except TypeError as error:
            where = source / arguments.configfile_name
            raise CommandError(f"{where} has a name that is no text, which JSON lacks: {error}") from error
        yield copy


def _left_out(run: Path, folder: str, names: list[str]) -> set[str]:
    """Which files of a folder are not uploaded. Raises CommandError for a link to a folder."""
    kept = sorted(set(names) - _PRINTED(folder, names))
    linked = next(
        (path for name in kept if (path := Path(folder, name)).is_symlink() and path.is_dir()), None
    )
    if linked is not None:
        raise CommandError(
            f"{linked} is a link to {os.path.realpath(linked)}, and what lies elsewhere is not uploaded. Put "
            f"a folder of the run there, or remove it from {run}."
        )
    return set(names) - set(kept)


def _copy(run: Path, source: str, target: str) -> None:
    """Copy a file of a run. Raises CommandError if it is none, or leads to a file of the user's."""
    try:
        with open_file(Path(source), run) as file, open(target, "xb") as copy:
            shutil.copyfileobj(file, copy)
    except OSError as error:
        raise CommandError(f"{source} is not uploaded: {error.strerror}. Remove it from {run}.") from error


def _card(run: Path, arguments: argparse.Namespace) -> str:
    """The model card of a run's folder, without a score: `lanista card` plays and writes one with it."""
    from ..cli.runs.record import read_run
    from .card.contents import Card, ModelFile, Training
    from .card.markdown import make_markdown

    training = Training(read_run(run, arguments.run_id))
    models = [ModelFile.read(path, path.stem, within=run) for path in sorted(run.glob("*.onnx"))]
    command = ["lanista", "hub", "load", "--repo-id", arguments.repo_id]
    unknown = ["How well it plays: nothing was played before the upload."]
    return make_markdown(
        Card(arguments.run_id, models, [training], training.environment, None, unknown, typed(command))
    )


def _settings(path: Path) -> dict[str, Any]:
    """The run's configuration, which lists at least one behavior."""
    expected = "--local-dir is the folder of a run, such as results/first"
    try:
        settings = load_yaml(read_text(path, within=path.parent))
    except FileNotFoundError:
        raise CommandError(f"there is no {path}: {expected}.") from None
    except (OSError, *UNREADABLE_YAML) as error:
        raise CommandError(f"{path} cannot be read: {error}") from error
    behaviors = settings.get("behaviors") if isinstance(settings, dict) else None
    if not isinstance(behaviors, dict) or not behaviors:
        raise CommandError(f"{path} defines no behavior: {expected}.")
    return dict(settings)
