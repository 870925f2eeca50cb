"""The environment of tests: launched for each of them, with a worker id and a seed of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from mlagents_envs.base_env import BaseEnv
from mlagents_envs.exception import UnityEnvironmentException

from ....envs.manager.manager import EnvManager
from ....envs.manager.restarts import RestartLimits
from ....envs.validation import NonFinite
from ...callbacks.events import Picture

logger = logging.getLogger(__name__)

TEST_SEED = 2_000_000_011
"""Of every test of every run, so that they can be compared; hardly a run trains with it by chance."""

MakeEnvironment = Callable[[bool], BaseEnv]
"""Launches the environment; True: one that draws itself when asked to."""


class EvaluationEnvironment:
    """Launches the environment of a test, and draws it."""

    __test__ = False

    def __init__(self, make: MakeEnvironment, non_finite: NonFinite) -> None:
        """`non_finite`: as of the training; what is dropped there is zero here, since no step may lack."""
        self._make = make
        self._non_finite = NonFinite.ZERO if non_finite is NonFinite.DROP else non_finite
        self._env: BaseEnv | None = None
        self._draws = True

    @contextmanager
    def launched(self, *, drawn: bool) -> Iterator[EnvManager]:
        """The environment of one test, started; closed behind.

        Raises:
            Exception: what kept it from starting. One that fails later is not started again.
        """
        manager = EnvManager(
            lambda _: self._launch(drawn),
            1,
            RestartLimits(max_lifetime_restarts=0, restarts_rate_limit_n=0),
            non_finite=self._non_finite,
        )
        with manager:
            manager.start()
            try:
                yield manager
            finally:
                self._env = None

    def _launch(self, drawn: bool) -> BaseEnv:
        if drawn and self._draws:
            try:
                self._env = self._make(True)
                return self._env
            except UnityEnvironmentException as error:
                self._draws = False
                logger.warning("Tests are not filmed: %s", error)
        return self._make(False)

    def picture(self) -> Picture | None:
        """The environment as it is now, [height, width, 3]; None where it does not draw itself."""
        draw = getattr(self._env, "draw", None)
        if draw is None or not self._draws:
            return None
        try:
            picture = np.asarray(draw(), dtype=np.uint8)
            if picture.ndim != 3 or picture.shape[2] != 3:
                raise ValueError(f"found a picture of shape {picture.shape}, expected (height, width, 3)")
        except NotImplementedError:
            return None
        except (
            Exception
        ) as error:  # whatever draws it: a package may be missing; no reason to end the training
            self._draws = False
            logger.warning("Tests are not filmed: %s: %s", type(error).__name__, error)
            return None
        return picture


@contextmanager
def quiet() -> Iterator[None]:
    """Within, environments tell warnings alone: of a test there is one line, not those of every launch."""
    said = logging.getLogger("lanista.envs")
    before = said.level
    if said.getEffectiveLevel() > logging.DEBUG:
        said.setLevel(logging.WARNING)
    try:
        yield
    finally:
        said.setLevel(before)
