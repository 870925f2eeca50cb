"""What is known of a scene that comes along before it runs: its options, parameters and behaviors."""

from __future__ import annotations

import logging

from ...envs.unity.launch import SCENE
from ..settings.options import RunOptions
from ..utils.errors import did_you_mean

logger = logging.getLogger(__name__)


def check_scene(options: RunOptions) -> None:
    """Refuse a scene that does not exist or lacks an option; warn of parameters that it does not read.

    Raises:
        UnityEnvironmentException: There is no such scene, or option.
    """
    path = _scene_in(options)
    if not path:
        return
    from ...envs.scenes.in_process import make_in_process

    known = make_in_process(path, arguments=options.env_settings.env_args).world.parameters_read
    for name in options.environment_parameters or {}:
        if known is not None and name not in known:
            logger.warning(
                "%s reads no environment parameter %s, which has no effect.%s It reads %s.",
                path,
                name,
                did_you_mean(name, known),
                ", ".join(known) or "none",
            )


def take_other_names(options: RunOptions) -> None:
    """Give behaviors that the configuration lists under names of ML-Agents' scenes those of this scene.

    Args:
        options: Changed in place; refers to a scene that exists, or to another environment.
    """
    path = _scene_in(options)
    if not path:
        return
    from ...envs.scenes.registry import find

    for other, name in find(path.removeprefix(SCENE).partition("?")[0]).load().other_names.items():
        if other not in options.behaviors or name in options.behaviors:
            continue
        logger.info("The behavior %s of the configuration is %s in %s.", other, name, path)
        options.behaviors = {name if key == other else key: one for key, one in options.behaviors.items()}
        for parameter in (options.environment_parameters or {}).values():
            for lesson in parameter.curriculum:
                criteria = lesson.completion_criteria
                if criteria is not None and criteria.behavior == other:
                    criteria.behavior = name


def _scene_in(options: RunOptions) -> str:
    """The scene that is trained in, as it is named; empty where it is another environment."""
    path = (options.env_settings.env_path or "").strip()
    return path if path.startswith(SCENE) else ""
