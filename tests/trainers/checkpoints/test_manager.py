"""The checkpoints of a behavior: damaged ones are never used, and intact ones are never lost."""

import errno
import json
import logging
import os
from pathlib import Path

import pytest
import torch
from checkpoint_states import state, step_of
from lanista.trainers.checkpoints.file import CheckpointError, load_checkpoint, save_checkpoint
from lanista.trainers.checkpoints.manager import CheckpointManager
from lanista.trainers.checkpoints.status import Checkpoint, TrainingStatus, TrainingStatusError
from lanista.trainers.utils import atomic_files as atomic


@pytest.fixture
def make(tmp_path):
    """Builds a manager as a new process would, over the same folder."""

    def build(keep=3, load=False):
        status = TrainingStatus(tmp_path / "run_logs" / "training_status.json")
        if load:
            status.load()
        return CheckpointManager("Ball", tmp_path, keep, status)

    return build


@pytest.fixture
def saved(make):
    """Saves checkpoints of these steps; returns their manager."""

    def build(*steps, **keys):
        manager = make(**keys)
        for step in steps:
            manager.save(step, state(step))
        return manager

    return build


def loads(manager):
    """The step that the manager loads, and the steps that it lists after that."""
    return step_of(manager.load()), [entry.steps for entry in manager.checkpoints]


def model(content):
    """An export of these bytes."""
    return lambda path: atomic.atomic_write_bytes(path, content)


