"""Agents that act at random, as Rollouts and as plain objects, one for each step."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from itertools import count
from typing import BinaryIO

import numpy as np
import pytest
from lanista.agent_processor.trajectory import AgentKey, Rollout
from lanista.trainers.buffers.replay import storage
from lanista.trainers.buffers.replay.columns import BYTES, FLOATS, ReplayLayout
from rollouts import make_rollout

FRAMES, SIDE = 3, 2
BRANCHES = (3, 2)


@dataclass(eq=False)
class Step:
    """One step of one agent, with all that a replay should know of it."""

    vector: np.ndarray
    stack: np.ndarray
    continuous: np.ndarray
    discrete: np.ndarray
    mask: np.ndarray
    reward: np.ndarray
    memory: np.ndarray
    next_vector: np.ndarray
    next_stack: np.ndarray
    next_mask: np.ndarray
    ended: bool = False
    following: Step | None = None
    """The agent's next step, if its episode continues and the step has arrived."""


@dataclass(eq=False)
class Trajectory:
    """Steps of one agent, and how they end."""

    agent: int
    steps: list[Step]
    numbers: list[int]
    next_number: int
    over: bool
    interrupted: bool
    last_vector: np.ndarray
    """What the engine sent last."""


@dataclass
class Player:
    """An agent: what it sees, and the number of the row in which it sees that."""

    number: int
    vector: np.ndarray
    stack: np.ndarray
    mask: np.ndarray
    last: Step | None = None


@dataclass
class Game:
    """Makes trajectories, and keeps all steps in the order in which they are handed over."""

    random: np.random.Generator
    signals: int = 2
    memory_size: int = 0
    masked: bool = True
    own_observation: bool = False
    """The last step of an interrupted episode is followed by its own observation."""
    breaks: float = 0.1
    """How often a stack does not continue the previous one."""
    steps: list[Step] = field(default_factory=list)
    players: dict[int, Player] = field(default_factory=dict)
    rows: count = field(default_factory=count)

    def player(self, agent: int) -> Player:
        """The agent, at the start of an episode if it is in none."""
        if agent not in self.players:
            stack = np.zeros((FRAMES, SIDE, SIDE), np.uint8)
            # Engines start with black frames, Gymnasium's wrappers with the first one repeated.
            stack[0 if self.random.random() < 0.5 else -1 :] = self.frame()
            self.players[agent] = Player(next(self.rows), self.vector(), stack, self.mask())
        return self.players[agent]

    def vector(self) -> np.ndarray:
        return self.random.normal(size=2).astype(np.float32)

    def frame(self) -> np.ndarray:
        return self.random.integers(0, 256, (SIDE, SIDE)).astype(np.uint8)

    def mask(self) -> np.ndarray:
        return (self.random.random(sum(BRANCHES)) < 0.3) & self.masked

    def trajectory(self, agent: int, length: int, end: str, lose: bool = False) -> Trajectory:
        """`end`: over, interrupted or on; `lose`: the agent's next trajectory will not come."""
        player, steps, numbers = self.player(agent), [], []
        for _ in range(length):
            numbers.append(player.number)
            own = {"vector": player.vector, "stack": player.stack, "mask": player.mask}
            stack = np.concatenate([player.stack[1:], self.frame()[None]])
            if self.random.random() < self.breaks:  # an engine that stacks otherwise, now and then
                stack = self.random.integers(0, 3, stack.shape).astype(np.uint8)
            player.vector, player.stack, player.mask = self.vector(), stack, self.mask()
            player.number = next(self.rows)
            step = Step(
                **own,
                continuous=self.random.normal(size=2).astype(np.float32),
                discrete=self.random.integers(0, 2, len(BRANCHES)).astype(np.int32),
                reward=self.random.normal(size=self.signals).astype(np.float32),
                memory=self.random.normal(size=self.memory_size).astype(np.float32),
                next_vector=player.vector,
                next_stack=player.stack,
                next_mask=player.mask,
            )
            if player.last is not None:
                player.last.following = step
            player.last = step
            steps.append(step)
        last = steps[-1]
        if end != "on" or lose:
            del self.players[agent]
        if end == "over":
            player.mask = last.next_mask = np.zeros_like(last.mask)
            last.ended = True
        elif end == "interrupted":
            player.mask = last.next_mask = np.zeros_like(last.mask)
            if self.own_observation:
                last.next_vector, last.next_stack, last.next_mask = last.vector, last.stack, last.mask
        self.steps += steps
        over = end != "on"
        return Trajectory(agent, steps, numbers, player.number, over, end == "interrupted", player.vector)


def rollout_of(trajectories: list[Trajectory]) -> tuple[Rollout, np.ndarray]:
    """The trajectories as `agent_processor` gives them, and their rewards [steps, signals]."""
    steps = [step for one in trajectories for step in one.steps]
    stacked = lambda name: np.stack([getattr(step, name) for step in steps])  # noqa: E731
    last = [one.steps[-1] for one in trajectories]
    rollout = make_rollout(
        [len(one.steps) for one in trajectories],
        [stacked("vector"), stacked("stack")],
        numbers=np.array([number for one in trajectories for number in one.numbers], np.int64),
        continuous=stacked("continuous"),
        discrete=stacked("discrete"),
        action_mask=stacked("mask"),
        memory=stacked("memory"),
        next_obs=[
            np.stack([one.last_vector for one in trajectories]),
            np.stack([s.next_stack for s in last]),
        ],
        done_reached=np.array([one.over for one in trajectories]),
        interrupted_at_end=np.array([one.interrupted for one in trajectories]),
        agents=[AgentKey(0, one.agent) for one in trajectories],
        next_numbers=np.array([one.next_number for one in trajectories], np.int64),
        next_action_mask=np.stack([step.next_mask for step in last]),
    )
    return rollout, stacked("reward")


def layout(
    capacity: int,
    signals: int = 2,
    *,
    stacks: int = FRAMES,
    dtypes: tuple[object, ...] = (FLOATS, BYTES),
    **keys: object,
) -> ReplayLayout:
    """Of a replay for such steps."""
    return ReplayLayout(
        capacity=capacity,
        sensors=("vector", "camera"),
        shapes=((2,), (FRAMES, SIDE, SIDE)),
        dtypes=dtypes,
        stacks=(1, stacks),
        continuous=2,
        branches=BRANCHES,
        signals=signals,
        **keys,  # type: ignore[arg-type]
    )


def fill_disk(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Let writing a replay fail after so many bytes, as on a full disk."""
    write = storage._write

    class Full:
        left = after

        def __init__(self, file: BinaryIO) -> None:
            self.file = file

        def write(self, data: bytes) -> int:
            self.left -= len(data)
            if self.left < 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            return self.file.write(data)

    monkeypatch.setattr(storage, "_write", lambda file, *rest: write(Full(file), *rest))
