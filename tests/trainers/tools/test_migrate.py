"""Old configurations are converted to equivalent ones that our loader accepts."""

import pytest
import yaml
from lanista.trainers.cli.main import run
from lanista.trainers.settings.options import RunOptions
from lanista.trainers.tools.migrate import UpgradeError, is_present, upgrade
from oldconfigurations import CURRICULUM, FLAT, PARTED, SAMPLERS


def options_of(*files):
    return RunOptions.from_dict(upgrade(*map(yaml.safe_load, files)).data)


def test_flat_behaviors_get_their_sections():
    options = options_of(FLAT)
    ball, wall = options.behaviors["3DBall"], options.behaviors["Wall"]
    assert list(options.behaviors) == ["3DBall", "Wall"]
    assert (ball.trainer_type, wall.trainer_type) == ("ppo", "sac")
    assert (ball.hyperparameters.batch_size, wall.hyperparameters.batch_size) == (64, 128)
    assert ball.hyperparameters.learning_rate_schedule == ball.hyperparameters.beta_schedule == "linear"
    assert (ball.network_settings.normalize, wall.network_settings.normalize) == (True, False)
    assert (ball.max_steps, ball.summary_freq, ball.time_horizon) == (500000, 12000, 1000)
    assert ball.network_settings.memory is None
    assert wall.network_settings.memory.sequence_length == 32
    assert wall.network_settings.memory.memory_size == 256
    assert wall.hyperparameters.tau == 0.01
    assert ball.reward_signals["extrinsic"].gamma == 0.9
    assert wall.reward_signals["curiosity"].encoding_size == 128
    assert wall.self_play.play_against_latest_model_ratio == 0.3


def test_dropped_keys_are_reported_unless_they_belong_to_another_trainer():
    assert upgrade(yaml.safe_load(FLAT)).notes == [
        "3DBall.lamda means nothing to ppo today and is left out.",
        "3DBall.train_interval means nothing to ppo today and is left out.",
        "Wall.self_play.shuffle means nothing today and is left out.",
        "Wall.num_epoch means nothing to sac today and is left out.",
        "Wall.train_interval means nothing to sac today and is left out.",
    ]


def test_only_given_keys_are_written():
    upgraded = upgrade(
        {"A": {"trainer": "ppo", "gamma_unknown": 1, "use_recurrent": False, "memory_size": 4}}
    )
    assert upgraded.data == {"behaviors": {"A": {"trainer_type": "ppo"}}}


def test_curricula_become_lessons_with_names():
    lessons = options_of(FLAT, CURRICULUM).environment_parameters["big_wall_min_height"].curriculum
    assert [lesson.name for lesson in lessons] == ["Lesson0", "Lesson1", "Lesson2"]
    assert [lesson.value.value for lesson in lessons] == [0.0, 4.0, 8.0]
    first, last = lessons[0].completion_criteria, lessons[-1].completion_criteria
    assert (first.behavior, first.measure, first.threshold) == ("Wall", "progress", 0.1)
    assert (first.min_lesson_length, first.signal_smoothing) == (100, True)
    assert last is None


def test_old_lessons_keep_their_defaults():
    curriculum = {"Wall": {"measure": "reward", "thresholds": [1], "parameters": {"h": [0, 1]}}}
    upgraded = upgrade({"Wall": {"trainer": "ppo"}}, curriculum).data
    criteria = upgraded["environment_parameters"]["h"]["curriculum"][0]["completion_criteria"]
    assert (criteria["min_lesson_length"], criteria["signal_smoothing"]) == (1, False)


def test_samplers_get_the_current_form():
    upgraded = upgrade(yaml.safe_load(FLAT), None, yaml.safe_load(SAMPLERS))
    parameters = RunOptions.from_dict(upgraded.data).environment_parameters
    kinds = {name: parameter.curriculum[0].value.sampler_type for name, parameter in parameters.items()}
    assert kinds == {"mass": "uniform", "gravity": "gaussian", "length": "multirangeuniform"}
    assert parameters["mass"].curriculum[0].value.min_value == 0.5
    assert parameters["length"].curriculum[0].value.intervals == [(1.0, 2.0), (4.0, 8.0)]
    assert any(note.startswith("resampling-interval") for note in upgraded.notes)


def test_one_file_of_0_17():
    options = options_of(PARTED)
    assert options.behaviors["Wall"].hyperparameters.batch_size == 128
    assert options.env_settings.seed == 7
    assert [len(p.curriculum) for p in options.environment_parameters.values()] == [1, 2]


