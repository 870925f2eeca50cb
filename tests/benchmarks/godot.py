"""Lanista beside godot-rl 0.8.2 with Stable-Baselines3, in the same Godot game.

    bash tests/godot/install.sh .cache/godot
    LANISTA_GODOT_RL=path/to/python python tests/benchmarks/godot.py [--rounds 3] [--ways ...] [--again]

LANISTA_GODOT_RL is the Python of an environment with godot-rl 0.8.2. Without it, Lanista alone is measured,
and the page is written from what is there. Both train the agents of tests/godot/upstream_project, exported,
with the hyperparameters of godot-rl's own example, one after the other and in turns; figures are medians of
the rounds, ratios medians of the ratios within a round. Steps per second and processor time count from the
first summary to the last. Writes docs/results/godot-speed.csv, godot.csv (what was learned), and, with what
godot_phases.py has left, godot.md. What the files hold is not measured again without `--again`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import phases
import yaml
from godot_game import exported_game
from products import curve, play
from results import RESULTS, ROOT, Results, Row, median, median_ratio, read, table, write, write_page
from script_options import parse_options
from training_run import Measured, free_port, measure

SCRIPT = ROOT / "tests" / "peer" / "run_godot_rl.py"
KIND, BEHAVIOR, AGENTS = "chase", "shared_policy", 4
STEPS, SUMMARIES, EPISODES = 30_720, 10, 40
SPEED_CSV, LEARNED_CSV = "godot-speed.csv", "godot.csv"
CURVES = {"trained_length": "Episode Length", "trained_reward": "Cumulative Reward"}
PHASES_JSON = "godot-phases.json"
"""What godot_phases.py leaves."""


@dataclass(frozen=True)
class Way:
    """A way of training the game."""

    games: int = 1
    steps: int = STEPS
    scored: bool = True
    upstream: dict[str, Any] | None = None
    """Options of godot-rl's environment; None: Lanista trains."""
    rival: str = ""
    """Lanista's way that it is compared with."""
    aim: float | None = None
    """At least so many times its speed for Lanista."""
    n_steps: int = 32
    """Decisions of an agent between two updates."""
    batch_size: int = 64


ONE, TWO, LARGE = "Lanista", "Lanista, two games", "Lanista, larger batches"
WAYS = {
    "godot-rl": Way(1, 960, False, {"speedup": 1}, ONE),
    "godot-rl, `--speedup=8`": Way(1, 6_400, False, {"speedup": 8}, ONE, 8),
    "godot-rl, `framerate=60`": Way(1, upstream={"framerate": 60}, rival=ONE, aim=1.5),
    "godot-rl, `framerate=60`, two games": Way(2, upstream={"framerate": 60}, rival=TWO),
    "godot-rl, `framerate=60`, larger batches": Way(
        upstream={"framerate": 60}, rival=LARGE, n_steps=512, batch_size=256
    ),
    ONE: Way(),
    TWO: Way(2),
    LARGE: Way(n_steps=512, batch_size=256),
}


@dataclass(frozen=True)
class Learned:
    """A line of godot.csv: what a run has learned."""

    way: str
    round: int
    """Also the seed."""
    max_steps: int
    episodes: int
    """That the model was scored by, with the most likely actions."""
    length: float
    """Their mean number of decisions."""
    reward: float
    """Their mean reward."""
    trained_length: float
    """The same of the episodes, with sampled actions, that ended in the last tenth of the training."""
    trained_reward: float


def settings(way: Way) -> dict[str, Any]:
    """Of Lanista: those of godot-rl's stable_baselines3_example.py, and Stable-Baselines3's defaults."""
    return {
        "trainer_type": "ppo",
        "hyperparameters": {
            "batch_size": way.batch_size,
            "buffer_size": way.n_steps * AGENTS * way.games,
            "learning_rate": 3e-4,
            "learning_rate_schedule": "constant",
            "beta": 1e-4,
            "epsilon": 0.2,
            "lambd": 0.95,
            "num_epoch": 10,
            "max_grad_norm": 0.5,
        },
        "network_settings": {"normalize": False, "hidden_units": 64, "num_layers": 2},
        "reward_signals": {"extrinsic": {"gamma": 0.99, "strength": 1.0}},
        "time_horizon": way.n_steps,
        "max_steps": way.steps,
        "summary_freq": way.steps // SUMMARIES,
    }


def train_upstream(way: Way, seed: int, game: Path, folder: Path) -> tuple[Measured, dict[str, float]]:
    """What a run of godot-rl cost, and the figures of what it has learned."""
    every, episodes = way.steps // SUMMARIES, EPISODES if way.scored else 0
    plan = {"game": str(game), "port": free_port(), "seed": seed, "games": way.games}
    plan |= {"max_steps": way.steps, "summary_freq": every, "episodes": episodes, "options": way.upstream}
    plan |= {"n_steps": way.n_steps, "batch_size": way.batch_size}
    python, log = os.environ["LANISTA_GODOT_RL"], folder / "log"
    found = measure([python, "-W", "ignore", str(SCRIPT), json.dumps(plan)], None, log)
    told = next(line for line in reversed(log.read_text().splitlines()) if line.startswith("{"))
    return found, json.loads(told)


