"""Plays scenes in tests: resets a world, gives its agents actions and keeps the last batches."""

from typing import Any, ClassVar

import numpy as np
from lanista.envs.protocol.engine import AgentBatch
from lanista.envs.scenes.registry import SCENES
from lanista.envs.scenes.world import Parameters, World
from mlagents_envs.base_env import BehaviorSpec

SIZED = [name for name, scene in SCENES.items() if scene.load().options_type is not None]
"""Scenes of several sizes: the others have options of their own, or none."""


def random_actions(spec: BehaviorSpec, count: int, random: np.random.Generator) -> Any:
    """Continuous and discrete actions of `count` agents."""
    discrete = [random.integers(0, size, count) for size in spec.action_spec.discrete_branches]
    continuous = random.uniform(-1, 1, (count, spec.action_spec.continuous_size)).astype(np.float32)
    return continuous, np.array(discrete, np.int32).reshape(len(discrete), count).T


def play_of(scene: type[World]) -> "type[ScenePlay]":
    """The class that plays this world."""
    return type("Play", (ScenePlay,), {"scene": scene})


class ScenePlay:
    """A world with its parameters and its last batches; a subclass names the world's class."""

    scene: ClassVar[type[World]]

    def __init__(self, areas=1, seed=0, parameters=(), **options: Any) -> None:
        self.world: Any = self.scene(areas=areas, **options)
        self.specs = self.world.specs()
        self.parameters = Parameters()
        for key, value in dict(parameters).items():
            self.parameters.set(key, value)
        self.random = np.random.default_rng(seed)
        self.reset()

    def reset(self) -> None:
        self.batches = self.world.reset(self.random, self.parameters)

    @property
    def batch(self) -> AgentBatch:
        """The last batch of a world with one behavior."""
        (batch,) = self.batches.values()
        return batch

    def act(self, discrete: Any = 0, continuous: Any = 0.0) -> Any:
        """Actions for all agents alike, or a row for each that decides; the batch of the only behavior."""
        names = [name for name in self.specs if self.deciding(name)]
        return self.step({name: self.actions(name, discrete, continuous) for name in names})

    def actions(self, name: str, discrete: Any = 0, continuous: Any = 0.0) -> Any:
        """The same for the deciding agents of one behavior."""
        count, spec = self.deciding(name), self.specs[name].action_spec
        rows = np.asarray(discrete, np.int32)
        return (
            np.broadcast_to(np.asarray(continuous, np.float32), (count, spec.continuous_size)),
            np.broadcast_to(
                rows.reshape(-1, 1) if spec.discrete_size == 1 else rows, (count, spec.discrete_size)
            ),
        )

    def act_randomly(self, random: np.random.Generator) -> Any:
        """Random actions, which do not depend on the world's own random numbers."""
        specs = self.specs.items()
        return self.step({name: random_actions(spec, self.deciding(name), random) for name, spec in specs})

    def step(self, actions: Any) -> Any:
        self.batches = self.world.step(actions)
        return self.batch if len(self.batches) == 1 else self.batches

    def deciding(self, behavior: str) -> int:
        """How many agents of a behavior decide."""
        batch = self.batches.get(behavior)
        return 0 if batch is None else int((~batch.done).sum())
