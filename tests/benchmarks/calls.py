"""How many Python functions one step and one update pass through, and in how many files.

    python tests/benchmarks/calls.py [--list] [--ticks 50] [--updates 5]

Trains `config/ppo/ball3d.yaml` on `scene:ball3d` (12 agents in one engine) in this process and counts, with
`sys.setprofile`, the frames of Lanista's own functions that are entered, and the distinct files that they are
in. C functions, other packages and the `__init__` methods that dataclasses generate do not count.

- A *tick* goes from one call of `EnvManager.wait` to the next: wait, act, send, collect, learn. Its figures
  are medians over ticks in which the engine answered, no trajectory ended and no update was due.
- An *update* is one call of `OnPolicyTrainer._update` over ten minibatches; its figures are medians.

`--list` prints the calls of one median tick and one median update, per function, in the order in which they
are first called.
"""

from __future__ import annotations

import contextlib
import io
import statistics
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import FrameType

from results import ROOT
from script_options import parse_options

WARM_UP = 100
"""Ticks before the first that counts."""
TEN_MINIBATCHES = ("buffer_size=640", "batch_size=64", "num_epoch=1")

Function = tuple[str, str]
"""A file, relative to the repository, and a function's qualified name."""


class Enough(BaseException):
    """All has been counted: ends the run without a checkpoint."""


class CallCounter:
    """A profile function that cuts the run into ticks and updates.

    Args:
        ticks: How many ticks to count; 0 counts updates alone.
        updates: How many updates to count.
    """

    def __init__(self, ticks: int, updates: int) -> None:
        self.ticks: list[Counter[Function]] = []
        self.updates: list[Counter[Function]] = []
        self._wanted = ticks, updates
        self._seen = 0
        self._tick: Counter[Function] = Counter()
        self._is_ordinary = True
        self._update: Counter[Function] | None = None
        self._update_frame: FrameType | None = None
        self._files: dict[str, str | None] = {}

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """Count a frame that is entered; `sys.setprofile` calls this."""
        if event == "return" and frame is self._update_frame and self._update is not None:
            self.updates.append(self._update)
            self._update = self._update_frame = None
        if event != "call":
            return
        code = frame.f_code
        file = self._file(code.co_filename)
        if file is None:
            return
        name = code.co_qualname if sys.version_info >= (3, 11) else code.co_name
        function = file, name
        if file == "envs/manager/manager.py" and code.co_name == "wait":
            self._end_tick()
        elif file == "trainers/trainer/on_policy.py" and code.co_name == "_update":
            self._update, self._update_frame = Counter(), frame
        elif file == "agent_processor/queues.py" and code.co_name == "put":
            self._is_ordinary = False  # a trajectory has ended
        self._tick[function] += 1
        if self._update is not None:
            self._is_ordinary = False
            self._update[function] += 1

    def _file(self, path: str) -> str | None:
        """The file's path within the repository; None for one that is not Lanista's."""
        if path not in self._files:
            resolved = Path(path).resolve()
            generated = path.startswith("<")
            parts = resolved.relative_to(ROOT).parts if resolved.is_relative_to(ROOT) else ()
            foreign = generated or not parts or parts[0] in (".venv", "tests")
            self._files[path] = None if foreign else "/".join(parts)
        return self._files[path]

    def _end_tick(self) -> None:
        sent = any(file == "envs/manager/manager.py" and name.endswith("send") for file, name in self._tick)
        self._seen += 1
        if self._seen > WARM_UP and sent and self._is_ordinary:
            self.ticks.append(self._tick)
        self._tick, self._is_ordinary = Counter(), True
        if len(self.ticks) >= self._wanted[0] and len(self.updates) >= self._wanted[1]:
            raise Enough


def trace(ticks: int, updates: int, *overrides: str) -> CallCounter:
    """Train until so many ticks and updates are counted."""
    from lanista.trainers.learn import run

    counter = CallCounter(ticks, updates)
    arguments = [str(ROOT / "config/ppo/ball3d.yaml"), "--env", "scene:ball3d", "--seed", "1"]
    for override in overrides:
        arguments += ["--set", f"behaviors.3DBall.hyperparameters.{override}"]
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        sys.setprofile(counter)
        try:
            run([*arguments, "--results-dir", folder])
        except Enough:
            pass
        finally:
            sys.setprofile(None)
    return counter


def median(runs: list[Counter[Function]]) -> Counter[Function]:
    """The run with the median number of calls."""
    return sorted(runs, key=Counter.total)[len(runs) // 2]


def report(title: str, runs: list[Counter[Function]], *, listed: bool) -> None:
    """Print the medians, and with `listed` the calls per function."""
    calls = statistics.median(run.total() for run in runs)
    files = statistics.median(len({file for file, _ in run}) for run in runs)
    print(f"{title}: {calls:.0f} calls in {files:.0f} files (median of {len(runs)})")
    if not listed:
        return
    for (file, name), count in median(runs).items():
        print(f"  {count:4}  {file}: {name}")
    for folder in ("envs", "agent_processor", "trainers"):
        part = {key: count for key, count in median(runs).items() if key[0].split("/")[0] == folder}
        print(f"  {folder}: {sum(part.values())} calls in {len({file for file, _ in part})} files")


def main() -> None:
    """Count and print."""
    options = parse_options(
        __doc__,
        list={"default": False, "help": "print the calls per function"},
        ticks={"default": 50, "help": "how many ticks to count"},
        updates={"default": 5, "help": "how many updates to count"},
    )
    ticks = trace(options.ticks, 0).ticks
    updates = trace(0, options.updates, *TEN_MINIBATCHES).updates
    report("one tick of 12 agents", ticks, listed=options.list)
    report("one PPO update of ten minibatches", updates, listed=options.list)


if __name__ == "__main__":
    main()
