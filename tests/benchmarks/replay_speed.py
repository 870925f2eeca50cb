"""SAC beside ML-Agents 1.1.0: one command, one table.

    tests/peer/install.sh .cache/peer
    python tests/benchmarks/replay_speed.py [--rounds 3] [--steps 24000] [--again]

Both train the same processes of scene:ball3d (12 agents) with ML-Agents' own settings for 3DBall, one after
the other and in turns; figures are medians of the rounds, ratios medians of the ratios within a round. Steps
per second count from the first summary to the last. What docs/results/replay-speed.csv already holds is not
measured again without `--again`. Writes that file and docs/results/replay-speed.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

import phases
import yaml
from results import LANISTA, PEER, THREADED, Results, Row, machine, median, median_ratio
from timed_scene import executable
from training_run import measure

ROOT = Path(__file__).resolve().parents[2]
KIND, AGENTS, AIM = "SAC on ball3d", 12, 6
TRAINERS = (LANISTA, PEER, THREADED)
PAGE = """# Speed of SAC

Written by `python tests/benchmarks/replay_speed.py` from replay-speed.csv; every run in it is there.

SAC of Lanista and of ML-Agents 1.1.0 train the same processes of `scene:ball3d` (12 agents) with the settings
that ML-Agents ships for 3DBall: 2 layers of 64 units, `batch_size: 64`, `buffer_size: 200000`,
`steps_per_update: 10`. In turns; medians, ratios within a round. Rates and processor time count from the
first summary to the last; memory is the peak of all of a trainer's processes together, without the engine's.
"Threaded" is `threaded: true`. {busy}

{table}

At `steps_per_update: 10` every agent-step pays for a tenth of a gradient step on 64 rows. Where that is
computed is told in [the architecture](../architecture.md): in closed form, for networks of dense layers on
vectors. How fast batches are drawn from a replay, and what one takes of memory, is measured by
`python tests/benchmarks/replay.py`.
"""
SETTINGS = {
    "trainer_type": "sac",
    "hyperparameters": {
        "learning_rate": 3.0e-4,
        "learning_rate_schedule": "constant",
        "batch_size": 64,
        "buffer_size": 200_000,
        "buffer_init_steps": 0,
        "tau": 0.005,
        "steps_per_update": 10.0,
        "save_replay_buffer": False,
        "init_entcoef": 0.5,
        "reward_signal_steps_per_update": 10.0,
    },
    "network_settings": {"normalize": True, "hidden_units": 64, "num_layers": 2},
    "reward_signals": {"extrinsic": {"gamma": 0.99, "strength": 1.0}},
    "time_horizon": 1000,
}


def command_of(trainer: str, given: argparse.Namespace) -> list[str]:
    if trainer == PEER:
        return [str(given.peer), "-W", "ignore", str(ROOT / "tests" / "peer" / "run_peer.py")]
    command = [sys.executable, "-m", "lanista.trainers.cli.main", "learn"]
    return command + ["--set", "behaviors.3DBall.threaded=true"] * (trainer == THREADED)


def run(given: argparse.Namespace, folder: Path, results: Results) -> None:
    config = folder / "config.yaml"
    behavior = {**SETTINGS, "max_steps": given.steps, "summary_freq": given.steps // 12}
    config.write_text(yaml.safe_dump({"behaviors": {"3DBall": behavior}}))
    for turn in range(1, given.rounds + 1):
        for trainer in TRAINERS[:: 1 if turn % 2 else -1]:
            known = (KIND, trainer, "cpu", AGENTS, turn) in results.rows
            if (given.again or not known) and trainer in given.trainers:
                run_one(given, folder, config, results, trainer, turn)


def run_one(
    given: argparse.Namespace, folder: Path, config: Path, results: Results, trainer: str, turn: int
) -> None:
    if trainer == PEER and not given.peer.exists():
        print(f"{given.peer} is missing: tests/peer/install.sh puts ML-Agents there", file=sys.stderr)
        return
    mark = folder / "first-step"
    command = [*command_of(trainer, given), str(config), f"--env={executable(folder)}", "--seed=0"]
    command += ["--run-id=sac", "--force", f"--results-dir={folder / 'runs'}"]
    command += [f"--base-port={phases.free_port()}"]
    command += ["--env-args", "--areas", str(AGENTS), "--mark", str(mark)]
    found = measure(command, mark, folder / "log")
    row = Row(KIND, trainer, "cpu", AGENTS, turn, machine=machine(), **vars(found))
    results.add(row)
    print(f"{trainer}, round {turn}: {row.steps_per_s:,.0f} steps/s, {row.peak_mib:,.0f} MiB", flush=True)


def table(results: Results) -> str:
    """The comparison, as Markdown."""
    lines = [
        "| trainer | agent-steps/s | times ML-Agents (aim) | processor time, us | MiB | rounds |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    peer = results.of(KIND, PEER, AGENTS)
    for trainer in (LANISTA, THREADED, PEER):
        rows = results.of(KIND, trainer, AGENTS)
        if rows:
            times = ""
            if peer and trainer != PEER:
                times = f"{median_ratio(rows, peer, 'steps_per_s'):.1f} ({AIM})"
            speed, cpu, peak = (median(rows, key) for key in ("steps_per_s", "trainer_cpu_us", "peak_mib"))
            lines.append(f"| {trainer} | {speed:,.0f} | {times} | {cpu:,.0f} | {peak:,.0f} | {len(rows)} |")
    return "\n".join(lines)


def busy(results: Results) -> str:
    """On what it was measured, and beside what."""
    rows = list(results.rows.values())
    if not rows:
        return "Not measured yet."
    return (
        f"{rows[0].machine}; other work kept {median(rows, 'others'):.1f} of the cores busy in the median "
        f"run and {max(row.others for row in rows):.1f} in the worst."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--trainers", nargs="+", default=list(TRAINERS), choices=TRAINERS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=24_000, help="max_steps of every run")
    parser.add_argument("--again", action="store_true", help="measure also what the CSV holds")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results")
    default_peer = os.environ.get("LANISTA_PEER") or ROOT / ".cache" / "peer" / "bin" / "python"
    parser.add_argument("--peer", type=Path, default=Path(default_peer), help="ML-Agents' Python")
    given = parser.parse_args()
    results = Results(given.out / "replay-speed.csv")
    with tempfile.TemporaryDirectory() as folder:
        run(given, Path(folder), results)
    page = PAGE.format(table=table(results), busy=busy(results))
    (given.out / "replay-speed.md").write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
