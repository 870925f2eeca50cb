"""max_steps: -1 trains until the run is stopped; what needs an end is refused with it."""

import pytest
from lanista.trainers.settings import RunOptions, TrainerConfigError
from lanista.trainers.settings.registry import trainer_types


def read(behavior: str, more: str = "") -> RunOptions:
    return RunOptions.from_text(f"behaviors: {{B: {behavior}}}\n{more}", "b.yaml")


def test_constant_schedules_go_on_without_an_end() -> None:
    hyper = "hyperparameters: {learning_rate_schedule: constant}"
    settings = read(f"{{trainer_type: ppo, max_steps: -1, {hyper}}}").behaviors["B"]
    assert settings.endless
    assert not read("{max_steps: 0}").behaviors["B"].endless


@pytest.mark.parametrize("trainer", trainer_types)
def test_linear_schedules_are_refused_by_name(trainer: str) -> None:
    schedules = [key for key in trainer_types[trainer].settings.model_fields if key.endswith("_schedule")]
    for key in schedules:
        constant = {other: "constant" for other in schedules if other != key}
        hyper = {**constant, key: "linear"}
        data = {"trainer_type": trainer, "max_steps": -1, "hyperparameters": hyper}
        with pytest.raises(TrainerConfigError) as caught:
            RunOptions.from_dict({"behaviors": {"B": data}})
        (problem,) = caught.value.problems
        assert problem.path == f"behaviors.B.hyperparameters.{key}"
        assert f"Set {key}: constant" in problem.message


def test_schedules_that_are_linear_by_default_are_named_as_such() -> None:
    with pytest.raises(TrainerConfigError) as caught:
        read("{max_steps: -1}")
    assert [problem.path.rpartition(".")[2] for problem in caught.value.problems] == [
        *("learning_rate_schedule", "beta_schedule", "epsilon_schedule")
    ]
    assert "found linear (the default)" in str(caught.value)


def test_checkpoints_cannot_be_spread_over_no_end() -> None:
    hyper = "hyperparameters: {learning_rate_schedule: constant}"
    with pytest.raises(TrainerConfigError, match=r"even_checkpoints: .*Set checkpoint_interval instead"):
        read(f"{{trainer_type: ppo, max_steps: -1, even_checkpoints: true, {hyper}}}")


def test_progress_is_no_measure_of_what_has_no_end() -> None:
    lessons = """\
environment_parameters:
  wall:
    curriculum:
      - {name: a, value: 1, completion_criteria: {behavior: B, measure: progress, threshold: 0.5}}
      - {name: b, value: 2}
"""
    with pytest.raises(TrainerConfigError, match=r"b\.yaml, line 5: .*measure: found progress"):
        read("{trainer_type: sac, max_steps: -1}", lessons)
    read("{trainer_type: sac, max_steps: -1}", lessons.replace("progress", "reward"))
    read("{trainer_type: sac}", lessons)


@pytest.mark.parametrize("steps", [-2, -1000])
def test_other_negative_numbers_are_refused(steps: int) -> None:
    with pytest.raises(TrainerConfigError, match="expected at least -1"):
        read(f"{{max_steps: {steps}}}")
