"""Memory of a long run: does anything grow?

    python tests/benchmarks/memory.py [--areas 256] [--steps 2000000] [--every 100000] [--check]

Trains scene:ball3d in this process with checkpoints, models, curves and summaries on, and notes the memory
at every summary. `--check` exits with 1 when the least memory of the run's last quarter exceeds that of the
quarter before it by 1 % or more; `--out docs/results/memory.csv` keeps the figures for docs/results/speed.md.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import phases
import psutil
from results import table, write
from script_options import parse_options
from speed_tasks import ball

LIMIT = 0.01


@dataclass(frozen=True)
class Reading:
    """A line of memory.csv: the process's own memory at a summary."""

    agents: int
    step: int
    bytes: int


def train(areas: int, steps: int, every: int) -> list[Reading]:
    """The memory at every summary of a run."""
    readings: list[Reading] = []

    def on_summary(step: int) -> None:
        found = psutil.Process().memory_full_info()
        readings.append(Reading(areas, step, int(getattr(found, "uss", found.rss))))
        print(f"{step:>10,} steps  {readings[-1].bytes / 2**20:8.1f} MiB", file=sys.stderr)

    phases.after_summaries(on_summary)
    case = ball(areas)
    phases.train_here(replace(case, settings={**case.settings, "max_steps": steps, "summary_freq": every}))
    return readings


def growth(readings: list[Reading]) -> float:
    """By which part the least memory of the last quarter exceeds that of the quarter before it.

    By then everything has been allocated once; the least does not count what something takes for a while.
    """
    end = readings[-1].step
    before = min(reading.bytes for reading in readings if end / 2 < reading.step <= 3 * end / 4)
    last = min(reading.bytes for reading in readings if 3 * end / 4 < reading.step)
    return last / before - 1.0


def described(readings: list[Reading]) -> str:
    """The run as text and a table of all readings."""
    rows = [[f"{one.step:,}", f"{one.bytes / 2**20:.1f}"] for one in readings]
    text = (
        f"{readings[-1].step:,} agent-steps of {readings[0].agents} agents, with checkpoints, models and "
        "curves. The least memory of the last quarter differs from that of the quarter before it by "
        f"{100 * growth(readings):+.2f} %."
    )
    return f"{text}\n\n{table(['agent-steps:', 'memory of the process, MiB:'], rows)}"


def buffer_bytes(members: int, teams: int = 8, steps: int = 64) -> float:
    """What the update buffer of POCA keeps of one agent-step, in bytes, for an observation of 32 floats."""
    from lanista.agent_processor.processor import AgentManager
    from lanista.agent_processor.rollout import build_rollout
    from lanista.envs.base import Decision
    from lanista.trainers.algorithms.poca.minibatches import TeamSteps
    from light_scenes import BEHAVIOR, SIZE, Teams
    from mlagents_envs.base_env import ActionTuple, DecisionSteps, TerminalSteps
    from processor import SilentSink

    spec = Teams(members).specs()[BEHAVIOR]
    count = members * teams
    manager = AgentManager(BEHAVIOR, spec, steps, SilentSink())
    ids = np.arange(count, dtype=np.int32)
    groups = np.repeat(np.arange(1, teams + 1, dtype=np.int32), members)
    zeros = np.zeros(count, np.float32)
    action = ActionTuple(np.zeros((count, 0), np.float32), np.zeros((count, 1), np.int32))
    decided = None
    for _ in range(steps + 1):
        decisions = DecisionSteps([np.zeros((count, SIZE), np.float32)], zeros, ids, None, groups, zeros)
        manager.add_experiences(decisions, TerminalSteps.empty(spec), 0, decided)
        decided = Decision(ids, action, action, np.ones((count, 1), np.float32), zeros)
    whole = build_rollout(manager.trajectory_queue.drain())
    nothing = np.zeros((whole.steps, 1), np.float32)
    kept = TeamSteps.of(whole, nothing, nothing)
    columns = [getattr(kept, name) for name in TeamSteps.__dataclass_fields__]
    flat = [a for c in columns for a in (c if isinstance(c, list) else [c])]
    return sum(a.nbytes for a in flat if isinstance(a, np.ndarray)) / whole.steps


def team_buffers() -> str:
    """The same by the number of members, as a table."""
    lines = [[str(members), f"{buffer_bytes(members):,.0f}"] for members in (3, 8, 20)]
    return table(["members:", "bytes per agent-step:"], lines)


def main() -> None:
    given = parse_options(
        __doc__,
        areas=256,
        steps=2_000_000,
        every={"default": 100_000, "help": "agent-steps between two readings"},
        check=False,
        out={"default": None, "type": Path, "help": "keep the figures in this CSV, for speed.md"},
    )
    readings = train(given.areas, given.steps, given.every)
    print(described(readings))
    if given.out:
        write(given.out, Reading, readings)
    if given.check and growth(readings) >= LIMIT:
        sys.exit(1)


if __name__ == "__main__":
    main()
