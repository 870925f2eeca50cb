"""Acts: one forward pass for all agents of one behavior that wait for a decision."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from mlagents_envs.base_env import ActionTuple, BehaviorSpec, DecisionSteps
from numpy.typing import NDArray
from torch import Tensor

from ...envs.base import Decision
from ...envs.validation import all_finite
from ..networks.actor import ActingNetwork
from ..networks.fast.acting import RecurrentActor, actor_of
from ..networks.fast.sampling import ActionSampler, DrawnActions, Mask
from ..networks.modules.memory import PackedSequences
from ..networks.multi_actor import MultiActor
from .agent_states import AgentStates, BatchSource
from .exploration import uniform_actions

logger = logging.getLogger(__name__)


class ActContext(NamedTuple):
    """What decisions depend on besides the observations; each policy reads what it needs."""

    sources: Sequence[BatchSource] = ()
    """The environment and behavior id of each batch, by which agents with a state are recognized."""
    states: AgentStates | None = None
    """The recurrent states of the agents, read and replaced, where the network has a memory."""
    slots: Tensor | None = None
    """[n] int64, the agents' slots in their groups, batch by batch; for a `SlotPolicy`."""
    step: int = 0
    """The trainer's step, by which explorers follow their schedules."""
    exploration: float = 0.0
    """The share of the uniform distribution in discrete actions, see `ExploringDistribution`."""
    uniform: bool = False
    """Whether `uniform_actions` replace the policy's, whose recurrent states still follow what is seen."""


NO_CONTEXT = ActContext()


class Policy:
    """Acts for one behavior, by the weights of a network that it does not own.

    Sampling has a random stream of its own, so that a run with one seed repeats whatever else samples.
    """

    def __init__(
        self, network: ActingNetwork, spec: BehaviorSpec, seed: int, *, deterministic: bool = False
    ) -> None:
        self.network = network
        self.spec = spec
        self.deterministic = deterministic
        self.generator = torch.Generator().manual_seed(seed)
        self._actor = actor_of(network)
        self._recurrent = RecurrentActor(network) if network.memory_size else None
        self.sampler = ActionSampler(network.actions)
        self._has_branches = bool(spec.action_spec.discrete_size)
        self._warned = False

    def kind(self) -> tuple[object, ...] | None:
        """What policies have to share for `JointPolicies`; None: this one acts by itself."""
        sampled = None if self._recurrent is not None else self.sampler.kind
        return None if sampled is None else (sampled, self.deterministic)

    @torch.inference_mode()
    def act(self, batches: Sequence[DecisionSteps], context: ActContext = NO_CONTEXT) -> list[Decision]:
        """Decide for every agent of every batch (at least one agent in all); one Decision per batch.

        Raises:
            FloatingPointError: the network's output is not finite.
        """
        obs, agents = joined(batches)
        memory = None
        if context.states is not None:
            memory = torch.from_numpy(context.states.read(context.sources, batches))
        columns, memory = self.forward(obs, memory, context)
        states = None if memory is None else memory.numpy()
        if context.uniform:
            decision = self._decide_uniformly(batches, agents, states)
        else:
            decision = self._decide(batches, agents, columns, context, states)
        check_finite(decision, columns, ((self.spec, batch) for batch in batches))
        if states is not None and context.states is not None:
            context.states.store(context.sources, batches, states)
        return [decision] if len(batches) == 1 else split(decision, batches)

    def forward(
        self, obs: Sequence[Tensor], memory: Tensor | None, context: ActContext
    ) -> tuple[Tensor, Tensor | None]:
        """The columns of the action head, and the agents' new states; `obs`: [n, *shape] per sensor."""
        if self._recurrent is None:
            return self._actor(obs), None
        assert memory is not None, "a network with a memory needs the agents' states"
        return self._recurrent(obs, memory)

    def _decide(
        self,
        batches: Sequence[DecisionSteps],
        agents: NDArray[np.int32],
        columns: Tensor,
        context: ActContext,
        states: NDArray[np.float32] | None,
    ) -> Decision:
        """The actions of the n agents of all batches, from the columns of the action head.

        `states`: those that the agents have from now on, where the network has a memory.
        """
        exploration = 0.0 if self.deterministic else context.exploration
        generator = None if self.deterministic else self.generator
        drawn = self.sampler(columns, self.action_mask(batches, agents), generator, exploration)
        return decision_of(agents, drawn, states, exploration)

    def _decide_uniformly(
        self,
        batches: Sequence[DecisionSteps],
        agents: NDArray[np.int32],
        states: NDArray[np.float32] | None,
    ) -> Decision:
        """Random actions of the n agents of all batches, as before anything was learned."""
        forbidden = self.action_mask(batches, agents)
        drawn = uniform_actions(self.spec.action_spec, len(agents), forbidden, self.generator)
        discrete = drawn.discrete.astype(np.int32)
        # What is stored is what the policy would have sampled to send this.
        head = self.network.actions
        stored = drawn.continuous * np.float32(1.0 if head.squashed else head.action_range)
        return Decision(
            agent_id=agents,
            action=ActionTuple(stored, discrete),
            env_action=ActionTuple(drawn.continuous, discrete),
            log_probs=drawn.log_probs,
            entropy=drawn.entropy,
            memory=states,
        )

    def action_mask(self, batches: Sequence[DecisionSteps], agents: NDArray[np.int32]) -> Mask | None:
        """The mask [n, sum of branch sizes], True where engines forbid an action; None if none is forbidden.

        An agent whose actions are all forbidden in some branch takes a random one there, all being equally
        likely, or the first one if the policy is deterministic. That is what the logits of forbidden actions
        come to, in the engine too.
        """
        branches = self.spec.action_spec.discrete_branches
        if not branches or all(b.action_mask is None for b in batches):
            return None
        mask = np.concatenate(
            [
                np.zeros((len(b), sum(branches)), np.bool_)
                if b.action_mask is None
                else np.concatenate(b.action_mask, axis=1)
                for b in batches
            ]
        )
        if not mask.any():
            return None
        if not self._warned:
            self._warn_of_fully_masked_branches(mask, agents)
        return mask

    def _warn_of_fully_masked_branches(self, mask: NDArray[np.bool_], agents: NDArray[np.int32]) -> None:
        sizes = np.array(self.spec.action_spec.discrete_branches)
        masked = np.argwhere(np.logical_and.reduceat(mask, np.cumsum(sizes) - sizes, axis=1))
        if not len(masked):
            return
        self._warned = True
        row, branch = masked[0].tolist()
        logger.warning(
            "Agent %d: its action mask forbids all %d actions of branch %d. It takes %s there. Let the mask "
            "that the game gives with the agent's observations allow at least one. This warning is not "
            "repeated.",
            agents[row],
            sizes[branch],
            branch,
            "the first one" if self.deterministic else "a random one",
        )


