"""Every setting of a behavior has a rule for a change of it, which the docs tell too."""

import re
from pathlib import Path

import pytest
from lanista.trainers.checkpoints.compatibility import recorded_settings
from lanista.trainers.checkpoints.rules import OF_PLUGIN, TABLE, Resumed, rule_of
from lanista.trainers.settings import registry
from lanista.trainers.settings.models.behavior import TrainerSettings
from lanista.trainers.settings.models.hyperparameters import HyperparamSettings
from lanista.trainers.settings.models.networks import NetworkSettings
from lanista.trainers.settings.models.rewards import REWARD_SIGNAL_SETTINGS
from lanista.trainers.settings.options import RunOptions

SECTIONS = {"hyperparameters", "network_settings"}
"""Sections that are always there, and are no settings themselves."""
PAGE = Path(__file__).parents[3] / "docs" / "run-files.md"


def paths(model, place=""):
    """The paths of all settings below a model."""
    sections = dict(model.children())
    for key in model.model_fields:
        if key not in SECTIONS:
            yield f"{place}{key}"
        models = [sections[key]] if key in sections else []
        if sections.get(key) is HyperparamSettings:
            models = [trainer.settings for trainer in registry.trainer_types.values()]
        elif key == "reward_signals":
            models = REWARD_SIGNAL_SETTINGS.values()
        elif model is NetworkSettings and key == "critic" and place != "network_settings.":
            models = []  # only the policy has one
        below = f"{place}{key}.*." if key == "reward_signals" else f"{place}{key}."
        for child in models:
            yield from paths(child, below)


def test_every_setting_has_a_rule_and_every_rule_a_setting():
    assert set(paths(TrainerSettings)) == set(TABLE)
    assert all(rule.why for rule in TABLE.values())


def test_what_a_checkpoint_depends_on_is_recorded():
    signals = {"extrinsic": {}, "gail": {"demo_path": "a.demo"}}
    behaviors = {
        trainer: {
            "trainer_type": trainer,
            "network_settings": {"memory": {}, "state_dependent_exploration": {}},
            "hyperparameters": {"batch_size": 128},
            "reward_signals": signals,
            "self_play": {},
        }
        for trainer in ("ppo", "coma", "sac", "dqn")
    }
    options = RunOptions.from_dict({"behaviors": behaviors})
    recorded = {path for name in behaviors for path in recorded_settings(options.behavior(name))}
    recorded = {re.sub(r"^reward_signals\.\w+", "reward_signals.*", path) for path in recorded} - {
        "reward_signals.*"
    }
    assert all(rule_of(path).recorded for path in recorded)
    sections = {"self_play"}  # only if absent
    for network in ("network_settings", "network_settings.critic"):
        sections |= {f"{network}.memory", f"{network}.state_dependent_exploration"}
    wanted = {path for path, rule in TABLE.items() if rule.recorded} - sections
    of_signals = {"memory_size", "memory_type", "sequence_length", "resample_interval"}  # not of theirs
    missing = {path for path in wanted - recorded if path.rpartition(".")[2] not in of_signals}
    assert missing <= {"reward_signals", "trainer_type"}


def test_a_setting_of_a_plug_in_may_change_with_a_warning():
    for path in ("hyperparameters.patience", "reward_signals.mine.height", "hyperparameters.inner.size"):
        assert rule_of(path) is OF_PLUGIN
    assert rule_of("reward_signals.mine.gamma").resumed is Resumed.ROLLOUT_DROPPED


@pytest.mark.parametrize("kind", Resumed)
def test_the_docs_have_the_settings_of_each_kind(kind):
    told = {}
    section = PAGE.read_text().partition("## With other settings")[2].partition("\n## ")[0]
    for row in re.findall(r"^\| ([^|]+) \| ([^|]+) \|", section, re.MULTILINE):
        told[row[0].strip()] = set(re.findall(r"`([a-z_]+)`", row[1]))
    rows = {
        Resumed.REFUSED: "refused",
        Resumed.SHAPED: "refused, if the networks have other weights with it",
        Resumed.WARNED: "warning",
        Resumed.UNUSED: "no effect, which a warning says",
        Resumed.ROLLOUT_DROPPED: "waiting steps are dropped",
        Resumed.STEPS_DROPPED: "waiting steps and a saved replay are dropped",
        Resumed.REPLAY_SHAPED: "a saved replay is dropped, if its steps lie otherwise",
    }
    if kind is not Resumed.ALLOWED:
        keys = {path.rpartition(".")[2] for path, rule in TABLE.items() if rule.resumed is kind}
        assert told[rows[kind]] == keys
