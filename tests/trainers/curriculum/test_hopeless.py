"""A curriculum that could never be gone through is refused before a run begins, each with its sentence."""

import pytest
from lanista.trainers.cli.main import run
from lanista.trainers.settings import RunOptions, TrainerConfigError
from lanista.trainers.settings.validation import contradictions, require_support

YAML = """\
behaviors:
  Jumper: {{trainer_type: ppo}}
{more}environment_parameters:
  wall:
    curriculum:
      - name: low
        value: 1
        completion_criteria: {{{criteria}}}
      - {{name: high, value: 2}}
"""


def read(criteria: str, more: str = "") -> RunOptions:
    return RunOptions.from_text(YAML.format(criteria=criteria, more=more), "c.yaml")


@pytest.mark.parametrize(
    ("criteria", "key", "message"),
    [
        ("behavior: Jumpr, threshold: 1", "behavior", "found Jumpr, which is no behavior of this file"),
        ("behavior: Jumpr, threshold: 1", "behavior", "Did you mean Jumper"),
        ("behavior: 'Jumper?team=0'", "behavior", "teams are measured together: write Jumper"),
        ("behavior: Jumper, measure: progress, threshold: 1", "threshold", "must be above it"),
        ("behavior: Jumper, measure: Elo, threshold: 1300", "measure", "no section self_play"),
    ],
)
def test_refused_with_line_path_and_sentence(criteria: str, key: str, message: str) -> None:
    path = rf"environment_parameters\.wall\.curriculum\.0\.completion_criteria\.{key}"
    with pytest.raises(TrainerConfigError, match=rf"c\.yaml, line 8: {path}: .*{message}"):
        require_support(read(criteria))


def test_no_lesson_at_all_is_refused() -> None:
    options = RunOptions.from_text(
        "behaviors: {B: {trainer_type: ppo}}\nenvironment_parameters: {p: {curriculum: []}}"
    )
    with pytest.raises(TrainerConfigError, match=r"environment_parameters\.p\.curriculum: it has no lesson"):
        require_support(options)


def test_progress_of_default_settings_without_an_end_is_refused() -> None:
    constant = "hyperparameters: {learning_rate_schedule: constant}"
    more = f"default_settings: {{trainer_type: ppo, max_steps: -1, {constant}}}\n"
    with pytest.raises(
        TrainerConfigError, match=r"completion_criteria\.measure: found progress, .*max_steps -1"
    ):
        require_support(read("behavior: Other, measure: progress, threshold: 0.5", more))


@pytest.mark.parametrize(
    "criteria", ["behavior: Jumper", "behavior: Jumper, measure: progress, threshold: 0.99"]
)
def test_what_can_be_reached_is_accepted(criteria: str) -> None:
    require_support(read(criteria))


def test_a_behavior_that_default_settings_may_bring_is_accepted() -> None:
    require_support(read("behavior: Another", "default_settings: {trainer_type: ppo}\n"))


def test_elo_is_measured_where_there_is_self_play() -> None:
    options = RunOptions.from_text(
        YAML.format(criteria="behavior: Jumper, measure: Elo, threshold: 1300", more="").replace(
            "trainer_type: ppo", "trainer_type: ppo, self_play: {}"
        )
    )
    assert not contradictions(options)


def test_lanista_check_says_it_too(tmp_path, capsys) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(YAML.format(criteria="behavior: Jumpr", more=""))
    assert run(["check", str(file)]) == 1
    assert "found Jumpr, which is no behavior" in capsys.readouterr().out
