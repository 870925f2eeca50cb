"""Recurrent states of critics: within trajectories, and from one to the next."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....agent_processor.rollout import first_steps, pad_sequences, runs
from ....agent_processor.trajectory import AgentKey, Rollout
from ...buffers.rollout_buffer import PolicySteps
from ...networks.modules.memory import Memory

Ints = NDArray[np.int64]
Padded = TypeVar("Padded", bound=PolicySteps)


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
    first_step, sequences = first_steps(lengths), -(-lengths // sequence_length)
    first_sequence = first_steps(sequences)
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
            trajectories = wave[going]
            counts = np.minimum(lengths[trajectories] - block * sequence_length, sequence_length)
            row_numbers = runs(first_step[trajectories] + block * sequence_length, counts)
            rows = torch.from_numpy(row_numbers).to(steps.device)
            state_rows = torch.from_numpy(going).to(steps.device)
            before = state[state_rows]
            starts[first_sequence[trajectories] + block] = before.cpu().numpy()
            outputs[rows], state[state_rows] = memory.ragged(steps[rows], before, counts.tolist())
        if following is not None and next_outputs is not None:
            ends = torch.from_numpy(wave).to(steps.device)
            next_outputs[ends] = memory(following[ends], state, 1)[0]
        memories.write(agents, state.cpu().numpy(), rollout.episode_over[wave])
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
    within = np.arange(int(sequences.sum())) - np.repeat(first_steps(sequences), sequences)
    return np.repeat(first_steps(rollout.lengths), sequences) + within * sequence_length


def padded(
    steps: Padded,
    rollout: Rollout,
    sequence_length: int,
    repeated: Container[str],
    **states: NDArray[np.float32],
) -> Padded:
    """The steps of a rollout as whole sequences.

    Args:
        steps: of the rollout; columns of other rows than its own have names that start with `other_`.
        rollout: whose trajectories are padded, and whose actor's states before the sequences become `memory`.
        sequence_length: of the sequences.
        repeated: the columns in which padding repeats the last step; in all others it is zeros. Action masks
            must be among them: a row that allows nothing would be an action without any choice.
        states: further columns, [sequences, memory_size] each.
    """
    assert rollout.memory is not None
    sequences = pad_sequences(rollout.lengths, sequence_length)
    columns: dict[str, Any] = {**states}
    for name in [field.name for field in fields(steps) if not field.name.startswith("other_")]:
        column = getattr(steps, name)
        if isinstance(column, list):
            columns[name] = [sequences.column(one, name in repeated) for one in column]
        elif column is not None:
            columns[name] = sequences.column(column, name in repeated)
    memory = rollout.memory[first_of_sequences(rollout, sequence_length)]
    return replace(steps, **columns, real=sequences.real, memory=memory)


def _starts_episode(rollout: Rollout, first_step: Ints) -> NDArray[np.bool_]:
    """[J] the trajectories that start an episode, as far as the rollout shows.

    An actor's state is zeros at an episode's first step and nowhere else. An engine that was reset may reuse
    the id of an agent whose episode never ended.
    """
    if rollout.memory is None:
        return np.zeros(len(first_step), np.bool_)
    starts: NDArray[np.bool_] = (rollout.memory[first_step] == 0.0).all(axis=1)
    return starts
