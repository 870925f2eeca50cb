"""Whether self-play works: Connect Four, tic-tac-toe, and SoccerTwos in its small size.

    python tests/benchmarks/learning_games.py [--games connect-four ...] [--seeds 0 1 2] [--threads 0]

Every run is a `lanista-learn` process from the command line. What comes of it is played with nothing but the
exported ONNX files, 200 games against each opponent, every side in turn: players that need no training
(board_players.py), and the same run's brain at a quarter of its training (by `lanista tournament`). The
brains of its checkpoints are played too, for the curves.

Results are added to docs/results/others-games.csv and others-games-curves.csv. What is there already is not
run again, so that the table can grow; delete lines to repeat them. Needs PettingZoo and pygame.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
from dataclasses import dataclass, field, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from board_players import BoardPlayer, OneStepAhead, Perfect
from lanista.envs.python.sources import make_source
from lanista.trainers.cli.tournament.match import Result, play_all_sides
from lanista.trainers.cli.tournament.players import participants_of
from learning import RESULTS, curve, free_port, run_command, write

MATCHES_CSV, CURVES_CSV = RESULTS / "others-games.csv", RESULTS / "others-games-curves.csv"
GAMES = 200
QUARTER = "itself at a quarter"
ELO = "Self-play/ELO"
SIDE_BY_SIDE = 10
"""Games of a match with players that need no training."""


@dataclass(frozen=True)
class Goal:
    """What is expected against an opponent."""

    share: float
    lost: bool = False
    """The share is of games that are not lost; else of games won, draws counted half."""

    def of(self, wins: int, draws: int, losses: int) -> float:
        """The share of these games."""
        games = wins + draws + losses
        return (games - losses if self.lost else wins + 0.5 * draws) / games

    def __str__(self) -> str:
        return f"{self.share:.0%} {'not lost' if self.lost else 'won, draws half'}"


@dataclass(frozen=True)
class Game:
    """What is trained, and whom it then plays."""

    name: str
    behavior: str
    environment: str
    areas: int
    settings: str
    """The ready settings, from the repository's root."""
    max_steps: int
    goals: dict[str, Goal]
    """By opponent."""
    board: tuple[int, int] | None = None
    deterministic: bool = True
    options: list[str] = field(default_factory=list)

    def command(self, seed: int, run_id: str) -> list[str]:
        """What trains it."""
        return [
            *("lanista-learn", self.settings, "--env", self.environment, "--num-areas", str(self.areas)),
            *("--run-id", run_id, "--seed", str(seed)),
            *("--set", f"behaviors.{self.behavior}.max_steps={self.max_steps}"),
            *("--set", f"behaviors.{self.behavior}.checkpoint_interval={self.max_steps // 4}"),
            *self.options,
        ]


CLASSIC = "pettingzoo:pettingzoo.classic"
TASKS = [
    Game(
        "connect-four", "player", f"{CLASSIC}.connect_four_v3?self_play=true&boards=true", 256,
        "config/ppo/connect-four.yaml", 4_000_000,
        {"random": Goal(0.95), "one step ahead": Goal(0.6)}, (6, 7),
    ),
    Game(
        "tic-tac-toe", "player", f"{CLASSIC}.tictactoe_v3?self_play=true", 64,
        "config/ppo/tic-tac-toe.yaml", 400_000,
        {"perfect": Goal(0.95, lost=True)}, (3, 3),
    ),
    Game(
        "soccer-twos", "SoccerTwos", "scene:soccer-twos?size=small", 32, "config/poca/soccer-twos-small.yaml",
        1_200_000, {QUARTER: Goal(0.7)}, deterministic=False,
    ),
]  # fmt: skip


@dataclass(frozen=True)
class Match:
    """A line of others-games.csv."""

    game: str
    seed: int
    max_steps: int
    opponent: str
    wins: int
    draws: int
    losses: int
    reached: bool


@dataclass(frozen=True)
class Point:
    """A line of others-games-curves.csv: a rating while it trained, or a checkpoint's share of games."""

    game: str
    seed: int
    step: int
    figure: str
    value: float


def opponent(name: str, board: tuple[int, int], seed: int) -> BoardPlayer:
    """A player that needs no training."""
    kinds = {"random": BoardPlayer, "one step ahead": OneStepAhead, "perfect": Perfect}
    return kinds[name](board, seed)


