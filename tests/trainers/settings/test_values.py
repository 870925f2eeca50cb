"""Single values: everything unambiguous is accepted, everything else refused with a message."""

import math

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from lanista.trainers.settings import NetworkSettings, PPOSettings, RunOptions, TrainerConfigError
from lanista.trainers.settings.command_line import parse_command_line
from lanista.trainers.settings.models.run import CheckpointSettings, EnvironmentSettings


@given(st.integers(1, 10**12))
def test_whole_numbers_in_every_spelling(value):
    for spelling in (value, str(value), float(value), f"{value}.0", f" {value} "):
        assert PPOSettings(batch_size=spelling).batch_size == value


@pytest.mark.parametrize("text", ["1e4", "1.0e4", "1.0e+4", "10000", "10_000", "'1e4'"])
def test_whole_numbers_as_yaml_has_them(text):
    options = RunOptions.from_text(f"behaviors: {{B: {{max_steps: {text}, time_horizon: {text}}}}}")
    assert options.behaviors["B"].max_steps == options.behaviors["B"].time_horizon == 10000


def test_a_fraction_is_truncated_with_a_warning(caplog):
    assert RunOptions.from_text("behaviors: {B: {time_horizon: 12.7}}").behaviors["B"].time_horizon == 12
    assert "time_horizon: 12.7 is not a whole number; 12 is used" in caplog.text


def test_a_warning_about_a_value_says_where_each_such_value_stands(caplog):
    yaml = """\
default_settings: {time_horizon: 9.5}
behaviors:
  A: {max_steps: 1.5, hyperparameters: {learning_rate: 0.3}}
  B:
    max_steps: 1.5
  C: {max_steps: '1.5'}
"""
    RunOptions.from_text(yaml, "c.yaml")
    assert sorted(record.getMessage().partition(" which")[0] for record in caplog.records) == [
        "c.yaml, line 1: default_settings.time_horizon: 9.5 is not a whole number; 9 is used.",
        "c.yaml, line 3: behaviors.A.hyperparameters.learning_rate: found 0.3,",
        "c.yaml, line 3: behaviors.A.max_steps: 1.5 is not a whole number; 1 is used.",
        "c.yaml, line 5: behaviors.B.max_steps: 1.5 is not a whole number; 1 is used.",
        "c.yaml, line 6: behaviors.C.max_steps: '1.5' is not a whole number; 1 is used.",
    ]


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=0, max_value=1e300))
def test_numbers_survive_yaml(value):
    text = yaml.safe_dump(
        {"behaviors": {"B": {"trainer_type": "ppo", "hyperparameters": {"learning_rate": value}}}}
    )
    hyper = RunOptions.from_text(text).behaviors["B"].hyperparameters
    assert hyper.learning_rate == value


@pytest.mark.parametrize(
    "text", [".nan", ".inf", "-.inf", "nan", "'1e999'", "1" + "0" * 400, "[1]", "yes", "x", ""]
)
def test_non_finite_numbers_are_refused(text):
    with pytest.raises(TrainerConfigError, match=r"engine_settings\.time_scale: found .*number"):
        RunOptions.from_text(f"engine_settings: {{time_scale: {text}}}")
    with pytest.raises(TrainerConfigError, match=r"env_settings\.seed: found "):
        RunOptions.from_text(f"env_settings: {{seed: {text}}}")


@pytest.mark.parametrize(
    ("texts", "value"),
    [
        (["true", "yes", "on", "True", "'true'", "'yes'", "1", "'on'"], True),
        (["false", "no", "off", "False", "'false'", "'no'", "0", "'Off'"], False),
    ],
)
def test_flags_in_every_spelling_even_in_quotes(texts, value):
    assert [RunOptions.from_text(f"debug: {text}").debug for text in texts] == [value] * len(texts)


@pytest.mark.parametrize("text", ["2", "'maybe'", "", "[]", "0.0", "'1e0'"])
def test_other_values_of_flags_are_refused(text):
    with pytest.raises(TrainerConfigError, match=r"debug: found .*, expected true or false"):
        RunOptions.from_text(f"debug: {text}")


