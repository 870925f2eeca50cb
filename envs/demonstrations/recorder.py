"""Records what the agents of any environment see and do, in files that Unity and ML-Agents read too."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from os.path import lexists
from pathlib import Path
from types import TracebackType

import numpy as np
from mlagents_envs.base_env import ActionTuple, BehaviorSpec, DecisionSteps, TerminalSteps
from numpy.typing import NDArray

from ..base import BehaviorName, ObsArray
from ..images import BYTES, as_bytes
from ..protocol.engine import AgentBatch, AgentWriter, Observed
from ..protocol.layout import FLOAT, Piece, RowWriter
from ..protocol.messages import ActionSpecProto, BrainParametersProto, DemonstrationMetaProto
from ..protocol.wire_format import encode_varint as varint
from ..protocol.wire_format import head, records, varints, width
from .demonstration import SUFFIX
from .format import HEADER

VERSION = 1
MAX_NAME = 16
"""The length to which Unity's recorder truncates names, as they must fit into the header with the rest."""


class DemonstrationWriter:
    """Writes one file, episode by episode.

    The metadata are written on close. Until then they are empty, which readers take for a file of unknown
    length: the file of a process that was killed is readable.
    """

    def __init__(self, path: str | Path, behavior: str, spec: BehaviorSpec, name: str | None = None) -> None:
        """Start a new file.

        Args:
            path: The file, which must not exist; its folder is created.
            behavior: The behavior's full name, such as `3DBall?team=0`.
            spec: The behavior's specification.
            name: The demonstration's name, by default the file's. It is truncated to fit into the header.

        Raises:
            FileExistsError: The file exists.
            OSError: It cannot be written.
        """
        self.path = Path(path)
        self.spec = spec
        self.name = name or self.path.stem
        self.steps = 0
        self.episodes = 0
        self.total_reward = 0.0
        self._agents = AgentWriter(behavior, spec)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("xb")
        self._file.write(bytes(HEADER) + _delimited(_brain(behavior, spec)))

    def __enter__(self) -> DemonstrationWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def write(self, agents: AgentBatch, action: ActionTuple) -> None:
        """Append pairs, usually one agent's episode, in the order of its decisions.

        Args:
            agents: The reports [n], with `done` in an episode's last pair. Images of bytes become PNG.
            action: The actions that followed, [n], as sent to the engine.

        Raises:
            ValueError: An array has the wrong shape.
            OSError: The disk is full.
        """
        self._file.write(encode_pairs(self._agents, agents, action))
        self._file.flush()
        self.steps += len(agents.agent_id)
        self.episodes += int(np.count_nonzero(agents.done))
        self.total_reward += float(agents.reward.sum(dtype=np.float64))

    def close(self) -> None:
        """Write the metadata and close the file; does nothing if it is closed."""
        if self._file.closed:
            return
        with self._file:
            self._file.seek(0)
            self._file.write(_header(self.name, self.steps, self.episodes, self.total_reward))


def encode_pairs(writer: AgentWriter, agents: AgentBatch, action: ActionTuple) -> bytes:
    """Encode pairs, each preceded by its length.

    Raises:
        ValueError: An array has the wrong shape.
    """
    count = len(agents.agent_id)
    shapes = (len(action.continuous), len(action.discrete))
    if shapes != (count, count):
        raise ValueError(f"{count} reports with {shapes[0]} continuous and {shapes[1]} discrete actions.")
    reports = writer.write(agents)
    starts, lengths = records(reports, 0, len(reports))
    actions = _encode_actions(action)
    parts = []
    at = 0
    for start, length, row in zip(starts.tolist(), lengths.tolist(), actions):
        report = reports[at : start + length]  # with its tag and length: field 1 of a list, and of a pair
        at = start + length
        parts += [varint(len(report) + len(row)), report, row]
    return b"".join(parts)


def encode_meta(name: str, steps: int, episodes: int, mean_reward: float) -> bytes:
    """Encode metadata, with the name truncated to fit into the header."""
    name = re.sub(r"[^a-zA-Z0-9 -]", "", name)[:MAX_NAME]
    while True:
        meta = DemonstrationMetaProto(
            api_version=VERSION,
            demonstration_name=name,
            number_steps=steps,
            number_episodes=episodes,
            mean_reward=mean_reward,
        )
        data: bytes = _delimited(meta.SerializeToString())
        if len(data) <= HEADER:
            return data
        name = name[:-1]


def _header(name: str, steps: int, episodes: int, total_reward: float) -> bytes:
    return encode_meta(name, steps, episodes, total_reward / max(episodes, 1)).ljust(HEADER, b"\0")


