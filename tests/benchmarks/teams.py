"""POCA beside ML-Agents 1.1.0, by the number of members of a team: one command, one table.

    tests/peer/install.sh .cache/peer
    python tests/benchmarks/teams.py [--members 3 8 20] [--rounds 3] [--steps 51200] [--again]

Both train the same processes of team_scene.py with the same YAML (256 units, batches of 1024, 3 epochs), one
after the other and in turns; figures are medians of the rounds, ratios medians of the ratios within a round.
Steps per second count from the first summary to the last. What docs/results/teams-speed.csv already holds is
not measured again without `--again`. Writes that file and docs/results/teams-speed.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import phases
import yaml
from results import BF16, LANISTA, PEER, THREADED, TRAINING, Results, Row, machine, median, median_ratio
from team_scene import executable
from training_run import measure

ROOT = Path(__file__).resolve().parents[2]
AGENTS = 96
AIMS = {3: 5, 8: 6, 20: 8}
PAGE = """# Speed and memory of teams

Written by `python tests/benchmarks/teams.py` from teams-speed.csv; every run in it is there.

Lanista's POCA and that of ML-Agents 1.1.0 train the same processes of a scene that costs next to nothing
(tests/benchmarks/team_scene.py: 96 agents in teams, 32 floats, one branch of 3) with the same YAML: 2 layers
of 256 units, `batch_size: 1024`, `buffer_size: 10240`, 3 epochs. In turns; medians, ratios within a round.
Rates and processor time count from the first summary to the last. "Threaded" is `threaded: true`, "bf16" is
`precision: bf16`; what learns with that is in [teams.md](teams.md). {machine}.

{table}

## Memory

What the update buffer keeps of one agent-step, of which 128 bytes are its observation: each row is kept once,
and teammates are row numbers, 8 bytes each.

