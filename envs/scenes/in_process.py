"""A world stepped in this process as a `BaseEnv`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from mlagents_envs.base_env import (
    BehaviorMapping,
    BehaviorSpec,
    DecisionSteps,
    TerminalSteps,
)
from mlagents_envs.exception import UnityEnvironmentException
from numpy.typing import NDArray

from ..base import BehaviorSteps, no_steps
from ..protocol.engine import AgentBatch, Observed
from ..python.base import InProcessEnvironment
from ..side_channels import Parameters
from ..unity.launch import scene_words
from .options import UsageError, parse_options
from .registry import Renderer, UnknownSceneError, find
from .world import World

FRAME_SIZE = (640, 400)
"""Width and height of images in pixels."""


class WorldEnvironment(InProcessEnvironment):
    """A world as a `BaseEnv`, without wire or process."""

    def __init__(self, world: World, seed: int | None = None, renderer: Renderer | None = None) -> None:
        """Args:
        world: What to step.
        seed: Of the world's random numbers; None for a different one each time.
        renderer: Draws the world, see `draw`; None for a world without images.
        """
        super().__init__()
        self.world = world
        self._renderer = renderer
        self.parameters = Parameters()
        self._random = np.random.default_rng(seed)
        self._specs = dict(world.specs())

    @property
    def behavior_specs(self) -> Mapping[str, BehaviorSpec]:
        """The world's behaviors."""
        return BehaviorMapping(self._specs)  # type: ignore[no-any-return]

    def reset(self) -> None:
        """Start a new episode for every agent."""
        self._take(self.world.reset(self._random, self.parameters))

    def step(self) -> None:
        """Let the agents act; those without actions get zeros. A first step without a reset resets."""
        if not self._steps:
            self.reset()
            return
        actions = {}
        for name, (decisions, _) in self._steps.items():
            if len(decisions):
                given = self._actions.get(name) or self._specs[name].action_spec.empty_action(len(decisions))
                actions[name] = (given.continuous, given.discrete)
        self._take(self.world.step(actions))

    def set_parameters(self, parameters: Mapping[str, object]) -> None:
        """Set environment parameters, which the world reads when its rules require it.

        Args:
            parameters: Numbers, or samplers, as of `UnityEnvironment.set_parameters`.

        Raises:
            UnitySideChannelException: A value is neither a number nor a sampler.
        """
        self.parameters.take(parameters)

    def draw(self) -> NDArray[np.uint8]:
        """An image of the world as it is now, [height, width, 3].

        Raises:
            NotImplementedError: The world has no renderer.
        """
        if self._renderer is None:
            raise NotImplementedError(f"{type(self.world).__name__} has no renderer.")
        return self._renderer(FRAME_SIZE, self.world)

    def close(self) -> None:
        """There is nothing to release."""

    def _take(self, batches: Mapping[str, AgentBatch]) -> None:
        self._actions.clear()
        for name, spec in self._specs.items():
            batch = batches.get(name)
            if batch is None:
                self._steps[name] = no_steps(spec)
            else:
                self._steps[name] = _split(batch, spec)


def make_in_process(
    env: str, seed: int | None = None, arguments: Sequence[str] | None = None
) -> WorldEnvironment:
    """The scene `scene:NAME?key=value`, stepped in this process.

    Args:
        env: The scene as it is named on the command line.
        seed: Of its random numbers.
        arguments: Further options, as an executable would get them.

    Raises:
        UnityEnvironmentException: No such scene, or options that it does not have.
    """
    name, *options = scene_words(env.strip())
    try:
        scene = find(name)
        world = scene.load()
        given = parse_options(world, [*options, *(arguments or ())], env)
        return WorldEnvironment(world(**given), seed, scene.draw)
    except (UnknownSceneError, UsageError, ValueError) as error:
        raise UnityEnvironmentException(f"{env}: {error}") from error


def _split(batch: AgentBatch, spec: BehaviorSpec) -> BehaviorSteps:
    """A batch as decision and terminal steps."""
    mask: list[Any] | None = None
    branches = spec.action_spec.discrete_branches
    done, asking = batch.done, ~batch.done
    if branches and asking.any():
        flat = batch.action_mask
        flat = np.zeros((len(done), sum(branches)), np.bool_) if flat is None else flat
        mask = np.split(flat[asking], np.cumsum(branches)[:-1], axis=1)
    decisions = DecisionSteps(
        [_as_numbers(obs[asking]) for obs in batch.obs],
        batch.reward[asking],
        batch.agent_id[asking],
        mask,
        batch.group_id[asking],
        batch.group_reward[asking],
    )
    terminals = TerminalSteps(
        [_as_numbers(obs[done]) for obs in batch.obs],
        batch.reward[done],
        batch.interrupted[done],
        batch.agent_id[done],
        batch.group_id[done],
        batch.group_reward[done],
    )
    return decisions, terminals


def _as_numbers(obs: Observed) -> NDArray[np.float32]:
    """The observation as a trainer receives it: float32, images between 0 and 1."""
    if obs.dtype == np.float32:
        return obs.astype(np.float32, copy=False)
    numbers: NDArray[np.float32] = np.divide(obs, np.float32(255), dtype=np.float32)
    return numbers
