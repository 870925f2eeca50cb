"""`lanista hub push` and `lanista hub load`: runs on the Hugging Face Hub, as two commands of ML-Agents."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from .errors import CommandError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    ways = parser.add_subparsers(dest="way", required=True, metavar="push|load")
    push = ways.add_parser("push", help="upload a run's folder", description="Upload a run's folder.")
    push.add_argument("--run-id", required=True, help="name of the run, for the model card")
    push.add_argument(
        "--local-dir", type=Path, default=Path("./"), help="the run's folder, such as results/first (./)"
    )
    push.add_argument("--repo-id", required=True, type=_repository, help="USER/NAME; made if it is not there")
    push.add_argument("--commit-message", default="Push to Hub", help="(Push to Hub)")
    push.add_argument(
        "--configfile-name", default="configuration.yaml", help="the run's settings (configuration.yaml)"
    )
    load = ways.add_parser("load", help="download a run's folder", description="Download a run's folder.")
    load.add_argument("--repo-id", required=True, type=_repository, help="USER/NAME")
    load.add_argument(
        "--local-dir", type=Path, default=Path("./"), help="a folder NAME is made in this folder (./)"
    )
    load.add_argument("--force", action="store_true", help="write over the files of a folder that is there")


def run(arguments: argparse.Namespace) -> int:
    """Push or load."""
    from .hub_card import Upload

    hub = _hub()
    if arguments.way == "load":
        return _load(hub, arguments)
    with Upload(
        arguments.local_dir, arguments.configfile_name, arguments.repo_id, arguments.run_id
    ) as folder:
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
        f"{repository}: {type(error).__name__}: {cause} Who may write is told by `hf auth login` (a token)."
    )