def test_text_that_yaml_reads_as_another_type():
    assert CheckpointSettings(run_id=7).run_id == "7"
    dated = RunOptions.from_text("checkpoint_settings: {run_id: 2024-01-31}")
    assert dated.checkpoint_settings.run_id == "2024-01-31"
    with pytest.raises(TrainerConfigError, match="put it in quotes"):
        RunOptions.from_text("checkpoint_settings: {run_id: no}")


def test_behavior_names_are_what_was_written():
    text = "behaviors: {7: {}, 007: {}, No: {}, 1e3: {}, 2024-01-31: {}}"
    assert list(RunOptions.from_text(text).behaviors) == ["7", "007", "No", "1e3", "2024-01-31"]
    assert list(RunOptions.from_dict({"behaviors": {7: {}}}).behaviors) == ["7"]


def test_environment_arguments_as_a_list_or_a_shell_line():
    assert EnvironmentSettings(env_args=["--areas", 4]).env_args == ["--areas", "4"]
    shell_line = EnvironmentSettings(env_args="--areas 4 --name 'a b'")
    assert shell_line.env_args == ["--areas", "4", "--name", "a b"]


scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.dates())


@pytest.mark.slow
@given(st.recursive(scalars, lambda x: st.lists(x) | st.dictionaries(scalars, x), max_leaves=5))
def test_any_value_is_settings_or_a_config_error(value):
    for data in (
        {"behaviors": {"B": value}},
        {"behaviors": {"B": {"trainer_type": "ppo", "hyperparameters": value}}},
        {"behaviors": {"B": {"trainer_type": value, "hyperparameters": {}}}},
        {"behaviors": {"B": {"reward_signals": value, "network_settings": {"memory": value}}}},
        {"behaviors": {"B": {"reward_signals": {"curiosity": {"encoding_size": value}}}}},
        {"default_settings": {"max_steps": value}, "behaviors": value},
        {"environment_parameters": value},
        {"environment_parameters": {"p": value, "q": {"curriculum": value}}},
        {"environment_parameters": {"p": {"sampler_type": "uniform", "sampler_parameters": value}}},
        {
            "environment_parameters": {
                "p": {"sampler_type": "multirangeuniform", "sampler_parameters": {"intervals": value}}
            }
        },
        {"env_settings": {"num_envs": value, "env_args": value, "non_finite": value, "listen": value}},
        {"checkpoint_settings": {"run_id": value}, "torch_settings": value, "debug": value},
    ):
        try:
            options = RunOptions.from_dict(data)
        except TrainerConfigError:
            continue
        assert RunOptions.from_dict(options.as_dict()).as_dict() == options.as_dict()


@pytest.mark.slow
@given(
    st.builds(
        dict,
        batch_size=st.integers(1, 4096),
        learning_rate=st.floats(0, 1),
        shared_critic=st.booleans(),
        beta_schedule=st.sampled_from(["linear", "constant"]),
        learning_rate_schedule=st.sampled_from(["linear", "constant"]),
    ),
    st.integers(1, 10**9),
    st.booleans(),
)
def test_written_settings_are_read_back_equal(hyper, steps, memory):
    settings = {
        "trainer_type": "ppo",
        "hyperparameters": hyper,
        "max_steps": steps,
        "network_settings": {"memory": {"sequence_length": 1} if memory else None},
    }
    options = RunOptions.from_dict({"behaviors": {"B": settings}, "environment_parameters": {"g": 1.5}})
    text = yaml.safe_dump(options.as_dict(), sort_keys=False)
    again = RunOptions.from_text(text)
    assert again.as_dict() == options.as_dict()
    assert again.behaviors["B"].hyperparameters.beta_schedule.value == hyper["beta_schedule"]
    assert math.isclose(again.behaviors["B"].hyperparameters.learning_rate, hyper["learning_rate"])


def test_nan_is_refused_from_python_too():
    with pytest.raises(ValueError, match="finite"):
        PPOSettings(learning_rate=math.nan)
    with pytest.raises(ValueError, match="greater"):
        NetworkSettings(hidden_units=0)


