"""Lets models act in an environment and counts what the agents earn."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from mlagents_envs.base_env import ActionTuple, BaseEnv, DecisionSteps, TerminalSteps

from ....envs.base import MAX_IDLE_STEPS
from ....envs.demonstrations.recorder import DemonstrationRecorder
from ...policies.onnx.loaded_policy import misfits
from ...runner.evaluation.scores import GroupReturns
from ..models import Model

logger = logging.getLogger(__name__)

STEPS_WITHOUT_MODEL = 100
"""Steps within which a behavior that a model is for has to appear: engines describe a behavior only with its
first agent."""
MAX_DECISIONS = 5_000
"""Decisions after which an episode that does not end is counted as it stands."""


class NothingToDecideError(Exception):
    """The environment keeps stepping, and no agent requests a decision."""


class NoModelError(Exception):
    """None of the models can act in the environment, or one does not fit the behavior of its name."""


@dataclass
class Episode:
    """An agent's running episode."""

    counted: bool
    """Whether the episode is among the first `episodes` that started."""
    reward: float = 0.0
    decisions: int = 0


@dataclass
class BehaviorResult:
    """The finished episodes of one behavior."""

    rewards: list[float] = field(default_factory=list)
    groups: GroupReturns = field(default_factory=GroupReturns)
    lengths: list[int] = field(default_factory=list)
    """Decisions in each episode."""

    def add(self, episode: Episode) -> None:
        """Add a finished episode."""
        self.rewards.append(episode.reward)
        self.lengths.append(episode.decisions)

    def as_dict(self) -> dict[str, float | int]:
        """Statistics of all episodes, and of groups if there were any."""
        rewards = np.array(self.rewards)
        figures: dict[str, float | int] = {
            "episodes": len(rewards),
            "mean_reward": float(rewards.mean()),
            "std_reward": float(rewards.std()),
            "min_reward": float(rewards.min()),
            "max_reward": float(rewards.max()),
            "mean_length": float(np.mean(self.lengths)),
        }
        if self.groups.finished:
            figures["group_episodes"] = len(self.groups.finished)
            figures["mean_group_reward"] = float(np.mean(self.groups.finished))
            figures["std_group_reward"] = float(np.std(self.groups.finished))
        return figures


class Player:
    """Plays one environment, each behavior with the model of its name, else with the first file that fits.

    It counts the first `episodes` episodes that start, each to its end: those that end first would be the
    short ones, with another mean.
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
        """The number of steps of the environment so far."""
        self.interrupted = False
        """Whether Ctrl-C ended the playing before all counted episodes were over."""
        self.cut = 0
        """The number of episodes that did not end by themselves within `max_decisions`."""
        self.results: dict[str, BehaviorResult] = {}
        self._running: dict[tuple[str, int], Episode] = {}
        self.model_of: dict[str, Model | None] = {}
        """The model that acts for each behavior; None: its agents stand still."""
        self._unplayed: dict[str, str] = {}
        """Why no model acts for some behaviors, until it is said."""
        self._begun = 0
        self._cut_now: set[int] = set()
        """Agents of the current behavior whose episode was cut and counted at this step."""

    @property
    def finished(self) -> dict[str, BehaviorResult]:
        """The results of the behaviors of which a counted episode has ended."""
        return {name: result for name, result in self.results.items() if result.rewards}

    def play(self, *after_step: Callable[[], object]) -> Mapping[str, BehaviorResult]:
        """Play until all counted episodes are over, or Ctrl-C; return the results of those that have ended.

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
        idle = 0
        while True:
            idle = 0 if self._act() else idle + 1
            self._explain_unplayed()
            if self._is_over():
                return
            if idle > MAX_IDLE_STEPS:
                raise NothingToDecideError(
                    f"In {MAX_IDLE_STEPS} steps no agent that a model is for asked for a decision. In Unity "
                    "and Unreal, agents need a Decision Requester, or must call RequestDecision."
                )
            self.env.step()
            self.steps += 1
            for each in after_step:
                each()

    def _is_over(self) -> bool:
        running = any(episode.counted for episode in self._running.values())
        groups = any(result.groups.running for result in self.results.values())
        return self._begun >= self.episodes and not running and not groups

    def _act(self) -> bool:
        """Process what the agents report and decide for those that request it; return whether any did."""
        asked = False
        for name in list(self.env.behavior_specs):
            model = self._model(name)
            if model is None:
                continue
            decisions, terminals = self.env.get_steps(name)
            groups = self.results.setdefault(name, BehaviorResult()).groups
            groups.add(decisions, terminals, counting=self._begun < self.episodes)
            self._end(name, terminals)
            model.policy.reset_agents(terminals.agent_id, name)
            self._continue(name, decisions)
            if len(decisions):
                asked = True
                action = model.policy.act(decisions, self.deterministic, name)
                self.env.set_actions(name, action)
                self._record(name, decisions, action)
        return asked

    def _record(self, name: str, decisions: DecisionSteps, action: ActionTuple) -> None:
        """Record the actions of agents whose episodes are counted."""
        if self.recorder is None:
            return
        wanted = {
            agent for (behavior, agent), each in self._running.items() if behavior == name and each.counted
        }
        cut, self._cut_now = self._cut_now, set()
        self.recorder.act(name, self.env.behavior_specs[name], decisions, action, wanted=wanted, cut=cut)

    def _model(self, name: str) -> Model | None:
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

    def _end(self, name: str, terminals: TerminalSteps) -> None:
        if self.recorder is not None:
            self.recorder.end(name, self.env.behavior_specs[name], terminals)
        for row, agent in enumerate(terminals.agent_id.tolist()):
            episode = self._running.pop((name, agent), None)
            if episode is None or not episode.counted:
                continue
            episode.reward += float(terminals.reward[row])
            self.results[name].add(episode)

    def _continue(self, name: str, decisions: DecisionSteps) -> None:
        for row, agent in enumerate(decisions.agent_id.tolist()):
            episode = self._running.get((name, agent))
            if episode is not None:
                episode.reward += float(decisions.reward[row])
                if episode.counted and episode.decisions >= self.max_decisions:
                    self._cut(name, episode)
                    self.results[name].groups.cut(int(decisions.group_id[row]))
                    self._cut_now.add(agent)
                    episode = None
            if episode is None:
                episode = self._running[name, agent] = Episode(counted=self._begun < self.episodes)
                self._begun += 1
            episode.decisions += 1

    def _cut(self, name: str, episode: Episode) -> None:
        """Count an episode that may never end (a stuck policy in a scene without a step limit)."""
        self.results[name].add(episode)
        self.cut += 1
        if self.cut == 1:
            logger.warning(
                "An episode of %s did not end within %d decisions. Such episodes are counted as they stand; "
                "--max-decisions changes after how many.",
                name,
                self.max_decisions,
            )


def _listed(problems: Sequence[str]) -> str:
    return f"{'; '.join(problems)}."
