"""Lets models act in an environment, and counts what their agents earn."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from mlagents_envs.base_env import ActionTuple, BaseEnv, DecisionSteps, TerminalSteps

from ....envs.base import MAX_IDLE_STEPS, BehaviorId, BehaviorName
from ....envs.demonstrations.recorder import DemonstrationRecorder
from ....envs.engines.terms import advice
from ...episodes import MAX_DECISIONS
from ...episodes.scores import EpisodeCounter, Scores, SeatScores
from ...policies.onnx.loaded_policy import misfits
from ..models import Model

logger = logging.getLogger(__name__)

STEPS_WITHOUT_MODEL = 100
"""Steps within which a behavior that a model is for has to appear: engines describe a behavior only with its
first agent."""


class NothingToDecideError(Exception):
    """The environment keeps stepping, and no agent requests a decision."""


class NoModelError(Exception):
    """None of the models can act in the environment, or one does not fit the behavior of its name."""


def figures(seat: SeatScores) -> dict[str, float | int]:
    """Statistics of the episodes of one behavior id, and of its groups if there were any."""
    rewards, groups = np.array(seat.rewards), seat.groups.finished
    found: dict[str, float | int] = {
        "episodes": len(rewards),
        "mean_reward": float(rewards.mean()),
        "std_reward": float(rewards.std()),
        "min_reward": float(rewards.min()),
        "max_reward": float(rewards.max()),
        "mean_length": float(np.mean(seat.decisions)),
        "cut": seat.num_cut,
    }
    if groups:
        found["group_episodes"] = len(groups)
        found["mean_group_reward"] = float(np.mean(groups))
        found["std_group_reward"] = float(np.std(groups))
    return found


class Player:
    """Plays one environment, each behavior with the model of its name, else with the first file that fits.

    Of every behavior id, which is a team or a seat, it counts `episodes` episodes (see `Scores`).
    """

    def __init__(
        self,
        env: BaseEnv,
        models: Sequence[Model],
        episodes: int,
        deterministic: bool,
        max_decisions: int = MAX_DECISIONS,
        recorder: DemonstrationRecorder | None = None,
    ) -> None:
        """`recorder`: records the episodes that are counted."""
        self.recorder = recorder
        self.env = env
        self.models = models
        self.episodes = episodes
        self.deterministic = deterministic
        self.max_decisions = max_decisions
        self.steps = 0
        """The number of steps that the environment has taken."""
        self.interrupted = False
        """Whether Ctrl-C ended the playing before all counted episodes were over."""
        self.counter = EpisodeCounter()
        self.model_of: dict[BehaviorId, Model | None] = {}
        """Which model acts for a behavior; None: its agents stand still."""
        self._unplayed: dict[BehaviorId, str] = {}
        """Why no model acts for some behaviors, until it is said."""
        self._warned = False
        """Whether it is said that an episode was cut."""

    @property
    def finished(self) -> dict[BehaviorId, SeatScores]:
        """The behavior ids of which a counted episode has ended, in the order of their names."""
        return {name: seat for name, seat in sorted(self.counter.seats.items()) if seat.rewards}

    def play(self, *after_step: Callable[[], object]) -> Mapping[BehaviorId, SeatScores]:
        """Play until all counted episodes are over, or Ctrl-C; the results of those that have ended.

        Args:
            after_step: called after the reset and every step.

        Raises:
            NoModelError: no model fits any behavior, or one does not fit the behavior of its name.
            NothingToDecideError: no agent requests a decision.
            UnityException: the environment fails.
        """
        try:
            self._play(after_step)
        except KeyboardInterrupt:
            self.interrupted = True
        return self.finished

    def _play(self, after_step: Sequence[Callable[[], object]]) -> None:
        self.env.reset()
        for each in after_step:
            each()
        while True:
            self._act()
            self._explain_unplayed()
            if self.counter.over:
                break
            if self.counter.idle_steps > MAX_IDLE_STEPS:
                raise NothingToDecideError(
                    f"In {MAX_IDLE_STEPS} steps no agent that a model is for asked for a decision. "
                    f"{advice([self.env])}"
                )
            self.env.step()
            self.steps += 1
            for each in after_step:
                each()
        for name in (name for name, model in self.model_of.items() if model):
            seat = self.counter.seats.get(name)
            count = 0 if seat is None else len(seat.last_rewards)
            if count < self.episodes:
                logger.warning(
                    "%s: %d episodes were counted instead of %d: its agents took part in no more of them.",
                    name,
                    count,
                    self.episodes,
                )

    def _act(self) -> None:
        """Count what the agents report, and decide for those that request it."""
        played = {name: model for name in list(self.env.behavior_specs) if (model := self._model(name))}
        steps = {name: self.env.get_steps(name) for name in played}
        self.counter.add(steps)
        self._explain_cut()
        for name, (decisions, terminals) in steps.items():
            if self.recorder is not None:
                self.recorder.end(name, self.env.behavior_specs[name], terminals)
            played[name].policy.reset_agents(terminals.agent_id, name)
            if len(decisions):
                action = played[name].policy.act(decisions, self.deterministic, name)
                self.env.set_actions(name, action)
                self._record(name, decisions, terminals, action)

    def _record(
        self, name: BehaviorId, decisions: DecisionSteps, terminals: TerminalSteps, action: ActionTuple
    ) -> None:
        """Record the actions of agents whose episodes are counted."""
        if self.recorder is None:
            return
        seat = self.counter.seats[name]
        seat.cut_agents.difference_update(terminals.agent_id.tolist())
        cut = seat.cut_agents.intersection(decisions.agent_id.tolist())
        seat.cut_agents -= cut
        spec, wanted = self.env.behavior_specs[name], seat.counted_agents()
        self.recorder.act(name, spec, decisions, action, wanted=wanted, cut=cut)

    def _model(self, name: BehaviorId) -> Model | None:
        """The model that acts for a behavior, chosen when the behavior first appears."""
        if name not in self.model_of:
            spec = self.env.behavior_specs[name]
            problems = {model: misfits(model.policy, spec) for model in self.models}
            own = next((model for model in self.models if model.is_for(name)), None)
            if own is not None and own.of_run and problems[own]:
                raise NoModelError(f"{own.source} does not fit the behavior {name}: {_listed(problems[own])}")
            fitting = [model for model in self.models if not problems[model]]
            files = [model for model in fitting if not model.of_run]
            self.model_of[name] = own if own in fitting else next(iter(files), None)
            if self.model_of[name] is None:
                self._unplayed[name] = " ".join(
                    f"{model.source} is for {model.behavior}."
                    if model.of_run
                    else f"{model.source} does not fit: {_listed(found)}"
                    for model, found in problems.items()
                )
            else:
                behavior = BehaviorName.parse(name).name
                scores = Scores(behavior, self.episodes, self.max_decisions, self.env)
                self.counter.scores.setdefault(behavior, scores)
        return self.model_of[name]

    def _explain_unplayed(self) -> None:
        """Warn of behaviors that no model acts for.

        Raises:
            NoModelError: no model acts for any behavior, and none that one is for has appeared in time.
        """
        if any(self.model_of.values()):
            for name, why in self._unplayed.items():
                logger.warning("%s: its agents stand still. %s", name, why)
            self._unplayed.clear()
        elif self._unplayed and self.steps >= STEPS_WITHOUT_MODEL:
            reasons = (
                f"No model acts for the behavior {name}. {why}" for name, why in self._unplayed.items()
            )
            raise NoModelError(" ".join(reasons))

    def _explain_cut(self) -> None:
        """Warn once of an episode that may never end (a stuck policy in a scene without a step limit)."""
        cut = next((name for name, seat in self.counter.seats.items() if seat.num_cut), None)
        if cut is not None and not self._warned:
            self._warned = True
            logger.warning(
                "An episode of %s did not end within %d decisions. Such episodes are counted as they stand; "
                "--max-decisions changes after how many.",
                cut,
                self.max_decisions,
            )


def _listed(problems: Sequence[str]) -> str:
    return f"{'; '.join(problems)}."
