"""What `lanista doctor` says of the packages that setup.py names."""

import platform

import pytest
from lanista.trainers.tools.doctor import packages
from lanista.trainers.tools.doctor.command import Level

NOWHERE = "a-package-that-nobody-has"


@pytest.mark.parametrize(("system", "missed"), [(platform.system(), True), ("Another", False)])
def test_a_package_is_missed_where_it_is_needed(monkeypatch, system, missed):
    """Windows' launcher of programs was a fault on Linux, where pip leaves it out."""
    lines = [f'{NOWHERE}>=1.5; platform_system == "{system}"', "torch>=2.4"]
    monkeypatch.setattr(packages, "requires", lambda _: lines)
    told = [each.text for each in packages.packages() if each.level is Level.FAULT]
    assert told == [f"{NOWHERE} is not installed"] * missed
