"""training_status.json has the reference's format, and damaged files are refused."""

import json
import logging
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from lanista.trainers.checkpoints.status import TrainingStatus, TrainingStatusError
from lanista.trainers.utils.errors import TrainerError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run_logs" / "training_status.json"


def test_the_file_is_strict_json_with_the_reference_s_layout(path):
    status = TrainingStatus(path)
    status.set("Ball", "checkpoints", [{"steps": 5, "reward": float("nan")}])
    status.save()
    text = path.read_text()
    assert text.startswith('{\n    "Ball": {\n        "checkpoints"')
    assert json.loads(text)["Ball"]["checkpoints"][0]["reward"] is None
    assert list(json.loads(text)["metadata"]) == ["stats_format_version", "mlagents_version", "torch_version"]


def test_resuming_reports_a_torch_that_cannot_be_loaded(path, monkeypatch):
    TrainingStatus(path).save()
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(TrainerError, match=r"torch .*cannot be loaded.*--force-reinstall"):
        TrainingStatus(path).load()


def test_a_missing_file_is_a_warning(path, caplog):
    with caplog.at_level(logging.WARNING):
        assert not TrainingStatus(path).load()
    assert "Training status file not found. Not all functions will resume properly." in caplog.text


def test_every_truncation_is_refused_with_the_file_s_name(path):
    status = TrainingStatus(path)
    status.set("Ball", "elo", 1200.0)
    status.save()
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(TrainingStatusError, match=r"training_status\.json"):
            TrainingStatus(path).load()


@pytest.mark.parametrize(
    "content",
    ["[]", '{"metadata": 3}', '{"Ball": 3, "metadata": {}}', '{"Ball": {}}', "\x00", "[" * 100_000],
    ids=range(6),
)
def test_invalid_status_files_are_refused(path, content):
    path.parent.mkdir()
    path.write_text(content)
    with pytest.raises(TrainingStatusError):
        TrainingStatus(path).load()


def test_another_torch_is_a_warning(path, caplog):
    path.parent.mkdir()
    metadata = {"stats_format_version": "0.3.0", "mlagents_version": "1.1.0", "torch_version": "1.0"}
    path.write_text(json.dumps({"Ball": {"elo": 1.0}, "metadata": metadata}))
    with caplog.at_level(logging.WARNING):
        assert TrainingStatus(path).load()
    assert "torch_version 1.0" in caplog.text


def test_a_behavior_and_an_environment_parameter_may_have_one_name(path):
    status = TrainingStatus(path)
    for step in (5, 6):
        status.set("Ball", "checkpoints", [{"steps": step}])
        status.set("Ball", "lesson_num", step)
        status.set("Ball", "elo", 1200.0 + step)
        status.save()
        status = TrainingStatus(path)
        assert status.load()
        assert status.get("Ball", "checkpoints") == [{"steps": step}]
        assert (status.get("Ball", "lesson_num"), status.get("Ball", "elo")) == (step, 1200.0 + step)
    assert status.get("Ball", "final_checkpoint", []) == [] and status.get("unknown", "elo") is None


def test_an_environment_parameter_may_be_called_metadata(path):
    status = TrainingStatus(path)
    status.set("metadata", "lesson_num", 2)
    status.save()
    again = TrainingStatus(path)
    assert again.load() and again.get("metadata", "lesson_num") == 2
    again.save()
    tree = json.loads(path.read_text())
    assert tree["metadata"]["stats_format_version"] == "0.3.0" and tree["metadata"]["lesson_num"] == 2
    assert list(tree) == ["metadata"]


def test_no_behavior_may_be_named_metadata(path):
    with pytest.raises(ValueError, match=r"metadata\.torch_version"):
        TrainingStatus(path).set("metadata", "torch_version", "9.9")


@pytest.mark.slow
def test_threads_may_set_and_save_at_once(path):
    status = TrainingStatus(path)

    def train(name):
        for step in range(300):
            status.set(f"{name}{step}", "elo", float(step))
            if step % 10 == 0:
                status.save()

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(train, name) for name in "abcd"]:
            done.result()
    status.save()
    assert len(json.loads(path.read_text())) == 4 * 300 + 1


@pytest.mark.posix("named pipes")
def test_a_pipe_is_not_waited_for(path):
    path.parent.mkdir()
    os.mkfifo(path)
    with pytest.raises(TrainingStatusError, match=r"a pipe or a device.*Remove it"):
        TrainingStatus(path).load()
