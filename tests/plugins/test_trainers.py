"""Trainers of other packages: found by their entry points, and explained where they cannot be used."""

import importlib
import sys

import pytest
from installed_plugins import install
from lanista.trainers.checkpoints.compatibility import changed_settings, recorded_settings
from lanista.trainers.checkpoints.file import serialize
from lanista.trainers.checkpoints.rules import Resumed
from lanista.trainers.settings import registry
from lanista.trainers.settings.errors import TrainerConfigError
from lanista.trainers.settings.options import RunOptions
from lanista.trainers.settings.validation import require_support
from lanista.trainers.trainer.factory import make_algorithm
from lanista.trainers.utils.errors import TrainerError

MODULE = """
from pathlib import Path

from lanista.trainers.settings import PPOSettings, TrainerType

class Mine(PPOSettings):
    patience: int = 3
    folders: tuple[Path, ...] = ()

TRAINER = TrainerType(Mine, algorithm="sample_trainer:nothing")
NAMELESS = TrainerType(Mine)
MISBUILT = TrainerType(dict, algorithm="sample_trainer:nothing")
calls = []

def leave():
    raise SystemExit(4)

def make():
    calls.append(1)
    return TRAINER

def fail():
    raise OSError("no licence")
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Installs a package whose trainers have these entry points."""

    def make(module=MODULE, group="lanista.trainers", **entries):
        monkeypatch.syspath_prepend(install(tmp_path, {group: entries}, {"sample_trainer": module}))
        importlib.invalidate_caches()
        registry._of_plugin.cache_clear()

    yield make
    registry._of_plugin.cache_clear()
    sys.modules.pop("sample_trainer", None)


def error_of(text):
    with pytest.raises(TrainerConfigError) as caught:
        RunOptions.from_text(text)
    return str(caught.value)


@pytest.mark.parametrize("value", ["sample_trainer:TRAINER", "sample_trainer:make"])
def test_a_plug_in_is_a_trainer_type_or_a_function_that_gives_one(value, installed):
    installed(mine=value)
    text = "behaviors: {B: {trainer_type: mine, hyperparameters: {patience: 7, batch_size: 64}}}"
    options = RunOptions.from_text(text)
    hyper = options.behaviors["B"].hyperparameters
    assert (hyper.patience, hyper.batch_size) == (7, 64)
    require_support(options)
    again = RunOptions.from_dict(options.as_dict())
    assert again.behaviors["B"].hyperparameters == hyper


def test_checkpoints_record_its_settings_and_a_change_is_warned_of(installed):
    """What depends on them only the plug-in knows; those of `PPOSettings` have the rules that PPO's have."""
    installed(mine="sample_trainer:TRAINER")

    def described(**hyper):
        tree = {"behaviors": {"B": {"trainer_type": "mine", "hyperparameters": hyper}}}
        return {"settings": recorded_settings(RunOptions.from_dict(tree).behavior("B"))}

    now = described(patience=7, folders=["a"], lambd=0.5)
    assert serialize(now)
    changes = {change.path: change for change in changed_settings(described(), now)}
    assert {path: change.rule.resumed for path, change in changes.items()} == {
        "hyperparameters.patience": Resumed.WARNED,
        "hyperparameters.folders": Resumed.WARNED,
        "hyperparameters.lambd": Resumed.ROLLOUT_DROPPED,
    }
    assert str(changes["hyperparameters.patience"]) == "hyperparameters.patience was 3, is 7"


def test_default_settings_reach_a_plug_in_key_by_key(installed):
    installed(mine="sample_trainer:TRAINER")
    options = RunOptions.from_text(
        "default_settings: {trainer_type: ppo, hyperparameters: {batch_size: 64, shared_critic: true}}\n"
        "behaviors: {B: {trainer_type: mine, hyperparameters: {patience: 7}}}"
    )
    assert options.behaviors["B"].hyperparameters.batch_size == 64
    assert options.behaviors["B"].hyperparameters.patience == 7


def test_a_plug_in_is_loaded_only_when_it_is_named(installed):
    installed(module="raise RuntimeError('loaded')", mine="sample_trainer:TRAINER")
    assert RunOptions.from_text("behaviors: {B: {trainer_type: ppo}}").behaviors["B"].trainer_type == "ppo"
    assert "Did you mean mine?" in error_of("behaviors: {B: {trainer_type: mihne}}")


def test_a_plug_in_cannot_take_the_place_of_ppo(installed):
    installed(ppo="sample_trainer:TRAINER")
    hyper = RunOptions.from_text("behaviors: {B: {trainer_type: ppo}}").behaviors["B"].hyperparameters
    assert type(hyper).__name__ == "PPOSettings"


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("sample_trainer:absent", "AttributeError"),
        ("sample_missing:TRAINER", "No module named 'sample_missing'"),
        ("sample_trainer:fail", "OSError: no licence"),
        ("sample_trainer:NAMELESS", "that names its algorithm"),
        ("sample_trainer:calls", "that names its algorithm"),
        ("sample_trainer:leave", "SystemExit: 4"),
        ("sample_trainer:MISBUILT", "expected a class derived from"),
    ],
)
def test_a_plug_in_that_cannot_be_used_is_an_error_that_names_it(value, says, installed):
    installed(mine=value)
    message = error_of("behaviors: {B: {trainer_type: mine, hyperparameters: {patience: 7}}}")
    assert all(part in message for part in ("behaviors.B.trainer_type", "'mine'", "sample 1.2", says))
    assert "patience" not in message, "said once, where it is wrong"


def test_a_trainer_written_for_ml_agents_is_explained(installed):
    installed(group="mlagents.trainer_type", a2c="sample_trainer:never_loaded", default="x:y")
    message = error_of("behaviors: {B: {trainer_type: a2c}}")
    assert "ML-Agents' own trainer classes" in message and "lanista.trainers" in message
    assert "Invalid trainer type default" in error_of("behaviors: {B: {trainer_type: default}}")


@pytest.mark.parametrize("place", ["sample_trainer:nothing", "sample_missing:Algorithm", "nonsense"])
def test_an_algorithm_that_cannot_be_imported_ends_the_run_with_its_place(place, installed):
    installed(module=MODULE.replace("sample_trainer:nothing", place), mine="sample_trainer:TRAINER")
    settings = RunOptions.from_text("behaviors: {B: {trainer_type: mine}}").behaviors["B"]
    with pytest.raises(TrainerError, match=f"trainer_type mine, which is '{place}', cannot be imported"):
        make_algorithm(None, settings, None, 0, None)
