"""default_settings, unlisted behaviors, and defaults that depend on other keys."""

from pathlib import Path

import pytest
import yaml
from lanista.trainers.settings import RunOptions, TrainerConfigError
from lanista.trainers.settings.command_line import assign
from lanista.trainers.settings.models.behavior import TrainerSettings
from lanista.trainers.settings.models.hyperparameters import ScheduleType
from lanista.trainers.settings.yaml_source import Source


def read(text):
    return RunOptions.from_text(text, "ball.yaml")


def test_each_behavior_overrides_the_default_settings():
    options = read("""
default_settings:
  trainer_type: ppo
  hyperparameters: {batch_size: 77, beta: 0.5}
  reward_signals: {extrinsic: {gamma: 0.5}}
  network_settings: {memory: {memory_size: 32}}
behaviors:
  A: {hyperparameters: {beta: 0.1}, network_settings: {memory: null}}
  B: {}
""")
    a, b = options.behaviors["A"], options.behaviors["B"]
    assert (a.hyperparameters.batch_size, a.hyperparameters.beta) == (77, 0.1)
    assert (b.hyperparameters.batch_size, b.hyperparameters.beta) == (77, 0.5)
    assert a.reward_signals["extrinsic"].gamma == 0.5
    assert a.network_settings.memory is None
    assert b.network_settings.memory.memory_size == 32


def test_another_trainer_takes_only_defaults_that_are_written_and_its_own():
    options = read("""
default_settings:
  trainer_type: sac
  hyperparameters: {batch_size: 77, tau: 0.5}
  max_steps: 1234
behaviors: {A: {trainer_type: ppo}, B: {trainer_type: poca, hyperparameters: {beta: 0.5}}}
""")
    a, b = options.behaviors["A"], options.behaviors["B"]
    assert (a.max_steps, a.hyperparameters.batch_size, a.hyperparameters.buffer_size) == (1234, 77, 10240)
    assert a.hyperparameters.learning_rate_schedule is ScheduleType.LINEAR
    assert (b.hyperparameters.batch_size, b.hyperparameters.beta) == (77, 0.5)


def test_what_the_defaults_do_not_write_is_completed_for_each_behavior():
    """A recipe's networks, a critic's and coefficients: as if the behavior stood alone."""
    options = read("""
default_settings: {trainer_type: sac, network_settings: {num_layers: 3, critic: {num_layers: 1}}}
behaviors:
  A: {hyperparameters: {recipe: simba}}
  B: {network_settings: {hidden_units: 64}}
""")
    alone = RunOptions.from_text("""
behaviors:
  A:
    trainer_type: sac
    hyperparameters: {recipe: simba}
    network_settings: {num_layers: 3, critic: {num_layers: 1}}
  B: {trainer_type: sac, network_settings: {hidden_units: 64, num_layers: 3, critic: {num_layers: 1}}}
""")
    for name, settings in alone.behaviors.items():
        assert options.behaviors[name].as_dict() == settings.as_dict()
    assert options.behaviors["A"].hyperparameters.init_entcoef == 0.01
    assert options.behaviors["B"].network_settings.critic.hidden_units == 64


@pytest.mark.parametrize("trainer", ["mappo", "coma"])
def test_schedules_of_lanistas_own_trainers_follow_each_behaviors_learning_rate(trainer):
    """A default that was not written does not override what depends on the behavior's own keys."""
    options = read(f"""
default_settings: {{trainer_type: {trainer}, hyperparameters: {{batch_size: 77}}}}
behaviors: {{A: {{hyperparameters: {{learning_rate_schedule: constant}}}}}}
""")
    hyper = options.behaviors["A"].hyperparameters
    assert hyper.batch_size == 77
    assert hyper.beta_schedule is hyper.epsilon_schedule is ScheduleType.CONSTANT
    assert RunOptions.from_dict(options.as_dict()).behaviors == options.behaviors


