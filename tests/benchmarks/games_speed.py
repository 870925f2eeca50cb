"""Self-play beside ML-Agents 1.1.0: one command, one table.

    tests/peer/install.sh .cache/peer
    python tests/benchmarks/games_speed.py [--rounds 3] [--steps 240000] [--again]

Both train the same processes of scene:tennis (64 areas of two players) by PPO with the settings of
config/ppo/tennis.yaml, one after the other and in turns; figures are medians of the rounds, ratios medians of
the ratios within a round. Steps per second count from the first summary to the last. What
docs/results/games-speed.csv already holds is not measured again without `--again`. Writes that file and
docs/results/games-speed.md.
"""

import yaml
from results import LANISTA, PEER, ROOT, THREADED, Results, write_page
from side_by_side import Case, parse_comparison, table, train_in_turns


def main() -> None:
    given = parse_comparison(__doc__, LANISTA, THREADED, PEER, steps=240_000)
    results = Results(given.out / "games-speed.csv")
    settings = yaml.safe_load((ROOT / "config" / "ppo" / "tennis.yaml").read_text())["behaviors"]["Tennis"]
    settings |= {"max_steps": given.steps, "summary_freq": given.steps // 12}
    kind, aims = "PPO with self-play on tennis", {LANISTA: 8, THREADED: 8}
    cases = [Case(kind, 128, "tennis", "Tennis", settings, ["--areas", "64"], aims=aims)]
    train_in_turns(cases, given, results)
    print(write_page("games-speed", given.out, table=table(cases, results), busy=results.conditions()))


if __name__ == "__main__":
    main()
