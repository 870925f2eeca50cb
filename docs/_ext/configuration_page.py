"""Writes docs/configuration.md and its schema: `python docs/_ext/configuration_page.py [FOLDER]`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from lanista.docs._ext.units import UNITS
from lanista.trainers.settings.base import Settings, plain, value_type
from lanista.trainers.settings.command_line import RENAMED, SECTIONS
from lanista.trainers.settings.models.behavior import SelfPlaySettings, TrainerSettings
from lanista.trainers.settings.models.environment_parameters import (
    SAMPLERS,
    CompletionCriteriaSettings,
    EnvironmentParameterSettings,
    Lesson,
    SamplerForm,
)
from lanista.trainers.settings.models.networks import (
    MemorySettings,
    NetworkSettings,
    StateDependentExplorationSettings,
)
from lanista.trainers.settings.models.rewards import (
    REWARD_SIGNAL_SETTINGS,
    BehavioralCloningSettings,
    CloneSettings,
    DemonstrationsSettings,
    IQLSettings,
)
from lanista.trainers.settings.options import RunOptions
from lanista.trainers.settings.registry import trainer_types
from lanista.trainers.settings.schema import json_schema, key_description

FOLDER = Path(__file__).resolve().parents[2] / "docs"

INTRODUCTION = """# Configuration

<!-- Made by `python docs/_ext/configuration_page.py`; edit the settings' docstrings, not this page. -->

A run is configured by a YAML file, the same that ML-Agents reads, and by flags:

    lanista-learn ball.yaml --env Builds/3DBall.x86_64 --run-id ball

A flag overrides the file, and the file overrides the default. `--set PATH=VALUE` reaches every key and
overrides both: `--set behaviors.3DBall.hyperparameters.batch_size=64`. Put a name that contains a dot in
double quotes. `--env-args` takes the rest of the line, so it comes last.

## Several files

    lanista-learn ball.yaml laptop.yaml --run-id ball
    lanista-learn --preset ppo/ball3d mine.yaml --env scene:ball3d --run-id mine

Later files override earlier ones: mappings are merged key by key, everything else is replaced.
`--preset NAME` takes a file that comes with Lanista, from the folder `config`, by its path there; all files
override it. The configuration that a run really used is in the `configuration.yaml` of its folder. To
replace a whole mapping instead of merging it, use `--set`, as in
`--set 'behaviors.3DBall.reward_signals={extrinsic: {}}'`. An error names the file and line, or the flag, that
the value came from.

## Checking a file

    lanista check ball.yaml laptop.yaml
    lanista check --together ball.yaml laptop.yaml
    lanista check --preset ppo/ball3d mine.yaml

reads files as `lanista-learn` would, without an engine and in less than a second, and prints for each
that it is valid, or everything that is wrong with it. `--together` checks the one configuration that the
files make: a file that holds only a part is valid together with those that it overrides.

| Exit status | Meaning |
|---|---|
| 0 | everything can be trained |
| 1 | something is wrong |
| 2 | the command line cannot be read |
| 3 | everything is valid, but something cannot be trained by this version yet |

Editors with YAML support complete and check a file that starts with this line, where the path leads from
the file to [configuration.schema.json](configuration.schema.json), which is next to this page; `lanista
check --schema > configuration.schema.json` writes it anywhere:

    # yaml-language-server: $schema=configuration.schema.json

## How values are read

- Whole numbers may be written `10000`, `1.0e4` or `1e4` (which YAML reads as text). A fraction is cut
  off, with a warning.
- Numbers must be finite. `3e-4` is a number.
- True and false: `true`, `false`, `yes`, `no`, `on`, `off`, also in quotes.
- Text that YAML reads as a number or a date becomes text again; text that it reads as true or false needs
  quotes.
- An unknown key is always an error, and the message names the nearest known one. So is a key without a
  value, unless its type below says `or null`. A key that is given twice is refused.
- Problems are reported together, each with its line.

## Where Lanista departs from ML-Agents

ML-Agents 1.1.0 ignores unknown keys in network_settings, memory, behavioral_cloning, self_play,
completion_criteria and torch_settings, reads the text 'false' as true, refuses `1e4` for whole numbers,
drops the third value of an interval, ignores `--load`, and does not apply `--deterministic` to behaviors
that are not listed. Lanista does what was meant, or says what is wrong. With `max_steps: -1` ML-Agents
ends at once; Lanista trains until it is stopped. Lanista's own keys are marked; at their defaults they
change nothing, and they are then omitted from the `configuration.yaml` of a run, so that ML-Agents can
read it.

## Words

A *step* is one decision of one agent; *trainer steps* are those that the behavior's trainer has
processed, of all its agents together. A *gradient step* is one step of an optimizer, on one batch. A
*share* is between 0 and 1. A name means the same with every trainer: `epsilon_start`, `epsilon_end` and
`epsilon_decay_steps` concern random actions, `noise_start`, `noise_end` and `noise_decay_steps` noise on
actions, `tau` and `target_update_interval` the updates of a target network.
"""

DEFAULTS = """
`default_settings` has the same keys as a behavior. Every behavior overrides them: mappings are merged,
single values replaced, so the default reward signals stay unless a behavior changes them. A behavior
with another trainer_type gets only those default hyperparameters that are written in the file and that
its trainer has. A behavior of the environment that the file does not list gets the default settings;
without them that is an error, and without any file it gets the defaults of this page.

