"""SAC beside ML-Agents 1.1.0: one command, one table.

    tests/peer/install.sh .cache/peer
    python tests/benchmarks/replay_speed.py [--rounds 3] [--steps 24000] [--again]

Both train the same processes of scene:ball3d (12 agents) with ML-Agents' own settings for 3DBall, one after
the other and in turns; figures are medians of the rounds, ratios medians of the ratios within a round. Steps
per second count from the first summary to the last. What docs/results/replay-speed.csv already holds is not
measured again without `--again`. Writes that file and docs/results/replay-speed.md.
"""

from pathlib import Path

import yaml
from results import LANISTA, PEER, THREADED, Results, write_page
from side_by_side import Case, parse_comparison, table, train_in_turns

SETTINGS = yaml.safe_load((Path(__file__).parent / "settings" / "sac_ball3d.yaml").read_text())


def main() -> None:
    given = parse_comparison(__doc__, LANISTA, THREADED, PEER, steps=24_000)
    results = Results(given.out / "replay-speed.csv")
    settings = SETTINGS | {"max_steps": given.steps, "summary_freq": given.steps // 12}
    aims = {LANISTA: 6, THREADED: 6}
    cases = [Case("SAC on ball3d", 12, "ball3d", "3DBall", settings, ["--areas", "12"], aims=aims)]
    train_in_turns(cases, given, results)
    print(write_page("replay-speed", given.out, table=table(cases, results), busy=results.conditions()))


if __name__ == "__main__":
    main()
