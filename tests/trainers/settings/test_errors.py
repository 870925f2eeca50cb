"""Errors about a configuration name the file, line and path, what was found and what was probably meant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanista.trainers.settings import PPOSettings, RunOptions, TrainerConfigError


def error_of(text):
    with pytest.raises(TrainerConfigError) as caught:
        RunOptions.from_text(text, "ball.yaml")
    return caught.value


def test_unknown_key_names_the_place_and_the_nearest_key():
    error = error_of(
        "behaviors:\n  Ball:\n    trainer_type: ppo\n    hyperparameters:\n      batch_sise: 64\n"
    )
    (problem,) = error.problems
    assert problem.place == "ball.yaml, line 5"
    assert problem.key == "behaviors.Ball.hyperparameters.batch_sise"
    assert "Did you mean `batch_size`?" in problem.message
    assert "buffer_size" in problem.message  # the other known ones


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("behavior: {}", "behaviors"),
        ("behaviors: {B: {max_step: 3}}", "max_steps"),
        ("behaviors: {B: {network_settings: {vis_encoder_type: simple}}}", "vis_encode_type"),
        ("behaviors: {B: {network_settings: {memory: {sequencelength: 3}}}}", "sequence_length"),
        ("behaviors: {B: {reward_signals: {extrinsc: {}}}}", "extrinsic"),
        ("behaviors: {B: {self_play: {save-steps: 3}}}", "save_steps"),
        ("env_settings: {numenvs: 3}", "num_envs"),
        ("torch_settings: {devise: cpu}", "device"),
        ("environment_parameters: {p: {curiculum: []}}", "curriculum"),
        ("environment_parameters: {p: {sampler_typ: uniform, sampler_parameters: {}}}", "sampler_type"),
        (
            "environment_parameters: {p: {sampler_type: multirange_uniform, sampler_parameters: {}}}",
            "multirangeuniform",
        ),
        ("behaviors: {B: {trainer_type: pop}}", "ppo"),
        ("behaviors: {B: {network_settings: {vis_encode_type: nature-cnn}}}", "nature_cnn"),
        ("env_settings: {non_finite: stopp}", "stop"),
    ],
)
def test_errors_name_the_nearest_word(text, nearest):
    assert f"Did you mean {nearest}?" in str(error_of(text)).replace("`", "")


@pytest.mark.parametrize("size", [7, 0, -2])
@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize("of", ["memory: {%s}", "critic: {memory: {%s}}"])
def test_a_memory_that_cannot_be_halved_names_the_next_size_that_can(of, kind, size):
    network = of % f"memory_size: {size}, memory_type: {kind}"
    (problem,) = error_of(f"behaviors:\n  B:\n    network_settings: {{{network}}}\n").problems
    assert problem.place == "ball.yaml, line 3" and problem.key.endswith("memory.memory_size")
    assert f"found {size};" in problem.message and f"try {max(2, size + size % 2)}" in problem.message


def test_a_misplaced_key_names_its_section():
    assert "It belongs under `hyperparameters`" in str(error_of("behaviors: {B: {batch_size: 3}}"))
    assert "It belongs under `network_settings`" in str(error_of("behaviors: {B: {hidden_units: 3}}"))
    assert "It belongs under `env_settings`" in str(error_of("num_envs: 3"))


def test_a_hyperparameter_of_another_trainer_names_the_trainers_that_have_it():
    (problem,) = error_of("behaviors: {B: {trainer_type: ppo, hyperparameters: {tau: 0.1}}}").problems
    assert problem.message.startswith("unknown key. It is a hyperparameter of sac, coma, dqn, ddpg, td3: see")
    assert "belongs" not in problem.message and "Known here: batch_size" in problem.message


def test_several_problems_are_reported_together():
    error = error_of(
        "behaviors:\n  A: {max_steps: x}\n  B: {time_horizon: 0}\nenv_settings:\n  num_areas: 0\n"
    )
    assert [problem.place for problem in error.problems] == [f"ball.yaml, line {line}" for line in (2, 3, 5)]
    assert str(error).startswith("3 problems in the configuration:")


def test_a_path_with_a_dot_is_shown_as_set_takes_it():
    (problem,) = error_of("behaviors: {My.Ball: {max_stepss: 3}}").problems
    assert problem.key == 'behaviors."My.Ball".max_stepss'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("behaviors: {B: {hyperparameters: {batch_size: 3}}}", "no trainer_type was given"),
        ("behaviors: {B: {trainer_type: ppo, hyperparameters: {batch_size: 0}}}", "expected at least 1"),
        ("behaviors: {B: {trainer_type: ppo, hyperparameters: {lambd: 1.5}}}", "expected at most 1"),
        (
            "behaviors: {B: {even_checkpoints: true, keep_checkpoints: 0}}",
            "even_checkpoints needs at least 1",
        ),
        ("behaviors: {B: {reward_signals: {gail: {}}}}", "`demo_path` is required"),
        ("env_settings: {num_areas: 1000000000}", "found 1000000000, expected at most 1000000"),
        ("env_settings:\n", "found nothing, expected a mapping"),
        ("behaviors: [A, B]", "expected a mapping"),
        ("- behaviors", "found a list, expected a mapping"),
        ("behaviors", "found text, expected a mapping"),
        ("3", "found a single value, expected a mapping"),
        ("behaviors: {B: &b {network_settings: *b}}", "an alias that contains itself"),
        ("behaviors: {B: {", "a bracket or a quotation mark is still open. Look at this line"),
        (
            "behaviors:\n\tB: 3",
            "line 2, column 1: error parsing yaml: a tab indents this line; YAML wants spaces",
        ),
        (
            "behaviors:\t{}",
            "line 1, column 11: error parsing yaml: a tab stands here; YAML wants spaces",
        ),
        ("behaviors: {}\t\n", "line 1, column 14: error parsing yaml: a tab stands here; YAML wants spaces"),
        ("behaviors: |\t\n  x", "line 1, column 13: error parsing yaml: a tab stands here"),
        ("behaviors: {B: {network_settings: {hidden_units: 1000000000}}}", "hidden_units: found 1000000000"),
        ("behaviors: {B: {network_settings: {num_layers: 1000000}}}", "num_layers: found 1000000"),
        (
            "behaviors: {B: {network_settings: {hidden_units: 20000, num_layers: 20}}}",
            "hidden_units: found 20000, which with num_layers 20 makes 8000000000 weights",
        ),
        (
            "behaviors: {B: {network_settings: {memory: {memory_size: 1000000000}}}}",
            "memory_size: found",
        ),
        (
            f"behaviors: {{B: {{max_steps: 0x{'f' * 6000}}}}}",
            "line 1, column 28: error parsing yaml: a number of 6002 characters",
        ),
        (
            "behaviors: {B: {max_steps: 1e300}}",
            "found '1e300', expected a whole number of 64",
        ),
        ("behaviors: {" + ", ".join(f"b{k}: {{}}" for k in range(2000)) + "}", "found 2000 behaviors"),
        ("a: !!python/object:os.system {}", "error parsing yaml"),
        ("a:\n  b: 2024-13-45", "line 2: error parsing yaml: found '2024-13-45': month must be in 1..12"),
        ("a:\n  b: [1, !!int '']", "line 2: error parsing yaml: a value is not of the type that its tag"),
        ('a:\n  b: "\\UFFFFFFFF"', "line 2: error parsing yaml"),
    ],
)
def test_errors_say_what_is_wrong(text, message):
    assert message in str(error_of(text))


@pytest.mark.parametrize("first, more", [("[x, x]", "[{}]"), ("{k: x, l: x}", "{{<<: [{}]}}")])
def test_aliases_of_aliases_are_counted_before_they_are_followed(first, more):
    aliases = [more.format(", ".join([f"*a{number}"] * 9)) for number in range(60)]
    lines = [f"a0: &a0 {first}", *(f"a{k}: &a{k} {alias}" for k, alias in enumerate(aliases, 1))]
    error = error_of("\n".join(lines))
    assert "with its aliases it has more than 50000 values" in str(error)


def test_thousands_of_problems_are_not_all_listed():
    text = str(error_of("behaviors: {" + ", ".join(f"b{k}: {{max_step: 1}}" for k in range(500)) + "}"))
    assert text.startswith("500 problems") and text.endswith("... and 400 more") and text.count("\n") == 101


def test_a_key_given_twice_is_refused_with_both_lines():
    error = error_of("behaviors:\n  B:\n    max_steps: 1\n    max_steps: 2\n  B: {}\n")
    first, second = map(str, error.problems)
    assert first.startswith("ball.yaml, line 4: behaviors.B.max_steps: it stands on line 3 already")
    assert second.startswith("ball.yaml, line 5: behaviors.B: it stands on line 2 already")


def test_merge_keys_and_aliases_are_read():
    text = "behaviors:\n  A: &a {max_steps: 10, time_horizon: 7}\n  B: {<<: *a, max_steps: 20}\n"
    options = RunOptions.from_text(text)
    assert (options.behaviors["B"].max_steps, options.behaviors["B"].time_horizon) == (20, 7)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(TrainerConfigError, match=r"could not be found at .*nowhere\.yaml"):
        RunOptions.from_file(tmp_path / "nowhere.yaml")
    with pytest.raises(TrainerConfigError, match="is a folder"):
        RunOptions.from_file(tmp_path)
    (tmp_path / "latin.yaml").write_bytes("behaviors: {Bär: {}}".encode("latin-1"))
    with pytest.raises(TrainerConfigError, match="byte 13 is not UTF-8"):
        RunOptions.from_file(tmp_path / "latin.yaml")


@pytest.mark.posix("device files")
def test_a_file_without_an_end_is_not_read_to_its_end():
    with pytest.raises(TrainerConfigError, match="/dev/zero could not be read: it is a pipe or a device"):
        RunOptions.from_file("/dev/zero")


@given(st.text())
def test_any_text_is_settings_or_a_config_error(text):
    try:
        RunOptions.from_text(text)
    except TrainerConfigError as error:
        assert str(error)


CONFIG = "behaviors:\n  B: &b {trainer_type: ppo, max_steps: 1.0e4}\n  C:\n    <<: *b\n    init_path: 'a'\n"
YAML_SIGNS = st.text(st.sampled_from("\t\n :-{}[]*&!|>%@'\"#?1a\0,~<"), max_size=4)


@given(st.integers(0, len(CONFIG)), st.integers(0, 3), YAML_SIGNS)
def test_a_damaged_file_is_settings_or_a_config_error(at, removed, added):
    try:
        RunOptions.from_text(CONFIG[:at] + added + CONFIG[at + removed :])
    except TrainerConfigError as error:
        assert str(error)


@given(st.sampled_from(list(PPOSettings.model_fields)), st.data())
def test_a_mistyped_key_gets_a_suggestion(key, data):
    at = data.draw(st.integers(0, len(key) - 1))
    typed = key[:at] + key[at + 1 :]
    if typed in PPOSettings.model_fields:
        return
    error = error_of(f"behaviors: {{B: {{trainer_type: ppo, hyperparameters: {{{typed}: 1}}}}}}")
    assert "Did you mean" in str(error)


def test_a_missing_file_names_the_files_that_exist(tmp_path):
    (tmp_path / "ball.yaml").touch()
    with pytest.raises(TrainerConfigError, match=r"There is ball\.yaml\."):
        RunOptions.from_file(tmp_path / "bal.yaml")
    with pytest.raises(TrainerConfigError, match=r"There is no folder .*nowhere\."):
        RunOptions.from_file(tmp_path / "nowhere" / "bal.yaml")


@pytest.mark.parametrize("value", ["    max_steps: x\n    <<: *a\n", "    <<: *a\n    max_steps: x\n"])
def test_a_value_that_overrides_a_merged_one_has_its_own_line(value):
    text = "behaviors:\n  A: &a\n    max_steps: 5\n  B:\n" + value
    (problem,) = error_of(text).problems
    line = next(number for number, one in enumerate(text.splitlines(), 1) if "x" in one.split())
    assert problem.place == f"ball.yaml, line {line}"


def test_a_control_character_is_reported_with_its_line():
    (problem,) = error_of("debug: true\nbehaviors:\x00 {}\n").problems
    assert problem.place == "ball.yaml, line 2"
    assert "#x0000" in problem.message and "UTF-8" in problem.message
