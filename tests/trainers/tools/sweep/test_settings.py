"""Errors in a sweep's file are reported with their places and suggestions."""

import pytest
import yaml
from lanista.trainers.settings.errors import TrainerConfigError
from lanista.trainers.tools.sweep.settings import read_sweep

RATE = "behaviors.Basic.hyperparameters.learning_rate"
GOOD = {"preset": "ppo/basic", "env": "scene:basic", "parameters": {RATE: {"min": 1e-4, "max": 1e-2}}}


def read(tmp_path, told, **given):
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(told))
    return read_sweep(str(file), given)


def test_missing_keys_have_defaults(tmp_path):
    settings = read(tmp_path, GOOD)
    assert (settings.name, settings.sampler, settings.pruner.type) == ("mine", "tpe", "median")
    assert settings.metric == "Environment/Cumulative Reward" and settings.direction == "maximize"


def test_short_forms(tmp_path):
    settings = read(tmp_path, GOOD | {"config": "a.yaml", "pruner": "none", "flags": "--num-envs 2"})
    assert settings.config == ["a.yaml"] and settings.flags == ["--num-envs", "2"]
    assert settings.pruner.type == "none"


def test_the_command_line_wins_over_the_file(tmp_path):
    settings = read(tmp_path, GOOD | {"trials": 3}, trials=5, name="other")
    assert (settings.trials, settings.name) == (5, "other")


@pytest.mark.parametrize(
    "change, says",
    [
        ({"trails": 3}, "trails: unknown key. Did you mean `trials`?"),
        ({"sampler": "tpee"}, "Did you mean tpe?"),
        ({"pruner": "medium"}, "Did you mean median?"),
        ({"parameters": {}}, "parameters: found {}, expected at least one entry"),
        ({"preset": None}, "name the configuration of the runs"),
        ({"trials": 0}, "trials: found 0, expected at least 1"),
        ({"parameters": {RATE: {"min": 1}}}, "expected {min: ..., max: ...}"),
        ({"parameters": {RATE: {"min": 2, "max": 1}}}, "found min 2 and max 1, expected a max above min"),
        ({"parameters": {RATE: {"min": 0, "max": 1, "log": True}}}, "expected a min above 0"),
        ({"parameters": {RATE: {"min": 1, "max": 8, "log": True, "step": 1}}}, "has no steps"),
        ({"parameters": {RATE: {"min": 16, "max": 100, "step": 16}}}, "the last step is 96"),
        ({"parameters": {RATE: {"min": 1, "max": 2, "step": 0}}}, "found step 0"),
        ({"parameters": {RATE: {"values": [1], "min": 1}}}, "`values` and a range"),
        ({"parameters": {RATE: {"values": [1]}}}, "two or more"),
        ({"parameters": {RATE: {"values": [1, 2, 1]}}}, "expected two or more different values"),
        ({"parameters": {RATE: {"low": 1, "max": 2}}}, "low: unknown key"),
        ({"parameters": {"behaviors..x": {"values": [1, 2]}}}, "is no path"),
        ({"parameters": {"env_settings.seed": {"values": [1, 2]}}}, "the sweep sets itself"),
        ({"parameters": {"checkpoint_settings.run_id": {"values": "ab"}}}, "found 'ab', expected a list"),
        ({"set": {RATE: 1}}, "under `parameters` too"),
        ({"flags": ["--run-id", "x"]}, "every trial has its own run ID"),
        ({"flags": ["--resume"]}, "resumed automatically"),
        ({"flags": ["--set", "a=1"]}, "write it under `set`"),
        ({"name": "../elsewhere"}, "names a folder within results_dir"),
    ],
)
def test_a_wrong_file_is_explained(tmp_path, change, says):
    told = {key: value for key, value in (GOOD | change).items() if value is not None}
    with pytest.raises(TrainerConfigError) as wrong:
        read(tmp_path, told)
    assert says in str(wrong.value)
    assert "mine.yaml" in str(wrong.value)


def test_arguments_of_the_environment_are_not_parsed_as_flags(tmp_path):
    assert read(tmp_path, GOOD | {"flags": ["--env-args", "--seed", "3"]}).flags[-1] == "3"
