"""Flags, `--set` and the file: precedence, refusals and the help."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanista.trainers.settings import RunOptions, TrainerConfigError, parse_command_line
from lanista.trainers.settings.command_line import SECTIONS, make_parser, split_path
from lanista.trainers.settings.errors import dotted
from lanista.trainers.settings.schema import key_description


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "ball.yaml"
    path.write_text(
        "behaviors: {Ball: {trainer_type: ppo, max_steps: 7}}\nenv_settings: {seed: 3, env_path: a}\n"
    )
    return str(path)


def test_a_flag_wins_over_the_file_and_the_file_over_the_default(file):
    options = parse_command_line([file, "--num-envs", "2"])
    env = options.env_settings
    assert (env.seed, env.num_envs, env.env_path) == (3, 2, "a")
    assert parse_command_line([file, "--seed", "-1"]).env_settings.seed == -1


def test_set_reaches_any_key_and_wins_over_flags(file):
    options = parse_command_line(
        [
            *(file, "--seed", "5", "--set", "env_settings.seed=6"),
            *("--set", "behaviors.Ball.hyperparameters.batch_size=1e3"),
            *("--set", "behaviors.Ball.reward_signals={extrinsic: {gamma: 0.5}}"),
            *("--set", "environment_parameters.mass=2"),
        ]
    )
    ball = options.behaviors["Ball"]
    assert (options.env_settings.seed, ball.hyperparameters.batch_size, ball.max_steps) == (6, 1000, 7)
    assert ball.reward_signals["extrinsic"].gamma == 0.5
    assert options.environment_parameters["mass"].curriculum[0].value.value == 2


def test_set_reaches_into_lists_and_quoted_names():
    lessons = "{curriculum: [{name: a, value: 1, completion_criteria: {behavior: B}}, {name: b, value: 2}]}"
    options = parse_command_line(
        [
            *("--set", f"environment_parameters.wall={lessons}"),
            *("--set", "environment_parameters.wall.curriculum.1.value=3"),
            *("--set", 'behaviors."My.Ball".max_steps=5'),
        ]
    )
    assert [x.value.value for x in options.environment_parameters["wall"].curriculum] == [1, 3]
    assert options.behaviors["My.Ball"].max_steps == 5


@pytest.mark.parametrize("text", ["x", "=3", "a..b=3", ".a=3", "a.=3", 'a."b=3', 'a."b"c=3', "a=[1", "a=: :"])
def test_an_unparsable_set_exits_with_2(text, capsys):
    with pytest.raises(SystemExit) as stop:
        parse_command_line(["--set", text])
    assert stop.value.code == 2
    assert "--set" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("behaviors.Ball.max_step=3", "--set behaviors.Ball.max_step=3: .*Did you mean `max_steps`"),
        ("behaviors.Ball.max_steps.x=3", "found 7, which holds no keys"),
        ("env_settings.env_args.0.x=3", "no keys|expected one of its"),
        (
            "behaviors.Ball.max_steps=many",
            "--set behaviors.Ball.max_steps=many: .*found 'many', expected a whole number",
        ),
    ],
)
def test_a_wrong_set_names_itself(file, text, message):
    with pytest.raises(TrainerConfigError, match=message):
        parse_command_line([file, "--set", "env_settings.env_args=[a]", "--set", text])


def test_an_unknown_section_that_set_adds_is_placed_on_the_command_line(file):
    with pytest.raises(TrainerConfigError, match=r"^command line, --set Bal\.max_steps=3: Bal: unknown key"):
        parse_command_line([file, "--set", "Bal.max_steps=3"])


def test_set_that_adds_a_behavior_to_a_file_is_a_warning(file, caplog):
    parse_command_line([file, "--set", "behaviors.Bal.max_steps=3"])
    assert "--set adds the behavior Bal to Ball. Did you mean Ball?" in caplog.text


def test_set_does_not_write_through_yaml_aliases(tmp_path):
    path = tmp_path / "ball.yaml"
    path.write_text("behaviors: {A: &a {network_settings: {hidden_units: 3}}, B: *a}")
    options = parse_command_line([str(path), "--set", "behaviors.A.network_settings.hidden_units=4"])
    assert [options.behaviors[name].network_settings.hidden_units for name in "AB"] == [4, 3]


def test_a_wrong_flag_exits_with_2_and_a_wrong_combination_names_the_flag(capsys):
    for argv in (["--num-envs", "x"], ["--nothing"], ["--non-finite", "maybe"]):
        with pytest.raises(SystemExit) as stop:
            parse_command_line(argv)
        assert stop.value.code == 2
    assert "found 'x', expected a whole number" in capsys.readouterr().err
    with pytest.raises(TrainerConfigError, match=r"command line, --num-envs: .*num_envs must be 1"):
        parse_command_line(["--num-envs", "2"])


@pytest.mark.parametrize(
    "typed, path, value",
    [
        (["--inf"], ("checkpoint_settings", "inference"), True),
        (["--s", "7"], ("env_settings", "seed"), 7),
        (["--s=7"], ("env_settings", "seed"), 7),
        (["--num-e", "2"], ("env_settings", "num_envs"), 2),
        (["--prec", "bf16"], ("torch_settings", "precision"), "bf16"),
        (["--inf", "--inference-s", "9"], ("checkpoint_settings", "inference_steps"), 9),
    ],
)
def test_flags_that_mlagents_lacks_make_none_of_its_abbreviations_ambiguous(typed, path, value, file):
    options = parse_command_line([file, *typed])
    assert getattr(getattr(options, path[0]), path[1]) == value


def test_an_abbreviation_of_two_of_mlagents_flags_is_refused(file, capsys):
    with pytest.raises(SystemExit):
        parse_command_line([file, "--num", "2"])
    said = capsys.readouterr().err
    assert "--num-areas" in said and "--num-envs" in said


def test_environment_arguments_take_the_rest_of_the_line():
    options = parse_command_line(["--env", "scene:ball3d", "--env-args", "--areas", "4", "--seed", "5"])
    assert options.env_settings.env_args == ["--areas", "4", "--seed", "5"]
    assert options.env_settings.seed == -1


def test_environment_arguments_may_look_like_abbreviations_of_flags():
    options = parse_command_line(["--env", "python:game:make", "--env-args", "--n", "2", "--num", "--", "-x"])
    assert options.env_settings.env_args == ["--n", "2", "--num", "--", "-x"]


def test_every_key_of_the_sections_has_a_flag_with_help():
    text = make_parser().format_help()
    for model, _ in SECTIONS.values():
        for key in set(model.model_fields) - {"load_model", "train_model"}:
            flag = {"env_path": "--env", "device": "--torch-device"}.get(key, "--" + key.replace("_", "-"))
            assert flag in text
            assert key_description(model, key) in " ".join(text.split())


def test_version_and_help_exit_with_0(capsys):
    for flag in ("--version", "--help"):
        with pytest.raises(SystemExit) as stop:
            parse_command_line([flag])
        assert stop.value.code == 0
    assert "lanista" in capsys.readouterr().out


def test_parsing_has_no_side_effects(file):
    parse_command_line([file, "--seed", "9", "--resume"])
    again = parse_command_line([file])
    assert again.env_settings.seed == 3
    assert not again.checkpoint_settings.resume


part = st.text(st.characters(exclude_characters='"', exclude_categories=["Cs"]), min_size=1)


@given(st.lists(part, min_size=1, max_size=5).map(tuple))
def test_a_printed_path_can_be_parsed(path):
    assert split_path(dotted(path)) == path


def test_json_is_yaml_too(tmp_path):
    (tmp_path / "ball.json").write_text('{"behaviors": {"B": {"trainer_type": "ppo"}}}')
    assert list(RunOptions.from_file(tmp_path / "ball.json").behaviors) == ["B"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--nun-envs", "2"], "unrecognized arguments: --nun-envs. Did you mean --num-envs?"),
        (["--worker-id", "3"], "unrecognized arguments: --worker-id. Ports are found without it"),
        (["--worker-id=3"], "--base-port N gives the first one port N"),
        (["--num-envs", "two"], "argument --num-envs: "),
        (["a.yaml", "--set", "max_steps"], "expected PATH=VALUE"),
    ],
)
def test_a_line_that_cannot_be_read_is_one_line_with_a_remedy(arguments, told, capsys):
    with pytest.raises(SystemExit) as stop:
        parse_command_line(arguments)
    error = capsys.readouterr().err
    assert stop.value.code == 2
    assert error.count("\n") == 1 and told in error and error.endswith("--help lists all flags.\n")


def test_resume_and_force_contradict_each_other_on_one_command_line(file, tmp_path):
    with pytest.raises(TrainerConfigError, match="leave one of them out"):
        parse_command_line([file, "--resume", "--force"])
    # A run's own configuration.yaml may hold the flag with which it began.
    recorded = tmp_path / "configuration.yaml"
    recorded.write_text("checkpoint_settings: {force: true}")
    both = parse_command_line([file, str(recorded), "--resume"])
    assert both.checkpoint_settings.resume


@pytest.mark.parametrize("run_id", ["", " ", "/", "/etc", "a/", "..", "a/../b", "a\nb"])
def test_a_run_id_stays_within_the_results(run_id):
    with pytest.raises(TrainerConfigError, match="run_id"):
        parse_command_line(["--run-id", run_id])


@pytest.mark.parametrize("run_id", ["con", "a/aux.x", "a:b", "a./b"])
def test_a_run_id_is_a_name_that_windows_takes_there(run_id, monkeypatch):
    monkeypatch.setattr("lanista.trainers.settings.models.run.WINDOWS", False)
    assert parse_command_line(["--run-id", run_id]).checkpoint_settings.run_id == run_id
    monkeypatch.setattr("lanista.trainers.settings.models.run.WINDOWS", True)
    with pytest.raises(TrainerConfigError, match="which names a folder"):
        parse_command_line(["--run-id", run_id])


def test_run_ids_that_mlagents_takes_are_taken():
    for run_id in ("ball", "a/b", "3DBall v2.0", "Bälle", "..a"):
        assert parse_command_line(["--run-id", run_id]).checkpoint_settings.run_id == run_id


def test_a_device_is_a_known_one():
    for device in ("cpu", "cuda", "cuda:1", "mps"):
        assert parse_command_line(["--torch-device", device]).torch_settings.device == device
    with pytest.raises(TrainerConfigError, match="found 'gpu'; expected cpu, cuda, cuda:N"):
        parse_command_line(["--torch-device", "gpu"])


@pytest.mark.parametrize("typed", [["--resume"], ["--set", "checkpoint_settings.resume=true"]])
def test_set_of_resume_counts_like_its_flag(typed, file):
    settings = parse_command_line([file, "--initialize-from", "old", *typed]).checkpoint_settings
    assert (settings.resume, settings.initialize_from) == (True, None)
    with pytest.raises(TrainerConfigError, match="leave one of them out"):
        parse_command_line([file, "--force", *typed])


def test_a_flag_that_set_reverts_contradicts_nothing(file):
    line = [file, "--force", "--resume", "--set", "checkpoint_settings.resume=false"]
    assert parse_command_line(line).checkpoint_settings.force


def test_a_value_of_set_is_read_like_a_file(file, capsys):
    options = parse_command_line([file, "--set", "behaviors={No: {}, 007: {}}"])
    assert list(options.behaviors) == ["No", "007"]
    for value, told in [
        ("{max_steps: 1, max_steps: 2}", "max_steps stands twice"),
        ("[" * 2000, "nested too deeply"),
        ("!!int ''", "not of the type that its tag, such as !!int, announces"),
        ("{a: !!bool x}", "not of the type that its tag, such as !!int, announces"),
        ("!!timestamp x", "not of the type that its tag, such as !!int, announces"),
        ('"\\UFFFFFFFF"', "cannot be read"),
        ("2020-13-45", "the value of 'behaviors.Ball=2020-13-45' cannot be read: found '2020-13-45': month"),
    ]:
        with pytest.raises(SystemExit):
            parse_command_line([file, "--set", f"behaviors.Ball={value}"])
        assert told in capsys.readouterr().err


def test_force_wins_over_the_resume_that_a_run_recorded(file, tmp_path, caplog):
    recorded = tmp_path / "recorded.yaml"
    recorded.write_text("checkpoint_settings: {resume: true, initialize_from: other}")
    settings = parse_command_line([file, str(recorded), "--force"]).checkpoint_settings
    assert settings.force and not settings.resume and settings.initialize_from == "other"
    assert "'resume' of the yaml file is ignored" in caplog.text