| members | bytes per agent-step |
|---:|---:|
{memory}
"""
SETTINGS = {
    "trainer_type": "poca",
    "hyperparameters": {
        "batch_size": 1024,
        "buffer_size": 10240,
        "learning_rate": 3.0e-4,
        "learning_rate_schedule": "constant",
        "beta": 0.01,
        "epsilon": 0.2,
        "lambd": 0.95,
        "num_epoch": 3,
    },
    "network_settings": {"normalize": False, "hidden_units": 256, "num_layers": 2},
    "reward_signals": {"extrinsic": {"gamma": 0.99, "strength": 1.0}},
    "time_horizon": 64,
}


def command_of(trainer: str, given: argparse.Namespace) -> list[str]:
    if trainer == PEER:
        return [str(given.peer), "-W", "ignore", str(ROOT / "tests" / "peer" / "run_peer.py")]
    command = [sys.executable, "-m", "lanista.trainers.cli.main", "learn"]
    command += ["--set", "behaviors.Team.threaded=true"] * (trainer == THREADED)
    return command + ["--precision", "bf16"] * (trainer == BF16)


def run(given: argparse.Namespace, folder: Path, results: Results) -> None:
    config = folder / "config.yaml"
    behavior = {**SETTINGS, "max_steps": given.steps, "summary_freq": 10240}
    config.write_text(yaml.safe_dump({"behaviors": {"Team": behavior}}))
    for turn in range(1, given.rounds + 1):
        for members in given.members:
            for trainer in [LANISTA, PEER, BF16, THREADED][:: 1 if turn % 2 else -1]:
                key = (TRAINING, trainer, "cpu", members, turn)
                if given.again or key not in results.rows:
                    run_one(given, folder, config, results, trainer, members, turn)


def run_one(
    given: argparse.Namespace,
    folder: Path,
    config: Path,
    results: Results,
    trainer: str,
    members: int,
    turn: int,
) -> None:
    if trainer == PEER and not given.peer.exists():
        print(f"{given.peer} is missing: tests/peer/install.sh puts ML-Agents there", file=sys.stderr)
        return
    mark = folder / "first-step"
    command = [*command_of(trainer, given), str(config), f"--env={executable(folder)}"]
    command += ["--run-id=teams", "--force", f"--results-dir={folder / 'runs'}"]
    command += [f"--base-port={phases.free_port()}", "--env-args", "--members", str(members)]
    command += ["--agents", str(AGENTS), "--mark", str(mark)]
    found = measure(command, mark, folder / "log")
    row = Row(TRAINING, trainer, "cpu", members, turn, machine=machine(), **vars(found))
    results.add(row)
    print(f"{trainer}, {members} members, round {turn}: {row.steps_per_s:,.0f} steps/s", flush=True)


def table(results: Results) -> str:
    """The comparison, as Markdown."""
    lines = [
        "| members | trainer | agent-steps/s | times ML-Agents (aim) | processor time, us | MiB | rounds |",
        "|---:|---|---:|---:|---:|---:|---:|",
    ]
    for members in results.agents(TRAINING, LANISTA):
        peer = results.of(TRAINING, PEER, members)
        for trainer in (LANISTA, BF16, THREADED, PEER):
            rows = results.of(TRAINING, trainer, members)
            if rows:
                ratio = median_ratio(rows, peer, "steps_per_s")
                times = "" if trainer == PEER else f"{ratio:.1f} ({AIMS.get(members, '')})"
                speed, cpu, peak = (
                    median(rows, name) for name in ("steps_per_s", "trainer_cpu_us", "peak_mib")
                )
                lines.append(
                    f"| {members} | {trainer} | {speed:,.0f} | {times} | {cpu:,.0f} | {peak:,.0f} "
                    f"| {len(rows)} |"
                )
    return "\n".join(lines)


def buffer_bytes(members: int, teams: int = 8, steps: int = 64) -> float:
    """What the update buffer of POCA keeps of one agent-step, in bytes, for an observation of 32 floats."""
    from lanista.agent_processor.processor import AgentManager
    from lanista.agent_processor.rollout import build_rollout
    from lanista.envs.base import Decision
    from lanista.trainers.algorithms.poca.steps import TeamSteps
    from mlagents_envs.base_env import ActionTuple, DecisionSteps, TerminalSteps
    from team_scene import BEHAVIOR, SIZE, Teams

    class NoStatistics:
        def add_stat(self, key, value, aggregation):
            pass

        add_stats = add_stat

        def set_stat(self, key, value):
            pass

    spec = Teams(members).specs()[BEHAVIOR]
    count = members * teams
    manager = AgentManager(BEHAVIOR, spec, steps, NoStatistics())
    ids, groups = (
        np.arange(count, dtype=np.int32),
        np.repeat(np.arange(1, teams + 1, dtype=np.int32), members),
    )
    zeros = np.zeros(count, np.float32)
    ones = np.ones((count, 1), np.float32)
    action = ActionTuple(np.zeros((count, 0), np.float32), np.zeros((count, 1), np.int32))
    decided = None
    for _ in range(steps + 1):
        obs = [np.zeros((count, SIZE), np.float32)]
        decisions = DecisionSteps(obs, zeros, ids, None, groups, zeros)
        manager.add_experiences(decisions, TerminalSteps.empty(spec), 0, decided)
        decided = Decision(ids, action, action, ones, zeros)
    whole = build_rollout(manager.trajectory_queue.drain())
    nothing = np.zeros((whole.steps, 1), np.float32)
    kept = TeamSteps.of(whole, nothing, nothing)
    columns = [getattr(kept, name) for name in TeamSteps.__dataclass_fields__]
    flat = [a for c in columns if c is not None for a in (c if isinstance(c, list) else [c])]
    return sum(a.nbytes for a in flat) / whole.steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--members", type=int, nargs="+", default=[3, 8, 20])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=51_200, help="max_steps of every run")
    parser.add_argument("--again", action="store_true", help="measure also what the CSV holds")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results")
    default_peer = os.environ.get("LANISTA_PEER") or ROOT / ".cache" / "peer" / "bin" / "python"
    parser.add_argument("--peer", type=Path, default=Path(default_peer), help="ML-Agents' Python")
    given = parser.parse_args()
    results = Results(given.out / "teams-speed.csv")
    with tempfile.TemporaryDirectory() as folder:
        run(given, Path(folder), results)
    memory = "\n".join(f"| {n} | {buffer_bytes(n):,.0f} |" for n in given.members)
    page = PAGE.format(table=table(results), memory=memory, machine=machine())
    (given.out / "teams-speed.md").write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