WIDTHS = {
    "{hidden_units: [400, 3e2]}": ((400, 300), None),
    "{hidden_units: [400, 300], critic: {hidden_units: 32}}": ((400, 300), (32, 32)),
    "{hidden_units: [400, 300], critic: {activation: tanh}}": ((400, 300), (400, 300)),
    "{hidden_units: 64, num_layers: 3, critic: {hidden_units: [7, 8]}}": ((64, 64, 64), (7, 8)),
    "{hidden_units: 64, num_layers: 0}": ((64,), None),
}


@pytest.mark.parametrize("network", WIDTHS)
def test_a_list_of_widths_says_the_number_of_layers_too(network):
    options = RunOptions.from_text(f"behaviors: {{B: {{network_settings: {network}}}}}")
    found = options.behaviors["B"].network_settings
    critic = None if found.critic is None else found.critic.layer_sizes
    assert (found.layer_sizes, critic) == WIDTHS[network]
    again = RunOptions.from_text(yaml.safe_dump(options.as_dict()))
    assert again.behaviors == options.behaviors and again.as_dict() == options.as_dict()


TWICE = "found 2, and hidden_units [4, 3] has the width of each layer: remove this key, or give hidden_units"


@pytest.mark.parametrize(
    ("section", "found"),
    [
        ("network_settings: {hidden_units: [4, 3], num_layers: 2}", f"num_layers: {TWICE} one number"),
        ("network_settings: {hidden_units: [4, 3], critic: {num_layers: 2}}", f"critic.num_layers: {TWICE}"),
        (
            "reward_signals: {rnd: {network_settings: {hidden_units: [4, 3], num_layers: 2}}}",
            f"rnd.network_settings.num_layers: {TWICE}",
        ),
        ("network_settings: {hidden_units: []}", "hidden_units: found 0 widths, expected from 1 to 1000"),
        ("network_settings: {hidden_units: [4, wide]}", "hidden_units: found 'wide', expected a whole"),
        ("network_settings: {hidden_units: [4, 0]}", "expected at least 1"),
        ("network_settings: {hidden_units: [4, 40000]}", "expected at most 32768"),
        ("network_settings: {hidden_units: [30000, 30000]}", "makes 1800000000 weights, expected at most"),
        ("network_settings: {hidden_units: {4: 3}}", "hidden_units: found {'4': 3}, expected a whole number"),
    ],
)
def test_widths_that_cannot_be_are_refused(section, found):
    with pytest.raises(TrainerConfigError) as error:
        RunOptions.from_text(f"behaviors: {{B: {{{section}}}}}")
    assert found in str(error.value)


def test_a_later_list_of_widths_replaces_an_earlier_number_of_layers(tmp_path):
    network, path = "network_settings: {hidden_units: 64, num_layers: 3}", tmp_path / "c.yaml"
    path.write_text(f"default_settings: {{{network}}}\nbehaviors: {{A: {{{network}}}}}")
    key, listed = "network_settings.hidden_units=[8, 5]", "network_settings: {hidden_units: [8, 5]}"
    other = tmp_path / "other.yaml"
    other.write_text(f"behaviors: {{A: {{{listed}}}, B: {{{listed}}}}}")
    for more in (["--set", f"behaviors.A.{key}"], [str(other)]):
        behaviors = parse_command_line([str(path), *more]).behaviors
        assert {one.network_settings.layer_sizes for one in behaviors.values()} == {(8, 5)}


ENGINES = ["width", "height", "quality_level", "target_frame_rate", "capture_frame_rate"]


@pytest.mark.parametrize("key", ENGINES)
def test_whole_numbers_beyond_32_bits_are_refused_for_engines(key):
    assert RunOptions.from_text(f"engine_settings: {{{key}: {2**31 - 1}}}")
    found = rf"engine_settings\.{key}: found 2147483648, expected at most"
    with pytest.raises(TrainerConfigError, match=found):
        RunOptions.from_text(f"engine_settings: {{{key}: {2**31}}}")


