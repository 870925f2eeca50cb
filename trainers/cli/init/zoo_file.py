"""Files of RL Baselines3 Zoo as configurations, for Gymnasium environments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml

from ....envs.python import GYMNASIUM
from ....envs.utils.bounded_yaml import load_yaml
from ....envs.utils.regular_files import MOST_BYTES, read_bytes
from ...settings.yaml_source import UNREADABLE_YAML
from ...utils.errors import CommandError
from ...utils.text import harmless
from .zoo import ActionFacts, Translation, algorithm_of, entry_of, translate


def translated(file: Path, env: str | None, arguments: Sequence[str]) -> tuple[str, Translation]:
    """The behavior of a Gymnasium environment, and its settings in a file of rl-zoo3.

    Raises:
        CommandError: The file or the environment cannot be read, or the file lacks the environment.
    """
    from mlagents_envs.exception import UnityException

    from ....envs.python.gymnasium.source import behavior_of, described_actions

    if env is None or not env.startswith(GYMNASIUM):
        raise CommandError("--from-zoo is for Gymnasium environments: name one with --env gymnasium:ID.")
    algorithm = algorithm_of(file.stem)
    try:
        entries = load_yaml(read_bytes(file, MOST_BYTES).decode("utf-8"))
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}.") from error
    except UNREADABLE_YAML as error:
        raise CommandError(f"{file} is not YAML: {error}") from error
    env_id = env.removeprefix(GYMNASIUM).partition("?")[0]
    entry = entry_of(entries, env_id.rpartition(":")[2], str(file))
    try:
        components, bound = described_actions(env, arguments)
    except UnityException as error:
        raise CommandError(str(error)) from error
    return behavior_of(env_id), translate(algorithm, entry, ActionFacts(components, bound))


def zoo_configuration(name: str, translation: Translation, header: Sequence[str]) -> str:
    """The text of a file, below a comment of these lines and of what is not said."""
    lines = [f"# {harmless(line)}" for line in header]
    lines += [f"# Not said: {harmless(f'{key}; {reason}')}." for key, reason in translation.left.items()]
    settings = {"behaviors": {name: translation.settings}}
    return "\n".join(lines) + "\n" + yaml.safe_dump(settings, sort_keys=False, default_flow_style=None)
