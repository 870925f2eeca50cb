"""Modules of the user's own, in the working directory."""

import sys

import pytest


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    """Writes modules into the working directory, from which they can be imported during the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    names = []

    def write(name, text):
        (tmp_path / f"{name}.py").write_text(text)
        names.append(name)

    yield write
    for name in names:
        sys.modules.pop(name, None)
