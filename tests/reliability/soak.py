"""Trains for hours with many light environments and samples memory, open files, threads and speed.

    python tests/reliability/soak.py [--minutes 60] [--envs 64] [--areas 12] [--every 30] [--record]

The run is the real `lanista-learn` with PPO on `ball3d`, on one thread. Each environment has --areas areas
with an agent in each; buffers, batches and the steps between two checkpoints grow with their number. Every
--every seconds a sample is taken of the trainer's process, without its engines; with --record each goes to
docs/results/soak.csv, so that sessions add up. Speed is that per second of the trainer's processor time: on a
shared machine the time of the clock says what others did. The run is warm when it has deleted its first
checkpoint, for then it has done all that it does; one that is too short for that, after a fifth of its time.
--session judges a session of the CSV again.

Ends with status 1 when the run ended by itself, memory then grew by more than --slope MiB an hour, open
files, threads or processes became more, or the last third was slower than the first by more than --drift per
cent.
"""

from __future__ import annotations

import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the helpers of tests, when run as a script
sys.path.append(str(Path(__file__).parent))

from console_runs import PATIENCE, learn_command, left_behind, ppo_yaml, until
from figures import CSV, LANISTA, Recorder, append
from results import read
from script_options import parse_options

SAMPLES = CSV.with_name("soak.csv")
STEP = re.compile(r"Step: (\d+)")
COUNTS = ("files", "threads", "processes")
AREAS = 12
"""Unless --areas says otherwise; what follows is for that many."""
HYPER = {"batch_size": 2048, "buffer_size": 20480}
LENGTHS = {"summary_freq": 20_000, "checkpoint_interval": 500_000}
KEPT_CHECKPOINTS = 3


@dataclass(frozen=True)
class Sample:
    """The trainer at one moment."""

    session: str
    """When the run began."""
    seconds: float
    steps: int
    """Agent-steps as of the last summary."""
    rss_mib: float
    files: int
    threads: int
    processes: int
    """Engines, and what else it has started."""
    cpu: float
    """Seconds of processor time."""
    load: float
    envs: int
    areas: int
    """In each environment."""


