"""Assembles the steps of the environments into trajectories.

An agent's decision step begins a row, the policy's decision adds the action, and the agent's next step adds
the reward. An agent's rows up to the end of its episode or the time horizon form a trajectory. Batches are
processed as a whole; only agents that appear, end or are truncated are handled one by one.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
from mlagents_envs.base_env import BehaviorSpec, DecisionSteps, TerminalSteps
from numpy.typing import NDArray

from ..envs.base import Decision, EngineStatistics, StatsAggregationMethod
from .agent_table import NO_SLOTS, AgentTable, Slots
from .blocks import Rows
from .groups import GroupSlots, GroupTable, last_of_each
from .queues import AgentManagerQueue, StatsSink
from .rows import RowStore
from .trajectory import AgentKey, EpisodesDropped, Trajectory

logger = logging.getLogger(__name__)

AVERAGE = StatsAggregationMethod.AVERAGE
RESULT_TAGS = {
    *("Environment/Cumulative Reward", "Environment/Group Cumulative Reward", "Environment/Episode Length"),
    *("Is Training", "Policy/Entropy", "Self-play/ELO"),
}
"""The tags of training's own results, which no statistic of a game may falsify."""
_NO_ROWS: Rows = np.zeros(0, dtype=np.int64)

TrajectoryQueue = AgentManagerQueue[Trajectory | EpisodesDropped]

Place = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Each agent's group and its place in it; see `GroupTable`."""


