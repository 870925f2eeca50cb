"""timers.json has the form that ML-Agents' tools read."""

import json
import logging
import math

import pytest
from console_runs import YAML, learn
from fake_engine import Clock
from lanista.trainers.stats.reporter import StatsReporter
from lanista.trainers.stats.timers import GaugeWriter, Timers


def test_time_is_counted_where_it_was_spent(tmp_path):
    clock = Clock()
    timers = Timers(clock)
    for _ in range(2):
        with timers.span("advance"):
            clock.now += 1.0
            with timers.span("env_step"):
                clock.now += 3.0
    with pytest.raises(KeyError), timers.span("save"):
        clock.now += 0.5
        raise KeyError
    clock.now += 0.25
    timers.save(tmp_path / "timers.json")
    tree = json.loads((tmp_path / "timers.json").read_text())
    assert list(tree) == ["name", "metadata", "total", "count", "self", "children"]
    assert (tree["name"], tree["total"], tree["count"], tree["self"]) == ("root", 8.75, 1, 0.25)
    advance = tree["children"]["advance"]
    assert (advance["total"], advance["count"], advance["self"]) == (8.0, 2, 2.0)
    assert advance["is_parallel"] is False
    assert advance["children"]["env_step"]["total"] == 6.0
    assert tree["children"]["save"]["total"] == 0.5
    assert {"timer_format_version", "mlagents_version", "numpy_version"} <= set(tree["metadata"])


def test_gauges_keep_the_last_value_and_its_range(tmp_path):
    gauges = GaugeWriter()
    reporter = StatsReporter("Ball", [gauges])
    for step, value in enumerate((3.0, 1.0, 2.0)):
        reporter.add_stats("Losses/Value Loss", [value, value])
        reporter.add_stat("Policy/Nothing", math.nan)
        reporter.write_stats(step)
    timers = Timers()
    timers.save(tmp_path / "timers.json", gauges.gauges)
    found = json.loads((tmp_path / "timers.json").read_text())["gauges"]
    assert found["Ball.Losses.ValueLoss.mean"] == {"value": 2.0, "min": 1.0, "max": 3.0, "count": 3}
    assert found["Ball.Losses.ValueLoss.sum"]["value"] == 4.0
    assert not [name for name in found if "Nothing" in name]


def test_timers_that_cannot_be_written_cost_a_warning(tmp_path, caplog):
    (tmp_path / "file").write_text("no folder")
    with caplog.at_level(logging.WARNING):
        Timers().save(tmp_path / "file" / "timers.json")
    assert "timers.json could not be written" in caplog.text


def names(node):
    """The tree of names below a node."""
    return {name: names(child) for name, child in node.get("children", {}).items()}


@pytest.mark.slow
@pytest.mark.parametrize("threaded", [False, True])
def test_timers_of_a_run_have_the_names_of_ml_agents(tmp_path, threaded):
    yaml = YAML.replace("    max_steps: 400", f"    threaded: {str(threaded).lower()}\n    max_steps: 400")
    ended = learn(tmp_path, "--env", "scene:basic", yaml=yaml.replace("Ball:", "Basic:"))
    assert ended.good
    (file,) = ended.files("timers.json")
    tree = json.loads(file.read_text())
    trainer = {"process_trajectory": {}, "_update_policy": {"TorchPPOOptimizer.update": {}}}
    loop = tree["children"]["TrainerController.start_learning"]
    updates = {"_update_policy": trainer.pop("_update_policy")}
    assert names(loop["children"]["TrainerController.advance"]) == {
        "env_step": {"SubprocessEnvManager._take_step": {"TorchPolicy.evaluate": {}}},
        "trainer_advance": trainer | ({"wait_for_learner": {}} if threaded else updates),
        "EnvManager.wait": {},
    }
    assert {"TrainerController._reset_env", "TrainerController._save_models"} <= set(loop["children"])
    threads = names(tree["children"]["trainer_threads"]) if threaded else None
    assert threads == ({"thread_root": updates} if threaded else None)
    spent = sum(child["total"] for child in loop["children"].values())
    assert 0 < spent <= loop["total"]
