"""Lets each file operation of a whole run fail once: a full, read-only or broken disk, no descriptors left.

    python tests/reliability/file_faults.py [--every 1] [--errors ENOSPC EROFS EIO EMFILE] [--lasting]

The run is `lanista-learn` with PPO, checkpoints, ONNX, tables and TensorBoard, once new and once resumed;
`lanista report` follows. With `--env scene:basic` it has a curriculum, and an engine with its log. First
its file operations below the results are counted (open, write, fsync, close, rename, mkdir, unlink,
truncate, ...); then as many runs follow, in each of which one of them fails, with the errors in turn.
`--lasting` lets all that follow it fail as well, as a disk that stays full. `--every 10` takes every tenth
operation, `--distinct` one of those that differ only in the digits of the file's name.

Ends with status 1 when a command ended otherwise than well or with one sentence, when an older checkpoint
changed, one that is there cannot be read, or the run could not be carried on to its end without the fault.
"""

from __future__ import annotations

import errno
import gc
import json
import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the helpers of tests, when run as a script

import torch
from faulty_files import FileFaults
from lanista.trainers.checkpoints.file import load_checkpoint
from lanista.trainers.checkpoints.metadata import step_of
from lanista.trainers.console import lanista, lanista_learn
from lanista.trainers.policies.onnx import export  # noqa: F401 (imported once, before the runs are forked)
from lanista.trainers.runner import training  # noqa: F401
from script_options import parse_options

YAML = """\
default_settings:
  trainer_type: ppo
  hyperparameters: {batch_size: 32, buffer_size: 128, num_epoch: 1}
  network_settings: {hidden_units: 8, num_layers: 1}
  checkpoint_interval: 200
  keep_checkpoints: 10
  keep_best: 10
  max_steps: STEPS
  time_horizon: 32
  summary_freq: 100
stats_writers: [tensorboard, console, csv]
"""
LESSONS = """\
environment_parameters:
  length:
    curriculum:
      - name: short
        completion_criteria: {measure: progress, behavior: Basic, threshold: 0.3}
        value: 1.0
      - {name: long, value: 2.0}
"""
"""For a scene; the environment in Python declares none of this name."""
STEPS = 400
"""Of the new run; the resumed one has as many more."""
LEARN = ["lanista-learn", "c.yaml", "--run-id", "r", "--seed", "1", "--results-dir", "disk/results"]
REPORT = ["lanista", "report", "disk/results/r", "-o", "disk/report.html"]


@dataclass
class Ended:
    """Commands that have ended."""

    statuses: list[int]
    out: str
    error: str
    operations: list[str]

    def require_sentences(self, where: str) -> None:
        """Raise AssertionError unless each ended well, or with one sentence."""
        said = f"{where}: statuses {self.statuses}\n{self.out[-2000:]}\n{self.error}"
        assert set(self.statuses) <= {0, 1}, said
        assert self.error.count(": error: ") == sum(self.statuses), said
        for word in ("Traceback", "fault of Lanista", "Exception ignored", "traceback above"):
            assert word not in self.out + self.error, said


def run(folder: Path, commands: list[list[str]], faults: FileFaults) -> Ended:
    """Run console scripts one after the other in a forked process, in `folder`."""
    sys.stdout.flush()
    child = os.fork()
    if not child:
        status = 70
        try:
            _run_here(folder, commands, faults)
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the process ended with {status}: {(folder / 'err').read_text()}"
    told = json.loads((folder / "told.json").read_text())
    return Ended(
        told["statuses"], (folder / "out").read_text(), (folder / "err").read_text(), told["operations"]
    )


def _run_here(folder: Path, commands: list[list[str]], faults: FileFaults) -> None:
    os.chdir(folder)
    for number, name in enumerate(("out", "err"), 1):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
    tempfile.tempdir = str(folder / "disk" / "tmp")
    faults.install()
    statuses = []
    for command in commands:
        sys.argv = command
        try:
            (lanista_learn if command[0] == "lanista-learn" else lanista)()
        except SystemExit as ended:
            statuses.append(ended.code if isinstance(ended.code, int) else 70)
    gc.collect()  # files that were not closed by hand complain now
    sys.stdout.flush()
    sys.stderr.flush()
    told = {"statuses": statuses, "operations": faults.seen}
    (folder / "told.json").write_text(json.dumps(told))