def check_finite(
    decision: Decision, columns: Tensor, waiting: Iterable[tuple[BehaviorSpec, DecisionSteps]]
) -> None:
    """Raise FloatingPointError unless the columns of the action head, and what was drawn, are finite.

    `waiting`: each batch of agents with its behavior's spec; read for the message alone.
    """
    finite = all_finite(decision.action.continuous)
    if decision.action.discrete.shape[1]:  # the choice among logits would not show whether they are finite
        finite = finite and all_finite(columns.numpy())
    if not finite:
        raise FloatingPointError(
            "The policy's output is not a finite number. Its weights or the observations went out of range; "
            f"the greatest observation is {_greatest(waiting)}. Lower learning_rate, or set "
            "network_settings.normalize: true."
        )


def _greatest(waiting: Iterable[tuple[BehaviorSpec, DecisionSteps]]) -> str:
    """The observation that is farthest from zero, with its sensor and agent."""
    extremes = [
        (float(sizes.max()), sensor.name, int(batch.agent_id[int(sizes.argmax())]))
        for spec, batch in waiting
        for sensor, rows in zip(spec.observation_specs, batch.obs)
        if (sizes := np.abs(rows.reshape(len(rows), -1)).max(1, initial=0)).size
    ]
    size, name, agent = max(extremes)
    return f"{size:g}, of the sensor {name!r} of agent {agent}"


class SlotPolicy(Policy):
    """A `Policy` of a `MultiActor` whose actors differ; reads `ActContext.slots`."""

    def __init__(
        self, network: MultiActor, spec: BehaviorSpec, seed: int, *, deterministic: bool = False
    ) -> None:
        super().__init__(network.member(0), spec, seed, deterministic=deterministic)
        self.actors = network

    def kind(self) -> None:
        """Return None: the agents act by slot, so that the policy acts by itself."""
        return None

    def forward(
        self, obs: Sequence[Tensor], memory: Tensor | None, context: ActContext
    ) -> tuple[Tensor, Tensor | None]:
        """The columns of the action head, and the agents' new states, by the actors of the agents' slots."""
        assert context.slots is not None, "a SlotPolicy needs the agents' slots"
        runs = None if memory is None else PackedSequences([1] * len(memory), memory)
        return self.actors.logits(self.actors.prepare(obs), context.slots, runs)


def joined(batches: Sequence[DecisionSteps]) -> tuple[list[Tensor], NDArray[np.int32]]:
    """The observations [n, *shape] of all batches, by sensor, and their n agents."""
    first = batches[0]
    obs, agents = first.obs, np.asarray(first.agent_id)
    if len(batches) > 1:
        obs = [np.concatenate(columns) for columns in zip(*[batch.obs for batch in batches])]
        agents = np.concatenate([batch.agent_id for batch in batches])
    return list(map(torch.from_numpy, obs)), agents


def decision_of(
    agents: NDArray[np.int32], drawn: DrawnActions, states: NDArray[np.float32] | None, exploration: float
) -> Decision:
    """The Decision of what was drawn for these agents."""
    action = for_engine = ActionTuple(drawn.continuous, drawn.discrete)
    if drawn.for_engine is not drawn.continuous:
        for_engine = ActionTuple(drawn.for_engine, drawn.discrete)
    return Decision(
        agent_id=agents,
        action=action,
        env_action=for_engine,
        log_probs=drawn.log_probs,
        entropy=drawn.entropy,
        memory=states,
        exploration=exploration,
    )


def split(whole: Decision, batches: Sequence[DecisionSteps]) -> list[Decision]:
    """Split the whole Decision into one per batch."""
    decisions, start = [], 0
    for batch in batches:
        rows = slice(start, start + len(batch))
        decisions.append(
            Decision(
                whole.agent_id[rows],
                ActionTuple(whole.action.continuous[rows], whole.action.discrete[rows]),
                ActionTuple(whole.env_action.continuous[rows], whole.env_action.discrete[rows]),
                whole.log_probs[rows],
                whole.entropy[rows],
                None if whole.memory is None else whole.memory[rows],
                whole.exploration,
            )
        )
        start += len(batch)
    return decisions