def test_a_sampler_takes_precedence_over_lessons():
    curriculum = {"W": {"measure": "reward", "thresholds": [1], "parameters": {"mass": [0, 1]}}}
    upgraded = upgrade({"W": {"trainer": "ppo"}}, curriculum, yaml.safe_load(SAMPLERS))
    assert "sampler_type" in upgraded.data["environment_parameters"]["mass"]
    assert any(note.startswith("mass has a sampler and lessons") for note in upgraded.notes)


@pytest.mark.parametrize(
    "files, says",
    [
        (({"A": {"batch_size": 3}},), "A: it doesn't specify a trainer"),
        (({"A": {"trainer": "offline_bc"}},), "found 'offline_bc'"),
        (({"A": 3},), "A: found 3, expected a mapping"),
        (({"A": {"trainer": "ppo"}}, {"A": {"measure": "reward"}}), "lacks thresholds, parameters"),
        (
            (
                {"A": {"trainer": "ppo"}},
                {"A": {"measure": "reward", "thresholds": [1], "parameters": {"h": [1]}}},
            ),
            "one value more than thresholds",
        ),
        (({"A": {"trainer": "ppo"}}, None, {"mass": {"sampler-type": "normal"}}), "found 'normal'"),
    ],
)
def test_invalid_old_configurations_are_refused(files, says):
    with pytest.raises(UpgradeError, match=says):
        upgrade(*files)


def test_the_current_form_is_recognized():
    assert is_present({"behaviors": {}}) and not is_present({"A": {}})
    assert not is_present({"behaviors": {}, "curriculum": {}})


# The command ------------------------------------------------------------------------------------------


@pytest.fixture
def old(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in (("old.yaml", FLAT), ("lessons.yaml", CURRICULUM), ("samplers.yaml", SAMPLERS)):
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_command_writes_what_the_loader_reads(old, capsys):
    arguments = ["old.yaml", "new.yaml", "--curriculum", "lessons.yaml", "--sampler", "samplers.yaml"]
    assert run(["upgrade", *arguments]) == 0
    assert len(RunOptions.from_file("new.yaml").environment_parameters) == 4
    said = capsys.readouterr()
    assert "old.yaml: 3DBall.lamda means nothing to ppo today" in said.err
    assert "lanista check --explain new.yaml" in said.out


def test_a_file_is_overwritten_only_with_force(old, capsys):
    (old / "new.yaml").write_text("mine")
    assert run(["upgrade", "old.yaml", "new.yaml"]) == 1
    assert (old / "new.yaml").read_text() == "mine" and "--force" in capsys.readouterr().err
    assert run(["upgrade", "old.yaml", "new.yaml", "--force"]) == 0
    assert "behaviors" in (old / "new.yaml").read_text()


@pytest.mark.parametrize("text", [None, "A: {batch_size: 3}"])
def test_what_is_wrong_with_the_old_file_is_said_before_that_the_new_one_exists(old, text, capsys):
    (old / "new.yaml").write_text("mine")
    if text is not None:
        (old / "bad.yaml").write_text(text)
    assert run(["upgrade", "bad.yaml", "new.yaml"]) == 1
    said = capsys.readouterr().err
    assert "bad.yaml was not upgraded" in said and "new.yaml exists" not in said


def test_a_current_file_is_copied(old, capsys):
    text = "behaviors: {A: {trainer_type: ppo}}  # a comment\n"
    (old / "today.yaml").write_text(text)
    assert run(["upgrade", "today.yaml", "new.yaml"]) == 0
    assert (old / "new.yaml").read_text() == text and "a copy" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text, says", [("A: {batch_size: 3}", "specify a trainer"), ("A: {trainer: ppo, beta: x}", "found 'x'")]
)
def test_a_file_that_cannot_be_upgraded_is_reported_and_nothing_is_written(old, text, says, capsys):
    (old / "bad.yaml").write_text(text)
    assert run(["upgrade", "bad.yaml", "new.yaml"]) == 1
    assert says in capsys.readouterr().err and not (old / "new.yaml").exists()


def test_behaviors_that_share_a_default_are_written_separately(old):
    (old / "shared.yaml").write_text(
        "default: {trainer: ppo, reward_signals: {extrinsic: {gamma: 0.9}}}\nA: {}\nB: {}\n"
    )
    assert run(["upgrade", "shared.yaml", "new.yaml"]) == 0
    text = (old / "new.yaml").read_text()
    assert text.count("gamma: 0.9") == 2 and "&" not in text and "*" not in text