class AgentProcessor:
    """Assembles the trajectories of one behavior's agents in all environments."""

    def __init__(
        self,
        behavior_id: str,
        spec: BehaviorSpec,
        max_trajectory_length: int,
        stats: StatsSink,
        memory_size: int = 0,
        places: int = 0,
        by_worker: bool = False,
    ) -> None:
        """`max_trajectory_length` is the time horizon; `memory_size` is 0 without recurrent networks.

        `places`: the number of places of the rosters that a centralized critic reads; 0 without rosters.
        `by_worker`: also report the episode lengths of each environment separately.
        """
        if max_trajectory_length < 1:
            raise ValueError(f"{behavior_id}: time_horizon is {max_trajectory_length}; it must be at least 1")
        self.behavior_id = behavior_id
        self._horizon = max_trajectory_length
        self._stats = stats
        self._memory_size = memory_size
        self._by_worker = by_worker
        self._queues: list[TrajectoryQueue] = []
        self._rows = RowStore(spec, memory_size, places=places)
        self._agents = AgentTable(spec.action_spec.discrete_size, memory_size, max_trajectory_length)
        self._groups = GroupTable()
        self._rosters = GroupSlots(behavior_id, places) if places else None
        self._snapshots_act = False
        """Whether any decision so far was a snapshot's."""
        self._ready: list[Trajectory] = []
        """Trajectories of the current step, which are published when the step is complete."""
        self._their_rosters: list[int] = []

    def publish_trajectory_queue(self, queue: TrajectoryQueue) -> None:
        """Put every finished trajectory on this queue, too."""
        self._queues.append(queue)

    def add_experiences(
        self,
        decisions: DecisionSteps,
        terminals: TerminalSteps,
        env: int,
        decided: Decision | None,
        lost_lives: NDArray[np.int32] | None = None,
    ) -> None:
        """Process one step of environment `env`.

        `decided` is the policy's decision for the previous decision steps of this environment; None if there
        was none. Terminal steps are processed before decision steps, so an id may end and start again in one
        step; if an id ends twice, the first end counts.
        `lost_lives`: ids among the decision steps; see `EnvironmentStep`.
        """
        if decided is not None:
            self._record_decisions(env, decided)
        ended = self._end_episodes(env, terminals) if len(terminals) else NO_SLOTS
        new = self._continue_episodes(env, decisions, lost_lives) if len(decisions) else None
        if self._ready or self._rosters is not None:
            self._publish()
        if len(ended):
            self._groups.remove(ended)
            gone = ended[self._agents.row[ended] < 0]
            if len(gone):
                self._agents.release(env, gone)
        if new is not None:  # after the ends: an id may end and start again in one step
            self._groups.add_pending(env, *new)
        if self._rows.needs_compaction:
            rosters = [] if self._rosters is None else [self._rosters.referenced_rows()]
            self._rows.compact([*self._agents.referenced_rows(), self._groups.referenced_rows(), *rosters])

    def _publish(self) -> None:
        """Put the trajectories that are ready on the queues."""
        if self._rosters is not None:
            rosters = np.array(self._their_rosters, dtype=np.int64)
            newest, whose = self._rosters.newest(rosters)
            agents = np.where(newest >= 0, self._agents.agent[whose], -1)
            for trajectory, rows, ids in zip(self._ready, newest, agents):
                if trajectory.life_lost:  # for learning, no member continues
                    rows, ids = np.full_like(rows, -1), np.full_like(ids, -1)
                trajectory.next_roster, trajectory.next_agents = rows, ids
                trajectory.blocks = self._rows.blocks
            self._rosters.settle()
            self._their_rosters = []
        ready, self._ready = self._ready, []
        for trajectory in ready:
            for queue in self._queues:
                queue.put(trajectory)

    def end_episode(self, env: int | None = None) -> None:
        """Forget the unfinished trajectories, memories and groups of one environment's agents, or of all."""
        agents = self._agents.of(env)
        for environment in np.unique(self._agents.env[agents]).tolist():
            self._reset(environment, agents[self._agents.env[agents] == environment])

    def reset_agents(self, env: int, agent_ids: NDArray[np.int32]) -> None:
        """Forget these agents as if their episodes had not started; unknown ids are ignored."""
        slots = np.unique(self._agents.find(env, np.asarray(agent_ids))[0])
        self._reset(env, slots[slots >= 0])

    def _reset(self, env: int, slots: Slots) -> None:
        if len(slots):
            self._groups.remove(slots)
            if self._rosters is not None:
                self._rosters.remove(slots)
                self._rosters.settle()
            self._agents.reset(slots)
            self._agents.release(env, slots)

    def memories(self, env: int, agent_ids: NDArray[np.int32]) -> NDArray[np.float32]:
        """The recurrent states [n, memory_size] for these agents' next decision, zeros at first."""
        slots, _ = self._agents.find(env, np.asarray(agent_ids))
        memory = self._agents.memory[slots]
        memory[slots < 0] = 0
        return memory

    def places(self, env: int, agent_ids: NDArray[np.int32]) -> NDArray[np.int64]:
        """The places [n] of these agents, which have sent decision steps, in their groups' rosters."""
        assert self._rosters is not None, "rosters are not used"
        return self._rosters.place_of(self._agents.find(env, np.asarray(agent_ids))[0])

    def _record_decisions(self, env: int, decided: Decision) -> None:
        """Record the policy's decisions for the agents that still wait for one."""
        if len(decided.entropy):
            self._stats.add_stats("Policy/Entropy", decided.entropy, AVERAGE)
        agents = self._agents
        slots, rows = agents.find(env, np.asarray(decided.agent_id))
        action, log_probs, memory = decided.action, decided.log_probs, decided.memory
        continuous, discrete = action.continuous, action.discrete
        if not isinstance(rows, range):  # some may have become void in the meantime
            known = slots >= 0
            slots, rows, log_probs = slots[known], rows[known], log_probs[known]
            continuous, discrete = continuous[known], discrete[known]
            memory = None if memory is None else memory[known]
        if not len(slots):
            return
        if decided.by_snapshot or self._snapshots_act:
            self._switch_policy(slots, decided.by_snapshot)
        self._rows.act(rows, continuous, discrete, log_probs, decided.exploration)
        agents.acted[slots] = True
        if discrete.shape[1]:
            agents.prev_discrete[slots] = discrete
        if self._memory_size:
            if memory is None:
                raise ValueError(
                    f"{self.behavior_id}: a decision without memory; expected {self._memory_size} per agent"
                )
            agents.memory[slots] = memory

    def _switch_policy(self, slots: Slots, by_snapshot: bool) -> None:
        """Cut trajectories before the first step that the other policy decided, so that each is of one."""
        agents = self._agents
        self._snapshots_act = True
        changed = slots[agents.by_snapshot[slots] != by_snapshot]
        cut = changed[agents.count[changed] > 0]
        if len(cut):
            place = self._groups.places(cut) if self._groups.any else None
            self._emit_truncated(cut, agents.count[cut], agents.row[cut], place)
            self._publish()
        agents.by_snapshot[changed] = by_snapshot

    def _end_episodes(self, env: int, terminals: TerminalSteps) -> Slots:
        """Finish and emit the trajectories of agents whose episodes end; returns these agents' slots."""
        agents = self._agents
        slots, _ = agents.find(env, np.asarray(terminals.agent_id))
        first = (
            np.sort(np.unique(slots, return_index=True)[1]) if len(slots) > 1 else np.zeros(1, dtype=np.intp)
        )
        first = first[slots[first] >= 0]
        acted = first[agents.acted[slots[first]]]
        if len(acted):
            memory = None
            if self._memory_size and self._rosters is not None:  # critics of others read it
                memory = np.where((slots >= 0)[:, None], agents.memory[slots], np.float32(0))
            next_rows = self._rows.begin(terminals.obs, len(slots), memory=memory).start + acted
            interrupted = np.asarray(terminals.interrupted)[acted]
            ending = slots[acted]
            rows = agents.row[ending]
            cut = np.flatnonzero(interrupted)
            if len(cut):  # engines send no masks with an end, and what is never allowed is never learned
                self._rows.repeat_masks(rows[cut], next_rows[cut])
            self._groups.discard_pending(slots[first])
            place, lengths, _ = self._finish_steps(
                env, ending, rows, terminals, acted, next_rows, interrupted
            )
            self._emit_trajectories(ending, lengths, next_rows, place, interrupted)
            totals = agents.earlier[ending] + lengths - 1
            self._stats.add_stats("Environment/Episode Length", totals, AVERAGE)
            if self._by_worker:
                self._stats.add_stats(f"Environment/Worker {env}/Episode Length", totals, AVERAGE)
        ended = slots[first]
        if self._rosters is not None:
            last = np.full(len(slots), -1, dtype=np.int64)
            if len(acted):
                last[acted] = np.where(interrupted, next_rows, -1)
            self._rosters.remove(ended, last[first])
        agents.reset(ended)
        return ended

    def _continue_episodes(
        self, env: int, decisions: DecisionSteps, lost_lives: NDArray[np.int32] | None = None
    ) -> tuple[Slots, NDArray[np.int32], Rows] | None:
        """Finish the previous steps, truncate at the time horizon, and begin new rows.

        Returns the slots, groups and rows of the agents that had not acted before; None if there are none, or
        no groups.
        """
        agents = self._agents
        slots, rows = agents.admit(env, np.asarray(decisions.agent_id))
        begun = self._rows.begin(
            decisions.obs,
            len(slots),
            decisions.action_mask,
            agents.memory[slots] if self._memory_size else None,
            agents.prev_discrete[slots] if agents.prev_discrete.shape[1] else None,
        )
        acted = agents.acted[slots]
        which: slice | NDArray[np.intp] = slice(None)
        going = slots
        if np.count_nonzero(acted) < len(slots):
            which = np.flatnonzero(acted)
            going = slots[which]
            rows = agents.row[going]
        if len(going):
            next_rows = np.arange(begun.start, begun.stop)[which]
            place, lengths, longest = self._finish_steps(env, going, rows, decisions, which, next_rows, None)
            lost = None if lost_lives is None else np.isin(agents.agent[going], lost_lives)
            if lost is not None or longest >= self._horizon:
                self._truncate(going, lengths, next_rows, place, lost)
        agents.begin(env, slots, begun)
        if self._rosters is not None:
            seated = self._rosters.seat(env, slots, np.asarray(decisions.group_id), begun)
            self._rows.seat(begun, seated)
        if len(going) == len(slots):
            return None
        new = np.flatnonzero(~acted)
        group_ids = np.asarray(decisions.group_id)[new]
        if not (self._groups.any or group_ids.any()):
            return None
        return slots[new], group_ids, np.arange(begun.start, begun.stop)[new]

    def _finish_steps(
        self,
        env: int,
        slots: Slots,
        rows: Rows | range,
        steps: DecisionSteps | TerminalSteps,
        which: slice | NDArray[np.intp],
        next_rows: Rows,
        interrupted: NDArray[np.bool_] | None,
    ) -> tuple[Place | None, NDArray[np.int64], int]:
        """Finish the agents' `rows` with entries `which` of `steps`, and append them to the trajectories.

        Returns the agents' places in their groups (None while there are no groups), the lengths of their
        trajectories, and the maximum of these.
        """
        numbers = self._agents.row[slots]
        place, teammates = None, None
        group_ids = np.asarray(steps.group_id)[which]
        if self._groups.any or np.count_nonzero(group_ids):
            place = self._groups.record(env, slots, group_ids, numbers, next_rows, interrupted is not None)
            teammates = self._groups.finished(*place)
        reward, group_reward = np.asarray(steps.reward)[which], np.asarray(steps.group_reward)[which]
        self._rows.finish(rows, reward, group_reward, teammates, interrupted)
        return place, *self._agents.follow(slots, numbers)

    def _truncate(
        self,
        slots: Slots,
        lengths: NDArray[np.int64],
        next_rows: Rows,
        place: Place | None,
        lost: NDArray[np.bool_] | None,
    ) -> None:
        """Emit trajectories of continuing episodes that reached the time horizon or `lost` a life."""
        over = lengths >= self._horizon
        if lost is not None:
            self._rows.end(self._agents.row[slots[lost]])
            over |= lost
        which = np.flatnonzero(over)
        if not len(which):
            return
        cut = slots[which]
        if place is not None:
            place = (place[0][which], place[1][which])
        self._emit_truncated(
            cut, lengths[which], next_rows[which], place, None if lost is None else lost[which]
        )

    def _emit_truncated(
        self,
        slots: Slots,
        lengths: NDArray[np.int64],
        next_rows: Rows,
        place: Place | None,
        lost: NDArray[np.bool_] | None = None,
    ) -> None:
        """Make the open trajectories of continuing episodes ready, and begin new ones."""
        self._emit_trajectories(slots, lengths, next_rows, place, None, lost)
        self._agents.earlier[slots] += lengths
        self._agents.count[slots] = 0

    def _emit_trajectories(
        self,
        slots: Slots,
        lengths: NDArray[np.int64],
        next_rows: Rows,
        place: Place | None,
        interrupted: NDArray[np.bool_] | None,
        lost: NDArray[np.bool_] | None = None,
    ) -> None:
        """Make the agents' open trajectories ready; `interrupted` is given when their episodes end.

        `lost`: the agents of continuing episodes that have lost a life.
        """
        agents, n = self._agents, len(slots)
        trails = agents.open_rows[slots, : lengths.max()]
        next_teammates: Sequence[Rows] = [_NO_ROWS] * n
        all_over = counted = [True] * n
        if place is not None:
            others = self._groups.current(*place)
            counts = (others >= 0).sum(axis=1).tolist()
            next_teammates = [rows[:count] for rows, count in zip(others, counts)]
            all_over, counted = self._groups.all_over(*place).tolist(), last_of_each(place[0])
            if interrupted is not None:  # pending members continue without the agent
                for i, pending in enumerate(self._groups.pending_rows(place[0]) or ()):
                    if pending and all_over[i]:
                        next_teammates[i] = np.append(next_teammates[i], pending)
                        all_over[i] = False
        ended = interrupted is not None
        was_interrupted = interrupted.tolist() if interrupted is not None else [False] * n
        lives = lost.tolist() if lost is not None else [False] * n
        envs, ids, by_snapshot = (of[slots].tolist() for of in (agents.env, agents.agent, agents.by_snapshot))
        ends, following = lengths.tolist(), next_rows.tolist()
        for i in range(n):
            trajectory = Trajectory(
                blocks=self._rows.blocks,
                behavior_id=self.behavior_id,
                agent=AgentKey(envs[i], ids[i]),
                rows=trails[i, : ends[i]],
                next_row=following[i],
                next_teammates=next_teammates[i],
                done_reached=ended or lives[i],
                interrupted=was_interrupted[i],
                all_group_dones_reached=all_over[i],
                life_lost=lives[i],
                counts_group=counted[i],
                by_snapshot=by_snapshot[i],
            )
            self._ready.append(trajectory)
        if self._rosters is not None:
            self._their_rosters += self._rosters.roster_of(slots).tolist()


