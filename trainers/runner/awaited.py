"""Whom a run waits for in vain: agents that ask for no decisions, at its start or from some moment on."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sized
from typing import TYPE_CHECKING

from ...envs.base import BehaviorId
from ...envs.engines.terms import advice
from ..settings.errors import dotted
from ..trainer.context import RunContext
from ..trainer.self_play.snapshots import team_of
from ..utils.errors import TrainerError

if TYPE_CHECKING:
    from ...envs.manager.manager import EnvManager
    from ..trainer.learner import Learner

logger = logging.getLogger(__name__)

SILENT_STEPS = 1000
"""Steps of each environment without a request for a decision after which a run says whom it waits for."""


class AwaitedDecisions:
    """Ends a run in which no agent asks for a first decision, and names those that it later waits for.

    A behavior that has fallen silent ends nothing, as in ML-Agents: its agents may ask again at any time.
    """

    def __init__(self, run: RunContext) -> None:
        """Agents of the `run` have its `timeout` for the first request, from `begin` on."""
        self._run = run
        self._deadline = math.inf
        self._answers = 0
        """The steps of all environments so far."""
        self.asked_at: dict[BehaviorId, int] = {}
        """What `count` returned when an agent of each id asked last; none has of ids that are not in it."""
        self._interval = SILENT_STEPS
        self._next_check = 0
        self._seen: dict[str, tuple[int, int]] = {}
        """By the names of the behaviors that still wanted steps at the last check: step, and last request."""

    def begin(self) -> None:
        """The environments have started."""
        self._deadline = time.monotonic() + self._run.timeout

    def count(self, steps: Sized) -> int:
        """Count these steps of environments; returns how many there have been so far."""
        self._answers += len(steps)
        return self._answers

    def check(self, envs: EnvManager, learners: Mapping[str, Learner]) -> None:
        """Warn, more and more seldom, if the run waits only for behaviors that have fallen silent.

        Raises:
            TrainerError: no agent has requested a decision within the timeout.
        """
        if not self.asked_at:
            self._check_deadline(envs)
        elif self._answers >= self._next_check:
            self._check_silent(max(1, envs.num_envs), learners)

    def _check_deadline(self, envs: EnvManager) -> None:
        timeout = self._run.timeout
        if not envs.num_envs:  # engines that connect by themselves have all left
            self.begin()
        elif time.monotonic() > self._deadline:
            shown = ", ".join(envs.behavior_specs) or "none"
            raise TrainerError(
                f"No agent has asked for a decision within {timeout:g} s "
                "(env_settings.timeout_wait, --timeout-wait), although the environment keeps stepping; "
                f"behaviors that it has shown: {shown}. {advice(envs.present, self._run.terms)}"
            )

    def _check_silent(self, num_envs: int, learners: Mapping[str, Learner]) -> None:
        """Warn if since the last check none of the behaviors that want steps has asked or got any."""
        awaited = [learner for learner in learners.values() if learner.should_continue]
        seen = {one.name: (one.trainer.step, self._last_request(one, learners)) for one in awaited}
        if awaited and all(self._seen.get(name) == state for name, state in seen.items()):
            for learner in awaited:
                self._warn(learner, (self._answers - seen[learner.name][1]) // num_envs)
            self._interval *= 2
        self._seen = seen
        self._next_check = self._answers + self._interval * num_envs

    def _last_request(self, learner: Learner, learners: Mapping[str, Learner]) -> int:
        """When agents asked last of whom the behavior gets steps: in self-play, of the team that learns."""
        ids = list(learner.managers)
        if learner.self_play is not None:
            playing = [one for one in learners.values() if one.self_play is not None]
            ids = [i for one in playing for i in one.managers if team_of(i) == self._run.rotation.learning]
        return max((self.asked_at.get(behavior_id, 0) for behavior_id in ids), default=0)

    def _warn(self, learner: Learner, steps: int) -> None:
        name, settings, of, advice = learner.name, learner.settings, "", "end the run with Ctrl-C."
        who = name
        if learner.self_play is not None:
            who = f"{name}: team {self._run.rotation.learning}, which learns now,"
        if self._run.training:
            of = "" if settings.endless else f" of {settings.max_steps:,}"
            key = dotted(("behaviors", name, "max_steps"))
            advice = (
                f"end the run with Ctrl-C, which saves it; with a lower {key}, or in an environment without "
                "this behavior, a run ends by itself."
            )
        logger.warning(
            "%s has asked for no decision for %s steps of the environment. %s is at %s%s steps, and the run "
            "waits for it. If its agents are gone for good, %s",
            who,
            f"{steps:,}",
            name,
            f"{learner.trainer.step:,}",
            of,
            advice,
        )
