"""Trains with several engines of which one crashes or hangs, and reports what that costs the others.

    python tests/reliability/training.py [--envs 4] [--timeout 3] [--steps 60000] [--after 1500]
                                         [--products Lanista ML-Agents]

The runs are those of the real `lanista-learn` and `mlagents-learn` with PPO. Environment 0 fails again and
again: by a crash (SIGKILL) and by a hang with its socket open (SIGSTOP), within the limits. Every engine
notes how long it waited for each of its answers, and when it was told to reset. Reported for the others: the
longest wait while environment 0 was gone, the longest one at other times (updates of the policy let everybody
wait), and the resets, for the engines end no episode themselves. Ends with status 1 when Lanista's run did
not end well, when another engine was restarted or reset, or when one waited for longer than half of the time
limit while 0 was gone.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the helpers of tests, when run as a script
sys.path.append(str(Path(__file__).parent))

import programs
from console_runs import PATIENCE
from figures import LANISTA, Recorder
from script_options import parse_options
from scripted_engine import executable, first_free_port

ENGINE = """\
import atexit, json, pathlib
from lanista.envs.protocol import messages
me = int(pathlib.Path(log.name).stem.split(".")[0].rpartition("-")[2])
failures = {failures!r}
notes = pathlib.Path({folder!r})
life = len(list(notes.glob(f"{{me}}-*.json")))
waits, resets = [], []
def keep():
    note = {{"began": began, "ended": time.time(), "waits": waits, "resets": resets}}
    (notes / f"{{me}}-{{life}}.json").write_text(json.dumps(note))
atexit.register(keep)
def told(data):
    reply = messages.UnityMessageProto.FromString(exchange(message(data)))
    if reply.header.status == 400:
        sys.exit(0)
    if reply.unity_input.rl_input.command == 1:
        resets.append(time.time())
greet()
began = time.time()
told(observation(0, 0.5))  # describes the behavior, once
observations = []
for k in range(7):
    output = messages.UnityOutputProto.FromString(observation(k, 0.5))
    output.ClearField("rl_initialization_output")
    observations.append(output.SerializeToString())
for count in range(10**9):
    fault = failures[life] if me == 0 and life < len(failures) and count == {after} else None
    if fault:
        keep()
        os.kill(os.getpid(), getattr(signal, fault))
    if count % 500 == 499:
        keep()
    sent = time.time()
    told(observations[count % 7])
    waits.append((sent, time.time() - sent))
"""
WEIGHTS = {"batch_size": 64, "buffer_size": 2000}
NETWORK = {"normalize": True, "hidden_units": 32, "num_layers": 1}


@dataclass
class Fault:
    """What one failure of environment 0 cost."""

    sign: str
    back: float
    """Seconds until it was there again; NaN if it never was."""
    longest: float = 0.0
    """Seconds that another environment waited meanwhile."""
    otherwise: float = 0.0
    """The same at other times."""
    steps: int = 0
    """Of the others meanwhile."""
    lost: int = 0
    """Others that were restarted or reset."""

    @property
    def hangs(self) -> bool:
        """Or crashes."""
        return self.sign == "SIGSTOP"

    def held(self, limit: float) -> bool:
        """Whether it came back, and the others neither lost anything nor waited so many seconds."""
        return not math.isnan(self.back) and not self.lost and self.longest <= limit


def longest(waits: list[tuple[float, float]], begin: float, end: float) -> tuple[float, float]:
    """The longest wait that overlaps this time, and the longest other one."""
    inside = [sent < end and sent + wait > begin for sent, wait in waits]
    during = [wait for (_, wait), is_inside in zip(waits, inside, strict=True) if is_inside]
    other = [wait for (_, wait), is_inside in zip(waits, inside, strict=True) if not is_inside]
    return max(during, default=0.0), max(other, default=0.0)


def read(notes: Path, envs: int, failures: list[str]) -> list[Fault]:
    """What the engines noted, for each failure."""

    def note(env: int, life: int) -> dict[str, list[float]]:
        path = notes / f"{env}-{life}.json"
        return json.loads(path.read_text()) if path.exists() else {}

    lives = [note(0, life) for life in range(len(failures) + 1)]
    faults = []
    for sign, (before, after) in zip(failures, pairwise(lives), strict=True):
        if not before or not after:
            faults.append(Fault(sign, float("nan")))
            continue
        begin, end = before["ended"], after["began"]
        fault = Fault(sign, end - begin)
        for env in range(1, envs):
            own = [n for life in range(100) if (n := note(env, life))]
            waits = [tuple(wait) for each in own for wait in each["waits"]]
            during, other = longest(waits, begin, end)
            fault.longest, fault.otherwise = max(fault.longest, during), max(fault.otherwise, other)
            fault.steps += sum(begin < sent < end for sent, _ in waits)
            # The first reset begins the run; one soon after the failure is its consequence.
            resets = [when for each in own for when in each["resets"]]
            fault.lost += any(begin < when < end + 1 for when in resets) or any(
                begin < each["began"] < end + 1 for each in own
            )
        faults.append(fault)
    return faults


def main() -> int:
    """Run as the module says."""
    options = parse_options(
        __doc__,
        envs=4,
        timeout={"default": 3, "help": "seconds an engine has for an answer"},
        steps={"default": 60_000, "help": "of the whole run"},
        after={"default": 1500, "help": "steps of environment 0 until it fails"},
        failures={"default": ["SIGKILL", "SIGSTOP"], "help": "signals, in turn"},
        products=programs.OPTION,
        record={"default": False, "help": "keep the figures"},
    )
    recorder, bad = Recorder(3, options.record), 0
    limits = ["--max-lifetime-restarts", str(len(options.failures)), "--restarts-rate-limit-n", "-1"]
    lengths = {"checkpoint_interval": 10_000, "max_steps": options.steps, "summary_freq": 10_000}
    settings = {"trainer_type": "ppo", "hyperparameters": WEIGHTS, "network_settings": NETWORK}
    settings |= {"time_horizon": 64, **lengths}
    for product in options.products:
        with tempfile.TemporaryDirectory() as scratch:
            folder, notes = Path(scratch).resolve(), Path(scratch, "notes").resolve()
            notes.mkdir()
            plan = {"failures": options.failures, "after": options.after, "folder": str(notes)}
            game = executable(folder, ENGINE.format(**plan))
            engines = ["--env", game, "--num-envs", str(options.envs), "--timeout-wait", str(options.timeout)]
            engines += ["--base-port", str(first_free_port(options.envs))]
            yaml = programs.configuration(product, {"behaviors": {"Ball": settings}})
            ended = programs.learn(product, folder, *engines, *limits, yaml=yaml, seconds=4 * PATIENCE)
            faults = read(notes, options.envs, options.failures)
        good = ended.status == 0 and not ended.left
        if not good:
            print(ended.text[-3000:])
        for fault in faults:
            held = good and fault.held(options.timeout / 2)
            kind = f"hangs, limit {options.timeout} s" if fault.hangs else "crashes"
            found = (
                f"back after {fault.back:.2f} s; of the others {fault.lost} were reset or restarted, they "
            )
            found += f"made {fault.steps} steps meanwhile; longest wait else {fault.otherwise:.2f} s"
            if not good:
                found += f"; status {ended.status}, {ended.left} processes left: {ended.last_line[:150]}"
            recorder.add(
                *(f"one of {options.envs} {kind}, whole runs", product, 1, int(held)),
                **{"worst": fault.longest, "unit": "s of waiting for the others", "found": found},
                figure=4 if fault.hangs else 3,
            )
            bad += product == LANISTA and not held
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
