"""Lets the disk of a training run's results fail for a while; what do the run and its files become?

    python tests/reliability/full_disk_runs.py [--kinds full inodes read-only slow fsync] [--runs 3]
                                               [--products Lanista ML-Agents]

The runs are those of the real `lanista-learn` and `mlagents-learn` with PPO on `basic`, on a small file
system of their own (Linux, as root; elsewhere nothing is measured). After a checkpoint it has no room or no
inodes left, is read-only, slow, or cannot flush a file (`disk_troubles.py`); three summaries later that is
over. Held has a run that goes on to its end, with every checkpoint before as it was, and a later one.
`disk_full.py` fills the disk at every point of a save, `file_faults.py` lets each file operation fail. Ends
with status 1 when one of Lanista's did not hold.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
import tempfile
from itertools import product as product_of
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the helpers of tests, when run as a script
sys.path.append(str(Path(__file__).parent))

import programs
from console_runs import PATIENCE, until
from disk_full import mounted
from disk_troubles import INODES, SIZE, TROUBLES, Disk
from figures import LANISTA, Recorder
from script_options import parse_options

STEP = re.compile(r"Step: (\d+)")
SUMMARY = 200
SETTINGS = {
    "trainer_type": "ppo",
    "hyperparameters": {"batch_size": 16, "buffer_size": 64},
    "network_settings": {"hidden_units": 16, "num_layers": 1},
    "max_steps": 4000,
    "checkpoint_interval": 300,
    "keep_checkpoints": 50,
    "summary_freq": SUMMARY,
}


def steps(log: Path) -> int:
    """The last that was printed."""
    return max(map(int, STEP.findall(log.read_text(errors="replace"))), default=0)


def measure(product: str, kind: str, folder: Path, free: int) -> tuple[bool, str]:
    """Whether a run held whose disk fails for a while, and what was seen; a full one has `free` bytes."""
    disk = Disk(folder, free)
    log, latest = folder / "log.txt", folder / "results" / "r" / "Basic" / "checkpoint.pt"
    (folder / "c.yaml").write_text(programs.configuration(product, {"behaviors": {"Basic": SETTINGS}}))
    command = [*programs.command(product), "c.yaml", "--run-id", "r", "--seed", "1"]
    command += programs.environment(product, "basic", folder)
    with log.open("w") as out:
        run = subprocess.Popen(command, cwd=folder, stdout=out, stderr=out, env=disk.environ())
        try:
            assert until(latest.exists), log.read_text()
            before = {path: path.read_bytes() for path in latest.parent.glob("Basic-*.pt")}
            with TROUBLES[kind][1](disk):
                enough = steps(log) + 3 * SUMMARY
                until(lambda: steps(log) >= enough or run.poll() is not None)
            well_at, last_saved = steps(log), latest.read_bytes()
            until(lambda: run.poll() is not None, 2 * PATIENCE)
        finally:
            run.kill()
            run.wait()
    left = programs.end_left_behind(folder)
    later = latest.read_bytes() != last_saved
    intact = sum(path.exists() and path.read_bytes() == content for path, content in before.items())
    lines = log.read_text(errors="replace").strip().splitlines()
    text = f"status {run.returncode}, at step {well_at} the disk was well again, last step {steps(log)}, "
    text += f"{intact} of {len(before)} earlier checkpoints intact"
    text += "" if disk.noticed else ", but nothing was flushed or renamed meanwhile"
    text += f"; {lines[-1].strip()[:120]}" if run.returncode else ""
    return run.returncode == 0 and intact == len(before) and later and not left, text


def main() -> int:
    """Run as the module says."""
    options = parse_options(
        __doc__,
        runs={"default": 3, "help": "of each product"},
        kinds={"default": list(TROUBLES), "choices": list(TROUBLES), "help": "what becomes of the disk"},
        products=programs.OPTION,
        seed={"default": 0, "help": "of the room that is left"},
        record={"default": False, "help": "keep the figures"},
    )
    recorder, bad = Recorder(8, options.record), 0
    for product, kind in product_of(options.products, options.kinds):
        rooms, outcomes = random.Random(options.seed), []
        for _ in range(options.runs):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name).resolve()
                (folder / "results").mkdir()
                with mounted(folder / "results", SIZE, INODES) as real:
                    if not real:
                        print("No file system may be mounted here: nothing is measured.")
                        return 0
                    outcomes.append(measure(product, kind, folder, rooms.randrange(0, 20_000)))
        held = sum(good for good, _ in outcomes)
        found = next((text for good, text in outcomes if not good), outcomes[-1][1])
        recorder.add(TROUBLES[kind][0], product, options.runs, held, found=found)
        bad += product == LANISTA and held < options.runs
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