def _delimited(content: bytes) -> bytes:
    return varint(len(content)) + content


def _brain(behavior: str, spec: BehaviorSpec) -> bytes:
    actions = spec.action_spec
    proto = ActionSpecProto(
        num_continuous_actions=actions.continuous_size,
        num_discrete_actions=actions.discrete_size,
        discrete_branch_sizes=actions.discrete_branches,
    )
    brain = BrainParametersProto(brain_name=behavior, is_training=True, action_spec=proto)
    data: bytes = brain.SerializeToString()
    return data


def _encode_actions(action: ActionTuple) -> list[bytes]:
    """Field 2 of each pair: the actions, also in the old field, where ML-Agents expects previous ones."""
    continuous = np.asarray(action.continuous, np.float32)
    discrete = np.asarray(action.discrete, np.int32)
    columns: dict[str, NDArray[np.generic]] = {
        "old": np.concatenate([continuous, discrete.astype(np.float32)], axis=1),
        "continuous": continuous,
        "discrete": varints(discrete, width(discrete)).reshape(len(discrete), -1),
    }
    pieces = [
        Piece(
            head(number, columns[name].shape[1] * columns[name].itemsize), name, dtype, columns[name].shape[1]
        )
        for number, name, dtype in (
            (1, "old", FLOAT),
            (6, "continuous", FLOAT),
            (7, "discrete", np.dtype(np.uint8)),
        )
        if columns[name].shape[1]
    ]
    size = sum(len(piece.head) + piece.count * piece.dtype.itemsize for piece in pieces)
    table = RowWriter(pieces, head(2, size)).write(len(continuous), columns).tobytes()
    step = len(table) // max(len(continuous), 1)
    return [table[at : at + step] for at in range(0, len(table), step)] if step else []


@dataclass(slots=True)
class _Episode:
    """An agent's pairs so far."""

    group_id: int
    obs: list[list[ObsArray]] = field(default_factory=list)
    """The observations, [pair][sensor]."""
    reward: list[float] = field(default_factory=list)
    group_reward: list[float] = field(default_factory=list)
    mask: list[NDArray[np.bool_]] = field(default_factory=list)
    continuous: list[NDArray[np.float32]] = field(default_factory=list)
    discrete: list[NDArray[np.int32]] = field(default_factory=list)

    def observe(self, steps: DecisionSteps | TerminalSteps, row: int) -> None:
        """Append the agent's observation and rewards."""
        self.obs.append([np.array(values[row]) for values in steps.obs])
        self.reward.append(float(steps.reward[row]))
        self.group_reward.append(float(steps.group_reward[row]))

    def act(
        self, continuous: NDArray[np.float32], discrete: NDArray[np.int32], mask: NDArray[np.bool_]
    ) -> None:
        """Append the agent's action and mask."""
        self.continuous.append(np.array(continuous))
        self.discrete.append(np.array(discrete))
        self.mask.append(mask)

    def end(self) -> None:
        """Complete the final pair: as in Unity's recordings, it repeats the last action, without a mask."""
        self.act(self.continuous[-1], self.discrete[-1], np.zeros_like(self.mask[-1]))


