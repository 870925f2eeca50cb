"""Leaves the tests that are marked `slow` to continuous integration, and says how many and how to run them.

They run where `-m` selects tests itself, and where their file is named on the command line.
"""

from pathlib import Path

import pytest

LEFT_OUT = pytest.StashKey[int]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the slow tests, unless they were asked for. Those that play in a real Godot are slow."""
    for item in items:
        if "godot_engine" in item.fixturenames:
            item.add_marker(pytest.mark.slow)
    if config.option.markexpr:
        return
    named = {Path(config.invocation_params.dir, arg.partition("::")[0]).resolve() for arg in config.args}
    slow = [item for item in items if item.get_closest_marker("slow") and item.path.resolve() not in named]
    if slow:
        left_out = set(slow)
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=slow)
    config.stash[LEFT_OUT] = len(slow)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the process that shows the results: with `-n` the tests are collected in others."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["slow"] = session.config.stash.get(LEFT_OUT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error) -> None:
    """Every worker has collected all tests, so that one number counts for all."""
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("slow", 0)


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    """Say what was not run."""
    count = config.stash.get(LEFT_OUT, 0)
    if count:
        terminalreporter.write_line(
            f"{count} slow tests were left to continuous integration; these run with: pytest -q -n 2 -m slow"
        )
