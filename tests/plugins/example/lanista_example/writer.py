"""The stats writer `jsonl`: a line of JSON for every summary."""

import json
from collections.abc import Mapping
from pathlib import Path

from lanista.trainers.settings import RunOptions
from lanista.trainers.stats.summary import StatsSummary
from lanista.trainers.stats.writer import StatsWriter


class JsonLines(StatsWriter):
    """Appends to one file, whatever the behavior."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write_stats(self, category: str, values: Mapping[str, StatsSummary], step: int) -> None:
        """Append the line of one summary."""
        figures = {key: summary.aggregated_value for key, summary in values.items()}
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"behavior": category, "step": step, **figures}) + "\n")


def make_writers(options: RunOptions) -> list[StatsWriter]:
    """What the entry point names: the writers of a run with these options."""
    return [JsonLines(Path(options.checkpoint_settings.write_path) / "summaries.jsonl")]
