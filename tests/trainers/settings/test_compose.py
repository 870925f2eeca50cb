"""Several files and presets make one configuration, in which every value keeps its place."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanista.trainers.checkpoints.run_folder import write_configuration
from lanista.trainers.settings import RunOptions, TrainerConfigError, parse_command_line
from lanista.trainers.settings.yaml_source import compose, preset_names, read_preset, read_text, under

BASE = """\
behaviors:
  Ball:
    trainer_type: ppo
    hyperparameters: {batch_size: 32, beta: 0.5}
    network_settings: {memory: {memory_size: 32}}
    max_steps: 1000
env_settings:
  seed: 3
"""
MORE = """\
behaviors:
  Ball:
    hyperparameters: {batch_size: 64}
    network_settings: {memory: null}
  Cube: {max_steps: 7}
"""


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("base.yaml").write_text(BASE)
    Path("more.yaml").write_text(MORE)
    return ["base.yaml", "more.yaml"]


def test_the_later_file_wins_and_mappings_are_merged(files):
    options = parse_command_line(files)
    ball = options.behaviors["Ball"]
    assert (ball.hyperparameters.batch_size, ball.hyperparameters.beta, ball.max_steps) == (64, 0.5, 1000)
    assert ball.network_settings.memory is None
    assert options.behaviors["Cube"].max_steps == 7
    again = parse_command_line([*files, files[0], "--set", "behaviors.Ball.network_settings={}"])
    assert again.behaviors["Ball"].hyperparameters.batch_size == 32


def test_files_may_follow_flags_and_flags_override_all_of_them(files):
    options = parse_command_line(["--run-id", "a", files[0], "--seed", "9", files[1], "--debug"])
    assert options.behaviors["Ball"].hyperparameters.batch_size == 64
    assert options.env_settings.seed == 9


def test_an_error_names_the_file_that_a_value_came_from(files):
    Path("more.yaml").write_text(
        "behaviors:\n  Ball:\n    max_steps: many\n    hyperparameters:\n      lambd: 2\n"
    )
    with pytest.raises(TrainerConfigError) as caught:
        parse_command_line([*files, "--set", "behaviors.Ball.hyperparameters.beta=x"])
    places = {problem.key: problem.place for problem in caught.value.problems}
    assert places == {
        "behaviors.Ball.max_steps": "more.yaml, line 3",
        "behaviors.Ball.hyperparameters.lambd": "more.yaml, line 5",
        "behaviors.Ball.hyperparameters.beta": "command line, --set behaviors.Ball.hyperparameters.beta=x",
    }
    Path("base.yaml").write_text(BASE.replace("0.5", "much"))
    Path("more.yaml").write_text(MORE)
    with pytest.raises(TrainerConfigError, match=r"^base\.yaml, line 4: .*beta: found 'much'"):
        parse_command_line(files)


def test_a_behavior_that_no_file_lists_is_an_error_that_names_them(files):
    with pytest.raises(TrainerConfigError, match=r"base\.yaml, more\.yaml \(listed: Ball, Cube\)"):
        parse_command_line(files).behavior("Other")


def test_a_run_records_the_composed_configuration(files, tmp_path):
    options = parse_command_line(files)
    write_configuration(tmp_path, options)
    assert RunOptions.from_file(tmp_path / "configuration.yaml").as_dict() == options.as_dict()


trees = st.recursive(
    st.integers(), lambda below: st.dictionaries(st.sampled_from("abc"), below, max_size=3), max_leaves=8
)
mappings = st.dictionaries(st.sampled_from("abc"), trees, max_size=3)


@pytest.mark.slow
@given(mappings, mappings, mappings)
def test_composing_is_associative(a, b, c):
    assert under({}, a) == under(a, {}) == under(a, a) == a
    sources = [read_text(str(data), name) for data, name in ((a, "a"), (b, "b"), (c, "c"))]
    whole = compose(sources)
    assert whole.data == under(under(a, b), c)
    assert whole.data == compose([compose(sources[:2]), sources[2]]).data
    assert whole.name == "a, b, c"


def test_files_override_a_preset(files):
    Path("more.yaml").write_text("behaviors: {3DBall: {max_steps: 7}}")
    ball = parse_command_line(["more.yaml", "--preset", "ppo/ball3d"]).behaviors["3DBall"]
    assert (ball.max_steps, ball.hyperparameters.buffer_size, ball.time_horizon) == (7, 12000, 1000)


@pytest.mark.parametrize("name", ["ppo/ball3d", "ppo/ball3d.yaml", "ppo\\ball3d"])
def test_a_preset_is_the_file_of_that_name(name):
    assert list(read_preset(name).data["behaviors"]) == ["3DBall"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("ppo/bal3d", "Did you mean ppo/ball3d?"),
        ("sorter", "Did you mean ppo/sorter?"),
        ("coop-push", "Did you mean coma/coop-push or mappo/coop-push or poca/coop-push or ppo/coop-push?"),
        ("../setup", "There are: "),
        ("", "There are: "),
    ],
)
def test_an_unknown_preset_leads_to_the_known_ones(name, hint):
    with pytest.raises(TrainerConfigError) as caught:
        read_preset(name)
    assert hint in str(caught.value)
    lists_all = all(known in str(caught.value) for known in preset_names())
    assert lists_all == ("There are" in hint)
