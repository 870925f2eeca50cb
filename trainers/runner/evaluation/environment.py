"""The environment of evaluations: launched for each of them, with a worker id and a seed of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mlagents_envs.base_env import BaseEnv
from mlagents_envs.exception import UnityEnvironmentException

from ....envs.manager.manager import EnvManager
from ....envs.manager.restarts import RestartLimits
from ....envs.validation import NonFinitePolicy
from ...utils.films import Image, as_image

logger = logging.getLogger(__name__)

EVALUATION_SEED = 2_000_000_011
"""The seed of every evaluation of every run, so that they are comparable; training hardly ever uses it."""

MakeEnvironment = Callable[[bool], BaseEnv]
"""Launches the environment; with True, one that can render itself."""


class EvaluationEnvironment:
    """Launches the environment of an evaluation, and renders it."""

    def __init__(self, make: MakeEnvironment, non_finite: NonFinitePolicy) -> None:
        """Prepare.

        Args:
            make: launches the environment.
            non_finite: as in training. DROP becomes ZERO here, because no step may be missing.
        """
        self._make = make
        self._non_finite = NonFinitePolicy.ZERO if non_finite is NonFinitePolicy.DROP else non_finite
        self._env: BaseEnv | None = None
        self._renders = True
        self._rendered = False
        """Whether the environment was launched to render itself, and does."""

    @contextmanager
    def launched(self, *, rendered: bool, should_stop: Callable[[], bool]) -> Iterator[EnvManager]:
        """The started environment of one evaluation; closed after the block.

        Raises:
            StopAsked: `should_stop()`, while the environment starts or is reset.
            Exception: the cause of a failed start. An environment that fails later is not restarted.
        """
        manager = EnvManager(
            lambda _: self._launch(rendered),
            1,
            RestartLimits(max_lifetime_restarts=0, restarts_rate_limit_n=0),
            non_finite=self._non_finite,
        )
        manager.should_stop = should_stop
        with manager:
            manager.start()
            try:
                yield manager
            finally:
                self._env = None

    def _launch(self, rendered: bool) -> BaseEnv:
        self._rendered = rendered and self._renders
        if self._rendered:
            try:
                self._env = self._make(True)
                self._rendered = hasattr(self._env, "draw")
                return self._env
            except UnityEnvironmentException as error:
                self._renders = self._rendered = False
                logger.warning("Evaluations are not filmed: %s", error)
        self._env = self._make(False)
        return self._env

    @property
    def env(self) -> BaseEnv | None:
        """The launched environment."""
        return self._env

    @property
    def draws(self) -> bool:
        """Whether the environment that was launched last renders itself."""
        return self._rendered and self._renders

    def render(self) -> Image | None:
        """The current state of the environment, [height, width, 3]; None if it cannot render itself."""
        if self._env is None or not self.draws:
            return None
        try:
            return as_image(self._env.draw())  # type: ignore[attr-defined]
        except NotImplementedError:
            return None
        except Exception as error:  # of any renderer: a package may be missing; no reason to end training
            self._renders = False
            logger.warning("Evaluations are not filmed: %s: %s", type(error).__name__, error)
            return None


@contextmanager
def warnings_only() -> Iterator[None]:
    """Within, environments log only warnings: an evaluation is one line, without those of every launch."""
    env_logger = logging.getLogger("lanista.envs")
    level = env_logger.level
    if env_logger.getEffectiveLevel() > logging.DEBUG:
        env_logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        env_logger.setLevel(level)
