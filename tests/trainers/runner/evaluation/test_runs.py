"""A run with tests learns what a run without learns; tests say what the policy is worth, and may fail."""

import json
import re

import pytest
from reliability.resume import differences, numbers
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

YAML = """\
default_settings:
  trainer_type: {trainer}
  hyperparameters: {{batch_size: 16, buffer_size: 128, num_epoch: 1, learning_rate: 0.01}}
  network_settings: {{normalize: true, hidden_units: 8, num_layers: 1{memory}}}
  checkpoint_interval: 200
  max_steps: 460
  time_horizon: 8
  summary_freq: 100
"""
LSTM = ", memory: {memory_size: 4, sequence_length: 8}"
TESTS = ["--set", "default_settings.test_frequency=150", "--set", "default_settings.test_episodes=6"]
START = ["c.yaml", "--env", "scene:basic", "--seed", "3"]


@pytest.fixture
def runs(runs):
    runs.configure(YAML.format(trainer="ppo", memory=""))
    return runs


ROWS = {".buffer.numbers", ".buffer.mates", ".buffer.next_mates", ".buffer.other_numbers"}
"""Numbers by which the rows of a process are told apart: the second run of a process counts on."""


def told(out, behavior="Tiny"):
    """(step, mean, deviation) of every test."""
    found = re.findall(
        rf"{behavior}\. Test at Step: (\d+)\. Mean [\w ]+: (\S+)\. Std of [\w ]+: (\S+)\. E", out
    )
    return [(int(step), float(mean), float(std)) for step, mean, std in found]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trainer", "memory", "rules"),
    [
        ("ppo", "", {}),
        ("ppo", LSTM, {"cont": 0, "disc": [3]}),
        ("poca", "", {"groups": True}),
        ("mappo", LSTM, {"groups": True}),
        ("coma", "", {"groups": True, "cont": 0, "disc": [3]}),
        ("coma", LSTM, {"groups": True, "cont": 0, "disc": [3]}),
    ],
    ids=["ppo", "ppo with a memory", "poca", "mappo with a memory", "coma", "coma with a memory"],
)
def test_no_bit_of_what_is_learnt_differs(runs, tmp_path, capsys, trainer, memory, rules):
    (tmp_path / "c.yaml").write_text(YAML.format(trainer=trainer, memory=memory))
    runs.rules.update(rules)
    assert runs(*START, "--run-id", "plain") == 0
    assert "Test at" not in capsys.readouterr().out
    assert runs(*START, "--run-id", "tested", *TESTS) == 0
    tests = told(capsys.readouterr().out)
    plain, tested = runs.state("plain"), runs.state("tested")
    steps = [step for step, _, _ in tests]
    assert [step // 150 for step in steps[:3]] == [1, 2, 3]
    assert steps[-1] == tested["step"] and len(set(steps)) == len(steps), "the final policy, once"
    assert tested.pop("test_due") == 600 and tested.pop("last_test") == tested["step"]
    assert plain["step"] > 460 and numbers(plain) > 100
    assert not [text for text in differences(plain, tested) if text.partition(":")[0] not in ROWS]


def curves(folder):
    events = EventAccumulator(str(folder))
    events.Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_what_tests_show_is_told_and_equal_tests_show_the_same(runs, tmp_path, capsys):
    still = ["--set", "default_settings.hyperparameters.learning_rate=1e-30"]
    still += ["--set", "default_settings.network_settings.normalize=false"]
    assert runs(*START, "--run-id", "r", *TESTS, *still) == 0
    tests = told(capsys.readouterr().out)
    assert (
        len(tests) == 3
        and len({figures for _, *figures in map(tuple, tests) for figures in [tuple(figures)]}) == 1
    )
    found = curves(tmp_path / "results" / "r" / "Tiny")
    for tag, column in ("Evaluation/Cumulative Reward", 1), ("Evaluation/Cumulative Reward Std", 2):
        assert [step for step, _ in found[tag]] == [test[0] for test in tests]
        assert [value for _, value in found[tag]] == pytest.approx([test[column] for test in tests], abs=6e-4)
    assert all(0 < value <= 12 for _, value in found["Evaluation/Episode Length"])
    assert len(found["Evaluation/Seconds"]) == 3
    assert [step for step, _ in found["Environment/Cumulative Reward"]] == [100, 200, 300, 400]


def test_a_resumed_run_is_tested_where_it_would_have_been(runs, tmp_path, capsys):
    assert runs(*START, "--run-id", "r", *TESTS) == 0
    first = told(capsys.readouterr().out)
    more = ["--set", "default_settings.max_steps=760"]
    assert runs(*START, "--run-id", "r", *TESTS, *more, "--resume") == 0
    later = told(capsys.readouterr().out)
    assert [step // 150 for step, *_ in first + later] == [1, 2, 3, 4, 5]


def test_the_best_are_kept_by_what_tests_say(runs, tmp_path, capsys):
    best = ["--set", "default_settings.keep_best=2", "--set", "default_settings.test_frequency=100"]
    assert runs(*START, "--run-id", "r", *TESTS, *best) == 0
    tests = told(capsys.readouterr().out)
    folder = tmp_path / "results" / "r"
    status = json.loads((folder / "run_logs" / "training_status.json").read_text())
    listed = {entry["steps"]: entry["reward"] for entry in status["Tiny"]["best_checkpoints"]}
    means = sorted((mean for _, mean, _ in tests), reverse=True)
    assert sorted(listed.values(), reverse=True) == pytest.approx(means[:2], abs=6e-4)
    by_step = {step: mean for step, mean, _ in tests}
    assert all(by_step[step] == pytest.approx(reward, abs=6e-4) for step, reward in listed.items())
    assert (folder / "Tiny" / "Tiny-best.onnx").exists()


@pytest.mark.parametrize("first", [False, True], ids=["tests from then on", "no tests from then on"])
def test_what_is_earned_while_learning_and_in_tests_is_not_compared(runs, tmp_path, first):
    """One of them may be far higher: what was kept by it would be the best for ever."""
    best, still = ["--set", "default_settings.keep_best=1"], ["--set", "default_settings.summary_freq=50"]
    assert runs(*START, "--run-id", "r", *best, *still, *(TESTS if first else [])) == 0
    status = tmp_path / "results" / "r" / "run_logs" / "training_status.json"
    kept = json.loads(status.read_text())
    (entry,) = kept["Tiny"]["best_checkpoints"]
    kept["Tiny"]["best_checkpoints"] = [{**entry, "reward": 99.0}]
    status.write_text(json.dumps(kept))
    more = ["--set", "default_settings.max_steps=760", "--resume"]
    assert runs(*START, "--run-id", "r", *best, *still, *more, *([] if first else TESTS)) == 0
    (later,) = json.loads(status.read_text())["Tiny"]["best_checkpoints"]
    assert later["steps"] > entry["steps"] and later["reward"] < 99.0


def test_behaviours_are_tested_together_and_those_without_tests_act_too(runs, tmp_path, capsys):
    runs.rules["behaviors"] = ["A?team=0", "A?team=1", "B?team=0", "C?team=0"]
    off = ["--set", "behaviors.C.test_frequency=-1", "--set", "behaviors.B.test_frequency=200"]
    assert runs(*START, "--run-id", "r", *TESTS, *off) == 0
    out = capsys.readouterr().out
    assert [step for step, *_ in told(out, "B")] and not told(out, "C")
    assert len(re.findall(r"A\. Test at", out)) == len(re.findall(r"B\. Test at", out))
    assert runs.state("r", "A")["test_due"] % 150 == 0 and runs.state("r", "B")["test_due"] % 200 == 0
    assert "test_due" not in runs.state("r", "C")


def test_a_test_that_fails_is_said_and_left_out(runs, tmp_path, capsys):
    runs.test_rules["until"] = 3
    assert runs(*START, "--run-id", "r", *TESTS) == 0
    out = capsys.readouterr().out
    assert len(re.findall(r"Tiny: the test at step \d+ failed, and is left out; training goes on", out)) == 3
    assert "RestartLimitError" in out
    assert not told(out) and runs.state("r")["step"] > 460


@pytest.mark.slow
def test_learning_in_a_thread_rests_while_it_is_tested(runs, tmp_path, capsys):
    threaded = ["--set", "default_settings.threaded=true", "--set", "default_settings.keep_best=1"]
    assert runs(*START, "--run-id", "r", *TESTS, *threaded) == 0
    assert len(told(capsys.readouterr().out)) >= 1
    assert (tmp_path / "results" / "r" / "Tiny" / "Tiny-best.pt").exists()


def test_the_editor_is_there_but_once(runs, capsys):
    assert runs("c.yaml", "--run-id", "r", *TESTS) == 1
    error = capsys.readouterr().err
    assert "default_settings.test_frequency: found 150" in error and "there is one editor" in error


def test_nothing_is_filmed_where_nothing_is_tested(runs, capsys):
    assert runs(*START, "--run-id", "r", "--set", "default_settings.test_video=true") == 1
    assert "set test_frequency" in capsys.readouterr().err
