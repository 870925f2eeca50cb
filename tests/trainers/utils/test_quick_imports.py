"""Imports without garbage collections leave the collector as they found it."""

import gc

import pytest
from lanista.trainers.utils.quick_imports import quick_imports


@pytest.fixture(autouse=True)
def collector():
    yield
    gc.unfreeze()
    gc.enable()


def test_nothing_is_collected_within_and_what_was_made_is_left_alone():
    before = gc.get_freeze_count()
    with quick_imports():
        assert not gc.isenabled()
        kept = [[] for _ in range(1000)]
    assert gc.isenabled()
    assert gc.get_freeze_count() >= before + len(kept)


def test_a_collector_that_was_off_stays_off():
    gc.disable()
    before = gc.get_freeze_count()
    with pytest.raises(ImportError), quick_imports():
        raise ImportError
    assert not gc.isenabled()
    assert gc.get_freeze_count() == before