Some keys follow from others unless they are written: `beta_schedule` and `epsilon_schedule` from
`learning_rate_schedule`, `reward_signal_steps_per_update` from `steps_per_update`, `team_change` from
`save_steps`, `checkpoint_interval` from `even_checkpoints`. They do so wherever the other key is written: in
the behavior, in a preset, by `--set`, in Python. ML-Agents completes `default_settings` before a behavior
overrides them, so that what followed there stays: a behavior that sets `save_steps: 50000` over
`default_settings` with a section `self_play` has a `team_change` of 100000. The same file trains in the same
way here, and a warning names the key, its value, and what would follow. Write the key to choose. Where
ML-Agents would not read the file (another trainer_type than that of `default_settings`, or one that it does
not have) or not train (`max_steps: -1`), such keys follow what the behavior writes.
"""

PARAMETERS = """
A number, a sampler, or lessons. A sampler without a seed gets the run's seed plus its number in the file.

```yaml
environment_parameters:
  gravity: 9.81
  mass:
    sampler_type: uniform
    sampler_parameters: {min_value: 0.5, max_value: 10}
  wall_height:
    curriculum:
      - name: Low
        value: 1.5
        completion_criteria: {behavior: Jumper, measure: reward, threshold: 0.8, min_lesson_length: 100}
      - name: High
        value: 4
```
"""

TYPES = {
    "boolean": "true or false",
    "integer": "whole number",
    "number": "number",
    "string": "text",
    "array": "list",
    "object": "mapping",
    "any": "",
}


def page() -> str:
    """docs/configuration.md."""
    return INTRODUCTION + "\n".join(_sections()) + "\n"


def _sections() -> Iterator[str]:
    yield _section(2, "The file", RunOptions)
    yield _section(2, "behaviors.NAME", TrainerSettings)
    yield DEFAULTS
    for name, kind in trainer_types.items():
        yield _section(3, f"hyperparameters, trainer_type {name}", kind.settings)
    yield _section(3, "network_settings", NetworkSettings)
    yield _section(4, "network_settings.memory", MemorySettings)
    exploration = "network_settings.state_dependent_exploration"
    yield _section(4, exploration, StateDependentExplorationSettings)
    for name, signal in REWARD_SIGNAL_SETTINGS.items():
        yield _section(3, f"reward_signals.{name}", signal)
    optional: dict[str, type[Settings]] = {
        "self_play": SelfPlaySettings,
        "behavioral_cloning": BehavioralCloningSettings,
        "demonstrations": DemonstrationsSettings,
        "clone": CloneSettings,
    }
    for name, section in optional.items():
        yield _section(3, name, section)
    yield _section(4, "clone.iql", IQLSettings)
    yield "\n## environment_parameters.NAME\n" + PARAMETERS
    yield _section(3, "With lessons", EnvironmentParameterSettings)
    yield _section(4, "A lesson", Lesson)
    yield _section(4, "completion_criteria", CompletionCriteriaSettings)
    yield _section(3, "A sampler", SamplerForm)
    for name, sampler in SAMPLERS.items():
        yield _section(4, f"sampler_parameters, sampler_type {name}", sampler)
    for name, (model, _) in SECTIONS.items():
        yield _section(2, name, model, flags=True)


def _section(level: int, title: str, model: type[Settings], flags: bool = False) -> str:
    """A heading, what the model is, and a table of its keys."""
    summary = " ".join((model.__doc__ or "").split())
    head = ["Key", *(["Flag"] if flags else []), "Type", "Unit", "Default", "Meaning"]
    lines = ["", f"{'#' * level} {title}", "", summary, "", "| " + " | ".join(head) + " |"]
    lines.append("|" + "---|" * len(head))
    for key in model.written():
        flag = RENAMED.get(key, "--" + key.replace("_", "-"))
        names = [f"`{key}`", *([f"`{flag}`"] if flags else [])]
        cells = [_type(model, key), _unit(model, key), _default(model, key), _meaning(model, key)]
        lines.append("| " + " | ".join([*names, *cells]) + " |")
    return "\n".join(lines)


def _type(model: type[Settings], key: str) -> str:
    kind = value_type(model.model_fields[key].annotation)
    text = ", ".join(kind.choices) if kind.choices else TYPES[kind.name]
    text += " or list" if kind.or_list else ""
    return f"{text} or null" if kind.nullable else text


def _unit(model: type[Settings], key: str) -> str:
    numeric = value_type(model.model_fields[key].annotation).name in ("integer", "number")
    assert not numeric or key in UNITS, f"{key} is a number: name its unit in docs/_ext/units.py"
    return UNITS[key] if numeric else ""


def _default(model: type[Settings], key: str) -> str:
    info = model.model_fields[key]
    if info.is_required():
        return "required"
    value = info.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, Settings):
        return "its defaults"
    if isinstance(value, dict):
        value = {name: {} for name in value}
    return f"`{json.dumps(plain(value), ensure_ascii=False)}`".replace('"', "")


def _meaning(model: type[Settings], key: str) -> str:
    text = key_description(model, key).replace("|", "\\|")
    return f"{text} **Lanista's own.**" if model.is_own(key) else text


def main(folder: str | Path = FOLDER) -> None:
    """Write both files into `folder`."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    Path(folder, "configuration.md").write_text(page(), encoding="utf-8")
    schema = json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
    Path(folder, "configuration.schema.json").write_text(schema, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", default=FOLDER, help="instead of docs/")
    main(parser.parse_args().folder)
