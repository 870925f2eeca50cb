"""Recurrent states of critics: within trajectories, and from one to the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....agent_processor.sequences import pad_sequences
from ....agent_processor.trajectory import AgentKey, Rollout
from ...buffers.rollout_buffer import EvaluatedSteps
from ...networks.modules.memory import Memory

Ints = NDArray[np.int64]


class CriticStates:
    """The critic's state after the last evaluated step of each living agent.

    ML-Agents keeps one state for all agents together; each has its own here, for its own episode.
    """

    def __init__(self, size: int) -> None:
        """`size`: of an agent's state."""
        self.size = size
        self._states: dict[AgentKey, NDArray[np.float32]] = {}

    def __len__(self) -> int:
        return len(self._states)

    def read(self, agents: Sequence[AgentKey]) -> NDArray[np.float32]:
        """[n, size]; zeros for unknown agents."""
        states = np.zeros((len(agents), self.size), np.float32)
        for row, agent in zip(states, agents):
            known = self._states.get(agent)
            if known is not None:
                row[:] = known
        return states

    def write(
        self, agents: Sequence[AgentKey], states: NDArray[np.float32], ended: NDArray[np.bool_]
    ) -> None:
        """Store the states [n, size] of these agents; drop those whose episodes have `ended` [n]."""
        for agent, state, is_over in zip(agents, states, ended.tolist()):
            if is_over:
                self._states.pop(agent, None)
            else:
                self._states[agent] = state.copy()

    def reset_agents(self, env: int | None = None, agent_ids: NDArray[np.int32] | None = None) -> None:
        """Drop the states of agents whose unfinished episodes will never end.

        Args:
            env: of this environment alone; None: of all.
            agent_ids: [n] these agents of it; None: all.
        """
        if env is None:
            self._states.clear()
            return
        if agent_ids is None:
            gone = [agent for agent in self._states if agent.env == env]
        else:
            gone = [AgentKey(env, agent) for agent in agent_ids.tolist()]
        for agent in gone:
            self._states.pop(agent, None)


@dataclass(frozen=True, slots=True)
class MemoryOutputs:
    """The outputs of a memory for a rollout's trajectories."""

    steps: Tensor
    """[steps, output_size], at each of the trajectories' own steps."""
    following: Tensor | None
    """[J, output_size], at what follows each trajectory."""
    starts: NDArray[np.float32]
    """[sequences, size]: the state before each sequence, as `pad_sequences` cuts the trajectories."""


@torch.no_grad()
def unroll(
    memory: Memory,
    memories: CriticStates,
    rollout: Rollout,
    sequence_length: int,
    steps: Tensor,
    following: Tensor | None = None,
) -> MemoryOutputs:
    """Apply a memory to a rollout, each trajectory from the state in which its agent's last one ended.

    Args:
        memory: a critic's.
        memories: the stored states; those of living agents are updated.
        rollout: J trajectories, an agent's in their order in time.
        sequence_length: of the sequences into which trajectories are cut for learning.
        steps: [steps, input size], encodings of the trajectories' own steps.
        following: [J, input size], of the next step of each trajectory. No state is stored of these.
    """
    lengths = rollout.lengths
    first_step, sequences = np.cumsum(lengths) - lengths, -(-lengths // sequence_length)
    first_sequence = np.cumsum(sequences) - sequences
    outputs = steps.new_empty(len(steps), memory.output_size)
    next_outputs = None if following is None else steps.new_empty(len(following), memory.output_size)
    starts = np.empty((int(sequences.sum()), memory.size), np.float32)
    starts_episode = _starts_episode(rollout, first_step)
    for wave in waves(rollout.agents):
        agents = [rollout.agents[j] for j in wave.tolist()]
        states = memories.read(agents)
        states[starts_episode[wave]] = 0.0
        state = torch.from_numpy(states).to(steps.device)
        for block in range(int(sequences[wave].max())):
            going = np.flatnonzero(sequences[wave] > block)
            which = wave[going]
            counts = np.minimum(lengths[which] - block * sequence_length, sequence_length)
            rows = _rows(first_step[which] + block * sequence_length, counts).to(steps.device)
            which_states = torch.from_numpy(going).to(steps.device)
            before = state[which_states]
            starts[first_sequence[which] + block] = before.cpu().numpy()
            outputs[rows], state[which_states] = memory.ragged(steps[rows], before, counts.tolist())
        if following is not None and next_outputs is not None:
            ends = torch.from_numpy(wave).to(steps.device)
            next_outputs[ends] = memory(following[ends], state, 1)[0]
        memories.write(agents, state.cpu().numpy(), rollout.done_reached[wave])
    return MemoryOutputs(outputs, next_outputs, starts)


def waves(agents: Sequence[AgentKey]) -> list[Ints]:
    """Trajectories that can be processed together: every agent's first, then every agent's second, ..."""
    seen: dict[AgentKey, int] = {}
    turns = []
    for agent in agents:
        turns.append(seen.get(agent, 0))
        seen[agent] = turns[-1] + 1
    order = np.array(turns, dtype=np.int64)
    return [np.flatnonzero(order == turn) for turn in range(max(turns, default=-1) + 1)]


def first_of_sequences(rollout: Rollout, sequence_length: int) -> Ints:
    """The row of each sequence's first step, as `pad_sequences` cuts the trajectories."""
    sequences = -(-rollout.lengths // sequence_length)
    within = np.arange(int(sequences.sum())) - np.repeat(np.cumsum(sequences) - sequences, sequences)
    first_step = np.cumsum(rollout.lengths) - rollout.lengths
    rows: Ints = np.repeat(first_step, sequences) + within * sequence_length
    return rows


def padded(
    steps: EvaluatedSteps, rollout: Rollout, sequence_length: int, critic_memory: NDArray[np.float32]
) -> EvaluatedSteps:
    """The steps of a rollout as whole sequences, with the states before these.

    Padding is zeros, and repeats the last step's action mask: what is not allowed there would be an action
    without any choice.
    """
    assert rollout.memory is not None
    sequences = pad_sequences(rollout.lengths, sequence_length)
    mask = steps.action_mask
    return replace(
        steps,
        obs=[sequences.column(o) for o in steps.obs],
        continuous=sequences.column(steps.continuous),
        discrete=sequences.column(steps.discrete),
        log_probs=sequences.column(steps.log_probs),
        action_mask=None if mask is None else sequences.column(mask, repeat_last=True),
        values=sequences.column(steps.values),
        returns=sequences.column(steps.returns),
        advantages=sequences.column(steps.advantages),
        real=sequences.real,
        memory=rollout.memory[first_of_sequences(rollout, sequence_length)],
        critic_memory=critic_memory,
    )


def _starts_episode(rollout: Rollout, first_step: Ints) -> NDArray[np.bool_]:
    """[J] the trajectories that start an episode, as far as the rollout shows.

    An actor's state is zeros at an episode's first step and nowhere else. An engine that was reset may reuse
    the id of an agent whose episode never ended.
    """
    if rollout.memory is None:
        return np.zeros(len(first_step), np.bool_)
    starts: NDArray[np.bool_] = (rollout.memory[first_step] == 0.0).all(axis=1)
    return starts


def _rows(starts: Ints, counts: Ints) -> Tensor:
    """The rows of concatenated runs of `counts` rows that start at `starts`."""
    offsets = np.repeat(starts - (np.cumsum(counts) - counts), counts)
    return torch.from_numpy(offsets + np.arange(int(counts.sum())))
