"""Shows on Windows why a test failed as soon as it has: `run.py` may end the tests before their end."""

import os

import pytest

configs: list[pytest.Config] = []


def pytest_configure(config: pytest.Config) -> None:
    """Remember what knows the terminal; the processes that run the tests write nothing."""
    if os.name == "nt" and not hasattr(config, "workerinput"):
        configs[:] = [config]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write what is known of a failure."""
    for config in configs if report.failed else ():
        if terminal := config.pluginmanager.get_plugin("terminalreporter"):
            terminal.write_line(f"\n{report.nodeid} {report.when}:\n{report.longreprtext}")
