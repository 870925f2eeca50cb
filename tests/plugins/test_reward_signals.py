"""Reward signals of other packages: trained with, resumed, and explained where they cannot be used."""

import importlib
import sys

import pytest
import torch
from console_runs import learn
from installed_plugins import install
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.rewards.factory import make_reward_providers
from lanista.trainers.settings import registry
from lanista.trainers.settings.errors import TrainerConfigError
from lanista.trainers.settings.options import RunOptions
from lanista.trainers.stats.event_files import read_curves
from lanista.trainers.trainer.factory import make_algorithm
from lanista.trainers.utils.errors import TrainerError
from specs import vector_spec

SETTINGS = """
from lanista.trainers.settings import LearnedRewardSettings, RewardSignal, RewardSignalSettings

class Mine(RewardSignalSettings):
    height: float = 0.5

class Unprepared(Mine):
    learning_rate: float = 0.1

PLAIN = RewardSignal(Mine, provider="sample_provider:Plain")
LEARNED = RewardSignal(LearnedRewardSettings, provider="sample_provider:Learned")
UNPREPARED = RewardSignal(Unprepared, provider="sample_provider:Learned")
FAILING = RewardSignal(Mine, provider="sample_provider:fail")
NOTHING = RewardSignal(Mine, provider="sample_provider:nothing")
WRONG = RewardSignal(Mine, provider="sample_provider:Wrong")
ABSENT = RewardSignal(Mine, provider="sample_provider:Absent")
NAMELESS = RewardSignal(Mine)
MISBUILT = RewardSignal(dict, provider="sample_provider:Plain")

def make():
    return PLAIN
"""
PROVIDERS = """
import numpy as np
from lanista.trainers.rewards.rnd import RND

class Plain:
    ignores_done = True

    def __init__(self, spec, settings, device, seed, non_finite):
        self.height = settings.height

    def evaluate(self, rollout):
        return np.full(rollout.steps, self.height)

class Learned(RND):
    name = "mine"

class Wrong(Plain):
    def evaluate(self, rollout):
        return np.zeros((rollout.steps, 2))

def fail(*arguments):
    raise OSError("no licence")

def nothing(*arguments):
    return None
"""
YAML = """
behaviors:
  Basic:
    trainer_type: %s
    hyperparameters: {batch_size: 32, %s}
    network_settings: {hidden_units: 16, num_layers: 1}
    reward_signals: {extrinsic: {}, mine: {strength: 0.5}}
    max_steps: 300
    summary_freq: 150
"""
TRAINERS = {"ppo": "buffer_size: 64", "sac": "buffer_init_steps: 64, steps_per_update: 4"}


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Installs a package whose reward signals have these entry points."""

    def make(**entries):
        modules = {"sample_settings": SETTINGS, "sample_provider": PROVIDERS}
        folder = install(tmp_path / "site", {"lanista.reward_signals": entries}, modules)
        monkeypatch.syspath_prepend(folder)
        importlib.invalidate_caches()
        registry._signal_of_plugin.cache_clear()
        return folder

    yield make
    registry._signal_of_plugin.cache_clear()
    for name in ("sample_settings", "sample_provider"):
        sys.modules.pop(name, None)


def error_of(text):
    with pytest.raises(TrainerConfigError) as caught:
        RunOptions.from_text(text)
    return str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize("kind", ["PLAIN", "LEARNED"])
def test_every_kind_of_trainer_adds_it_up_and_resumes_with_it(
    installed, tmp_path, monkeypatch, trainer, kind
):
    monkeypatch.setenv("PYTHONPATH", str(installed(mine=f"sample_settings:{kind}")))
    yaml = YAML % (trainer, TRAINERS[trainer])
    run = learn(tmp_path, "--env", "scene:basic", yaml=yaml)
    assert run.good
    earned = read_curves(run.files("Basic")[0]).by_tag["Policy/Mine Reward"].values
    assert len(earned) == 2 and min(earned) > 0
    again = learn(
        tmp_path, "--env", "scene:basic", "--resume", "--set", "behaviors.Basic.max_steps=450", yaml=yaml
    )
    assert again.good and "resuming training from step" in again.out


def test_its_settings_are_read_checked_and_written(installed):
    installed(mine="sample_settings:make")
    options = RunOptions.from_text("behaviors: {B: {reward_signals: {mine: {height: 2, gamma: 0.9}}}}")
    own = options.behaviors["B"].reward_signals["mine"]
    assert (own.height, own.gamma, own.strength) == (2.0, 0.9, 1.0)
    assert RunOptions.from_dict(options.as_dict()).behaviors["B"].reward_signals["mine"] == own
    assert "Did you mean `mine`?" in error_of("behaviors: {B: {reward_signals: {mined: {}}}}")
    assert "reward_signals.mine.heigth" in error_of("behaviors: {B: {reward_signals: {mine: {heigth: 1}}}}")


def test_it_is_loaded_only_when_it_is_named_and_cannot_take_the_place_of_a_built_in_one(installed):
    installed(mine="sample_missing:PLAIN", rnd="sample_missing:PLAIN")
    options = RunOptions.from_text("behaviors: {B: {reward_signals: {extrinsic: {}, rnd: {}}}}")
    assert type(options.behaviors["B"].reward_signals["rnd"]).__name__ == "RNDSettings"


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("sample_settings:absent", "AttributeError"),
        ("sample_missing:PLAIN", "No module named 'sample_missing'"),
        ("sample_settings:NAMELESS", "that names its provider"),
        ("sample_settings:MISBUILT", "expected a class derived from"),
    ],
)
def test_settings_that_cannot_be_used_are_an_error_that_names_the_plug_in(installed, value, says):
    installed(mine=value)
    message = error_of("behaviors: {B: {reward_signals: {mine: {height: 1}}}}")
    assert all(part in message for part in ("behaviors.B.reward_signals.mine", "'mine'", "sample 1.2", says))


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("UNPREPARED", "its settings must be a class derived from LearnedRewardSettings"),
        ("FAILING", "failed: OSError: no licence"),
        ("NOTHING", r"has no evaluate\(rollout\)"),
        (
            "ABSENT",
            "The provider of the reward signal mine, which is 'sample_provider:Absent', cannot",
        ),
    ],
)
def test_a_provider_that_cannot_be_made_ends_the_run_with_its_place(installed, kind, says):
    installed(mine=f"sample_settings:{kind}")
    settings = RunOptions.from_text("behaviors: {B: {reward_signals: {mine: {}}}}").behaviors["B"]
    spec, how = vector_spec([3], continuous=1), (torch.device("cpu"), 0, NonFinitePolicy.STOP)
    algorithm = make_algorithm(spec, settings, *how)
    with pytest.raises(TrainerError, match=says):
        make_reward_providers(algorithm, spec, settings, *how)


@pytest.mark.slow
def test_rewards_that_do_not_fit_the_steps_are_an_error(installed, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(installed(mine="sample_settings:WRONG")))
    run = learn(tmp_path, "--env", "scene:basic", yaml=YAML % ("ppo", TRAINERS["ppo"]))
    assert "The reward signal mine gave an array of shape" in run.error