FOLLOWING = {
    "hyperparameters.beta_schedule": ("ppo", "", "hyperparameters: {learning_rate_schedule: constant}"),
    "hyperparameters.epsilon_schedule": ("poca", "", "hyperparameters: {learning_rate_schedule: constant}"),
    "hyperparameters.reward_signal_steps_per_update": ("sac", "", "hyperparameters: {steps_per_update: 20}"),
    "self_play.team_change": ("ppo", "self_play: {window: 5}", "self_play: {save_steps: 50000}"),
    "checkpoint_interval": ("ppo", "even_checkpoints: true, max_steps: 1000", "even_checkpoints: false"),
}
"""Keys that follow from others: the trainer, what default settings and what the behavior write."""
VALUES = {
    "hyperparameters.beta_schedule": ("linear", "constant"),
    "hyperparameters.epsilon_schedule": ("linear", "constant"),
    "hyperparameters.reward_signal_steps_per_update": (1.0, 20.0),
    "self_play.team_change": (100000, 250000),
    "checkpoint_interval": (200, 500000),
}
"""What ML-Agents makes of default settings before a behavior overrides them; what follows."""


def value_of(options, key):
    value = options.as_dict()["behaviors"]["A"]
    for part in key.split("."):
        value = value[part]
    return value


@pytest.mark.parametrize("key", FOLLOWING)
def test_what_default_settings_complete_is_as_in_mlagents_with_a_note(key, caplog):
    """So that the same file trains as there."""
    trainer, default, own = FOLLOWING[key]
    text = f"default_settings: {{trainer_type: {trainer}, {default}}}\nbehaviors: {{A: {{%s}}}}"
    of_mlagents, follows = VALUES[key]
    options = read(text % own)
    assert value_of(options, key) == of_mlagents
    assert f"behaviors.A.{key}: not written, so {of_mlagents} as in default_settings" in caplog.text
    assert f"by what A writes it would be {follows}" in caplog.text
    caplog.clear()
    assert value_of(RunOptions.from_dict(options.as_dict()), key) == of_mlagents, "as a run records it"
    read(text % "time_horizon: 8")
    assert not caplog.text


@pytest.mark.parametrize("key", FOLLOWING)
@pytest.mark.parametrize("where", ["the behavior", "the defaults", "another trainer", "--set", "Python"])
def test_what_follows_from_other_keys_does_so_wherever_they_are_written(key, where, caplog):
    trainer, default, own = FOLLOWING[key]
    follows = VALUES[key][1]
    if where == "the behavior":
        options = read(f"behaviors: {{A: {{trainer_type: {trainer}, {own}}}}}")
    elif where == "the defaults":
        options = read(f"default_settings: {{trainer_type: {trainer}, {own}}}\nbehaviors: {{A: {{}}}}")
    elif where == "another trainer":  # which ML-Agents does not read
        other = "dqn" if trainer == "sac" else "mappo"
        defaults = f"default_settings: {{trainer_type: {trainer}, {default}}}"
        options = read(f"{defaults}\nbehaviors: {{A: {{trainer_type: {other}, {own}}}}}")
    else:
        text = f"behaviors: {{A: {{trainer_type: {trainer}, {default}}}}}"
        source = Source(yaml.safe_load(text)) if where == "--set" else read(text).as_source("")
        ((name, value),) = yaml.safe_load(f"{{{own}}}").items()
        inner = value if isinstance(value, dict) else {None: value}
        for part, given in inner.items():
            path = ("behaviors", "A", name, part) if part else ("behaviors", "A", name)
            assign(source, path, given, where)
        options = RunOptions.from_source(source)
    assert value_of(options, key) == follows
    assert "not written" not in caplog.text


