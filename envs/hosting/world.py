"""A BaseEnv as a World, for the embedded engine's client to run as a process."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from mlagents_envs.base_env import ActionTuple, BaseEnv, BehaviorSpec, DecisionSteps, TerminalSteps
from mlagents_envs.exception import UnityException
from numpy.typing import NDArray

from ..errors import EnvContractError
from ..protocol.engine import AgentBatch
from ..protocol.png_writer import STORED
from ..protocol.specs import survives
from ..python.call_watch import WATCH
from ..python.calls import HINT
from ..scenes.world import Actions, Batches, Statistic, World
from ..side_channels import Parameters, SideChannel
from .environment import ReportSender
from .source import HostedSource

logger = logging.getLogger(__name__)


class HostedWorld(World):
    """An environment that is made when the trainer has sent the seed and the number of areas.

    After an error, which is reported to the trainer, it sends no more steps.
    """

    png_level = STORED

    def __init__(self, source: HostedSource) -> None:
        self._source = source
        self._reports = ReportSender()
        self._env: BaseEnv | None = None
        self._specs: Mapping[str, BehaviorSpec] = {}
        self._revision = 0
        """Which of the trainer's environment parameters the environment has got."""
        self._parameters = Parameters()
        self._fault: EnvContractError | None = None

    def prepare(self, seed: int, areas: int) -> None:
        """Make the environment, which may know its behaviors only once it is reset."""
        try:
            self._env = self._source.make(seed, areas)
        except UnityException as error:  # a restart would not help
            self._report(error)

    def specs(self) -> Mapping[str, BehaviorSpec]:
        """The behaviors that it has reported so far."""
        return self._specs

    def reset(self, random: np.random.Generator, parameters: Parameters) -> Batches:
        """Restart all episodes; the environment has its own random numbers."""
        self._parameters = parameters
        return self._advance("reset")

    def step(self, actions: Actions) -> Batches:
        """Step all agents; those without actions get zeros."""
        env = self._running_env()
        for name, spec in self._specs.items():
            waiting = len(env.get_steps(name)[0])
            continuous, discrete = actions.get(name, (None, None))
            given = (
                spec.action_spec.empty_action(waiting)
                if continuous is None
                else ActionTuple(continuous, discrete)
            )
            env.set_actions(name, given)
        return self._advance("step")

    def over(self) -> bool:
        """Whether the game cannot continue."""
        return self._fault is not None

    def statistics(self) -> Sequence[Statistic]:
        """The environment's statistics, if it has any."""
        report = getattr(self._env, "statistics", None)
        if report is None or self._fault is not None:
            return ()
        try:
            return [(key, value, how) for key, values in report().items() for value, how in values]
        except EnvContractError as error:
            self._report(error)
            return ()

    def side_channels(self) -> Sequence[SideChannel]:
        """The channel of the reports."""
        return [self._reports]

    def close(self) -> None:
        """Close the environment, if it was made."""
        if self._env is not None:
            self._env.close()

    def _running_env(self) -> BaseEnv:
        if self._fault is not None:
            raise self._fault
        assert self._env is not None, "prepare() comes first"
        return self._env

    def _advance(self, method: str) -> Batches:
        fatal = EnvContractError if self._specs else UnityException  # at first a restart would not help
        try:
            self._pass_parameters()
            WATCH.call(getattr(self._running_env(), method), f"{method} of {self._source.path}")
            self._update_specs()
        except fatal as error:
            self._report(error)
        return self._batches()

    def _pass_parameters(self) -> None:
        """Let the environment take what the trainer has set since the last call.

        Raises:
            UnityException: It does not take it.
        """
        if self._parameters.revision == self._revision:
            return
        self._revision = self._parameters.revision
        env = self._running_env()
        setter = getattr(env, "set_parameters", None)
        if setter is None:
            names = ", ".join(self._parameters.values)
            raise EnvContractError(f"{self._source.path} takes no environment parameters ({names}).")
        setter(self._parameters.values)

    def _lost_lives(self, name: str, lost_lives: Callable[[str], NDArray[np.int32]]) -> None:
        """Report those of a behavior's agents."""
        try:
            self._reports.lives(name, lost_lives(name))
        except EnvContractError as error:
            self._report(error)

    def _report(self, error: UnityException) -> None:
        if self._fault is None:
            logger.error("The game cannot continue.", exc_info=error)
            self._fault = error if isinstance(error, EnvContractError) else EnvContractError(str(error))
            self._reports.fault(str(error).removesuffix(HINT))

    def _update_specs(self) -> None:
        """Read the behaviors.

        Raises:
            EnvContractError: One of them would change in the protocol.
        """
        specs = self._running_env().behavior_specs
        if len(specs) == len(self._specs):
            return
        for name, spec in specs.items():
            for sensor in spec.observation_specs:
                if not survives(sensor):
                    raise EnvContractError(
                        f"{self._source.path} cannot be hosted: behavior {name!r}, observation "
                        f"{sensor.name!r} of the shape {sensor.shape} would be taken for an image whose "
                        "channels come last. Give it the dimension properties NONE, "
                        "TRANSLATIONAL_EQUIVARIANCE, TRANSLATIONAL_EQUIVARIANCE, or leave --env-workers out."
                    )
        self._specs = dict(specs)

    def _batches(self) -> Batches:
        if self._fault is not None or self._env is None:
            return {}
        lost_lives = getattr(self._env, "lost_lives", None)
        batches = {}
        for name, spec in self._specs.items():
            decisions, terminals = self._env.get_steps(name)
            if len(decisions) or len(terminals):
                batches[name] = batch(decisions, terminals, spec)
            if lost_lives is not None:
                self._lost_lives(name, lost_lives)
        return batches


def batch(decisions: DecisionSteps, terminals: TerminalSteps, spec: BehaviorSpec) -> AgentBatch:
    """One behavior's agents as an engine sends them, those whose episode has ended first."""
    ended, requesting = len(terminals), len(decisions)
    mask = None
    if decisions.action_mask is not None and spec.action_spec.discrete_branches:
        mask = np.zeros((ended + requesting, sum(spec.action_spec.discrete_branches)), np.bool_)
        mask[ended:] = np.concatenate(decisions.action_mask, axis=1)
    done = np.zeros(ended + requesting, np.bool_)
    done[:ended] = True
    interrupted = np.zeros(ended + requesting, np.bool_)
    interrupted[:ended] = terminals.interrupted
    return AgentBatch(
        [_concatenate(pair) for pair in zip(terminals.obs, decisions.obs)],
        np.concatenate((terminals.reward, decisions.reward), dtype=np.float32),
        done,
        interrupted,
        np.concatenate((terminals.agent_id, decisions.agent_id), dtype=np.int32),
        np.concatenate((terminals.group_id, decisions.group_id), dtype=np.int32),
        np.concatenate((terminals.group_reward, decisions.group_reward), dtype=np.float32),
        mask,
    )


def _concatenate(pair: tuple[NDArray[Any], NDArray[Any]]) -> NDArray[Any]:
    """Concatenate both; an empty one must not determine the dtype."""
    ended, requesting = pair
    if not len(ended):
        return requesting
    return np.concatenate(pair) if len(requesting) else ended