def files_in(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# ---- the checkpoints of a behavior


def test_a_resumed_run_gets_the_last_state_and_continues_pruning(make, tmp_path):
    manager = make(keep=2)
    for step in (10, 20, 30):
        assert manager.save(step, state(step), reward=step / 10) is not None
    resumed = make(keep=2, load=True)
    assert step_of(resumed.load()) == 30
    assert [(c.steps, c.reward) for c in resumed.checkpoints] == [(20, 2.0), (30, 3.0)]
    resumed.save(40, state(40))
    assert sorted(os.listdir(tmp_path / "Ball")) == ["Ball-30.pt", "Ball-40.pt", "checkpoint.pt"]


def test_two_checkpoints_at_one_step_are_one(make, tmp_path):
    manager = make(keep=2)
    for step in (10, 20, 20, 20):
        manager.save(step, state(step), export=model(b"model"))
    assert [c.steps for c in manager.checkpoints] == [10, 20]
    manager.save(30, state(30))
    assert (tmp_path / "Ball" / "Ball-20.pt").exists() and (tmp_path / "Ball" / "Ball-20.onnx").exists()


def test_a_damaged_checkpoint_pt_is_replaced_by_the_newest_intact_one(saved, make, tmp_path, caplog):
    saved(10, 20, 30)
    for name in ("checkpoint.pt", "Ball-30.pt"):
        path = tmp_path / "Ball" / name
        path.write_bytes(path.read_bytes()[:-40])
    with caplog.at_level(logging.WARNING):
        assert step_of(make(load=True).load()) == 20
    assert "checkpoint.pt" in caplog.text and "Ball-20.pt instead" in caplog.text


def test_a_checkpoint_with_numbers_that_are_not_finite_is_not_resumed_from(saved, make, tmp_path, caplog):
    """Else every later number would be NaN, and the learning rate would be blamed."""
    saved(10, 20)
    for name in ("checkpoint.pt", "Ball-20.pt"):
        spoiled = load_checkpoint(tmp_path / "Ball" / name)
        spoiled["moments"] = [{"mean": torch.full((2,), float("nan"))}]
        torch.save(spoiled, tmp_path / "Ball" / name)
    with caplog.at_level(logging.WARNING):
        assert step_of(make(load=True).load()) == 10
    assert "its tensor moments.0.mean holds NaN or infinite numbers" in caplog.text


def test_when_nothing_can_be_resumed_the_error_names_each_file(saved, make, tmp_path):
    saved(10)
    for name in ("checkpoint.pt", "Ball-10.pt"):
        (tmp_path / "Ball" / name).write_bytes(b"")
    with pytest.raises(CheckpointError) as error:
        make(load=True).load()
    *complaints, advice = str(error.value).splitlines()
    named = {Path(complaint.split()[2]).name for complaint in complaints}
    assert named == {"checkpoint.pt", "Ball-10.pt"}
    assert "restore one from a copy, or start over with --force" in advice
    assert "lder checkpoint" not in str(error.value)


def test_a_checkpoint_that_a_kill_kept_from_the_list_is_added_to_it(saved, make, tmp_path):
    saved(10)
    save_checkpoint(tmp_path / "Ball" / "Ball-20.pt", state(20))
    (tmp_path / "Ball" / ".Ball-20.onnx.0123456789ab-0.partial").write_bytes(b"half")
    assert loads(make(load=True)) == (20, [10, 20])
    assert not list((tmp_path / "Ball").glob(".*.partial"))


def test_copying_an_older_checkpoint_to_checkpoint_pt_goes_back_to_it(saved, make, tmp_path):
    saved(10, 20)
    folder = tmp_path / "Ball"
    newest = (folder / "Ball-20.pt").read_bytes()
    (folder / "checkpoint.pt").write_bytes((folder / "Ball-10.pt").read_bytes())
    later = (folder / "Ball-20.pt").stat().st_mtime_ns + 10**9
    os.utime(folder / "checkpoint.pt", ns=(later, later))
    assert step_of(make(load=True).load()) == 10
    assert (folder / "Ball-20.pt").read_bytes() == newest, "checkpoint.pt is a file of its own"


@pytest.mark.parametrize(
    "entries, says",
    [
        (5, "Ball.checkpoints: found 5, expected a list"),
        ([5], r"Ball.checkpoints\[0\]: found 5, expected an object"),
        ([{}], r"checkpoints\[0\]: has no 'steps', expected a whole number"),
        ({"steps": "10"}, "its 'steps' is '10', expected a whole number"),
        ({"file_path": None}, "its 'file_path' is None, expected text"),
        ({"reward": "high"}, "its 'reward' is 'high', expected a number or null"),
        ({"creation_time": True}, "its 'creation_time' is True, expected a number"),
        ({"auxillary_file_paths": [3]}, r"its 'auxillary_file_paths' is \[3\], expected a list of texts"),
    ],
)
def test_a_malformed_entry_of_the_status_file_is_named(make, tmp_path, entries, says):
    make().save(10, state(10))
    path = tmp_path / "run_logs" / "training_status.json"
    tree = json.loads(path.read_text())
    if isinstance(entries, dict):
        entries = [{**tree["Ball"]["checkpoints"][0], **entries}]
    tree["Ball"]["checkpoints"] = entries
    path.write_text(json.dumps(tree))
    with pytest.raises(TrainingStatusError, match=says) as error:
        make(load=True).load()
    assert str(path) in str(error.value)


def test_keys_that_a_later_version_adds_to_an_entry_are_ignored(make, tmp_path):
    make().save(10, state(10))
    path = tmp_path / "run_logs" / "training_status.json"
    path.write_text(path.read_text().replace('"steps"', '"colour": "blue", "steps"', 1))
    assert loads(make(load=True)) == (10, [10])


def test_a_listed_checkpoint_whose_files_are_gone_is_dropped(saved, make, tmp_path):
    saved(10, 20)
    (tmp_path / "Ball" / "Ball-10.pt").unlink()
    assert loads(make(load=True)) == (20, [20])


def test_a_moved_run_is_resumed_and_pruned_where_it_is_now(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("here").mkdir()
    for step, folder in ((10, "here"), (20, "there")):
        status = TrainingStatus(f"{folder}/run_logs/training_status.json")
        if step == 20:
            Path("here").rename("there")
            status.load()
        manager = CheckpointManager("Ball", folder, 1, status)
        if step == 20:
            manager.load()
        manager.save(step, state(step))
    assert sorted(os.listdir("there/Ball")) == ["Ball-20.pt", "checkpoint.pt"]


def test_the_final_model_is_a_copy_of_the_last_one(make, tmp_path, caplog):
    manager = make()
    manager.save(10, state(10), reward=1.5, export=model(b"model 10"))
    with caplog.at_level(logging.INFO):
        assert manager.finish() == tmp_path / "Ball.onnx"
    assert (tmp_path / "Ball.onnx").read_bytes() == b"model 10"
    copied, last = tmp_path / "Ball.onnx", tmp_path / "Ball" / "Ball-10.onnx"
    assert f"Copied {last} to {copied}." in caplog.text
    written = json.loads((tmp_path / "run_logs" / "training_status.json").read_text())
    final = written["Ball"]["final_checkpoint"]
    assert final["file_path"] == str(tmp_path / "Ball.onnx") and final["steps"] == 10
    assert final["auxillary_file_paths"] == [str(tmp_path / "Ball" / "Ball-10.pt")]
    assert written["metadata"]["stats_format_version"] == "0.3.0"


def test_without_a_new_model_the_previous_one_stays_listed_as_final(make, tmp_path):
    manager = make()
    manager.save(10, state(10), export=model(b"model 10"))
    manager.finish()
    manager.save(20, state(20), export=lambda path: None)  # as when its verification fails
    assert manager.finish() is None
    assert (tmp_path / "Ball.onnx").read_bytes() == b"model 10"
    written = json.loads((tmp_path / "run_logs" / "training_status.json").read_text())
    assert written["Ball"]["final_checkpoint"]["steps"] == 10


def test_a_model_of_other_weights_at_the_same_step_is_not_used(make, tmp_path):
    manager = make()
    manager.save(10, state(10), export=model(b"older weights"))
    manager.save(10, state(10), export=lambda path: None)
    assert manager.finish() is None
    assert not (tmp_path / "Ball.onnx").exists()


# ---- a file system that fails


def deny(monkeypatch, *names):
    """Make renaming or linking a file to one of these names fail."""
    for call in ("replace", "link"):
        real = getattr(os, call)

        def refuse(source, target, real=real):
            if any(name in str(target) for name in names):
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(source, target)

        monkeypatch.setattr(atomic.os, call, refuse)


def test_without_room_for_a_copy_checkpoint_pt_is_a_hard_link(saved, make, tmp_path, monkeypatch):
    manager = saved(10)
    real = atomic.atomic_write_bytes

    def write(path, data):
        if Path(path).name == "checkpoint.pt":
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path, data)

    monkeypatch.setattr("lanista.trainers.checkpoints.manager.atomic_write_bytes", write)
    for _ in range(2):
        assert manager.save(20, state(20)) is not None
        assert (tmp_path / "Ball" / "checkpoint.pt").samefile(tmp_path / "Ball" / "Ball-20.pt")
    assert step_of(make(load=True).load()) == 20
    assert not list(tmp_path.rglob(".*.partial"))


def test_a_checkpoint_is_resumed_although_checkpoint_pt_was_not_updated(
    saved, make, tmp_path, monkeypatch, caplog
):
    manager = saved(10)
    deny(monkeypatch, "checkpoint.pt")
    with caplog.at_level(logging.WARNING):
        assert manager.save(20, state(20)) is not None
    monkeypatch.undo()
    assert "checkpoint.pt could not be written" in caplog.text and "Ball-20.pt" in caplog.text
    assert loads(make(load=True)) == (20, [10, 20])
    assert not list(tmp_path.rglob(".*.partial"))


@pytest.mark.parametrize("kept", [0, 1, 2, 3, 4], ids=lambda n: f"after-{n}-writes")
def test_a_disk_that_fills_up_during_a_save_costs_that_save_alone(make, tmp_path, monkeypatch, caplog, kept):
    manager = make()
    manager.save(10, state(10), export=model(b"model"))
    before = files_in(tmp_path)
    calls, real = [], os.fsync
    flushed = 1 if os.name == "nt" else 2  # a file, and its folder where that can be opened, for each write

    def fsync(handle):
        calls.append(handle)
        if len(calls) > kept * flushed:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(handle)

    monkeypatch.setattr(atomic.os, "fsync", fsync)
    with caplog.at_level(logging.WARNING):
        saved = manager.save(20, state(20), export=model(b"model"))
    monkeypatch.undo()
    assert not list(tmp_path.rglob(".*.partial"))
    if kept < 4:
        assert "No space left on device" in caplog.text
    for path, content in before.items():
        if path.name not in ("checkpoint.pt", "training_status.json"):
            assert path.read_bytes() == content
    assert step_of(make(load=True).load()) == (20 if saved else 10)
    if not saved:
        assert files_in(tmp_path) == before
    assert manager.save(30, state(30)) is not None
    assert step_of(make(load=True).load()) == 30


def test_a_file_size_limit_costs_that_save_alone(saved, tmp_path, file_size_limit, caplog):
    manager = saved(10)
    before = files_in(tmp_path)
    with caplog.at_level(logging.WARNING), file_size_limit(2000):
        assert manager.save(20, state(20)) is None
    assert "the last one is of step 10" in caplog.text
    assert files_in(tmp_path) == before


@pytest.mark.parametrize("final", [False, True])
def test_only_a_run_that_has_not_ended_is_said_to_go_on(make, file_size_limit, caplog, final):
    with caplog.at_level(logging.WARNING), file_size_limit(2000):
        assert make().save(20, state(20), final=final) is None
    assert "; there is no other one." in caplog.text
    assert ("Training goes on" in caplog.text) is not final


def test_a_model_that_cannot_be_verified_is_an_error_and_the_weights_are_safe(make):
    manager = make()

    def export(path):
        raise RuntimeError("the model does not act as the network does")

    with pytest.raises(RuntimeError):
        manager.save(10, state(10), export=export)
    assert loads(make(load=True)) == (10, [10])


def test_an_entry_has_the_fields_of_the_reference_file():
    entry = Checkpoint(5, "r/B/B-5.onnx", None, 1.5, ["r/B/B-5.pt"])
    assert set(vars(entry)) == {"steps", "file_path", "reward", "creation_time", "auxillary_file_paths"}


def test_a_run_resumed_at_its_end_keeps_the_reward_of_its_last_checkpoint(make):
    make().save(500, state(500), 1.5)
    again = make(load=True)
    again.load()
    again.save(500, state(500))
    assert [entry.reward for entry in again.checkpoints] == [1.5]
    again.save(501, state(501))
    assert [entry.reward for entry in again.checkpoints] == [1.5, None]
