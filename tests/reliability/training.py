"""Trains with several engines of which one crashes or hangs, and reports what that costs the others.

    python tests/reliability/training.py [--envs 4] [--timeout 3] [--steps 60000] [--after 1500]

The run is the real `lanista-learn` with PPO. Environment 0 fails again and again: by a crash (SIGKILL) and by
a hang with its socket open (SIGSTOP), within the limits. Every engine notes how long it waited for each of
its answers. Reported for the others: the longest wait while environment 0 was gone, and the longest one at
other times (updates of the policy let everybody wait). Ends with status 1 when the run did not end well, when
another engine was restarted, or when one waited for longer than half of the time limit while 0 was gone.
"""

from __future__ import annotations

import json
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the helpers of tests, when run as a script

from console_runs import Ended, learn, ppo_yaml, weights_are_finite
from script_options import parse_options
from scripted_engine import executable

ENGINE = """\
import atexit, json, pathlib
me = int(pathlib.Path(log.name).stem.rpartition("-")[2])
failures = {failures!r}
notes = pathlib.Path({folder!r})
life = len(list(notes.glob(f"{{me}}-*.json")))
waits = []
def keep():
    note = {{"began": began, "ended": time.time(), "waits": waits}}
    (notes / f"{{me}}-{{life}}.json").write_text(json.dumps(note))
atexit.register(keep)
greet()
began = time.time()
for count in range(10**9):
    fault = failures[life] if me == 0 and life < len(failures) and count == {after} else None
    if fault:
        keep()
        os.kill(os.getpid(), getattr(signal, fault))
    data = message(observation(count % 7, 0.5))
    sent = time.time()
    ask(data)
    waits.append((sent, time.time() - sent))
"""


def longest(waits: list[tuple[float, float]], gone: list[tuple[float, float]]) -> tuple[float, float]:
    """The longest wait that overlaps a time in which environment 0 was gone, and the longest other one."""
    during = [w for sent, w in waits if any(sent < end and sent + w > begin for begin, end in gone)]
    other = [w for sent, w in waits if not any(sent < end and sent + w > begin for begin, end in gone)]
    return max(during, default=0.0), max(other, default=0.0)


def measure(ended: Ended, notes: Path, envs: int, failures: list[str]) -> tuple[bool, float]:
    """Print the figures; whether no other engine was restarted, and the longest wait while 0 was gone."""
    lives = [json.loads((notes / f"0-{life}.json").read_text()) for life in range(len(failures) + 1)]
    gone = [(a["ended"], b["began"]) for a, b in pairwise(lives)]
    for fault, (begin, end) in zip(failures, gone, strict=True):
        print(f"environment 0, {fault}: back after {end - begin:.2f} s")
    worst = 0.0
    alone = True
    for env in range(1, envs):
        files = sorted(notes.glob(f"{env}-*.json"))
        alone = alone and len(files) == 1
        waits = json.loads(files[0].read_text())["waits"]
        during, other = longest(waits, gone)
        steps = sum(any(begin < sent < end for begin, end in gone) for sent, _ in waits)
        worst = max(worst, during)
        print(
            f"environment {env}: {len(waits)} steps, {steps} of them while 0 was gone; longest wait then "
            f"{during:.3f} s, at other times {other:.3f} s"
        )
    print(f"status {ended.status}, {ended.out.count('Restarting environment')} restarts")
    return alone, worst


def main() -> int:
    """Run as the module says."""
    options = parse_options(
        __doc__,
        envs=4,
        timeout={"default": 3, "help": "seconds an engine has for an answer"},
        steps={"default": 60_000, "help": "of the whole run"},
        after={"default": 1500, "help": "steps of environment 0 until it fails"},
        failures={"default": ["SIGKILL", "SIGSTOP"], "help": "signals, in turn"},
    )
    limits = ["--max-lifetime-restarts", str(len(options.failures)), "--restarts-rate-limit-n", "-1"]
    hyper, network = {"batch_size": 64, "buffer_size": 2000}, {"normalize": True, "hidden_units": 32}
    lengths = {"checkpoint_interval": 10_000, "max_steps": options.steps, "summary_freq": 10_000}
    yaml = ppo_yaml("Ball", hyper, network | {"num_layers": 1}, time_horizon=64, **lengths)
    with tempfile.TemporaryDirectory() as scratch:
        folder, notes = Path(scratch).resolve(), Path(scratch, "notes").resolve()
        notes.mkdir()
        plan = {"failures": options.failures, "after": options.after, "folder": str(notes)}
        game = executable(folder, ENGINE.format(**plan))
        engines = ["--env", game, "--num-envs", str(options.envs), "--timeout-wait", str(options.timeout)]
        ended = learn(folder, *engines, *limits, yaml=yaml)
        good = ended.status == 0 and weights_are_finite(ended.files("*.pt"))
        if not good:
            print(ended.out, ended.err)
            return 1
        alone, worst = measure(ended, notes, options.envs, options.failures)
    return int(not alone or worst > options.timeout / 2)


if __name__ == "__main__":
    sys.exit(main())
