"""POCA beside ML-Agents 1.1.0, by the number of members of a team: one command, one table.

    tests/peer/install.sh .cache/peer
    python tests/benchmarks/teams.py [--members 3 8 20] [--rounds 3] [--steps 51200] [--again]

Both train the same processes of team_scene.py with the same YAML (256 units, batches of 1024, 3 epochs), one
after the other and in turns; figures are medians of the rounds, ratios medians of the ratios within a round.
Steps per second count from the first summary to the last. What docs/results/teams-speed.csv already holds is
not measured again without `--again`. Writes that file and docs/results/teams-speed.md.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import yaml
from results import BF16, LANISTA, PEER, THREADED, TRAINING, Results, write_page
from side_by_side import Case, parse_comparison, table, train_in_turns

AIMS = {3: 5, 8: 6, 20: 8}
SETTINGS = yaml.safe_load((Path(__file__).parent / "settings" / "poca_teams.yaml").read_text())


def case(members: int, steps: int) -> Case:
    return Case(
        *(TRAINING, members, "team", "Team", SETTINGS | {"max_steps": steps}),
        engine=["--members", str(members), "--agents", "96"],
        trainers=(LANISTA, PEER, BF16, THREADED),
        label=[str(members)],
        aims=dict.fromkeys((LANISTA, BF16, THREADED), AIMS[members]) if members in AIMS else {},
    )


def buffer_bytes(members: int, teams: int = 8, steps: int = 64) -> float:
    """What the update buffer of POCA keeps of one agent-step, in bytes, for an observation of 32 floats."""
    from lanista.agent_processor.processor import AgentManager
    from lanista.agent_processor.rollout import build_rollout
    from lanista.envs.base import Decision
    from lanista.trainers.algorithms.poca.steps import TeamSteps
    from mlagents_envs.base_env import ActionTuple, DecisionSteps, TerminalSteps
    from processor import SilentSink
    from team_scene import BEHAVIOR, SIZE, Teams

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
    flat = [a for c in columns if c is not None for a in (c if isinstance(c, list) else [c])]
    return sum(a.nbytes for a in flat) / whole.steps


def main() -> None:
    members = list(AIMS)
    given = parse_comparison(__doc__, LANISTA, BF16, THREADED, PEER, members=members, steps=51_200)
    results = Results(given.out / "teams-speed.csv")
    train_in_turns([case(n, given.steps) for n in given.members], given, results)
    known = results.agents(TRAINING, LANISTA)
    page = write_page(
        "teams-speed",
        given.out,
        table=table([case(n, given.steps) for n in known], results, "members:"),
        memory="\n".join(f"| {n} | {buffer_bytes(n):,.0f} |" for n in known),
        busy=results.conditions(),
    )
    print(page)


if __name__ == "__main__":
    main()
