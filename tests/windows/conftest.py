"""Shows on Windows why a test failed as soon as it has: `run.py` may end the tests before their end."""

import os

import pytest

reporter: list[object] = []


def pytest_configure(config: pytest.Config) -> None:
    """Find what writes to the terminal; the processes that run the tests write nothing."""
    if os.name == "nt" and not hasattr(config, "workerinput"):
        reporter[:] = [config.pluginmanager.get_plugin("terminalreporter")]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write what is known of a failure."""
    if report.failed:
        for terminal in reporter:
            terminal.write_line(f"\n{report.nodeid} {report.when}:\n{report.longreprtext}")
