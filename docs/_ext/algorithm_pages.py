"""Writes the tables of tuned settings into docs/algorithms/*.md: `python docs/_ext/algorithm_pages.py`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from lanista.trainers.settings.yaml_source import FOLDER as PRESETS
from lanista.trainers.settings.yaml_source import SUFFIX, preset_names

FOLDER = Path(__file__).resolve().parents[1] / "algorithms"
MADE = "Made by `python docs/_ext/algorithm_pages.py` from config/; edit the files there."
TABLE = re.compile(r"<!-- Made by .+? -->\n.*?<!-- End of what is made -->", re.DOTALL)
SHARED = ("learning_rate", "batch_size", "buffer_size")
KEYS = {
    "on-policy": ("num_epoch", "beta"),
    "coma": ("num_epoch", "beta", "max_num_agents", "epsilon_decay_steps"),
    "sac": ("steps_per_update", "tau", "init_entcoef"),
    "dqn": ("steps_per_update", "target_update_interval", "tau", "n_step", "epsilon_decay_steps"),
    "ddpg": ("steps_per_update", "tau", "noise_start", "noise_end"),
}
"""Hyperparameters that a table shows beside the shared ones, where a file has them."""
KINDS = {"coma": "coma", "sac": "sac", "dqn": "dqn", "ddpg": "ddpg", "td3": "ddpg"}


def with_settings(page: str, trainer: str) -> str:
    """A page with today's table in place of the one that it has."""
    return TABLE.sub(f"<!-- {MADE} -->\n\n{table(trainer)}\n\n<!-- End of what is made -->", page)


def table(trainer: str) -> str:
    """The presets of a trainer: a row for each behavior, with the keys that were tuned."""
    rows = list(_rows(trainer))
    keys = [key for key in rows[0] if any(row[key] for row in rows)]
    heads = [key if key in ("Preset", "Layers", "Also") else f"`{key}`" for key in keys]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(keys)]
    return "\n".join([*lines, *(f"| {' | '.join(row[key] for key in keys)} |" for row in rows)])


def _rows(trainer: str) -> Iterator[dict[str, str]]:
    for name in sorted(preset_names()):
        if not name.startswith(f"{trainer}/"):
            continue
        behaviors = yaml.safe_load((PRESETS / f"{name}{SUFFIX}").read_text(encoding="utf-8"))["behaviors"]
        for behavior, settings in behaviors.items():
            link = f"[{name}](../../config/{name}{SUFFIX})"
            yield {
                "Preset": link if len(behaviors) == 1 else f"{link}: {behavior}",
                **_cells(trainer, settings),
            }


def _cells(trainer: str, settings: Mapping[str, Any]) -> dict[str, str]:
    """The tuned keys of a behavior as text; empty where a file leaves a key at its default."""
    given = settings["hyperparameters"]
    network, signals = settings["network_settings"], settings["reward_signals"]
    keys = (*SHARED, *KEYS[KINDS.get(trainer, "on-policy")])
    also = [name for name in ("self_play", "recipe") if settings.get(name, given.get(name))]
    also += ["memory"] * ("memory" in network) + [name for name in signals if name != "extrinsic"]
    return {
        "max_steps": _text(settings["max_steps"]),
        **{key: _text(given.get(key)) for key in keys},
        "time_horizon": _text(settings.get("time_horizon")),
        "gamma": _text(signals["extrinsic"].get("gamma")),
        "Layers": f"{network['num_layers']} x {network['hidden_units']}",
        "Also": ", ".join(f"`{name}`" for name in also),
    }


def _text(value: Any) -> str:
    return "" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:g}"


def main() -> None:
    """Write every page that has a table."""
    for path in FOLDER.glob("*.md"):
        path.write_text(with_settings(path.read_text(encoding="utf-8"), path.stem), encoding="utf-8")


if __name__ == "__main__":
    main()
