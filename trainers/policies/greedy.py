"""Policies of greedy networks, which explore only in training; and checkpoints that act as brains do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from mlagents_envs.base_env import ActionTuple, BehaviorSpec, DecisionSteps
from numpy.typing import NDArray
from torch import Tensor

from ...envs.base import BehaviorId, Decision
from ..networks.actor import ActingNetwork
from .agent_states import AgentStates
from .exploration import ActionNoise, EpsilonGreedy, Explorer
from .policy import ActContext, Policy
from .state_dependent import StateDependentNoise, StateDependentPolicy

Floats = NDArray[np.float32]


class GreedyPolicy(Policy):
    """A `Policy` of an `Actor` with a greedy head.

    The actions of its decisions, from which trainers learn, are those that engines get.
    """

    def __init__(
        self,
        network: ActingNetwork,
        spec: BehaviorSpec,
        seed: int,
        *,
        deterministic: bool = False,
        explorer: Explorer | None = None,
    ) -> None:
        """`explorer`: how agents explore unless `deterministic`; None: they do not."""
        super().__init__(network, spec, seed, deterministic=deterministic)
        self.explorer = explorer

    def kind(self) -> None:
        """Nothing is drawn from a distribution."""
        return None

    def _decide(
        self,
        batches: Sequence[DecisionSteps],
        agents: NDArray[np.int32],
        columns: Tensor,
        context: ActContext,
        states: Floats | None,
    ) -> Decision:
        explorer = None if self.deterministic else self.explorer
        if not self._has_branches:
            continuous: Floats = torch.tanh(columns).numpy()
            if isinstance(explorer, ActionNoise):
                noise = explorer(context.sources, batches, context.step, self.generator)
                continuous = np.minimum(np.maximum(continuous + noise, -1.0), 1.0)
            actions = ActionTuple(continuous, np.zeros((len(agents), 0), np.int32))
        else:
            mask = self.action_mask(batches, agents)
            discrete = self.sampler.greatest(columns, mask)
            if isinstance(explorer, EpsilonGreedy):
                discrete = explorer(discrete, mask, context.step, self.generator)
            actions = ActionTuple(np.zeros((len(agents), 0), np.float32), discrete.astype(np.int32))
        width = actions.continuous.shape[1] + actions.discrete.shape[1]
        return Decision(
            agent_id=agents,
            action=actions,
            env_action=actions,
            log_probs=np.zeros((len(agents), width), np.float32),
            entropy=np.zeros(len(agents), np.float32),
            memory=states,
        )


def make_actor_policy(
    network: ActingNetwork,
    spec: BehaviorSpec,
    seed: int,
    *,
    deterministic: bool = False,
    explorer: Explorer | StateDependentNoise | None = None,
) -> Policy:
    """The policy of a network, by its head: a `GreedyPolicy`, a `StateDependentPolicy` or neither."""
    if network.actions.greedy:
        assert not isinstance(explorer, StateDependentNoise)
        return GreedyPolicy(network, spec, seed, deterministic=deterministic, explorer=explorer)
    if network.actions.exploration is not None:
        assert explorer is None or isinstance(explorer, StateDependentNoise)
        return StateDependentPolicy(network, spec, seed, deterministic=deterministic, noise=explorer)
    return Policy(network, spec, seed, deterministic=deterministic)


def _rest(steps: DecisionSteps) -> tuple[object, ...]:
    """What `DecisionSteps` takes after the observations."""
    return steps.reward, steps.agent_id, steps.action_mask, steps.group_id, steps.group_reward


class CheckpointPolicy:
    """The network of a checkpoint as a `PlayablePolicy`."""

    has_deterministic = True

    def __init__(self, network: ActingNetwork, seed: int | None) -> None:
        """`seed`: of sampled actions; None: a different one each time."""
        chosen = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed
        spec = network.spec
        self._policy = make_actor_policy(network.requires_grad_(False), spec, chosen)
        self._states = AgentStates(network.memory_size) if network.memory_size else None
        self.continuous_size = int(spec.action_spec.continuous_size)
        self.branches = tuple(int(size) for size in spec.action_spec.discrete_branches)
        self.memory_size = network.memory_size
        self.observations: dict[int, tuple[int | None, ...]] = {
            index: tuple(observation.shape) for index, observation in enumerate(spec.observation_specs)
        }

    def act(
        self, steps: DecisionSteps, deterministic: bool = False, behavior_id: BehaviorId = ""
    ) -> ActionTuple:
        """Decide for the n agents of `steps`; with a memory, each agent's state is read and replaced."""
        self._policy.deterministic = deterministic
        if len(steps.obs) > len(self.observations):  # sensors that the agents got after its training
            steps = DecisionSteps(steps.obs[: len(self.observations)], *_rest(steps))
        (decision,) = self._policy.act([steps], ActContext([(0, behavior_id)], self._states))
        return decision.env_action

    def reset_agents(self, agent_ids: NDArray[np.int32], behavior_id: BehaviorId = "") -> None:
        """Drop the states of agents whose episodes have ended."""
        if self._states is not None:
            self._states.drop((0, behavior_id), agent_ids)
