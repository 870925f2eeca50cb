"""Lessons advance when they are learned, and a resumed run continues with them."""

import pytest
from lanista.trainers.checkpoints.status import LESSON, SMOOTHED, TrainingStatus, TrainingStatusError
from lanista.trainers.curriculum import Curriculum, TrainingProgress
from lanista.trainers.settings import RunOptions

LESSONS = """
environment_parameters:
  gravity: 9.81
  wall:
    curriculum:
      - {name: low, value: 1, completion_criteria: {behavior: B, threshold: 1}}
      - {name: middle, value: 2, completion_criteria: {behavior: B, threshold: 2}}
      - {name: high, value: 3}
"""


def make(text=LESSONS):
    return Curriculum(RunOptions.from_text(text).environment_parameters, 7)


def earned(*returns, elo=None):
    return lambda behavior: TrainingProgress(10, 100, returns, elo)


def test_an_unseen_behavior_ends_no_lesson():
    curriculum = make()
    assert curriculum.advance(lambda behavior: None) is None
    assert curriculum.numbers == {"gravity": 0, "wall": 0}


def test_the_console_line_is_that_of_ml_agents():
    curriculum = make()
    assert curriculum.line("wall") == "Parameter 'wall' is in lesson 'low' and has value 'Float: value=1.0'."
    curriculum.advance(earned(4.0))
    assert (
        curriculum.line("wall") == "Parameter 'wall' is in lesson 'middle' and has value 'Float: value=2.0'."
    )


def test_non_finite_returns_end_no_lesson_and_are_not_smoothed():
    curriculum = make()
    for value in (float("nan"), float("inf")):
        assert curriculum.advance(earned(value)) is None
    assert curriculum.smoothed["wall"] == 0.0


def test_what_groups_earn_ends_a_lesson_that_measures_it(caplog):
    def earns(*returns, by_groups):
        return lambda behavior: TrainingProgress(10, 100, returns, by_groups=by_groups)

    curriculum = make(LESSONS.replace("threshold: 1}", "threshold: 1, measure: group_reward}"))
    for _ in range(2):
        assert curriculum.advance(earns(9.0, by_groups=False)) is None
    assert caplog.text.count("none of its groups has earned one yet") == 1
    assert curriculum.advance(earns(9.0, by_groups=True)).parameters == ("wall",)


def test_a_rating_ends_a_lesson():
    curriculum = make(LESSONS.replace("threshold: 1}", "threshold: 1250, measure: Elo}"))
    assert curriculum.advance(earned(9.0)) is None
    assert curriculum.advance(earned(9.0, elo=1250.0)) is None
    advance = curriculum.advance(earned(9.0, elo=1250.5))
    assert advance is not None and advance.parameters == ("wall",)


@pytest.mark.parametrize(
    "step, max_steps, ended", [(49, 100, False), (60, 100, True), (0, 0, False), (5, 0, True)]
)
def test_progress_ends_a_lesson(step, max_steps, ended):
    """Of a behavior that is not trained any step is enough."""
    curriculum = make(LESSONS.replace("threshold: 1}", "threshold: 0.5, measure: progress}"))
    advance = curriculum.advance(lambda behavior: TrainingProgress(step, max_steps, [1.0]))
    assert (advance is not None) == ended


def test_the_last_lesson_has_no_pending_criteria():
    curriculum = make()
    for _ in range(2):
        curriculum.advance(earned(100.0))
    assert list(curriculum.pending()) == []


def saved(tmp_path, **of_wall):
    status = TrainingStatus(tmp_path / "training_status.json")
    for key, value in of_wall.items():
        status.set("wall", key, value)
    return status


def test_a_resumed_curriculum_continues_as_an_uninterrupted_one(tmp_path):
    first = make()
    status = saved(tmp_path)
    assert first.bind_status(status) == []
    for reward in (0.5, 1.5, 1.6):
        first.advance(earned(reward))
    assert first.numbers["wall"] == 1
    status.save()
    again = TrainingStatus(status.path)
    again.load()
    second = make()
    assert second.bind_status(again, resumed=True) == []
    assert (second.numbers, second.smoothed) == (first.numbers, first.smoothed)
    assert (second.advance(earned(2.1)) is None) == (first.advance(earned(2.1)) is None)
    assert second.smoothed == first.smoothed


def test_a_new_run_starts_with_the_first_lesson_and_records_it(tmp_path):
    status = saved(tmp_path)
    make().bind_status(status)
    assert (status.get("wall", LESSON), status.get("gravity", LESSON)) == (0, 0)


def test_ml_agents_status_has_lessons_and_no_smoothed_reward(tmp_path):
    curriculum = make()
    curriculum.bind_status(saved(tmp_path, lesson_num=1), resumed=True)
    assert curriculum.lesson("wall").name == "middle" and curriculum.smoothed["wall"] == 0.0


def test_removed_lessons_leave_the_last_one(tmp_path):
    curriculum = make()
    (complaint,) = curriculum.bind_status(saved(tmp_path, lesson_num=8), resumed=True)
    assert "was in lesson 9" in complaint and "'high'" in complaint
    assert curriculum.lesson("wall").name == "high"


@pytest.mark.parametrize("key, value", [(LESSON, "two"), (LESSON, -1), (LESSON, True), (SMOOTHED, None)])
def test_a_damaged_status_is_reported(tmp_path, key, value):
    with pytest.raises(TrainingStatusError, match=rf"training_status\.json: wall\.{key} is "):
        make().bind_status(saved(tmp_path, **{key: value}), resumed=True)