class DemonstrationRecorder:
    """Writes the finished episodes of each behavior to a file, `<folder>/<behavior>.demo`.

    If the file exists, the new one gets a number: nothing is overwritten. An episode is written when it ends;
    unfinished episodes are dropped when the recorder is closed, and by `reset`, which belongs with every
    reset of the environment.
    """

    def __init__(self, folder: str | Path, name: str | None = None) -> None:
        """`folder` is created with the first episode; `name` is the demonstrations', by default a file's."""
        self.folder = Path(folder)
        self.name = name
        self.writers: dict[str, DemonstrationWriter] = {}
        """The writers by the behaviors' full names."""
        self._episodes: dict[str, dict[int, _Episode]] = {}

    def __enter__(self) -> DemonstrationRecorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def paths(self) -> list[Path]:
        """The paths of the files so far."""
        return [writer.path for writer in self.writers.values()]

    def end(self, behavior: str, spec: BehaviorSpec, terminals: TerminalSteps) -> None:
        """Record the ends of episodes; call it before `act` of the same step.

        Raises:
            OSError: A file cannot be written.
        """
        running = self._episodes.get(behavior, {})
        for row, agent in enumerate(np.asarray(terminals.agent_id).tolist()):
            if agent in running:
                self._finish(behavior, spec, agent, terminals, row, bool(terminals.interrupted[row]))

    def act(
        self,
        behavior: str,
        spec: BehaviorSpec,
        decisions: DecisionSteps,
        action: ActionTuple,
        *,
        wanted: Collection[int] | None = None,
        cut: Collection[int] = (),
    ) -> None:
        """Record the agents' actions.

        Args:
            behavior: The behavior's full name.
            spec: The behavior's specification.
            decisions: The decision steps of n agents.
            action: Their actions [n], as sent to the engine.
            wanted: Agents whose episodes are recorded if they start now; None: all.
            cut: Agents whose episode counts as interrupted by this step, and restarts with it.

        Raises:
            OSError: A file cannot be written.
        """
        running = self._episodes.setdefault(behavior, {})
        masks = _flat_masks(spec, decisions)
        for row, agent in enumerate(np.asarray(decisions.agent_id).tolist()):
            if agent in running and agent in cut:
                self._finish(behavior, spec, agent, decisions, row, True)
            if agent not in running:
                if wanted is not None and agent not in wanted:
                    continue
                running[agent] = _Episode(int(decisions.group_id[row]))
            episode = running[agent]
            episode.observe(decisions, row)
            episode.act(action.continuous[row], action.discrete[row], masks[row])

    def reset(self) -> None:
        """Drop the unfinished episodes: the environment is reset, after which agents may keep their ids."""
        self._episodes.clear()

    def close(self) -> list[Path]:
        """Close all files; returns their paths."""
        for writer in self.writers.values():
            writer.close()
        self._episodes.clear()
        return self.paths

    def _finish(
        self,
        behavior: str,
        spec: BehaviorSpec,
        agent: int,
        steps: DecisionSteps | TerminalSteps,
        row: int,
        interrupted: bool,
    ) -> None:
        episode = self._episodes[behavior].pop(agent)
        episode.observe(steps, row)
        episode.end()
        if behavior not in self.writers:
            self.writers[behavior] = self._new_writer(behavior, spec)
        count = len(episode.reward)
        last = np.arange(count) == count - 1
        batch = AgentBatch(
            _stacked(episode.obs),
            np.array(episode.reward, np.float32),
            last,
            last & interrupted,
            np.full(count, agent, np.int32),
            np.full(count, episode.group_id, np.int32),
            np.array(episode.group_reward, np.float32),
            np.stack(episode.mask) if spec.action_spec.discrete_size else None,
        )
        action = ActionTuple(np.stack(episode.continuous), np.stack(episode.discrete))
        self.writers[behavior].write(batch, action)

    def _new_writer(self, behavior: str, spec: BehaviorSpec) -> DemonstrationWriter:
        while True:
            path = free_path(self.folder, behavior)
            try:
                return DemonstrationWriter(path, behavior, spec, self.name)
            except FileExistsError:
                if not lexists(path):  # its folder is a file
                    raise
                # Another recorder has just taken it.


def free_path(folder: Path, behavior: str) -> Path:
    """`<folder>/<behavior>.demo`, with the team's number unless it is 0; numbered if the file exists."""
    parsed = BehaviorName.parse(behavior)
    stem = re.sub(r"[^\w .-]", "-", parsed.name) + (f"-team{parsed.team_id}" if parsed.team_id else "")
    path, number = folder / f"{stem}{SUFFIX}", 0
    while lexists(path):  # a link that leads nowhere counts too
        number += 1
        path = folder / f"{stem}_{number}{SUFFIX}"
    return path


def _flat_masks(spec: BehaviorSpec, decisions: DecisionSteps) -> NDArray[np.bool_]:
    """The agents' masks [n, sum of branch sizes], True for actions that are not allowed."""
    if decisions.action_mask is None:
        return np.zeros((len(decisions), sum(spec.action_spec.discrete_branches)), np.bool_)
    return np.concatenate(decisions.action_mask, axis=1).astype(np.bool_)


def _stacked(obs: list[list[ObsArray]]) -> list[Observed]:
    """Stack to one array [n, *shape] per sensor; images that are bytes / 255 become these bytes, for PNG."""
    return [_smaller(np.stack(values)) for values in zip(*obs)]


def _smaller(column: ObsArray) -> Observed:
    if column.dtype == BYTES:
        return column.astype(np.uint8, copy=False)
    values = column.astype(np.float32, copy=False)
    # A grid of zeros and ones may have other values in the next episode.
    is_image = values.ndim == 4 and bool(((values > 0) & (values < 1)).any())
    pixels = as_bytes(values) if is_image else None
    return values if pixels is None else pixels