def test_options_that_python_has_changed_are_checked_and_completed_when_a_run_begins():
    options = read("behaviors: {A: {trainer_type: ppo, network_settings: {critic: {num_layers: 1}}}}")
    a = options.behaviors["A"]
    a.hyperparameters.learning_rate_schedule = "constant"
    a.network_settings.hidden_units = 64
    a.network_settings.encoders["Eye"] = "eyes:Eye"
    again = options.read_again().behaviors["A"]
    schedules = again.hyperparameters.learning_rate_schedule, again.hyperparameters.beta_schedule
    assert schedules == (ScheduleType.CONSTANT, ScheduleType.CONSTANT)
    assert again.network_settings.critic.hidden_units == 64
    assert again.network_settings.encoders == {"Eye": "eyes:Eye"}
    assert "self_play" not in again.model_fields_set, "null is asked for only where it is written"
    a.time_horizon = 0
    with pytest.raises(TrainerConfigError, match=r"ball\.yaml: behaviors\.A\.time_horizon: found 0"):
        options.read_again()


ANEW = [
    """
default_settings:
  trainer_type: sac
  threaded: true
  hyperparameters: {n_step: 3}
  network_settings: {layer_norm: true}
behaviors: {A: {threaded: false, hyperparameters: {n_step: 1}, network_settings: {layer_norm: false}}, B: {}}
""",
    """
default_settings:
  trainer_type: sac
  hyperparameters: {recipe: simba}
  network_settings: {hidden_units: 64, critic: {hidden_units: 256}}
behaviors: {A: {}, B: {hyperparameters: {recipe: mlagents}}, C: {trainer_type: ppo}}
""",
    """
default_settings:
  network_settings: {memory: {memory_type: gru}, critic: {residual: true}}
  reward_signals: {extrinsic: {}, rnd: {strength: 0.1, network_settings: {layer_norm: true}}}
  self_play: {learn_from_both_sides: true}
behaviors:
  A: {network_settings: {memory: {memory_type: lstm}, critic: null}}
  B: {reward_signals: {rnd: {network_settings: {layer_norm: false}}}, self_play: null}
  C: {self_play: {learn_from_both_sides: false}}
""",
]


@pytest.mark.parametrize("text", ANEW)
def test_what_is_written_is_read_as_the_same_whatever_the_defaults(text):
    """As a run's configuration.yaml is, which repeats the run."""
    options = read(text)
    again = RunOptions.from_dict(options.as_dict())
    assert again.behaviors == options.behaviors and again.default_settings == options.default_settings
    assert again.as_dict() == options.as_dict()
    begun = options.read_again()
    assert begun == options and begun.as_dict() == options.as_dict()


def test_unlisted_behavior_gets_its_own_copy_of_the_default_settings():
    options = read("default_settings: {max_steps: 7}\nbehaviors: {A: {}}\n")
    new = options.behavior("New")
    assert new.max_steps == 7
    new.network_settings.hidden_units = 1
    assert options.default_settings.network_settings.hidden_units == 128
    assert options.behavior("New") is new
    assert list(options.as_dict()["behaviors"]) == ["A", "New"]


def test_unlisted_behavior_without_default_settings_is_an_error():
    with pytest.raises(TrainerConfigError, match=r"Other .*ball\.yaml \(listed: A, B\).*default_settings"):
        read("behaviors: {A: {}, B: {}}").behavior("Other")


def test_an_entry_that_may_be_meant_is_to_be_renamed_not_the_engine_s_behavior():
    with pytest.raises(TrainerConfigError) as caught:
        read("behaviors: {PushBlock: {}, Other: {}}").behavior("PushBlockCollab")
    said = str(caught.value)
    assert "set default_settings. If PushBlock is meant for it, rename that entry to PushBlockCollab" in said
    assert "Did you mean" not in said


def test_any_behavior_without_a_file(caplog):
    assert RunOptions.from_dict({}).behavior("Any").as_dict() == TrainerSettings().as_dict()
    assert "Any does not match any behaviors" in caplog.text


def test_deterministic_reaches_every_behavior():
    options = read("default_settings: {}\nbehaviors: {A: {}}\n")
    options.act_deterministically()
    assert options.repeatable
    assert all(options.behavior(name).network_settings.deterministic for name in ("A", "New"))
    without_file = RunOptions.from_dict({})
    without_file.act_deterministically()
    assert without_file.behavior("New").network_settings.deterministic


