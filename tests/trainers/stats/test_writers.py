"""The stats writers of a run follow from its settings and the installed plug-ins."""

import importlib
import logging
import sys
import types
from collections import namedtuple
from enum import Enum

import pytest
from installed_plugins import install
from lanista.envs.base import StatsAggregationMethod
from lanista.trainers.settings.errors import TrainerConfigError
from lanista.trainers.settings.options import RunOptions
from lanista.trainers.stats.display import SilentDisplay, make_display
from lanista.trainers.stats.reporter import StatsReporter
from lanista.trainers.stats.tensorboard import TensorBoardWriter
from lanista.trainers.stats.writer import StatsPropertyType, StatsWriter
from lanista.trainers.stats.writers import CsvWriter, adapted, close_writers, make_writers

FOREIGN = """
class Writer:
    written = []
    def write_stats(self, category, values, step):
        self.written.append((category, step, {key: value.mean for key, value in values.items()}))

def make(run_options):
    assert run_options.checkpoint_settings.run_id == "ppo"
    return [Writer()]
"""

OWN = """
from lanista.trainers.stats.writer import StatsWriter

class Mine(StatsWriter):
    def write_stats(self, category, values, step):
        pass

def make(options):
    return [Mine(), Mine()]

def fail(options):
    raise RuntimeError("no connection\\nat all")

def wrong(options):
    return [3]

def leave(options):
    raise SystemExit(3)

def one_by_one(options):
    yield Mine()
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Installs a package with these entry points and modules for one test."""
    loaded = set(sys.modules)

    def make(entry_points, modules):
        monkeypatch.syspath_prepend(install(tmp_path / "site", entry_points, modules))
        importlib.invalidate_caches()

    yield make
    for name in {"sample_theirs", "sample_mine", "sample_needy"} - loaded:
        sys.modules.pop(name, None)


def names(options, folder, caplog=None):
    return [writer.name for writer in make_writers(options, folder)]


def options(yaml=""):
    return RunOptions.from_text(yaml or "{}")


@pytest.mark.parametrize(
    ("yaml", "expected", "silent"),
    [
        ("{}", [TensorBoardWriter], False),
        ("stats_writers: [tensorboard, console]", [TensorBoardWriter], False),
        ("stats_writers: [csv]", [CsvWriter], True),
        ("stats_writers: csv", [CsvWriter], True),
        ("stats_writers: [csv, tensorboard, csv]", [TensorBoardWriter, CsvWriter], True),
        ("stats_writers: none", [], True),
        ("stats_writers: []", [], True),
    ],
)
def test_the_settings_choose_the_writers(yaml, expected, silent, tmp_path):
    from lanista.trainers.settings.models.outputs import CONSOLE, writes_to

    chosen = options(yaml)
    assert [type(writer) for writer in make_writers(chosen, tmp_path)] == expected
    display = make_display("r", plain=True, silent=not writes_to(chosen.stats_writers, CONSOLE))
    assert isinstance(display, SilentDisplay) == silent


def test_only_a_choice_of_writers_is_recorded():
    assert "stats_writers" not in options().as_dict()
    assert options("stats_writers: csv").as_dict()["stats_writers"] == ["csv"]


@pytest.mark.parametrize(
    ("yaml", "told"),
    [
        ("stats_writers: [tensorbord]", "Did you mean tensorboard?"),
        ("stats_writers: [mime]", "Did you mean mine?"),
        ("stats_writers: [none, csv]", "none stands alone"),
        ("stats_writers: {csv: true}", "expected a list"),
        ("stats_writers: 3", "expected a list"),
    ],
)
def test_a_wrong_choice_is_explained(yaml, told, installed):
    installed({"lanista.stats_writers": {"mine": "sample_mine:make"}}, {"sample_mine": OWN})
    with pytest.raises(TrainerConfigError) as caught:
        options(yaml)
    assert told in str(caught.value)


def test_a_plug_in_writes_when_it_is_named(installed, tmp_path):
    installed({"lanista.stats_writers": {"mine": "sample_mine:make"}}, {"sample_mine": OWN})
    assert names(options("stats_writers: [mine, csv]"), tmp_path) == ["CsvWriter", "Mine", "Mine"]
    assert names(options(), tmp_path) == ["TensorBoardWriter"]


def test_a_plug_in_may_be_a_generator_of_writers(installed, tmp_path):
    installed({"lanista.stats_writers": {"mine": "sample_mine:one_by_one"}}, {"sample_mine": OWN})
    assert names(options("stats_writers: [mine]"), tmp_path) == ["Mine"]


def test_a_writer_that_clears_its_values_does_not_affect_the_others():
    class Greedy(StatsWriter):
        def write_stats(self, category, values, step):
            values.clear()

    class Next(StatsWriter):
        def write_stats(self, category, values, step):
            self.got = dict(values)

    last = Next()
    reporter = StatsReporter("Ball", [Greedy(), last])
    reporter.add_stat("a", 1.0)
    reporter.write_stats(10)
    assert last.got["a"].mean == 1.0


