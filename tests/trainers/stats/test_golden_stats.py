"""Statistics against what ML-Agents 1.1.0 computes and prints."""

import re

import goldendata
import pytest
from lanista.envs.base import StatsAggregationMethod
from lanista.trainers.checkpoints.manager import CheckpointManager
from lanista.trainers.checkpoints.status import TrainingStatus
from lanista.trainers.stats.console import ConsoleWriter
from lanista.trainers.stats.reporter import StatsReporter
from lanista.trainers.stats.timers import gauge_name
from lanista.trainers.stats.writer import StatsPropertyType, StatsWriter, hyperparameter_text
from lanista.trainers.trainer.schedules import StepSchedule

ELSEWHERE = {"bc_update"}
"""tests/trainers/algorithms/imitation/test_behavioral_cloning.py."""
HERE = {"aggregate", "console_line", "hyperparameter_text", "gauge_name", "step_events", "checkpoints"}


class Recorder(StatsWriter):
    def __init__(self):
        self.written = []

    def write_stats(self, category, values, step):
        self.written.append((category, dict(values), step))


def test_every_kind_of_case_is_tested():
    assert goldendata.kinds("stats") <= HERE | ELSEWHERE


@pytest.mark.parametrize("case", goldendata.cases("stats", "aggregate"))
def test_values_are_aggregated_by_the_method_of_the_last_report(case):
    recorder = Recorder()
    reporter = StatsReporter("Beh", [recorder])
    for given in case["inputs"]["rounds"]:
        for what, key, value, *how in given["calls"]:
            if what == "set":
                reporter.set_stat(key, value)
            else:
                reporter.add_stat(key, value, StatsAggregationMethod[how[0]])
        reporter.write_stats(given["write_step"])
    assert [step for _, _, step in recorder.written] == [r["write_step"] for r in case["inputs"]["rounds"]]
    for (_, values, _), expected in zip(recorder.written, case["expected"]["written_per_round"]):
        found = {
            key: {
                "aggregation": summary.aggregation_method.name,
                "value": pytest.approx(summary.aggregated_value, rel=1e-9),
                "count": summary.num,
            }
            for key, summary in values.items()
        }
        assert expected == found


@pytest.mark.parametrize("case", goldendata.cases("stats", "console_line"))
def test_the_console_line_is_the_reference_s(case):
    given = case["inputs"]
    reporter = StatsReporter(given["behavior"], [lines := Lines()])
    reporter.add_property(StatsPropertyType.SELF_PLAY, given["self_play"])
    for reward in given["rewards"]:
        reporter.add_stat("Environment/Cumulative Reward", reward, StatsAggregationMethod.HISTOGRAM)
    for reward in given["group_rewards"] or []:
        reporter.add_stat("Environment/Group Cumulative Reward", reward, StatsAggregationMethod.HISTOGRAM)
    for elo in given["elo"] or []:
        reporter.add_stat("Self-play/ELO", elo)
    reporter.set_stat("Is Training", given["is_training"])
    reporter.write_stats(given["step"])
    assert re.sub(r"Elapsed: [0-9.]+ s", "Elapsed: <t> s", lines.text) == case["expected"]["line"]


class Lines(ConsoleWriter):
    def write_stats(self, category, values, step):
        self.text = self.line(category, values, step)


@pytest.mark.parametrize("case", goldendata.cases("stats", "hyperparameter_text"))
def test_settings_are_printed_as_by_the_reference(case):
    assert hyperparameter_text(case["inputs"]["dict"]) == case["expected"]["text"]


@pytest.mark.parametrize("case", goldendata.cases("stats", "gauge_name"))
def test_gauges_are_named_as_in_the_reference(case):
    assert gauge_name(case["inputs"]["text"]) == case["expected"]["name"]


@pytest.mark.parametrize("case", goldendata.cases("stats", "step_events"))
def test_summaries_and_checkpoints_are_due_at_the_reference_s_steps(case):
    given = case["inputs"]
    clock = StepSchedule(given["summary_freq"], given["checkpoint_interval"])
    for length, expected in zip(given["trajectory_lengths"], case["expected"]["per_trajectory"]):
        events = []
        if (label := clock.summary_due(length)) is not None:
            events.append(["summary", label])
        if clock.checkpoint_due(length):
            events.append(["checkpoint", clock.step])
        clock.count(length)
        assert events == expected["events"]
        assert clock.step == expected["step_after"]
        assert (clock.step <= given["max_steps"]) == expected["should_train_after"]


@pytest.mark.parametrize("case", goldendata.cases("stats", "checkpoints"))
def test_as_many_checkpoints_are_kept_as_by_the_reference(case, tmp_path):
    status = TrainingStatus(tmp_path / "run_logs" / "training_status.json")
    after = case["expected"]["after_each"]
    (behavior,) = {file.rpartition("-")[0] for each in after for file in each["files"]}
    manager = CheckpointManager(behavior, tmp_path, case["inputs"]["keep_checkpoints"], status)
    for step, expected in zip(case["inputs"]["steps"], after, strict=True):
        manager.save(step, {"global_step": step}, export=lambda path: path.write_bytes(b"model"))
        listed = [entry["steps"] for entry in status.get(behavior, "checkpoints")]
        folder = tmp_path / behavior
        files = sorted(path.name for path in folder.iterdir() if path.name != "checkpoint.pt")
        assert listed == expected["listed_steps"]
        assert files == sorted(expected["files"])
