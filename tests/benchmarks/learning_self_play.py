"""Whether learning from both sides, and prioritized opponents, win more games after as many steps of a game.

    python tests/benchmarks/learning_self_play.py [--seeds 0 1] [--games tennis ...] [--ways plain ...]

Every run is a `lanista-learn` process with the ready settings of its game. Runs are compared at the same
number of steps of the game, not of steps learned from: one that learns from both sides gets as many more
trainer steps as it is expected to learn from. Every exported brain plays 200 games, from both sides in turn,
against each of the same opponents: the brains of a run with the ready settings, a seed of its own and twice
the steps, half-way and at its end, which are kept in .cache/self-play; in Connect Four a random player and
one that looks one step ahead.

Results are added to docs/results/self-play.csv. What is there already is not run again, so that the table can
grow; delete lines to repeat them. The page docs/results/self-play.md is written each time; without --seeds,
nothing else is done. Connect Four needs PettingZoo and pygame.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from board_players import BoardPlayer, OneStepAhead
from lanista.envs.python.sources import make_source
from lanista.trainers.checkpoints.file import load_checkpoint
from lanista.trainers.tools.tournament.match import Result, play_all_sides
from lanista.trainers.tools.tournament.players import participants_of
from products import run_command, train
from results import RESULTS, ROOT, read, table, write, write_page
from script_options import parse_options

CSV = RESULTS / "self-play.csv"
ANCHORS = ROOT / ".cache" / "self-play"
ANCHOR_SEED = 100
PER_MATCH = 200
AS_LONG, TWICE = "plain, as many steps", "plain, twice as many"
PLAYERS = {"random": BoardPlayer, "one step ahead": OneStepAhead}

BOTH = {"learn_from_both_sides": "true"}
PRIORITIZED = {"opponent_sampling": "prioritized"}
WAYS: Mapping[str, Mapping[str, str]] = {
    "plain": {},
    "both sides": BOTH,
    "prioritized": PRIORITIZED,
    "both sides, prioritized": {**BOTH, **PRIORITIZED},
}
"""By name, the keys of `self_play` that are set."""


@dataclass(frozen=True)
class Game:
    """A game, and how long it is played by each side."""

    name: str
    environment: str
    areas: int
    behavior: str
    config: str
    steps: int
    """Agent-steps of one side in the whole training."""
    self_play: Mapping[str, str] = field(default_factory=dict)
    """Keys that the ready settings lack."""
    ratio: float = 0.5
    """Their `play_against_latest_model_ratio`."""
    board: tuple[int, int] | None = None

    @property
    def opponents(self) -> Sequence[str]:
        return list(PLAYERS) if self.board else [AS_LONG, TWICE]

    def command(self, keys: Mapping[str, str], seed: int, times: int = 1) -> list[str]:
        """What trains it for so many times its steps."""
        share = 1 + self.ratio if "learn_from_both_sides" in keys else 1
        values: dict[str, object] = {"max_steps": round(self.steps * share * times), "keep_checkpoints": 10}
        values["checkpoint_interval"] = self.steps
        values |= {f"self_play.{key}": value for key, value in {**self.self_play, **keys}.items()}
        settings = [x for key, v in values.items() for x in ("--set", f"behaviors.{self.behavior}.{key}={v}")]
        where = ["--env", self.environment, "--num-areas", str(self.areas)]
        return ["lanista-learn", self.config, *where, "--run-id", "run", "--seed", str(seed), *settings]

    def anchors(self, threads: int) -> dict[str, Path]:
        """The brains of the fixed opponents; trained if they are not there yet."""
        folder = ANCHORS / f"{self.name}-{2 * self.steps}"
        brains = {AS_LONG: folder / "half.onnx", TWICE: folder / "end.onnx"}
        if not all(brain.exists() for brain in brains.values()):
            with TemporaryDirectory() as name:
                run = train(self.command({}, ANCHOR_SEED, times=2), Path(name), threads)
                first = min((run / self.behavior).glob(f"{self.behavior}-[0-9]*.onnx"), key=_step)
                folder.mkdir(parents=True, exist_ok=True)
                shutil.copy(first, brains[AS_LONG])
                shutil.copy(run / f"{self.behavior}.onnx", brains[TWICE])
        return brains

    def play(self, brain: Path, opponent: str, seed: int, threads: int) -> Result:
        """The brain's games against an opponent."""
        if self.board is not None:
            (participant,) = participants_of(str(brain), brain.parent, "newest")
            env = make_source(self.environment, seed=1000 + seed, areas=10, self_play=None)
            return play_all_sides(env, participant, PLAYERS[opponent](self.board, seed), PER_MATCH)
        command = ["lanista", "tournament", brain, self.anchors(threads)[opponent], "--json"]
        output = run_command(
            [*command, "--games", PER_MATCH, "--env", self.environment, "--seed", 1000 + seed]
        )
        (match,) = json.loads(output)["matches"]
        return Result(match["wins"], match["draws"], match["losses"])


