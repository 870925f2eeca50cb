"""What goes to the hub with a run: its folder, its settings as config.json, and a model card."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml

from .errors import CommandError

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
`lanista.load("{name}").act(obs)` acts by one.

## Train on

    lanista-learn {configuration} --initialize-from {name} --run-id next
"""


class Upload:
    """A copy of a run's folder with what is added to it; the folder itself stays as it is."""

    def __init__(self, folder: Path, configuration: str, repository: str, run_id: str) -> None:
        """Check the folder.

        Raises:
            CommandError: it is no run's folder.
        """
        self.folder = folder
        self.configuration = configuration
        self.repository = repository
        self.run_id = run_id
        self.settings = self._settings()
        self._copy: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Path:
        self._copy = tempfile.TemporaryDirectory(prefix="lanista-hub-")
        copy = Path(self._copy.name) / "run"
        try:
            shutil.copytree(self.folder, copy)
            (copy / "config.json").write_text(json.dumps(self.settings), encoding="utf-8")
            if not (copy / "README.md").exists():
                (copy / "README.md").write_text(self.card(), encoding="utf-8")
        except OSError as error:
            self._copy.cleanup()
            raise CommandError(f"{self.folder} could not be copied for the upload: {error}.") from error
        return copy

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._copy is not None
        self._copy.cleanup()

    def card(self) -> str:
        """The model card, with the tags by which the hub finds it."""
        behaviors: dict[str, Any] = self.settings["behaviors"]
        first = next(iter(behaviors))
        tags = [
            first,
            "deep-reinforcement-learning",
            "reinforcement-learning",
            f"ML-Agents-{first}",
            "lanista",
        ]
        return CARD.format(
            tags="\n".join(f"- {json.dumps(tag)}" for tag in tags),
            trainer=behaviors[first].get("trainer_type", "ppo"),
            behaviors=", ".join(behaviors),
            run_id=self.run_id,
            repository=self.repository,
            name=self.repository.partition("/")[2],
            configuration=self.configuration,
        )

    def _settings(self) -> dict[str, Any]:
        path = self.folder / self.configuration
        expected = "--local-dir is the folder of a run, such as results/first"
        try:
            settings = yaml.safe_load(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise CommandError(f"there is no {path}: {expected}.") from None
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise CommandError(f"{path} cannot be read: {error}") from error
        behaviors = settings.get("behaviors") if isinstance(settings, dict) else None
        if not isinstance(behaviors, dict) or not behaviors:
            raise CommandError(f"{path} tells of no behavior: {expected}.")
        return dict(settings)
