"""Gymnasium environments by name: `gymnasium:ID`."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from mlagents_envs.exception import UnityEnvironmentException

from ...images import Images
from ...utils.installation import install_command
from .. import GYMNASIUM
from ..calls import (
    RGB_ARRAY,
    close_checked,
    describe_error,
    find_in_working_folder,
    load_module,
    one_line,
)
from ..source_arguments import Arguments, format_arguments, parse_arguments, split_query

if TYPE_CHECKING:
    from .environment import GymnasiumEnvironment

_OWN: dict[str, int | bool] = {"areas": 1, "stack": 1, "lives": False}
"""Lanista's own arguments, with their defaults."""

_ATARI = "Atari's games are in the package ale-py: pip install it, and write gymnasium:ale_py:ALE/Pong-v5."


def make(
    path: str,
    seed: int | None,
    arguments: Sequence[str],
    areas: int,
    *,
    images: Images = "float32",
    drawn: bool = False,
) -> GymnasiumEnvironment:
    """Make `gymnasium:ID` or `gymnasium:MODULE:ID`, optionally with `?key=value&key=value`.

    Arguments are passed to `gymnasium.make`, except Lanista's own: `areas`, the number of copies; `stack`,
    the number of stacked frames; `lives`, whether a lost life ends a trajectory. Otherwise as `make_source`.

    Raises:
        UnityEnvironmentException: As `make_source`.
        UnsupportedSpaceError: One of its spaces cannot be used.
    """
    name, query = _read(path)
    given: Arguments = {**query, **parse_arguments(path, arguments)}
    own = {key: _own(path, key, given) for key in _OWN}
    if drawn:
        given["render_mode"] = RGB_ARRAY
    spec = _spec(path, name)
    from .environment import GymnasiumEnvironment

    return GymnasiumEnvironment(
        lambda: _make(path, spec, given),
        behavior_of(name),
        seed=seed,
        copies=areas if areas > 1 else own["areas"],
        stack=own["stack"],
        lives=own["lives"],
        images=images,
    )


def check(path: str, arguments: Sequence[str], parameters: Collection[str] = ()) -> None:
    """Refuse an environment that cannot be made, lacks a parameter, or is played with lives and has none.

    Raises:
        UnityEnvironmentException: As `make_source`.
        UnsupportedSpaceError: One of its spaces cannot be used.
        EnvContractError: It does not report lives.
    """
    env = make(path, None, arguments, 1)
    try:
        env.check_parameters(parameters)
        if env.by_lives:
            env.reset()  # games report their lives after a reset
    finally:
        close_checked(env)


def described_actions(path: str, arguments: Sequence[str]) -> tuple[int, float | None]:
    """How many continuous components actions have, and the bound of all if there is one, for -bound to bound.

    Raises:
        UnityEnvironmentException: As `make_source`.
        UnsupportedSpaceError: Its agents can do nothing that a policy can decide.
    """
    env = make(path, None, arguments, 1)
    try:
        return env.action_bound()
    finally:
        env.close()


def behavior_of(name: str) -> str:
    """The behavior's name for an id: without module and namespace; `Pong-v5` for `ale_py:ALE/Pong-v5`."""
    return name.rpartition(":")[2].rpartition("/")[2]


def _read(path: str) -> tuple[str, Arguments]:
    """Parse the id, with its module if any, and the arguments within the path."""
    found = split_query(path.strip()[len(GYMNASIUM) :])
    if found is None or not re.fullmatch(r"([\w.]+:)?[^:\s]+", found[0]):
        raise UnityEnvironmentException(
            f"The environment {path!r} is not valid; write 'gymnasium:ID', such as "
            "'gymnasium:CartPole-v1', 'gymnasium:MODULE:ID' if a module registers the environment, or "
            "'gymnasium:ID?key=value&key=value'."
        )
    return found


def _own(path: str, key: str, given: Arguments) -> Any:
    """Remove one of Lanista's own arguments from the given ones, and return it."""
    default = _OWN[key]
    value = given.pop(key, default)
    if type(value) is not type(default) or (value < 1 and value is not False):
        wanted = "true or false" if default is False else "a number of at least 1"
        raise UnityEnvironmentException(f"{path}: found {key} {value!r}; expected {wanted}.")
    return value


def _spec(path: str, name: str) -> Any:
    """Look up the registered specification of an id.

    Raises:
        UnityEnvironmentException: There is none, or a package is missing or cannot be imported.
    """
    find_in_working_folder()
    try:
        import gymnasium
    except ModuleNotFoundError as error:
        raise UnityEnvironmentException(
            f"Gymnasium is not installed: {install_command('gymnasium')}."
        ) from error
    module, _, env_id = name.rpartition(":")
    if module:
        load_module(path, module)
    try:
        return gymnasium.spec(env_id)
    except gymnasium.error.Error as error:
        atari = isinstance(error, gymnasium.error.NamespaceNotFound) and env_id.startswith("ALE/")
        hint = f" {_ATARI}" if atari else _versions(gymnasium.registry, env_id)
        raise UnityEnvironmentException(f"{path}: {one_line(error)}{hint}") from error


def _versions(registry: Any, name: str) -> str:
    """A hint with the full id, if the name only lacks its version."""
    ids = [key for key in registry if key.rpartition("-v")[0] == name]
    return f" Write gymnasium:{ids[-1]}." if ids else ""


def _make(path: str, spec: Any, options: Arguments) -> Any:
    """Make one copy, without Gymnasium's own checks of each step, which are replaced by faster ones."""
    import gymnasium

    try:
        env = gymnasium.make(spec, disable_env_checker=True, **options)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the constructor of a game may raise anything
        raise UnityEnvironmentException(
            f"{path} cannot be made with {format_arguments(options)}: {_cause(error)}"
        ) from error
    if options.get("render_mode") == RGB_ARRAY and RGB_ARRAY not in env.metadata.get("render_modes", []):
        env.close()
        raise UnityEnvironmentException(
            f"{path} cannot be filmed: {RGB_ARRAY!r} is not among its render modes, "
            f"{env.metadata.get('render_modes', [])}."
        )
    return env


def _cause(error: BaseException) -> str:
    """The cause of a failure, with its type and place in a file unless it is Gymnasium's own message."""
    import gymnasium

    if isinstance(error, (gymnasium.error.Error, TypeError, ValueError, ImportError)):
        return one_line(error)
    return describe_error(error)
