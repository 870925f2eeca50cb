"""Agents who see random things, and a learner that acts for them as in a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from lanista.agent_processor.trajectory import Trajectory
from lanista.envs.base import Decision, EnvironmentStep
from lanista.envs.demonstrations.recorder import DemonstrationWriter
from lanista.envs.protocol.engine import AgentBatch
from lanista.trainers.checkpoints.run_folder import recorded_behaviors
from lanista.trainers.checkpoints.status import TrainingStatus
from lanista.trainers.settings.models.behavior import TrainerSettings
from lanista.trainers.settings.options import RunOptions
from lanista.trainers.settings.yaml_source import Source
from lanista.trainers.stats.display import make_display
from lanista.trainers.trainer.context import RunContext
from lanista.trainers.trainer.learner import Learner
from mlagents_envs.base_env import ActionTuple, BehaviorSpec, DecisionSteps, TerminalSteps

NAME, BEHAVIOR = "Crowd", "Crowd?team=0"


def make_learner(
    folder: Path,
    spec: BehaviorSpec,
    behavior: dict[str, Any] | TrainerSettings,
    name: str = NAME,
    **context: Any,
) -> Learner:
    """The learner of a run in `folder` with these settings of the behavior, as in YAML or resolved."""
    if isinstance(behavior, dict):
        options = RunOptions.from_source(Source({"behaviors": {name: behavior}}))
        behavior = options.behavior(name)
    run = RunContext(
        folder=folder,
        seed=1,
        status=TrainingStatus(folder / "status.json"),
        writers=[],
        display=make_display("test", plain=True),
        recorded=recorded_behaviors(folder),
        **context,
    )
    return Learner(name, spec, behavior, run)


class Crowd:
    """Pairs of agents, each pair a group; all episodes are of `length` steps and end together."""

    def __init__(self, spec: BehaviorSpec, agents: int = 4, length: int = 6, seed: int = 0) -> None:
        self.spec, self.length = spec, length
        self.random = np.random.default_rng(seed)
        self.ids = np.arange(agents, dtype=np.int32)
        self.groups = self.ids // 2 + 1
        self.age = 0
        self.decided: dict[str, Decision] = {}

    def _batch(self, kind: Any, which: Any = slice(None)) -> Any:
        """What these agents say."""
        ids, n = self.ids[which], len(self.ids[which])
        reward = self.random.normal(size=n).astype(np.float32)
        ends = kind is TerminalSteps
        interrupted, masks = ([np.zeros(n, bool)], []) if ends else ([], [self._masks(n)])
        of_group = (self.groups[which], np.ones(n, np.float32))
        return kind(self.see(n), reward, *interrupted, ids, *masks, *of_group)

    def _masks(self, n: int) -> list[np.ndarray] | None:
        """The last action of a branch is forbidden now and then."""
        branches = self.spec.action_spec.discrete_branches
        masks = [np.zeros((n, size), bool) for size in branches]
        for mask in masks:
            mask[:, -1] = self.random.random(len(mask)) < 0.3
        return masks or None

    def see(self, n: int) -> list[np.ndarray]:
        """Per sensor [n, *shape]; images as bytes."""
        return [
            self.random.integers(0, 256, (n, *sensor.shape)).astype(np.uint8)
            if len(sensor.shape) == 3
            else self.random.normal(size=(n, *sensor.shape)).astype(np.float32)
            for sensor in self.spec.observation_specs
        ]

    def step(self) -> EnvironmentStep:
        """What everybody says now."""
        terminals = TerminalSteps.empty(self.spec)
        if self.age == self.length:
            terminals, self.age = self._batch(TerminalSteps), 0
        self.age += 1
        decisions = self._batch(DecisionSteps)
        return EnvironmentStep(0, {BEHAVIOR: (decisions, terminals)}, self.decided)

    def play(self, learner: Learner, ticks: int) -> list[Trajectory]:
        """Let the learner act so many times; what it then has to learn from."""
        manager = learner.add_team(BEHAVIOR)
        for _ in range(ticks):
            step = self.step()
            decisions, terminals = step.steps[BEHAVIOR]
            learner.inference.end_episodes(step, BEHAVIOR)
            manager.add_experiences(decisions, terminals, 0, step.decisions.get(BEHAVIOR))
            (decided,) = learner.act_requests([decisions], [(0, BEHAVIOR)])[0].decide()
            self.decided = {BEHAVIOR: decided}
        return list(learner.collected.drain())


class Mortals(Crowd):
    """Two groups of three, whose members die one by one and decide at different times; new groups follow.

    After every `length` steps all of them die.
    """

    def __init__(self, spec: BehaviorSpec, length: int = 20, seed: int = 0) -> None:
        super().__init__(spec, agents=6, length=length, seed=seed)
        self.groups, self.born = self.ids // 3 + 1, 3

    def step(self) -> EnvironmentStep:
        """What those say who die now, and those who decide now."""
        self.age += 1
        dies = self.random.random(len(self.ids)) < (1.0 if self.age % self.length == 0 else 0.1)
        terminals = self._batch(TerminalSteps, dies)
        self.ids, self.groups = self.ids[~dies], self.groups[~dies]
        while len(set(self.groups.tolist())) < 2:
            self.born += 3
            self.ids = np.append(self.ids, np.arange(self.born, self.born + 3, dtype=np.int32))
            self.groups = np.append(self.groups, [self.born] * 3).astype(np.int32)
        decides = self._batch(DecisionSteps, self.random.random(len(self.ids)) < 0.8)
        return EnvironmentStep(0, {BEHAVIOR: (decides, terminals)}, self.decided)


def learn_from(learner: Learner, collected: list[Trajectory]) -> None:
    """One call of the trainer with these trajectories."""
    for trajectory in collected:
        learner.collected.put(trajectory)
    learner.trainer.advance()


def write_demonstration(
    path: Path, spec: BehaviorSpec, lengths: list[int], seed: int = 0, *, rewarded: bool = False
) -> Path:
    """A demonstration of random actions, in episodes of these lengths (pairs); `rewarded`: at random."""
    random, crowd = np.random.default_rng(seed), Crowd(spec, agents=1, seed=seed)
    continuous, branches = spec.action_spec.continuous_size, spec.action_spec.discrete_branches
    with DemonstrationWriter(path, BEHAVIOR, spec) as writer:
        for length in lengths:
            zeros, done = np.zeros(length, np.int32), np.zeros(length, bool)
            done[-1] = True
            acted = ActionTuple(
                random.uniform(-1, 1, (length, continuous)).astype(np.float32),
                np.stack([random.integers(0, size, length) for size in branches], 1).astype(np.int32)
                if branches
                else np.zeros((length, 0), np.int32),
            )
            reward = random.random(length).astype(np.float32) if rewarded else zeros.astype(np.float32)
            batch = AgentBatch(crowd.see(length), reward, done, done & False, zeros, zeros, reward)
            writer.write(batch, acted)
    return path
