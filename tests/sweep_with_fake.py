"""Runs a sweep as `lanista sweep` does, with `fake_learn.py` in the place of lanista-learn.

python tests/sweep_with_fake.py SWEEP.yaml [arguments of lanista sweep]
"""

import sys
from pathlib import Path

from lanista.trainers.cli.main import main
from lanista.trainers.sweep import loop
from lanista.trainers.sweep.sweep import Sweep

FAKE = (sys.executable, str(Path(__file__).with_name("fake_learn.py")))

if __name__ == "__main__":
    real = Sweep.open
    Sweep.open = lambda self, tell, force=False: real(self, tell, force=force, program=FAKE)
    loop.POLL = 0.02
    main(["sweep", *sys.argv[1:]])