class Case:
    """A new or a resumed run, whose operations fail one after the other."""

    def __init__(self, folder: Path, env: str, base: Path | None = None) -> None:
        """`base`: the results of a run that is resumed."""
        self.folder, self.disk = folder, folder / "disk"
        self.base = base
        self.name = "new" if base is None else "resumed"
        self.steps = STEPS if base is None else 2 * STEPS
        self.yaml = YAML.replace("STEPS", str(self.steps)) + (LESSONS if env.startswith("scene:") else "")
        self.learn = [*LEARN, "--env", env]
        self.operations: list[str] = []

    def run(self, number: int = 0, code: int = 0, *, lasting: bool = False) -> Ended:
        """Run it, go on with what is there, and report; an operation fails."""
        begun = any(self.disk.glob("results/r/*/events*"))  # before, the same command may be given again
        learn = [*self.learn, "--resume"] if begun else self.learn
        return run(self.folder, [learn, REPORT], FileFaults(self.disk, number, code, lasting))

    def prepare(self) -> dict[Path, bytes]:
        """Lay out the folder; the numbered checkpoints that are there already."""
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.disk / "tmp").mkdir(parents=True)
        (self.folder / "c.yaml").write_text(self.yaml)
        if self.base is not None:
            shutil.copytree(self.base, self.disk / "results")
        return {path: path.read_bytes() for path in self.checkpoints() if path.stem[-1].isdigit()}

    def checkpoints(self) -> list[Path]:
        """All that are there."""
        return sorted(self.disk.glob("results/r/*/*.pt"))

    def count(self) -> None:
        """Run it without a fault, and note its operations."""
        self.prepare()
        ended = self.run()
        assert ended.statuses == [0, 0], ended
        self.operations = ended.operations

    def fail(self, number: int, code: int, lasting: bool) -> str:
        """Let an operation fail; how the run ended."""
        before = self.prepare()
        ended = self.run(number, code, lasting=lasting)
        reached = ended.operations[number - 1] if len(ended.operations) >= number else "never reached"
        where = f"{self.name} run, operation {number}, {errno.errorcode[code]}, {reached}"
        ended.require_sentences(where)
        for path in self.checkpoints():
            load_checkpoint(path)
        for path, data in before.items():
            assert path.read_bytes() == data, f"{where}: {path} changed"
        again = self.run()
        assert again.statuses == [0, 0], (
            f"{where}: could not be carried on\n{again.error}\n{again.out[-1000:]}"
        )
        steps = [step_of(load_checkpoint(path)) for path in self.checkpoints() if path.stem == "checkpoint"]
        assert min(steps) >= self.steps, f"{where}: did not reach its end"
        left = list((self.disk / "results").rglob(".*.partial"))
        assert not left, f"{where}: {left} stayed"
        return "went on" if ended.statuses == [0, 0] else "ended with a sentence"


def chosen(operations: list[str], distinct: bool) -> list[int]:
    """The numbers, from 1, of the operations that are to fail: all, or the last one of each kind."""
    kinds: dict[object, int] = {}
    for number, name in enumerate(operations, 1):
        kinds[re.sub(r"[0-9a-f]{12}|[0-9]+", "", name) if distinct else number] = number
    return sorted(kinds.values())


def main() -> int:
    """Run as the module says."""
    options = parse_options(
        __doc__,
        every=1,
        first={"default": 1, "help": "of those that are taken"},
        errors=["ENOSPC", "EROFS", "EIO", "EMFILE"],
        env={"default": "gymnasium:CartPole-v1", "help": "or scene:basic, with a curriculum and an engine"},
        lasting=False,
        distinct=False,
    )
    codes = [getattr(errno, name) for name in options.errors]
    torch.set_num_threads(1)
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch).resolve()
        new = Case(folder / "new", options.env)
        new.count()
        shutil.copytree(new.disk / "results", folder / "base")
        resumed = Case(folder / "resumed", options.env, folder / "base")
        resumed.count()
        for case in (new, resumed):
            outcomes: Counter[str] = Counter()
            for number in chosen(case.operations, options.distinct)[options.first - 1 :: options.every]:
                try:
                    outcomes[case.fail(number, codes[number % len(codes)], options.lasting)] += 1
                except Exception as error:
                    failed += 1
                    print(f"FOUND: {error}", flush=True)
            print(f"{case.name} run, {len(case.operations)} file operations: {dict(outcomes)}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
