"""Whether self-play works: Connect Four, tic-tac-toe, and SoccerTwos in its small size.

    python tests/benchmarks/learning_games.py [--games connect-four ...] [--seeds 0 1 2] [--threads 0]

Every run is a `lanista-learn` process from the command line. What comes of it is played with nothing but the
exported ONNX files, 200 games against each opponent, every side in turn: players that need no training
(board_players.py), and the same run's model at a quarter of its training (by `lanista tournament`). The
models of its checkpoints are played too, for the curves.

Results are added to docs/results/others-games.csv and others-games-curves.csv. What is there already is not
run again, so that the table can grow; delete lines to repeat them. Needs PettingZoo and pygame.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from board_players import BoardPlayer, OneStepAhead, Perfect, every_game
from lanista.envs.python.sources import make_source
from lanista.trainers.tools.tournament.match import Result, play_all_sides
from lanista.trainers.tools.tournament.players import participants_of
from products import curve, run_command, train
from results import RESULTS, read, write
from script_options import parse_options
from study import Task, Way

MATCHES_CSV, CURVES_CSV = RESULTS / "others-games.csv", RESULTS / "others-games-curves.csv"
GAMES = 200
QUARTER = "itself at a quarter"
EVERY = "every sequence of moves"
"""All games that an opponent could play against the most likely actions, from both seats."""
PARALLEL_GAMES = 10
"""Of a match with players that need no training."""
OPPONENTS = {"random": BoardPlayer, "one step ahead": OneStepAhead, "perfect": Perfect}


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
class Game(Task):
    """A game, and whom the trained model plays."""

    goals: Mapping[str, Goal] = field(default_factory=dict)
    """By opponent."""
    board: tuple[int, int] | None = None
    """Rows and columns, where the opponents are players that need no training."""

    def checkpoints(self, folder: Path) -> dict[int, Path]:
        """The models of a run's checkpoints by their steps; the first is of a quarter of them all."""
        numbered = (folder / self.behavior).glob(f"{self.behavior}-[0-9]*.onnx")
        return dict(sorted((int(path.stem.rpartition("-")[2]), path) for path in numbered))

    def against(self, opponent: str, folder: Path, brain: Path, seed: int) -> Result:
        """The games of a run's model against an opponent."""
        if self.board is None:
            quarter = next(iter(self.checkpoints(folder).values()))
            command = ["lanista", "tournament", brain, quarter, "--json", "--games", GAMES]
            output = run_command([*command, "--env", self.environment, "--seed", 1000 + seed])
            (match,) = json.loads(output)["matches"]
            return Result(match["wins"], match["draws"], match["losses"])
        (participant,) = participants_of(str(brain), folder, "newest")
        if opponent == EVERY:
            (policy,) = participant.policies.values()
            return Result(*map(sum, zip(*(every_game(policy, seat) for seat in (0, 1)))))
        env = make_source(self.environment, seed=1000 + seed, areas=PARALLEL_GAMES, self_play=None)
        other = OPPONENTS[opponent](self.board, seed)
        return play_all_sides(env, participant, other, GAMES, deterministic=True)


def game(
    name: str, environment: str, behavior: str, max_steps: int, areas: int, config: str, **keys: object
) -> Game:
    quarters = ["--set", f"behaviors.{behavior}.checkpoint_interval={max_steps // 4}"]
    return Game(name, environment, behavior, max_steps, {"lanista": Way(config, quarters)}, areas, **keys)


CLASSIC = "pettingzoo:pettingzoo.classic"
TASKS = [
    game(
        *("connect-four", f"{CLASSIC}.connect_four_v3?self_play=true&boards=true", "player", 4_000_000, 256),
        "config/ppo/connect-four.yaml",
        goals={"random": Goal(0.95), "one step ahead": Goal(0.6)},
        board=(6, 7),
    ),
    game(
        *("tic-tac-toe", f"{CLASSIC}.tictactoe_v3?self_play=true", "player", 400_000, 64),
        "config/ppo/tic-tac-toe.yaml",
        goals={"perfect": Goal(1.0, lost=True), EVERY: Goal(1.0, lost=True)},
        board=(3, 3),
    ),
    game(
        *("soccer-twos", "scene:soccer-twos?size=small", "SoccerTwos", 1_200_000, 32),
        "config/poca/soccer-twos-small.yaml",
        goals={QUARTER: Goal(0.7)},
    ),
]


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
class Figure:
    """A line of others-games-curves.csv: a rating while it trained, or a checkpoint's share of games."""

    game: str
    seed: int
    step: int
    figure: str
    value: float


def measure(game: Game, seed: int, threads: int) -> tuple[list[Match], list[Figure]]:
    """Train once and play."""
    with TemporaryDirectory() as name:
        folder = train(game.learn_command("lanista", seed, "run"), Path(name), threads)
        matches = []
        for other, goal in game.goals.items():
            result = game.against(other, folder, folder / f"{game.behavior}.onnx", seed)
            reached = goal.of(*result) >= goal.share
            matches.append(Match(game.name, seed, game.max_steps, other, *result, reached))
            print(f"{game.name}, seed {seed}, {other}: {tuple(result)}, wanted {goal}", flush=True)
        elo = curve(folder / game.behavior, "Self-play/ELO")
        figures = [Figure(game.name, seed, step, "ELO", value) for step, value in elo]
        for number, (step, brain) in enumerate(game.checkpoints(folder).items()):
            for other, goal in game.goals.items() if number or game.board else ():  # no quarter plays itself
                share = goal.of(*game.against(other, folder, brain, seed))
                figures.append(Figure(game.name, seed, step, f"against {other}", share))
    return matches, figures


def main() -> None:
    names = [game.name for game in TASKS]
    given = parse_options(
        __doc__,
        games={"default": names, "choices": names, "help": "what to train"},
        seeds={"default": [0, 1, 2], "help": "seeds to train with"},
        threads={"default": 0, "help": "torch_settings.num_threads of every run"},
    )
    matches, figures = read(MATCHES_CSV, Match), read(CURVES_CSV, Figure)
    known = {(match.game, match.seed, match.max_steps) for match in matches}
    for seed in given.seeds:
        for game in TASKS:
            if game.name not in given.games or (game.name, seed, game.max_steps) in known:
                continue
            began = time.monotonic()
            new_matches, new_figures = measure(game, seed, given.threads)
            matches.extend(new_matches)
            figures.extend(new_figures)
            write(MATCHES_CSV, Match, matches)
            write(CURVES_CSV, Figure, figures)
            print(f"{game.name}, seed {seed}: {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