def checkpoints(game: Game, folder: Path) -> dict[int, Path]:
    """The brains of a run's checkpoints by their steps; the first is of a quarter of them all."""
    numbered = (folder / game.behavior).glob(f"{game.behavior}-[0-9]*.onnx")
    return dict(sorted((int(path.stem.rpartition("-")[2]), path) for path in numbered))


def played(game: Game, name: str, folder: Path, brain: Path, seed: int) -> Result:
    """The games of a run's brain against an opponent."""
    if game.board is None:
        return against_quarter(game, folder, brain, seed)
    (participant,) = participants_of(str(brain), folder, "newest")
    env = make_source(game.environment, seed=1000 + seed, areas=SIDE_BY_SIDE, self_play=None)
    other = opponent(name, game.board, seed)
    return play_all_sides(env, participant, other, GAMES, deterministic=game.deterministic)


def against_quarter(game: Game, folder: Path, brain: Path, seed: int) -> Result:
    """By `lanista tournament`."""
    quarter = next(iter(checkpoints(game, folder).values()))
    command = [Path(sys.executable).with_name("lanista"), "tournament", brain, quarter, "--json"]
    command += ["--games", GAMES, "--env", game.environment, "--seed", 1000 + seed]
    (match,) = json.loads(run_command(command))["matches"]
    return Result(match["wins"], match["draws"], match["losses"])


def strength(game: Game, folder: Path, seed: int) -> list[Point]:
    """Each checkpoint's games against each opponent; a quarter does not play itself."""
    return [
        Point(game.name, seed, step, f"against {other}", goal.of(*played(game, other, folder, brain, seed)))
        for number, (step, brain) in enumerate(checkpoints(game, folder).items())
        for other, goal in game.goals.items()
        if number or game.board is not None
    ]


def measure(game: Game, seed: int, threads: int) -> tuple[list[Match], list[Point]]:
    """Train once and play."""
    with TemporaryDirectory() as name:
        program, *arguments = game.command(seed, "run")
        limits = ["--set", f"torch_settings.num_threads={threads}"] if threads else []
        port = f"--base-port={free_port()}"  # others may train on this machine
        places = ["--results-dir", name, port, *limits]
        run_command([Path(sys.executable).with_name(program), *arguments, *places])
        folder = Path(name) / "run"
        matches = []
        for other, goal in game.goals.items():
            result = played(game, other, folder, folder / f"{game.behavior}.onnx", seed)
            reached = goal.of(*result) >= goal.share
            matches.append(Match(game.name, seed, game.max_steps, other, *result, reached))
            print(f"{game.name}, seed {seed}, {other}: {tuple(result)}, wanted {goal}", flush=True)
        elo = curve(folder / game.behavior, ELO)
        points = [Point(game.name, seed, step, "ELO", value) for step, value in elo]
        points += strength(game, folder, seed)
    return matches, points


def read(path: Path, kind: type[Any]) -> list[Any]:
    """The lines of a CSV; none where there is no file yet."""
    if not path.exists():
        return []
    casts = {"str": str, "int": int, "float": float, "bool": "True".__eq__}
    with path.open(encoding="utf-8", newline="") as file:
        return [
            kind(**{one.name: casts[one.type](line[one.name]) for one in fields(kind)})
            for line in csv.DictReader(file)
        ]


def main() -> None:
    """Run as the module says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [game.name for game in TASKS]
    parser.add_argument("--games", nargs="+", choices=names, default=names, help="what to train")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="seeds to train with")
    parser.add_argument("--threads", type=int, default=0, help="torch_settings.num_threads of every run")
    given = parser.parse_args()
    matches, points = read(MATCHES_CSV, Match), read(CURVES_CSV, Point)
    for seed in given.seeds:
        for game in TASKS:
            known = {(match.game, match.seed, match.max_steps) for match in matches}
            if game.name not in given.games or (game.name, seed, game.max_steps) in known:
                continue
            began = time.monotonic()
            new_matches, new_points = measure(game, seed, given.threads)
            matches.extend(new_matches)
            points.extend(new_points)
            write(MATCHES_CSV, Match, matches)
            write(CURVES_CSV, Point, points)
            print(f"{game.name}, seed {seed}: {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
