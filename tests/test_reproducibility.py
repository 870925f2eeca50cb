"""Runs repeat bit for bit, and equal the hashes that are kept for this kind of machine.

Every case of `reproducibility.py` trains once and is compared with its kept hashes; where it has none for
this processor and this torch, it trains twice.
"""

import pytest
from console_runs import learn_command
from reproducibility import CASES, hashes, kept

pytestmark = pytest.mark.slow

KEPT = kept() or {}


@pytest.mark.parametrize("name", CASES)
def test_two_runs_have_equal_weights_models_and_curves(name):
    expected = KEPT.get(name) or hashes(name, learn_command())
    assert hashes(name, learn_command()) == expected