@pytest.mark.parametrize(
    ("yaml", "path"),
    [
        ("engine_settings: {time_scale: 1.0e+39}", "engine_settings.time_scale"),
        ("environment_parameters: {x: -1.0e+39}", "environment_parameters.x.value"),
        (
            "environment_parameters: {x: {sampler_type: uniform, sampler_parameters: {max_value: 1.0e+39}}}",
            "environment_parameters.x.sampler_parameters.max_value",
        ),
        (
            "environment_parameters: {x: {sampler_type: gaussian, sampler_parameters: {seed: 3000000000}}}",
            "environment_parameters.x.sampler_parameters.seed",
        ),
        (
            "environment_parameters: {x: {sampler_type: multirangeuniform, "
            "sampler_parameters: {intervals: [[0, 1.0e+39]]}}}",
            "environment_parameters.x.sampler_parameters.intervals.0.1",
        ),
    ],
)
def test_numbers_beyond_float32_are_refused_for_engines(yaml, path):
    with pytest.raises(TrainerConfigError) as caught:
        RunOptions.from_text(yaml)
    (problem,) = caught.value.problems
    assert (problem.key, "expected at " in problem.message) == (path, True)


def test_a_reward_signal_has_no_memory(caplog):
    text = "behaviors: {B: {reward_signals: {rnd: {network_settings: {memory: {memory_size: 16}}}}}}"
    settings = RunOptions.from_text(text).behavior("B")
    assert settings.reward_signals["rnd"].network_settings.memory is None
    assert "memory was specified in network_settings, and a reward signal has none" in caplog.text


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("exploration_initial_eps: 0.4, exploration_final_eps: 0.02", (0.4, 0.02, 20000)),
        ("exploration_schedule: constant", (0.1, 0.1, 20000)),
        ("exploration_initial_eps: 0.4, epsilon_end: 0.3, epsilon_decay_steps: 7", (0.4, 0.3, 7)),
        ("batch_size: 32", (1.0, 0.05, 50000)),
    ],
)
def test_epsilon_under_the_names_of_ml_agents_plug_in_means_the_same(keys, expected):
    options = RunOptions.from_text(f"behaviors: {{B: {{trainer_type: dqn, hyperparameters: {{{keys}}}}}}}")
    hyper = options.behaviors["B"].hyperparameters
    assert (hyper.epsilon_start, hyper.epsilon_end, hyper.epsilon_decay_steps) == expected


def test_epsilon_of_the_plug_in_lies_over_default_settings():
    defaults = "{trainer_type: dqn, hyperparameters: {exploration_initial_eps: 0.4}}"
    text = (
        f"default_settings: {defaults}\nbehaviors: {{B: {{hyperparameters: {{exploration_final_eps: 0.2}}}}}}"
    )
    hyper = RunOptions.from_text(text).behaviors["B"].hyperparameters
    assert (hyper.epsilon_start, hyper.epsilon_end, hyper.epsilon_decay_steps) == (0.4, 0.2, 20000)


@pytest.mark.parametrize("of", ["hyperparameters: {%s}", "reward_signals: {curiosity: {%s}, extrinsic: {}}"])
def test_a_learning_rate_that_is_too_large_by_far_is_a_warning(of, caplog):
    for rate in ("1.0e-2", "0"):
        RunOptions.from_text(f"behaviors: {{B: {{trainer_type: sac, {of % f'learning_rate: {rate}'}}}}}")
    assert not caplog.text
    RunOptions.from_text(f"behaviors: {{B: {{trainer_type: sac, {of % 'learning_rate: 0.3'}}}}}")
    assert "learning_rate: found 0.3, which is too large as a rule" in caplog.text


@pytest.mark.parametrize(
    ("signals", "warned"),
    [
        ("{extrinsic: {strength: 0}}", True),
        ("{extrinsic: {strength: 0}, rnd: {strength: 0}}", True),
        ("{extrinsic: {strength: 0}, rnd: {strength: 0.1}}", False),
        ("{extrinsic: {}}", False),
    ],
)
def test_a_policy_that_no_reward_reaches_is_a_warning(signals, warned, caplog):
    RunOptions.from_text(f"behaviors: {{B: {{trainer_type: ppo, reward_signals: {signals}}}}}")
    where = "line 1: behaviors.B.reward_signals: every strength is 0: no reward reaches the policy"
    assert (where in caplog.text) is warned
