"""What trajectories must hold, written the plain way: one agent at a time, dictionaries, no arrays.

Slow and obvious. `ReferenceQuirks` switches on what ML-Agents 1.1.0 does and Lanista does not.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

Key = tuple[int, int]
Steps = dict[str, Any]
"""A batch as in the reference data: agent_id, obs, reward, group_id, ..., action_mask or interrupted."""


@dataclass
class ReferenceQuirks:
    forced_reset_keeps: bool = False
    """A forced reset forgets only agents that have finished a step, and no group's status (pitfalls B2)."""
    shared_previous_action: bool = False
    """The previous action of every agent of a batch is that of the batch's first agent (pitfalls C12)."""
    mates_from_first_finish: bool = False
    """An agent counts as a teammate once it has finished a step, not from its first decision."""


@dataclass
class _Agent:
    obs: list[Any] | None = None
    """Of the last decision step, with its mask and place in the batch."""
    mask: Any = None
    row: int = 0
    outputs: Steps | None = None
    memory: Any = None
    """[input to the last decision, output of it]."""
    prev_action: Any = None
    experiences: list[dict[str, Any]] = field(default_factory=list)
    has_finished: bool = False
    ongoing: int = 0


class PlainProcessor:
    def __init__(self, horizon: int, memory_size: int, branches: int, quirks: ReferenceQuirks | None = None):
        self.horizon = horizon
        self.memory_size = memory_size
        self.branches = branches
        self.quirks = quirks or ReferenceQuirks()
        self.agents: dict[Key, _Agent] = {}
        self.status: dict[Key, dict[Key, dict[str, Any]]] = {}
        self.current: dict[Key, dict[Key, Any]] = {}
        self.pending: dict[Key, dict[Key, Any]] = {}
        """By group, what agents observe that have not finished a step in it."""
        self.trajectories: list[dict[str, Any]] = []
        self.stats: list[list[Any]] = []

    def step(self, env: int, decided: Steps | None, decisions: Steps, terminals: Steps) -> None:
        if decided is not None:
            for entropy in decided.get("entropy", []):
                self.stats.append(["Policy/Entropy", entropy, "AVERAGE"])
            self._act(env, decided)
        for agent in terminals["agent_id"]:
            self._discard_pending((env, agent))
        for batch, ends in ((terminals, True), (decisions, False)):
            for i in self._rows(batch, ends):
                self._note_status(env, batch, i, ends)
            for i in self._rows(batch, ends):
                self._process(env, batch, i, ends)
        for agent in terminals["agent_id"]:
            self._leave_groups((env, agent))
        for i in range(len(decisions["agent_id"])):
            self._await_first_step(env, decisions, i)
        if decided is not None and self.quirks.shared_previous_action:
            self._share_previous_action(env, decided)

    @staticmethod
    def _rows(batch: Steps, ends: bool) -> list[int]:
        """Every entry; of an id that ends twice, the first."""
        ids = list(batch["agent_id"])
        return [i for i, agent in enumerate(ids) if not ends or ids.index(agent) == i]

    def _act(self, env: int, decided: Steps) -> None:
        for i, agent in enumerate(decided["agent_ids"]):
            known = self.agents.get((env, agent))
            if known is not None and known.obs is not None:
                known.outputs = decided
                if self.memory_size:
                    before = known.memory[1] if known.memory else np.zeros(self.memory_size)
                    known.memory = [before, decided["memory_out"][i]]

    def _share_previous_action(self, env: int, decided: Steps) -> None:
        for agent in decided["agent_ids"]:
            known = self.agents.get((env, agent))
            if known is not None:
                known.prev_action = decided["discrete"][0]

    def _note_status(self, env: int, batch: Steps, i: int, ends: bool) -> None:
        key = (env, batch["agent_id"][i])
        agent = self.agents.get(key)
        group = (env, batch["group_id"][i])
        if agent is None or agent.obs is None or agent.outputs is None or group[1] <= 0:
            return
        self.status.setdefault(group, {})[key] = {
            "obs": agent.obs,
            "reward": batch["reward"][i],
            "action": self._action(agent),
            "done": ends,
        }
        self.current.setdefault(group, {})[key] = [obs[i] for obs in batch["obs"]]

    @staticmethod
    def _action(agent: _Agent) -> dict[str, Any]:
        assert agent.outputs is not None
        return {kind: agent.outputs[kind][agent.row] for kind in ("continuous", "discrete")}

    def _process(self, env: int, batch: Steps, i: int, ends: bool) -> None:
        key = (env, batch["agent_id"][i])
        agent = self.agents.get(key)
        before = None
        if agent is not None and agent.obs is not None and agent.outputs is not None:
            before = (agent.obs, agent.mask, self._action(agent), agent.row)
        if not ends:
            agent = self.agents.setdefault(key, _Agent())
            agent.obs, agent.row = [obs[i] for obs in batch["obs"]], i
            mask = batch["action_mask"]
            agent.mask = None if mask is None else [branch[i] for branch in mask]
        if before is not None:
            assert agent is not None
            self._append(key, agent, before, batch, i, ends)
        if not ends and not self.quirks.forced_reset_keeps:
            assert agent is not None
            agent.outputs = None  # answered only by a new decision
        if ends and (before is not None or not self.quirks.forced_reset_keeps):
            self.agents.pop(key, None)

    def _append(self, key: Key, agent: _Agent, before: Any, batch: Steps, i: int, ends: bool) -> None:
        obs, mask, action, row = before
        group = (key[0], batch["group_id"][i])
        assert agent.outputs is not None
        mates = [status for mate, status in self.status.get(group, {}).items() if mate != key]
        agent.experiences.append(
            {
                "obs": obs,
                "reward": batch["reward"][i],
                "group_reward": batch["group_reward"][i],
                "done": ends,
                "interrupted": bool(batch["interrupted"][i]) if ends else False,
                "action": action,
                "log_probs": {
                    kind: agent.outputs[f"log_probs_{kind}"][row] for kind in ("continuous", "discrete")
                },
                "prev_action": [0] * self.branches if agent.prev_action is None else agent.prev_action,
                "action_mask": mask,
                "memory": (agent.memory[0] if agent.memory else np.zeros(self.memory_size))
                if self.memory_size
                else None,
                "group_status": mates,
            }
        )
        if not self.quirks.shared_previous_action:
            agent.prev_action = action["discrete"]
        agent.has_finished = True
        agent.ongoing += not ends
        if ends or len(agent.experiences) >= self.horizon:
            all_over = all(mate["done"] for mate in mates)
            pending = self._pending_of(group) if ends and all_over else []
            self.trajectories.append(
                {
                    "agent_id": f"agent_{key[0]}-{key[1]}",
                    "next_obs": [obs[i] for obs in batch["obs"]],
                    "next_group_obs": [o for mate, o in self.current.get(group, {}).items() if mate != key]
                    + pending,
                    "done_reached": ends,
                    "all_group_dones_reached": all_over and not pending,
                    "interrupted": agent.experiences[-1]["interrupted"],
                    "steps": agent.experiences,
                }
            )
            agent.experiences = []
        if ends:
            self.stats.append(["Environment/Episode Length", agent.ongoing, "AVERAGE"])

    def _await_first_step(self, env: int, batch: Steps, i: int) -> None:
        """A member that has not finished a step in its group is pending from its first decision on."""
        key, group = (env, batch["agent_id"][i]), (env, batch["group_id"][i])
        is_pending = group[1] > 0 and key not in self.status.get(group, {})
        if not is_pending or key not in self.pending.get(group, {}):
            self._discard_pending(key)
        if is_pending:
            self.pending.setdefault(group, {})[key] = [obs[i] for obs in batch["obs"]]

    def _discard_pending(self, key: Key) -> None:
        for waiting in self.pending.values():
            waiting.pop(key, None)

    def _pending_of(self, group: Key) -> list[Any]:
        """What pending members observe that had decided before this message, and finish no step in it."""
        if self.quirks.mates_from_first_finish:
            return []
        status = self.status.get(group, {})
        return [obs for mate, obs in self.pending.get(group, {}).items() if mate not in status]

    def _leave_groups(self, key: Key) -> None:
        for table in (self.status, self.current):
            for group in list(table):
                table[group].pop(key, None)
                if not table[group]:
                    del table[group]

    def forget(self, key: Key) -> None:
        self.agents.pop(key, None)
        self._discard_pending(key)
        self._leave_groups(key)

    def end_episode(self, env: int | None = None) -> None:
        for key, agent in list(self.agents.items()):
            if env is not None and key[0] != env:
                continue
            if not self.quirks.forced_reset_keeps:
                self.forget(key)
            elif agent.has_finished:
                del self.agents[key]
