"""Which of a behavior's files a run resumes from, and that the one that the status names is kept."""

import os
import shutil

import pytest
from lanista.trainers.checkpoints.file import save_checkpoint
from lanista.trainers.checkpoints.manager import CheckpointManager
from lanista.trainers.checkpoints.resuming import resumable, resume_step
from lanista.trainers.checkpoints.status import TrainingStatus, TrainingStatusError


@pytest.fixture
def make(tmp_path):
    """Builds a manager as a new process would, over the same folder."""

    def build(keep=2, load=False):
        status = TrainingStatus(tmp_path / "run_logs" / "training_status.json")
        if load:
            status.load()
        return CheckpointManager("Ball", tmp_path, keep, status)

    return build


def set_point(manager, step):
    manager.set_resume_step(step)
    assert manager.save_status()
    manager.remove_former_resume_steps()


def first(manager):
    return resumable(manager.folder, "Ball", manager.status)[0].name


def steps_of_files(manager):
    return sorted(int(path.stem.partition("-")[2]) for path in manager.folder.glob("Ball-*.pt"))


def test_the_step_that_the_status_names_comes_before_newer_checkpoints(make):
    manager = make()
    manager.save(10, {"step": 10})
    set_point(manager, 10)
    manager.save(20, {"step": 20})  # and a kill before the other behaviors had written theirs
    resumed = make(load=True)
    assert resumed.load() == {"step": 10}
    names = [path.name for path in resumable(resumed.folder, "Ball", resumed.status)]
    assert names == ["Ball-10.pt", "checkpoint.pt", "Ball-20.pt"]


def test_without_a_resume_step_it_is_the_newest_checkpoint(make):
    manager = make()
    manager.save(10, {"step": 10})
    manager.save(20, {"step": 20})
    assert resume_step(manager.status, "Ball") is None and first(make(load=True)) == "checkpoint.pt"


def test_weights_saved_for_another_behavior_are_in_no_list_and_go_with_the_next(make):
    manager = make()
    manager.save(10, {"step": 10})
    for step in (13, 17):
        assert manager.save_weights(step, {"step": step})
        set_point(manager, step)
        assert steps_of_files(manager) == [10, step]
    resumed = make(load=True)
    assert resumed.load() == {"step": 17} and [entry.steps for entry in resumed.checkpoints] == [10]
    resumed.save(20, {"step": 20})
    set_point(resumed, 20)
    assert steps_of_files(resumed) == [10, 20]


def test_the_file_to_resume_from_stays_although_keep_does_not_count_it(make):
    manager = make(keep=1)
    manager.save(10, {"step": 10})
    set_point(manager, 10)
    manager.save(20, {"step": 20})
    manager.save(30, {"step": 30})
    assert steps_of_files(manager) == [10, 30] and make(load=True).load() == {"step": 10}
    set_point(manager, 30)
    assert steps_of_files(manager) == [30]


def test_a_status_that_cannot_be_written_leaves_the_file_that_it_names(make, monkeypatch):
    manager = make(keep=1)
    manager.save(10, {"step": 10})
    set_point(manager, 10)
    with monkeypatch.context() as patched:
        patched.setattr(TrainingStatus, "save", lambda status: (_ for _ in ()).throw(OSError(28, "full")))
        manager.save(20, {"step": 20})
        manager.set_resume_step(20)
        assert not manager.save_status()
    assert make(load=True).load() == {"step": 10}
    set_point(manager, 20)
    assert steps_of_files(manager) == [20]


def test_copying_an_older_checkpoint_to_checkpoint_pt_goes_back_to_it(make):
    manager = make()
    for step in (10, 20):
        manager.save(step, {"step": step})
        set_point(manager, step)
    latest = manager.folder / "checkpoint.pt"
    latest.write_bytes((manager.folder / "Ball-10.pt").read_bytes())
    later = manager.status.path.stat().st_mtime_ns + 10**9
    os.utime(latest, ns=(later, later))
    assert make(load=True).load() == {"step": 10}


def test_a_save_that_the_status_does_not_name_yet_is_not_taken_for_that(make):
    """`checkpoint.pt` is newer than the status then, and so is the numbered file that it copies."""
    manager = make()
    manager.save(10, {"step": 10})
    set_point(manager, 10)
    later = manager.status.path.stat().st_mtime_ns + 10**9
    for name in ("Ball-20.pt", "checkpoint.pt"):
        save_checkpoint(manager.folder / name, {"step": 20})
        os.utime(manager.folder / name, ns=(later, later))
    assert make(load=True).load() == {"step": 10}


def test_a_missing_file_is_replaced_by_the_newest_checkpoint(make):
    manager = make()
    manager.save(10, {"step": 10})
    manager.save_weights(13, {"step": 13})
    set_point(manager, 13)
    (manager.folder / "Ball-13.pt").unlink()
    assert make(load=True).load() == {"step": 10}


@pytest.mark.parametrize("found", ["10", 1.5, -1, True, [10]])
def test_a_malformed_resume_step_is_named(make, found):
    manager = make()
    manager.save(10, {"step": 10})
    manager.status.set("Ball", "resume_step", found)
    manager.save_status()
    with pytest.raises(TrainingStatusError, match=r"Ball\.resume_step: found .*, expected a whole number"):
        make(load=True).load()


@pytest.mark.parametrize("several", [False, True])
def test_a_copy_that_keeps_the_time_of_the_older_checkpoint_goes_back_too(make, several):
    """As copies do on Windows, and with `cp -p`."""
    manager = make(keep=5)
    for step in (10, 20, 30):
        manager.save(step, {"step": step})
        if several:
            set_point(manager, step)
    older, latest = manager.folder / "Ball-10.pt", manager.folder / "checkpoint.pt"
    long_ago = older.stat().st_mtime_ns - 10**9
    os.utime(older, ns=(long_ago, long_ago))
    shutil.copy2(older, latest)
    assert make(load=True).load() == {"step": 10}


def test_a_checkpoint_that_could_not_be_copied_is_resumed_from_although_checkpoint_pt_is_older(
    make, monkeypatch
):
    manager = make(keep=5)
    manager.save(10, {"step": 10})
    with monkeypatch.context() as patched:
        patched.setattr(CheckpointManager, "latest_path", manager.folder / "missing" / "checkpoint.pt")
        manager.save(20, {"step": 20})
    assert make(load=True).load() == {"step": 20}
    manager.save(30, {"step": 30})
    shutil.copy2(manager.folder / "Ball-10.pt", manager.folder / "checkpoint.pt")
    assert make(load=True).load() == {"step": 10}