def test_checking_settings_executes_no_plug_in(installed):
    installed({"lanista.stats_writers": {"mine": "sample_mine:make"}}, {"sample_mine": "1 / 0"})
    assert options("stats_writers: [mine]").stats_writers == ["mine"]
    assert "sample_mine" not in sys.modules


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("sample_mine:fail", "RuntimeError: no connection"),
        ("sample_mine:wrong", "expected a StatsWriter"),
        ("sample_mine:leave", "SystemExit: 3"),
        ("sample_mine:absent", "AttributeError"),
        ("sample_nowhere:make", "No module named 'sample_nowhere'"),
        ("not an entry point!", "cannot be loaded"),
    ],
)
def test_a_failing_plug_in_is_reported_and_skipped(value, told, installed, tmp_path, caplog):
    installed({"lanista.stats_writers": {"mine": value}}, {"sample_mine": OWN})
    assert names(options("stats_writers: [mine, csv]"), tmp_path) == ["CsvWriter"]
    (record,) = caplog.records
    message = record.getMessage()
    assert record.levelno == logging.WARNING and "\n" not in message
    assert all(part in message for part in ("'mine'", "sample 1.2", told))


def test_plug_ins_of_ml_agents_write_as_in_ml_agents(installed, tmp_path):
    entries = {"other": "sample_theirs:make", "default": "sample_theirs:must_not_be_loaded"}
    installed({"mlagents.stats_writer": entries}, {"sample_theirs": FOREIGN})
    writers = make_writers(options(), tmp_path)
    assert [writer.name for writer in writers] == ["TensorBoardWriter", "Writer"]
    reporter = StatsReporter("Ball", writers[1:])
    reporter.add_property(StatsPropertyType.MAX_STEPS, 10)
    reporter.add_stat("Goals", 2.0)
    reporter.write_stats(100)
    close_writers(writers)
    assert writers[1].writer.written == [("Ball", 100, {"Goals": 2.0})]
    assert names(options("stats_writers: [csv]"), tmp_path) == ["CsvWriter"], "named ones alone"
    assert names(options("stats_writers: [other]"), tmp_path) == ["Writer"]


def test_a_plug_in_that_needs_ml_agents_classes_is_explained(installed, tmp_path, caplog, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlagents", None)
    needy = "from mlagents.trainers.stats import StatsWriter\n"
    installed({"mlagents.stats_writer": {"needy": "sample_needy:make"}}, {"sample_needy": needy})
    assert names(options(), tmp_path) == ["TensorBoardWriter"]
    (record,) = caplog.records
    assert "'needy'" in record.getMessage() and "was written for ML-Agents' classes" in record.getMessage()
    assert "lanista.stats_writers" in record.getMessage() and "\n" not in record.getMessage()


class TheirBase:
    """Stands for ML-Agents' base class."""

    def on_add_stat(self, category, key, value, aggregation):
        raise AssertionError("costs a call per value")

    on_add_stat.__qualname__ = "StatsWriter.on_add_stat"

    def write_stats(self, category, values, step):
        self.last = values


def test_single_values_reach_only_writers_that_override_on_add_stat():
    class Curious(TheirBase):
        def on_add_stat(self, category, key, value, aggregation):
            self.heard = (category, key, value, aggregation.name)

    plain, curious = TheirBase(), Curious()
    reporter = StatsReporter("Ball", [adapted(plain), adapted(curious)])
    reporter.add_stat("Goals", 2.0, StatsAggregationMethod.SUM)
    assert curious.heard == ("Ball", "Goals", 2.0, "SUM")


def test_a_failing_on_add_stat_is_reported_once_and_others_continue(caplog):
    class Deaf(StatsWriter):
        def write_stats(self, category, values, step):
            self.step = step

        def on_add_stat(self, category, key, value, aggregation):
            raise KeyError(key)

        def close(self):
            raise OSError("gone")

    deaf = Deaf()
    reporter = StatsReporter("Ball", [deaf])
    reporter.add_stat("a", 1.0)
    reporter.add_stats("a", [1.0, 2.0])
    reporter.set_stat("b", 1.0)
    reporter.write_stats(7)
    close_writers([deaf, CsvWriter(".")])
    assert deaf.step == 7
    assert [r.getMessage().partition(" (")[0] for r in caplog.records] == [
        "Ball: Deaf failed",
        "Deaf could not be closed: OSError: gone",
    ]


def test_plug_ins_of_an_installed_ml_agents_get_its_own_classes(monkeypatch, caplog):
    theirs = types.ModuleType("mlagents.trainers.stats")
    theirs.StatsPropertyType = Enum("StatsPropertyType", {"HYPERPARAMETERS": "hyperparameters"})
    theirs.StatsAggregationMethod = Enum("StatsAggregationMethod", {"AVERAGE": 0, "SUM": 2})
    theirs.StatsSummary = namedtuple("StatsSummary", "full_dist aggregation_method")
    monkeypatch.setitem(sys.modules, "mlagents.trainers.stats", theirs)

    class Writer(TheirBase):
        def add_property(self, category, property_type, value):
            self.told = (property_type, value)

    writer = Writer()
    reporter = StatsReporter("Ball", [adapted(writer)])
    reporter.add_property(StatsPropertyType.HYPERPARAMETERS, {"a": 1})
    reporter.add_property(StatsPropertyType.MAX_STEPS, 10)
    reporter.add_stat("Goals", 2.0, StatsAggregationMethod.SUM)
    reporter.write_stats(5)
    assert not caplog.records, "a property that ML-Agents has not is not handed on"
    assert writer.told == (theirs.StatsPropertyType.HYPERPARAMETERS, {"a": 1})
    assert writer.last == {"Goals": theirs.StatsSummary([2.0], theirs.StatsAggregationMethod.SUM)}