def _step(path: Path) -> int:
    return int(path.stem.rpartition("-")[2])


CONNECT_FOUR = "pettingzoo:pettingzoo.classic.connect_four_v3?self_play=true&boards=true"
GAMES = [
    Game("tennis", "scene:tennis", 64, "Tennis", "config/ppo/tennis.yaml", 250_000),
    Game(
        *("soccer-twos", "scene:soccer-twos?size=small", 32, "SoccerTwos"),
        *("config/poca/soccer-twos-small.yaml", 75_000),
    ),
    Game(
        *("connect-four", CONNECT_FOUR, 256, "player", "config/ppo/connect-four.yaml", 600_000),
        self_play={"save_steps": "20000", "team_change": "50000", "swap_steps": "5000"},
        board=(6, 7),
    ),
]


@dataclass(frozen=True)
class Match:
    """A line of self-play.csv."""

    game: str
    steps: int
    """Agent-steps of one side that were asked for, and"""
    way: str
    seed: int
    opponent: str
    opponents_steps: int
    """those that the opponents' side took."""
    learned_steps: int
    wins: int
    draws: int
    losses: int

    @property
    def share(self) -> float:
        """Of games won, those drawn counted half."""
        return (self.wins + 0.5 * self.draws) / (self.wins + self.draws + self.losses)


def measure(game: Game, way: str, seed: int, threads: int) -> Iterator[Match]:
    """Train once and play against all opponents."""
    if not game.board:
        game.anchors(threads)
    with TemporaryDirectory() as name:
        folder = train(game.command(WAYS[way], seed), Path(name), threads)
        state = load_checkpoint(folder / game.behavior / "checkpoint.pt")
        steps = int(state["self_play"]["steps"][0]), int(state["step"])
        for opponent in game.opponents:
            result = game.play(folder / f"{game.behavior}.onnx", opponent, seed, threads)
            yield Match(game.name, game.steps, way, seed, opponent, *steps, *result)


def share_table(game: Game, matches: Sequence[Match]) -> str:
    """A row for each way: the share of games won against each opponent, seed by seed, and its mean."""
    rows = []
    for way in WAYS:
        own = [match for match in matches if match.way == way]
        if not own:
            continue
        cells = []
        for opponent in game.opponents:
            shares = [match.share for match in own if match.opponent == opponent]
            cells.append(f"**{np.mean(shares):.3f}** ({', '.join(f'{share:.2f}' for share in shares)})")
        played = [match.opponents_steps for match in own]
        learned = [match.learned_steps for match in own]
        seeds = len({match.seed for match in own})
        rows.append([way, str(seeds), *cells, f"{np.mean(played):,.0f}", f"{np.mean(learned):,.0f}"])
    heads = ["self_play", "seeds:", *(f"{opponent}:" for opponent in game.opponents)]
    return table([*heads, "steps of the opponents:", "learned from:"], rows)


def sections(matches: Sequence[Match]) -> str:
    """A heading and a table for each game."""
    parts = []
    for game in GAMES:
        own = [match for match in matches if (match.game, match.steps) == (game.name, game.steps)]
        if own:
            parts += [
                f"## {game.name}: {game.steps:,} agent-steps of each side\n",
                share_table(game, own),
                "",
            ]
    return "\n".join(parts) if parts else "Not run yet.\n"


def main() -> None:
    names = [game.name for game in GAMES]
    given = parse_options(
        __doc__,
        games={"default": names, "choices": names, "help": "what to train"},
        ways={"default": list(WAYS), "choices": list(WAYS), "help": "with which keys of self_play"},
        seeds={"default": [], "type": int, "nargs": "*", "help": "seeds to train with; none: only the page"},
        threads={"default": 0, "help": "torch_settings.num_threads of every run"},
    )
    matches = read(CSV, Match)
    known = {(match.game, match.steps, match.way, match.seed) for match in matches}
    for seed in given.seeds:
        for game in (game for game in GAMES if game.name in given.games):
            for way in given.ways:
                if (game.name, game.steps, way, seed) in known:
                    continue
                began = time.monotonic()
                new = list(measure(game, way, seed, given.threads))
                matches = [*read(CSV, Match), *new]  # others may have added theirs meanwhile
                write(CSV, Match, matches)
                shares = ", ".join(f"{match.share:.3f} {match.opponent}" for match in new)
                took = time.monotonic() - began
                print(f"{game.name}, {way}, seed {seed}: {shares} ({took:.0f} s)", flush=True)
    write_page("self-play", games=sections(sorted(matches, key=lambda match: (match.game, match.seed))))


if __name__ == "__main__":
    main()
