"""Lanista beside ML-Agents 1.1.0 on one GPU, and Lanista on the processor of the same machine.

    python tests/benchmarks/speed_gpu.py [--tasks grid ...] [--rounds 3] [--peer DIR/bin/python]

The tasks are some of speed_tasks.py, shorter, and two whose networks are large. They are trained in turns, as
speed.py does, which shows what this script leaves in docs/results/speed-gpu.csv. Where ML-Agents' own Python
cannot be had, tests/peer/port.py makes one.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from results import LANISTA, PEER, Results, machine
from side_by_side import Case, parse_comparison, table, train_in_turns
from speed_tasks import preset, task, tasks

KEPT = "speed-gpu.csv"
LENGTHS = {
    "ball 128": (48_000, 12_000),
    "ball SAC": (8_000, 2_000),
    "escape": (20_480, 5_120),
    "teams of 8": (20_480, 5_120),
    "grid": (3_840, 1_280),
}
"""Agent-steps of a run, and of a summary."""


def gpu_tasks() -> list[Case]:
    """Each on the GPU, and by Lanista on the processor."""
    known = {case.kind: case for case in tasks()}
    cases = [_shorter(known[name], *length) for name, length in LENGTHS.items()]
    cases += [large_network(), residual_cameras()]
    return [
        replace(case, device=device, trainers=trainers, label=(*case.label, device), aims={}, memory_aim=None)
        for case in cases
        for device, trainers in (("cuda", (LANISTA, PEER)), ("cpu", (LANISTA,)))
    ]


def _shorter(case: Case, steps: int, every: int) -> Case:
    return replace(case, settings={**case.settings, "max_steps": steps, "summary_freq": every})


def large_network() -> Case:
    """Vectors, and products that fill a processor."""
    settings = preset("ball3d", "3DBall")
    hyper = {"batch_size": 2_048, "buffer_size": 20_480}
    return task(
        *("large", 1024, "ball3d", "3DBall", settings, (61_440, 20_480), {"areas": 1024}),
        what="PPO, 1,024 agents, 3 x 512 units, minibatches of 2,048",
        hyperparameters=hyper,
        network={"hidden_units": 512, "num_layers": 3},
    )


def residual_cameras() -> Case:
    """Cameras, and the largest of the encoders."""
    square = {"areas": 16, "height": 84, "width": 84}
    return task(
        *("grid, resnet", 16, "grid", "GridWorld", preset("grid", "GridWorld"), (1_920, 640), square),
        what="PPO, 16 cameras of 84 x 84 as PNG, vis_encode_type: resnet",
        network={"vis_encode_type": "resnet"},
    )


def described(results: Results) -> str:
    """The table, with the machine."""
    cases = [case for case in gpu_tasks() if results.of(case.kind, LANISTA, case.agents, case.device)]
    if not cases:
        return "Not measured yet."
    machines = " and ".join(sorted({row.machine for row in results.rows.values()}))
    return f"Measured on {machines}.\n\n{table(cases, results, 'task', 'what it is', 'device')}"


def main() -> None:
    every = gpu_tasks()
    names = list(dict.fromkeys(case.kind for case in every))
    given = parse_comparison(__doc__, LANISTA, PEER, tasks={"default": names, "choices": names})
    results = Results(given.out / KEPT)
    here = f"{machine()} with one {torch.cuda.get_device_name()}"
    train_in_turns([case for case in every if case.kind in given.tasks], given, results, here)
    print(described(results))


if __name__ == "__main__":
    main()
