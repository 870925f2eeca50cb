"""What a configuration may say but no run can do is refused before the run."""

import pytest
from lanista.docs._ext.units import UNITS
from lanista.trainers.settings import RunOptions, TrainerConfigError
from lanista.trainers.settings.base import Settings, value_type
from lanista.trainers.settings.models.environment_parameters import SAMPLERS
from lanista.trainers.settings.registry import trainer_types
from lanista.trainers.settings.schema import json_schema
from lanista.trainers.settings.validation import require_support, unsupported


def models(base=Settings):
    """Every model of a part of the configuration; a sweep has a file of its own."""
    below = {model for child in base.__subclasses__() for model in models(child)}
    ours = {model for model in below if model.__module__.startswith("lanista.")}
    ours -= {model for model in ours if model.__module__.startswith("lanista.trainers.tools.sweep.")}
    return ours | ({base} if base is not Settings else set())


def test_defaults_are_no_reason_to_refuse():
    assert unsupported(RunOptions.from_text("behaviors: {B: {test_frequency: -1}}\ncallbacks: []")) == []


def test_the_place_is_named():
    default = "default_settings:\n  trainer_type: td3\n  network_settings: {memory: {}}\n"
    text = f"{default}behaviors:\n  A: {{network_settings: {{memory: null}}}}\n  B: {{}}\n"
    (problem,) = unsupported(RunOptions.from_text(text, "b.yaml"))
    assert (problem.key, problem.place) == ("behaviors.B.network_settings.memory", "b.yaml, line 6")
    (problem,) = unsupported(RunOptions.from_text(default, "b.yaml"))
    assert (problem.key, problem.place) == ("default_settings.network_settings.memory", "b.yaml, line 3")


def test_a_critic_takes_unset_keys_from_the_policy():
    network = (
        "{normalize: true, hidden_units: 32, memory: {memory_size: 8}, critic: {hidden_units: 64},"
        " critic_only_observations: [Wind, 'Map*']}"
    )
    options = RunOptions.from_text(f"behaviors: {{B: {{trainer_type: coma, network_settings: {network}}}}}")
    critic = options.behaviors["B"].network_settings.critic
    assert (critic.hidden_units, critic.normalize, critic.memory.memory_size) == (64, True, 8)
    assert critic.critic_only_observations == ["Wind", "Map*"]
    require_support(options)
    again = RunOptions.from_dict(options.as_dict())
    assert again.behaviors["B"].network_settings == options.behaviors["B"].network_settings


@pytest.mark.parametrize(
    ("behavior", "message"),
    [
        (
            "{network_settings: {normalize: true, critic: {normalize: false}}}",
            "network_settings.critic.normalize: found false; the critic reads",
        ),
        (
            "{network_settings: {memory: {sequence_length: 8}, critic: {memory: {sequence_length: 4}}}}",
            "network_settings.critic.memory: policy and critic learn from the same sequences",
        ),
        (
            "{trainer_type: ppo, hyperparameters: {shared_critic: true}, network_settings: {critic: {}}}",
            "network_settings.critic: a shared critic is a part",
        ),
        ("{trainer_type: coma, network_settings: {critic: {critic: {}}}}", "a critic has no critic"),
        ("{reward_signals: {extrinsic: {network_settings: {critic: {}}}}}", "a reward signal has no critic"),
        (
            "{network_settings: {critic: {critic_only_observations: [Wind]}}}",
            r"critic\.critic_only_observations: .* move this key from critic to network_settings",
        ),
        (
            "{network_settings: {critic_only_observations: [Wind], critic: {critic_only_observations: []}}}",
            r"critic\.critic_only_observations: .* move this key from critic to network_settings",
        ),
        (
            "{reward_signals: {rnd: {network_settings: {critic_only_observations: [Wind]}}}}",
            r"rnd\.network_settings\.critic_only_observations: a reward signal reads all observations",
        ),
    ],
)
def test_critic_settings_that_cannot_be_used_are_refused(behavior, message):
    with pytest.raises(TrainerConfigError, match=message):
        require_support(RunOptions.from_text(f"behaviors: {{B: {behavior}}}"))


def test_every_number_has_a_unit():
    numeric = {
        key
        for model in models()
        for key, info in model.model_fields.items()
        if value_type(info.annotation).name in ("integer", "number")
    }
    assert numeric <= UNITS.keys(), "add the new key to docs/_ext/units.py"


def test_a_key_has_one_type_with_every_trainer():
    kinds: dict[str, set[str]] = {}
    for trainer in trainer_types.values():
        for key, info in trainer.settings.model_fields.items():
            kinds.setdefault(key, set()).add(value_type(info.annotation).name)
    assert all(len(found) == 1 for found in kinds.values()), kinds


def test_the_schema_knows_every_trainer_and_sampler():
    definitions = json_schema()["$defs"]
    known = [kind.settings.__name__ for kind in trainer_types.values()]
    assert {*known, *(model.__name__ for model in SAMPLERS.values())} <= definitions.keys()