def test_seed_is_set_on_a_copy():
    options = read("env_settings: {base_port: 6000}")
    seeded = options.with_seed(5)
    assert (options.env_settings.seed, seeded.env_settings.seed) == (-1, 5)
    assert seeded.env_settings.model_fields_set == {"base_port", "seed"}
    assert "timeout_wait" not in seeded.env_settings.model_fields_set


def test_schedules_follow_the_learning_rate():
    hyper = read("behaviors: {B: {trainer_type: ppo, hyperparameters: {learning_rate_schedule: constant}}}")
    hyper = hyper.behaviors["B"].hyperparameters
    assert hyper.beta_schedule is hyper.epsilon_schedule is ScheduleType.CONSTANT


def test_checkpoints_spread_evenly():
    text = "behaviors: {B: {even_checkpoints: true, keep_checkpoints: 3, max_steps: 1000}}"
    assert read(text).behaviors["B"].checkpoint_interval == 333


def test_own_keys_are_written_only_if_they_differ_from_the_default():
    assert "non_finite" not in read("env_settings: {non_finite: stop}").as_dict()["env_settings"]
    assert read("env_settings: {non_finite: zero}").as_dict()["env_settings"]["non_finite"] == "zero"


def test_order_is_that_of_configuration_yaml():
    options = read("behaviors: {B: {trainer_type: ppo}}").as_dict()
    assert " ".join(options) == (
        "default_settings behaviors env_settings engine_settings environment_parameters checkpoint_settings "
        "torch_settings debug"
    )
    assert " ".join(options["behaviors"]["B"]) == (
        "trainer_type hyperparameters checkpoint_interval network_settings reward_signals init_path "
        "keep_checkpoints even_checkpoints max_steps time_horizon summary_freq threaded self_play "
        "behavioral_cloning"
    )
    assert " ".join(options["behaviors"]["B"]["hyperparameters"]) == (
        "batch_size buffer_size learning_rate beta epsilon lambd num_epoch shared_critic "
        "learning_rate_schedule beta_schedule epsilon_schedule"
    )


def test_a_batch_larger_than_the_buffer_is_a_warning(caplog):
    read("behaviors: {B: {trainer_type: ppo, hyperparameters: {buffer_size: 100}}}")
    assert "batch_size 1024 is larger than buffer_size 100" in caplog.text


@pytest.mark.parametrize(
    ("horizon", "trainer", "warned"), [(32, "ppo", True), (64, "ppo", False), (32, "coma", False)]
)
def test_a_sequence_longer_than_any_trajectory_is_a_warning(horizon, trainer, warned, caplog):
    """COMA learns from whole trajectories."""
    memory = "network_settings: {memory: {sequence_length: 64}}"
    read(f"behaviors: {{B: {{trainer_type: {trainer}, time_horizon: {horizon}, {memory}}}}}")
    assert ("sequence_length 64 is longer than time_horizon 32" in caplog.text) == warned


def test_folders_of_a_run():
    files = read("checkpoint_settings: {run_id: a, initialize_from: b, results_dir: out}").checkpoint_settings
    assert (files.write_path, files.maybe_init_path) == (str(Path("out/a")), str(Path("out/b")))
    assert files.run_logs_dir == str(Path("out/a/run_logs"))


@pytest.mark.parametrize("trainer", ["ppo", "poca", "sac", "coma", "dqn", "ddpg", "td3"])
def test_an_ml_agents_file_clones_as_there_and_all_others_compare_what_the_engine_gets(trainer):
    text = "behaviors: {A: {trainer_type: %s, behavioral_cloning: {demo_path: a.demo%s}}}"
    given = {
        key: read(text % (trainer, f", engine_actions: {key}")).behavior("A") for key in ("true", "false")
    }
    assert given["true"].clones_engine_actions and not given["false"].clones_engine_actions
    by_default = read(text % (trainer, "")).behavior("A")
    assert by_default.clones_engine_actions is (trainer not in ("ppo", "poca", "sac"))
    assert "engine_actions" not in by_default.as_dict()["behavioral_cloning"]
