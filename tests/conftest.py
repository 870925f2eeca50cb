"""Makes `tests/goldendata.py` importable as `goldendata`, and random tests independent of time."""

import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

# A busy machine must not fail a test.
settings.register_profile("lanista", deadline=None)
settings.load_profile("lanista")
