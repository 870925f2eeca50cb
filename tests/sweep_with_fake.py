"""Runs a sweep as `lanista sweep` does, with `fake_learn.py` in the place of lanista-learn.

python tests/sweep_with_fake.py SWEEP.yaml [arguments of lanista sweep]
"""

import sys
from pathlib import Path

from lanista.trainers.cli.main import main
from lanista.trainers.tools.sweep import study as loop
from lanista.trainers.tools.sweep.command import Sweep

FAKE = (sys.executable, str(Path(__file__).with_name("fake_learn.py")))
REAL = Sweep.open


def pretend(put=setattr):
    """Let sweeps of this process start simulated runs, and poll them often."""
    put(Sweep, "open", lambda self, tell, force=False: REAL(self, tell, force=force, program=FAKE))
    put(loop, "POLL_INTERVAL", 0.02)


if __name__ == "__main__":
    pretend()
    main(["sweep", *sys.argv[1:]])
