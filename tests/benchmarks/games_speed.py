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
from side_by_side import ROOT, Comparison, main

PAGE = """# Speed of self-play

Written by `python tests/benchmarks/games_speed.py` from games-speed.csv; every run in it is there.

PPO with self-play of Lanista and of ML-Agents 1.1.0 train the same processes of `scene:tennis` (64 areas of
two players) with the settings of [config/ppo/tennis.yaml](../../config/ppo/tennis.yaml). In turns; medians,
ratios within a round. Steps are those of the team that learns, as both products count them; its opponents act
as often. Rates and processor time count from the first summary to the last; memory is the peak of all of a
trainer's processes together, without the engine's. "Threaded" is `threaded: true`. {busy}

{table}
"""
AREAS = 64
SETTINGS = yaml.safe_load((ROOT / "config" / "ppo" / "tennis.yaml").read_text())["behaviors"]["Tennis"]

if __name__ == "__main__":
    task = Comparison(
        *("PPO with self-play on tennis", "tennis"),
        agents=2 * AREAS,
        areas=AREAS,
        behavior="Tennis",
        settings=SETTINGS,
        steps=240_000,
        aim=8,
        name="games-speed",
        page=PAGE,
    )
    main(task, __doc__)
