"""Which checkpoints are the best, and how they are compared."""

import json

import pytest
import torch
from lanista.trainers.checkpoints.file import load_checkpoint
from lanista.trainers.checkpoints.manager import CheckpointManager
from lanista.trainers.checkpoints.status import TrainingStatus, TrainingStatusError


@pytest.fixture
def make(tmp_path):
    """Builds a manager as a new process would, over the same folder."""

    def build(keep_best=2, keep=1, load=False):
        status = TrainingStatus(tmp_path / "run_logs" / "training_status.json")
        if load:
            status.load()
        manager = CheckpointManager("Ball", tmp_path, keep, status, keep_best=keep_best)
        if load:
            manager.load()
        return manager

    return build


def save(manager, step, reward=None, due=True):
    best_metric = reward if reward is not None and manager.best.admits(reward) else None
    state = {"step": step, "weight": torch.full((2,), float(step))}
    manager.save(
        step,
        state,
        export=lambda path: path.write_bytes(b"model %d" % step),
        best_metric=best_metric,
        due=due,
    )


def kept(folder):
    return sorted(int(path.stem.split("-")[1]) for path in (folder / "Ball").glob("Ball-[0-9]*.pt"))


def test_the_best_checkpoints_are_kept_regardless_of_age(make, tmp_path):
    manager = make()
    for step, reward in [(10, 5.0), (20, 1.0), (30, 2.0), (40, None), (50, 1.5)]:
        save(manager, step, reward)
    assert kept(tmp_path) == [10, 30, 50]
    assert [entry.steps for entry in manager.best.entries] == [10, 30]
    assert load_checkpoint(tmp_path / "Ball" / "Ball-best.pt")["step"] == 10
    assert (tmp_path / "Ball" / "Ball-best.onnx").read_bytes() == b"model 10"


def test_a_checkpoint_saved_as_best_does_not_count_among_the_newest(make, tmp_path):
    manager = make(keep=2)
    for step, due in [(10, True), (20, True), (25, False), (26, False), (27, False)]:
        save(manager, step, float(step) if not due else None, due)
    assert kept(tmp_path) == [10, 20, 26, 27]
    assert load_checkpoint(manager.latest_path)["step"] == 27, "a run resumes from the newest of all"
    resumed = make(keep=2, load=True)
    assert [entry.steps for entry in resumed.checkpoints] == [10, 20]


def test_a_best_reward_of_an_earlier_lesson_is_superseded(make, tmp_path):
    """Lessons get harder: otherwise the best would forever be one of the easiest lesson."""
    manager = make()
    save(manager, 10, 5.0)
    save(manager, 20, 3.0)
    manager.best.reset()
    save(manager, 30, 1.0)
    assert [(entry.steps, entry.reward) for entry in manager.best.entries] == [(30, 1.0), (10, None)]
    assert load_checkpoint(tmp_path / "Ball" / "Ball-best.pt")["step"] == 30
    assert kept(tmp_path) == [10, 30]
    resumed = make(load=True)
    save(resumed, 40, 0.5)
    assert [(entry.steps, entry.reward) for entry in resumed.best.entries] == [(30, 1.0), (40, 0.5)]


def test_a_lesson_that_starts_just_before_a_run_ends_is_known_after_a_resume(make):
    manager = make(keep=3)
    save(manager, 10, 5.0)
    manager.best.reset()
    save(manager, 20)
    resumed = make(keep=3, load=True)
    assert [(entry.steps, entry.reward) for entry in resumed.best.entries] == [(10, None)]


def test_of_equal_checkpoints_the_older_is_kept(make):
    manager = make(keep_best=1)
    save(manager, 10, 1.0)
    assert not manager.best.admits(1.0) and manager.best.admits(1.01)
    assert not manager.best.admits(float("nan")) and not manager.best.admits(float("inf"))


def test_a_resumed_run_continues_comparing(make, tmp_path):
    manager = make()
    for step, reward in [(10, 5.0), (20, 3.0)]:
        save(manager, step, reward)
    (tmp_path / "Ball" / "Ball-best.pt").unlink()  # as when a kill came before the copies
    resumed = make(load=True)
    resumed.best.resume(20, 3.0)
    assert not resumed.best.admits(2.0) and resumed.best.admits(4.0)
    assert load_checkpoint(tmp_path / "Ball" / "Ball-best.pt")["step"] == 10


def test_a_best_checkpoint_missing_from_the_list_after_a_kill_is_added(make, tmp_path):
    manager = make(keep_best=1)
    save(manager, 10, 5.0)
    before = manager.status.path.read_bytes()
    save(manager, 20, 6.0)
    manager.status.path.write_bytes(before)
    (tmp_path / "Ball" / "Ball-best.pt").unlink()
    resumed = make(keep_best=1, load=True)
    resumed.best.resume(20, 6.0)
    assert [(e.steps, e.reward) for e in resumed.best.entries] == [(20, 6.0)]
    assert load_checkpoint(tmp_path / "Ball" / "Ball-best.pt")["step"] == 20


def test_a_best_model_stays_if_a_later_run_keeps_none(make, tmp_path):
    save(make(), 10, 5.0)
    resumed = make(keep_best=0, load=True)
    for step in (20, 30):
        save(resumed, step, 9.0)
    assert kept(tmp_path) == [10, 30]
    assert json.loads(resumed.status.path.read_text())["Ball"]["best_checkpoints"][0]["steps"] == 10


def test_a_malformed_entry_is_named(make):
    save(make(), 10, 5.0)
    status = make().status
    status.load()
    status.set("Ball", "best_checkpoints", [{"steps": "many"}])
    status.save()
    with pytest.raises(TrainingStatusError, match=r"Ball\.best_checkpoints\[0\]: its 'steps' is 'many'"):
        make(load=True)
