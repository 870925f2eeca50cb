"""Replaces lanista-learn in tests of a sweep's bookkeeping: reports a curve and exits.

It goes by the file `fake.json` in the folder from which it is started: run ids that `fail`, that `block`
until a file `go` appears there, and the `worth` of runs. What it started is appended to `starts`, what it was
asked to end to `ends`.
"""

import json
import signal
import sys
import time
from pathlib import Path

import yaml


def main():
    words = sys.argv[1:]
    pairs = [words[k + 1].partition("=") for k, word in enumerate(words) if word == "--set"]
    given = {key: yaml.safe_load(value) for key, _, value in pairs}
    run_id, resume = given["checkpoint_settings.run_id"], given["checkpoint_settings.resume"]
    how = json.loads(Path("fake.json").read_text()) if Path("fake.json").exists() else {}
    folder = Path(given["checkpoint_settings.results_dir"]) / run_id
    (folder / "Basic").mkdir(parents=True, exist_ok=True)
    note("starts", f"{run_id} {'resumed' if resume else 'new'} seed {given['env_settings.seed']}")
    signal.signal(signal.SIGTERM, lambda *_: (note("ends", run_id), sys.exit(0)))
    if run_id in how.get("fail", ()):
        print("some line\nlanista-learn: error: the engine is on strike")
        sys.exit(1)
    worth = how.get("worth", {}).get(run_id, 1.0)
    lines = ["step,time,Environment/Cumulative Reward\n", *(f"{k}00,0.0,{worth}\n" for k in range(1, 11))]
    halfway = 6
    table = folder / "Basic" / "summaries.csv"
    table.write_text("".join(lines[:halfway]))
    while run_id in how.get("block", ()) and not Path("go").exists():
        time.sleep(0.02)
    table.write_text("".join(lines))


def note(name, line):
    with open(name, "a") as file:
        file.write(line + "\n")


if __name__ == "__main__":
    main()
