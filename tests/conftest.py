"""Makes `tests/goldendata.py` importable as `goldendata` in every test."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
