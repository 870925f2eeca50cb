"""Whether a change costs speed: two checkouts train the same tasks in alternating pairs of runs.

    git worktree add ../before COMMIT
    python tests/benchmarks/pairs.py --before ../before [--tasks "ball 12" escape] [--pairs 10]

The engine is this checkout's for both. Prints, for each pair, rates, processor time of the trainer per
agent-step, its peak memory and the seconds until its first step, and for each task the medians of the ratios,
this checkout by the other one.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from pathlib import Path

import yaml
from results import ROOT
from script_options import parse_options
from side_by_side import Case
from speed_tasks import tasks
from timed_scene import executable
from training_run import Measured, free_port, measure

FIGURES = {
    "rate": "steps_per_s",
    "processor time": "trainer_cpu_us",
    "memory": "peak_mib",
    "start-up": "start_s",
}
"""What is compared: the word for it, and its attribute."""


def told(found: Measured) -> str:
    """The figures of one run."""
    return (
        f"{found.steps_per_s:,.0f}/s, {found.trainer_cpu_us:.1f} us, {found.peak_mib:.0f} MiB, "
        f"{found.start_s:.2f} s"
    )


def importable(checkout: Path, folder: Path) -> Path:
    """A folder from which `lanista` is that of a checkout."""
    assert (checkout / "trainers").is_dir(), f"{checkout.resolve()} is no checkout of Lanista (--before)"
    folder.mkdir()
    (folder / "lanista").symlink_to(checkout.resolve())
    return folder


def train(case: Case, packages: Path, folder: Path) -> Measured:
    """One run with the package of a checkout."""
    behaviors = {name: dict(own) for name, own in {case.behavior: case.settings, **case.others}.items()}
    config, mark = folder / "config.yaml", folder / "first-step"
    config.write_text(yaml.safe_dump({"behaviors": behaviors}))
    os.environ["PYTHONPATH"] = str(packages)
    command = [sys.executable, "-m", "lanista.trainers.cli.main", "learn", str(config)]
    command += [f"--env={executable(folder, case.scene)}", "--seed=0", "--run-id=run", "--force"]
    command += [f"--results-dir={folder / 'runs'}", f"--base-port={free_port()}"]
    command += ["--env-args", *case.engine, "--mark", str(mark)]
    return measure(command, mark, folder / "log", len(behaviors))


def main() -> None:
    """Run as the module says."""
    known = {case.kind: case for case in tasks()}
    options = parse_options(
        __doc__,
        before={"default": Path(), "help": "the other checkout"},
        tasks={"default": ["ball 12"], "choices": list(known)},
        pairs={"default": 10, "help": "of each task"},
    )
    before = options.before.resolve()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made).resolve()
        os.chdir(folder)  # where no package lies, which would come before those of PYTHONPATH
        packages = [importable(before, folder / "before"), importable(ROOT, folder / "now")]
        for name in options.tasks:
            ratios: dict[str, list[float]] = {word: [] for word in FIGURES}
            for turn in range(options.pairs):
                order = [0, 1] if turn % 2 else [1, 0]
                found = {k: train(known[name], packages[k], folder) for k in order}
                for word, attribute in FIGURES.items():
                    then, now = getattr(found[0], attribute), getattr(found[1], attribute)
                    ratios[word].append(now / then)
                print(f"{name}, pair {turn + 1}: {told(found[0])} before; {told(found[1])} now", flush=True)
            medians = ", ".join(f"{word} {statistics.median(own):.3f}" for word, own in ratios.items())
            print(f"{name}, medians of the ratios: {medians}", flush=True)


if __name__ == "__main__":
    main()
