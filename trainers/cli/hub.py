"""`lanista hub push` and `lanista hub load`, as ML-Agents' commands for the Hugging Face Hub.

A run is uploaded as its folder, its settings as config.json, and a model card.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from ..settings.yaml_source import UNREADABLE_YAML
from ..utils.errors import CommandError


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
            f"this needs the package huggingface_hub ({error}): pip install 'lanista[hub]', or pip install "
            "huggingface_hub."
        ) from error
    return huggingface_hub


def _refused(repository: str, error: Exception) -> CommandError:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    cause = lines[0] if lines else "without a reason"
    return CommandError(
        f"{repository}: {type(error).__name__}: {cause} `hf auth login` stores a token that may write."
    )


CARD = """\
---
library_name: ml-agents
tags:
{tags}
---

# **{trainer}** agents playing **{behaviors}**

The run `{run_id}`, trained by Lanista, a drop-in for the trainer of
[Unity ML-Agents](https://github.com/Unity-Technologies/ml-agents).

## Use it

    lanista hub load --repo-id {repository}

The `.onnx` files are brains for Unity: set one as the Model of the agents' Behavior Parameters. In Python,
`lanista.load("{name}").act(obs)` acts with one.

## Train on

    lanista-learn {configuration} --initialize-from {name} --run-id next
"""


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
            shutil.copytree(source, copy)
            (copy / "config.json").write_text(json.dumps(settings), encoding="utf-8")
            if not (copy / "README.md").exists():
                (copy / "README.md").write_text(_card(settings, arguments), encoding="utf-8")
        except OSError as error:
            raise CommandError(f"{source} could not be copied for the upload: {error}.") from error
        yield copy


def _card(settings: dict[str, Any], arguments: argparse.Namespace) -> str:
    """The model card, with the tags by which the hub finds it."""
    behaviors: dict[str, Any] = settings["behaviors"]
    first = next(iter(behaviors))
    tags = [first, "deep-reinforcement-learning", "reinforcement-learning", f"ML-Agents-{first}", "lanista"]
    return CARD.format(
        tags="\n".join(f"- {json.dumps(tag)}" for tag in tags),
        trainer=behaviors[first].get("trainer_type", "ppo"),
        behaviors=", ".join(behaviors),
        run_id=arguments.run_id,
        repository=arguments.repo_id,
        name=arguments.repo_id.partition("/")[2],
        configuration=arguments.configfile_name,
    )


def _settings(path: Path) -> dict[str, Any]:
    """The run's configuration, which lists at least one behavior."""
    expected = "--local-dir is the folder of a run, such as results/first"
    try:
        settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CommandError(f"there is no {path}: {expected}.") from None
    except (OSError, *UNREADABLE_YAML) as error:
        raise CommandError(f"{path} cannot be read: {error}") from error
    behaviors = settings.get("behaviors") if isinstance(settings, dict) else None
    if not isinstance(behaviors, dict) or not behaviors:
        raise CommandError(f"{path} defines no behavior: {expected}.")
    return dict(settings)
