"""Images and memories beside ML-Agents 1.1.0: one command, one table.

    tests/peer/install.sh .cache/peer
    python tests/benchmarks/senses_speed.py [--tasks grid hallway ...] [--rounds 3] [--again]

Both train the same processes of a scene of full size with the same YAML (config/ppo/NAME.yaml but for its
length), one after the other and in turns; figures are medians of the rounds, ratios medians of the ratios
within a round. Steps per second count from the first summary to the last. `grid-memory...` is `grid` with a
large buffer, for what images cost in memory. What docs/results/senses-speed.csv already holds is not
measured again without `--again`. Writes that file and docs/results/senses-speed.md.
"""

from typing import Any

import yaml
from results import BF16, LANISTA, PEER, ROOT, THREADED, Results, write_page
from side_by_side import Case, parse_comparison, table, train_in_turns

LARGE = {"batch_size": 256, "num_epoch": 1}


def case(
    name: str, behavior: str, agents: int, length: tuple[int, int], hyperparameters: Any = (), **keys: Any
) -> Case:
    """A scene's YAML with runs of this length: steps in all, and of a summary."""
    scene = name.partition("-")[0]
    text = (ROOT / "config" / "ppo" / f"{scene}.yaml").read_text()
    settings = yaml.safe_load(text)["behaviors"][behavior]
    settings |= {"max_steps": length[0], "summary_freq": length[1]}
    settings["hyperparameters"].update(hyperparameters)
    keys.setdefault("trainers", (LANISTA, PEER, BF16, THREADED))
    return Case(name, agents, scene, behavior, settings, ["--areas", str(agents)], label=[name], **keys)


def cases() -> list[Case]:
    one = {"trainers": (LANISTA, PEER), "memory_aim": 1 / 3}
    return [
        case("grid", "GridWorld", 9, (12_000, 1_000), aims={LANISTA: 2}),
        case("hallway", "Hallway", 16, (61_440, 5_120), aims={LANISTA: 6}),
        case("grid-memory", "GridWorld", 9, (21_000, 1_000), LARGE | {"buffer_size": 10_240}, **one),
        case("grid-memory-40k", "GridWorld", 9, (42_000, 2_000), LARGE | {"buffer_size": 40_960}, **one),
    ]


def main() -> None:
    every = cases()
    names = [each.kind for each in every]
    tasks = {"default": names, "choices": names}
    given = parse_comparison(__doc__, LANISTA, BF16, THREADED, PEER, tasks=tasks)
    results = Results(given.out / "senses-speed.csv")
    train_in_turns([each for each in every if each.kind in given.tasks], given, results)
    shown = table(every, results, "task", memory=True)
    print(write_page("senses-speed", given.out, table=shown, busy=results.conditions()))


if __name__ == "__main__":
    main()