class AgentManager(AgentProcessor):
    """An `AgentProcessor` with the queue of its trainer."""

    def __init__(
        self,
        behavior_id: str,
        spec: BehaviorSpec,
        max_trajectory_length: int,
        stats: StatsSink,
        memory_size: int = 0,
        max_queued: int = 0,
        trajectory_queue: TrajectoryQueue | None = None,
        places: int = 0,
        by_worker: bool = False,
    ) -> None:
        """Assemble trajectories for one trainer.

        Args:
            behavior_id, spec, max_trajectory_length, stats, memory_size, places, by_worker: as of
                `AgentProcessor`.
            max_queued: the bound of the trajectory queue, whose `put` then waits for the trainer; 0: none.
            trajectory_queue: a queue that several behaviors share, instead of a new one.
        """
        super().__init__(behavior_id, spec, max_trajectory_length, stats, memory_size, places, by_worker)
        if trajectory_queue is None:
            trajectory_queue = AgentManagerQueue(behavior_id, max_queued)
        self.trajectory_queue = trajectory_queue
        self._renamed: set[str] = set()
        """The game's statistics whose renaming has been told."""
        self.publish_trajectory_queue(self.trajectory_queue)

    def record_environment_stats(self, statistics: EngineStatistics, env: int) -> None:
        """Forward the engine's statistics; MOST_RECENT values only from environment 0."""
        for name, values in statistics.items():
            key = self._game_tag(name)
            for value, aggregation in values:
                if aggregation is not StatsAggregationMethod.MOST_RECENT:
                    self._stats.add_stat(key, value, aggregation)
                elif env == 0:
                    self._stats.set_stat(key, value)

    def _game_tag(self, name: str) -> str:
        """The tag of a game's statistic: its name, unless that is a tag of training's own results."""
        if name not in RESULT_TAGS:
            return name
        tag = f"Game/{name}"
        if name not in self._renamed:
            self._renamed.add(name)
            logger.warning(
                "The game reports a statistic named %s, as training's own result is: the game's values are "
                "written as %s.",
                name,
                tag,
            )
        return tag