def scaled(settings: dict[str, int], areas: int) -> dict[str, int]:
    """For so many areas in each environment."""
    return {name: number * areas // AREAS for name, number in settings.items()}


def warm_steps(areas: int) -> int:
    """After which the first checkpoint is deleted."""
    return (KEPT_CHECKPOINTS + 1) * scaled(LENGTHS, areas)["checkpoint_interval"]


def sample(process: psutil.Process, session: str, began: float, log: Path, envs: int, areas: int) -> Sample:
    """Look at the trainer."""
    steps = STEP.findall(log.read_text())
    with process.oneshot():
        times = process.cpu_times()
        return Sample(
            *(session, round(time.time() - began, 1), int(steps[-1]) if steps else 0),
            round(process.memory_info().rss / 2**20, 2),
            *(process.num_fds(), process.num_threads(), len(process.children())),
            *(round(times.user + times.system, 1), round(os.getloadavg()[0], 1)),
            *(envs, areas),
        )


def slope(samples: list[Sample]) -> tuple[float, float]:
    """MiB an hour, by least squares, and the standard error of that."""
    hours = np.array([each.seconds / 3600 for each in samples])
    rss = np.array([each.rss_mib for each in samples])
    hours -= hours.mean()
    square = float(hours @ hours)
    growth = float(hours @ rss) / square
    rest = rss - rss.mean() - growth * hours
    return growth, float(np.sqrt(rest @ rest / max(len(rss) - 2, 1) / square))


def typical(samples: list[Sample], name: str) -> float:
    """The median: a file may be open in the midst of a save."""
    return statistics.median(getattr(each, name) for each in samples)


def drift(samples: list[Sample]) -> float:
    """By how many per cent the last third of the time is slower than the first; 0 if it is faster."""
    third = len(samples) // 3 + 1
    spans = samples[:third], samples[-third:]
    worked = [span[-1].cpu - span[0].cpu for span in spans]
    first, last = (span[-1].steps - span[0].steps for span in spans)
    if not (first and all(worked)):
        return 0.0
    return max(0.0, 100 * (1 - last / worked[1] * worked[0] / first))


def configuration(areas: int) -> str:
    """Of a run whose learning is light."""
    network = {"normalize": True, "hidden_units": 32, "num_layers": 1}
    lengths = {"max_steps": 10**9, "time_horizon": 100, "keep_checkpoints": KEPT_CHECKPOINTS}
    hyper = {**scaled(HYPER, areas), "num_epoch": 1}
    return ppo_yaml("3DBall", hyper, network, **lengths, **scaled(LENGTHS, areas))


def measure(folder: Path, minutes: float, envs: int, areas: int, every: float, keep: bool) -> list[Sample]:
    """Train so long; the samples."""
    (folder / "run.yaml").write_text(configuration(areas))
    engines = ["--env", f"scene:ball3d?areas={areas}", "--num-envs", str(envs), "--num-threads", "1"]
    command = [*learn_command(), "run.yaml", "--run-id", "r", "--seed", "1", *engines]
    session, log, samples = time.strftime("%Y-%m-%d %H:%M", time.gmtime()), folder / "log.txt", []
    with log.open("w") as out:
        run = subprocess.Popen(command, cwd=folder, stdout=out, stderr=out)
        try:
            assert until(lambda: bool(STEP.search(log.read_text())), PATIENCE + 2 * envs), log.read_text()
            process, began = psutil.Process(run.pid), time.time()
            while time.time() - began < 60 * minutes:
                assert run.poll() is None, f"the run ended by itself: {log.read_text()[-2000:]}"
                samples.append(sample(process, session, began, log, envs, areas))
                if keep:
                    append(SAMPLES, samples[-1])
                time.sleep(every)
        finally:
            run.send_signal(signal.SIGTERM)
            try:
                run.wait(PATIENCE)
            finally:
                run.kill()
    assert until(lambda: not left_behind(folder), 30), f"lived on: {left_behind(folder)}"
    return samples


def main() -> int:
    """Run as the module says."""
    options = parse_options(
        __doc__,
        minutes=60.0,
        envs=64,
        areas={"default": AREAS, "help": "in each environment, an agent in each"},
        every={"default": 30.0, "help": "seconds between two samples"},
        slope={"default": 1.0, "help": "MiB an hour by which memory may grow"},
        drift={"default": 2.0, "help": "per cent by which it may become slower"},
        session={"default": "", "help": "of the CSV, to judge again; no run is made"},
        record={"default": False, "help": "keep the samples and the figure"},
    )
    recorder = Recorder(10, options.record)
    if options.session:
        samples = [each for each in read(SAMPLES, Sample) if each.session == options.session]
    else:
        with tempfile.TemporaryDirectory(prefix="soak-") as folder:
            sizes = options.minutes, options.envs, options.areas, options.every
            samples = measure(Path(folder).resolve(), *sizes, options.record)
    envs, areas = samples[-1].envs, samples[-1].areas
    warm = [each for each in samples if each.steps >= warm_steps(areas)]
    if len(warm) < 10:
        warm = [each for each in samples if each.seconds >= samples[-1].seconds / 5]
    first, last = warm[0], warm[-1]
    (growth, error), slower = slope(warm), drift(warm)
    counts = {name: (typical(warm[:5], name), typical(warm[-5:], name)) for name in COUNTS}
    kept = all(end <= begin for begin, end in counts.values())
    good = kept and growth <= options.slope and slower <= options.drift
    counted = ", ".join(f"{begin:.0f} to {end:.0f} {name}" for name, (begin, end) in counts.items())
    found = f"{last.steps:,} agent-steps in {last.seconds / 60:.0f} minutes, {samples[0].rss_mib:.1f} MiB at "
    found += f"first; in the last {(last.seconds - first.seconds) / 60:.0f}, warm, {first.rss_mib:.1f} to "
    found += f"{last.rss_mib:.1f} MiB (standard error of the slope {error:.2f} MiB an hour), {counted}, "
    found += f"slower by {slower:.1f} %"
    case = f"{envs} environments of {areas} agents"
    recorder.add(case, LANISTA, 1, int(good), worst=growth, unit="MiB an hour", found=found)
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