def train_lanista(way: Way, seed: int, game: Path, folder: Path) -> tuple[Measured, dict[str, float]]:
    """The same of a run of Lanista."""
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump({"behaviors": {BEHAVIOR: settings(way)}}))
    command = [sys.executable, "-m", "lanista.trainers.cli.main", "learn", str(config), f"--env=godot:{game}"]
    command += ["--no-graphics", f"--seed={seed}", f"--num-envs={way.games}", "--run-id=run", "--force"]
    found = measure([*command, f"--results-dir={folder}"], None, folder / "log")
    run = folder / "run"
    scored = ["lanista", "play", f"{run / BEHAVIOR}.onnx", "--env", f"godot:{game}", "--no-graphics"]
    figures = play([*scored, f"--episodes={EPISODES}", f"--seed={1000 + seed}"])
    last = {name: curve(run / BEHAVIOR, f"Environment/{tag}")[-1][1] for name, tag in CURVES.items()}
    return found, {"length": figures["mean_length"], "reward": figures["mean_reward"], **last}


def train_in_turns(given: argparse.Namespace, results: Results, game: Path) -> None:
    """Measure what the rows lack; each is kept at once."""
    for turn in range(1, given.rounds + 1):
        for name in list(WAYS)[:: 1 if turn % 2 else -1]:
            way = WAYS[name]
            if name not in given.ways or (way.upstream and "LANISTA_GODOT_RL" not in os.environ):
                continue
            if given.again or (KIND, name, "cpu", AGENTS * way.games, turn, 0) not in results.rows:
                _train(name, turn, game, results, given.out / LEARNED_CSV)


def _train(name: str, turn: int, game: Path, results: Results, learned_csv: Path) -> None:
    way = WAYS[name]
    with tempfile.TemporaryDirectory() as folder:
        train = train_lanista if way.upstream is None else train_upstream
        found, figures = train(way, turn, game, Path(folder))
    if way.scored:
        known = [one for one in read(learned_csv, Learned) if (one.way, one.round) != (name, turn)]
        line = Learned(name, turn, way.steps, EPISODES, **figures)
        write(learned_csv, Learned, [*known, line], digits=2)
    results.add(Row(KIND, name, "cpu", AGENTS * way.games, turn, **vars(found)))
    print(
        f"round {turn}, {name}: {found.steps_per_s:,.0f} steps/s; {figures['length']:.0f} decisions",
        flush=True,
    )


def speeds(results: Results) -> str:
    """All ways beside Lanista's."""
    lines = []
    for name, way in WAYS.items():
        if not (rows := results.of(KIND, name, AGENTS * way.games)):
            continue
        times = ""
        if rival := results.of(KIND, way.rival, AGENTS * way.games):
            times = f"{median_ratio(rival, rows, 'steps_per_s'):.1f}" + (f" ({way.aim:g})" if way.aim else "")
        cpu, game, peak = (median(rows, key) for key in ("trainer_cpu_us", "engine_cpu_us", "peak_mib"))
        costs = f"{cpu:,.0f}", f"{game:,.0f}", f"{peak:.0f}", f"{rows[0].steps:,}", str(len(rows))
        lines.append([name, f"{median(rows, 'steps_per_s'):,.0f}", times, *costs])
    heads = ["agent-steps/s:", "Lanista has so many times as many (aim):", "trainer's processor time, us:"]
    return table(["trainer", *heads, "game's:", "MiB:", "agent-steps measured:", "rounds:"], lines)


def learning(learned: list[Learned]) -> str:
    """What was learned, each round and on average."""
    lines = []
    for name in WAYS:
        if runs := [one for one in learned if one.way == name]:
            lengths, trained = ([getattr(run, key) for run in runs] for key in ("length", "trained_length"))
            rewards = (
                statistics.mean(getattr(run, key) for run in runs) for key in ("trained_reward", "reward")
            )
            shown = [
                f"**{statistics.mean(x):.0f}** ({', '.join(f'{y:.0f}' for y in x)})"
                for x in (trained, lengths)
            ]
            lines.append([name, *shown, *(f"{reward:.1f}" for reward in rewards)])
    heads = [
        "decisions of an episode, sampled:",
        "most likely actions:",
        "reward, sampled:",
        "most likely actions:",
    ]
    return table(["trainer", *heads], lines)


def main() -> None:
    given = parse_options(
        __doc__,
        ways={"default": list(WAYS), "choices": WAYS},
        rounds={"default": 3, "help": "runs of each way; 0 writes the page"},
        game={"default": "", "help": "an exported tests/godot/upstream_project (default: made now)"},
        again={"default": False, "help": "measure also what the files hold"},
        out={"default": RESULTS, "type": Path},
    )
    results = Results(given.out / SPEED_CSV)
    if given.rounds:
        with tempfile.TemporaryDirectory() as folder:
            train_in_turns(given, results, Path(given.game) if given.game else exported_game(Path(folder)))
    kept = given.out / PHASES_JSON
    print(
        write_page(
            "godot",
            given.out,
            speeds=speeds(results),
            learning=learning(read(given.out / LEARNED_CSV, Learned)),
            phases=phases.table([json.loads(kept.read_text())]) if kept.exists() else "Not measured.",
            busy=results.conditions(),
            steps=STEPS,
            episodes=EPISODES,
        )
    )


if __name__ == "__main__":
    main()
