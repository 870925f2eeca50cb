"""Run folders: nothing of an older run is lost, and two runs never share one."""

import errno
import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Barrier

import pytest
from lanista.envs.utils.process_lock import LockingNotSupportedError
from lanista.trainers.checkpoints import run_folder
from lanista.trainers.checkpoints.run_folder import claimed_run_folder, runs_in
from lanista.trainers.settings.models.run import CheckpointSettings
from lanista.trainers.utils.errors import TrainerError

TINY = """\
behaviors:
  Tiny:
    trainer_type: ppo
    hyperparameters: {batch_size: 64, buffer_size: 256}
    network_settings: {hidden_units: 16, num_layers: 1}
    max_steps: 300
    time_horizon: 16
"""


@pytest.fixture
def settings(tmp_path):
    def make(run_id="r", **keys):
        return CheckpointSettings(run_id=run_id, results_dir=str(tmp_path / "results"), **keys)

    return make


@pytest.fixture
def results(tmp_path):
    return tmp_path / "results"


@pytest.fixture
def older(results):
    """A run that has learned something."""
    (results / "r" / "run_logs").mkdir(parents=True)
    (results / "r" / "Ball").mkdir()
    (results / "r" / "Ball" / "checkpoint.pt").write_bytes(b"weights")
    return results / "r"


def test_a_new_run_has_its_folder_and_removes_its_lock(settings, results):
    with claimed_run_folder(settings()) as folder:
        assert folder == results / "r" and (folder / "run_logs").is_dir()
    assert os.listdir(results) == ["r"]


def test_an_older_run_is_not_overwritten_without_force(settings, older):
    with (
        pytest.raises(TrainerError, match=r"Previous data.*--run-id.*--resume.*--force"),
        claimed_run_folder(settings()),
    ):
        pass
    with claimed_run_folder(settings(resume=True)) as folder:
        assert (folder / "Ball" / "checkpoint.pt").read_bytes() == b"weights"


def test_force_sets_the_old_run_aside_each_time(settings, older, results):
    for _ in range(3):
        with claimed_run_folder(settings(force=True)) as folder:
            assert os.listdir(folder) == ["run_logs"]
            (folder / "Ball").mkdir()
    assert len(os.listdir(results)) == 4
    aside = [path for path in results.iterdir() if (path / "Ball" / "checkpoint.pt").exists()]
    assert len(aside) == 1 and aside[0].name.startswith("r.20")


@pytest.mark.parametrize(
    "left",
    [
        ["run_logs"],
        ["run_logs", "configuration.yaml"],
        ["run_logs", ".configuration.yaml.0123456789ab-0.partial"],
    ],
)
def test_leftovers_of_a_run_that_never_started_are_no_obstacle(settings, results, left):
    (results / "r" / "run_logs").mkdir(parents=True)
    for name in left[1:]:
        (results / "r" / name).write_text("{}")
    with claimed_run_folder(settings()) as folder:
        assert sorted(os.listdir(folder)) == sorted(left)


def test_a_missing_run_cannot_be_resumed_and_the_nearest_is_named(settings, older, results):
    with (
        pytest.raises(TrainerError, match=r"no folder .*rr\. Did you mean --run-id r\?"),
        claimed_run_folder(settings("rr", resume=True)),
    ):
        pass
    assert os.listdir(results) == ["r"]


def test_a_refusal_creates_nothing(settings, results):
    with pytest.raises(TrainerError, match="no folder"), claimed_run_folder(settings(resume=True)):
        pass
    assert not results.exists()


@pytest.mark.parametrize("how", [{}, {"resume": True}, {"force": True}], ids=["new", "resume", "force"])
def test_a_running_run_cannot_be_claimed_by_another(settings, results, how):
    with claimed_run_folder(settings()) as folder:
        (folder / "Ball").mkdir()
        with (
            pytest.raises(TrainerError, match=rf"under way \(process {os.getpid()}, since .*--run-id"),
            claimed_run_folder(settings(**how)),
        ):
            pass
        assert [path.name for path in runs_in(results)] == ["r"] and (folder / "Ball").is_dir()
    with claimed_run_folder(settings(resume=True)):
        pass


@pytest.mark.posix("links need a right there")
def test_a_running_run_cannot_be_claimed_by_another_name(settings, results):
    """A link leads to the same files."""
    with claimed_run_folder(settings()) as folder:
        (folder / "Ball").mkdir()
        (results / "alias").symlink_to("r")
        claim = claimed_run_folder(settings("alias", resume=True))
        with pytest.raises(TrainerError, match="under way"), claim:
            pass


def test_of_many_concurrent_claims_one_succeeds(settings, results):
    together = Barrier(6, timeout=60)

    def begin(_):
        with ExitStack() as claim:
            together.wait()
            try:
                claim.enter_context(claimed_run_folder(settings(force=True)))
            except TrainerError as error:
                assert "under way" in str(error)
                together.wait()
                return 0
            together.wait()
            return 1

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(begin, range(6))) == 1
    assert os.listdir(results) == ["r"], "nor was the folder of the one set aside by another"


def test_an_error_releases_the_run(settings):
    with pytest.raises(KeyError), claimed_run_folder(settings()):
        raise KeyError
    with claimed_run_folder(settings(resume=True)):
        pass


def test_a_new_run_whose_weights_do_not_fit_blocks_nothing(runs, tmp_path, capsys):
    runs.configure(TINY)
    assert runs("c.yaml", "--run-id", "first") == 0
    begun = ["--run-id", "second", "--initialize-from", "first"]
    assert runs("c.yaml", *begun, "--set", "behaviors.Tiny.network_settings.hidden_units=12") == 1
    assert "nothing of its policy fits" in capsys.readouterr().err
    assert runs("c.yaml", *begun) == 0, "the corrected command"
    # A run that has learned something keeps its curves, whatever the next one wants.
    curves = sorted((tmp_path / "results" / "second" / "Tiny").glob("events.out.*"))
    assert curves
    resumed = ["--run-id", "second", "--resume", "--set", "behaviors.Tiny.network_settings.hidden_units=12"]
    assert runs("c.yaml", *resumed) == 1
    assert all(path.exists() for path in curves)


@pytest.mark.slow
def test_a_run_killed_before_its_first_checkpoint_starts_with_its_weights_again(runs, tmp_path, capsys):
    runs.configure(TINY)
    assert runs("c.yaml", "--run-id", "first") == 0
    assert runs("c.yaml", "--run-id", "second", "--initialize-from", "first") == 0
    for path in (tmp_path / "results" / "second" / "Tiny").glob("*.pt"):
        path.unlink()  # as if it had been killed before
    capsys.readouterr()
    for _ in range(2):
        assert runs("c.yaml", "--run-id", "second", "--resume") == 0
    first, second = capsys.readouterr().out.split("Tiny: resuming training from step")
    assert "with the weights of results/first/Tiny/checkpoint.pt" in first.replace(os.sep, "/")
    assert "with the weights of" not in second


def test_without_locks_the_user_is_warned(settings, monkeypatch, caplog):
    def acquire(lock):
        raise LockingNotSupportedError(37, "No locks available")

    monkeypatch.setattr(run_folder.ProcessLock, "acquire", acquire)
    with claimed_run_folder(settings()):
        pass
    assert "cannot be locked" in caplog.text and "No locks available" in caplog.text


def test_a_file_in_the_way_is_named(settings, results):
    results.write_text("")
    refused = pytest.raises(TrainerError, match=r"results[/\\]r cannot be made: .*--results-dir")
    with refused, claimed_run_folder(settings()):
        pass


def test_where_paths_must_be_short_a_long_run_id_is_refused_before_it_trains(settings, results, monkeypatch):
    """As on Windows; the run ended as its first checkpoint was written."""
    make = Path.mkdir

    def limited(path, *arguments, **keys):
        if len(str(path)) >= len(str(results)) + run_folder.MAX_PATH:
            raise OSError(errno.ENAMETOOLONG, "the name is too long")
        make(path, *arguments, **keys)

    monkeypatch.setattr(Path, "mkdir", limited)
    with (
        pytest.raises(TrainerError, match=r"cannot be made: the name is too long"),
        claimed_run_folder(settings("r" * 180)),
    ):
        pass
    with claimed_run_folder(settings("r")) as folder:
        assert list((folder / "run_logs").iterdir()) == []


@pytest.mark.parametrize(
    ("run_id", "windows", "told"),
    [
        ("r" * 200, True, r"up to \d+ characters, and Windows ends them at 248 .*--run-id.*--results-dir"),
        ("r", True, "Close what has its files open .*, or choose another place with --results-dir"),
        ("r" * 200, False, "Choose another place with --results-dir"),
    ],
)
def test_what_to_do_about_a_folder_that_cannot_be_made(run_id, windows, told):
    assert re.search(told, run_folder.remedy(Path("/results") / run_id, windows))


def test_whether_a_folder_ignores_case_is_not_asked_of_a_system_that_cannot_tell(tmp_path, monkeypatch):
    """Of a path of more than 260 characters Wine does not; that ended the run with a traceback."""

    def refuse(path, **keys):
        raise OSError(errno.ENAMETOOLONG, "more data available")

    monkeypatch.setattr(Path, "resolve", refuse)
    assert not run_folder.ignores_case(tmp_path)


@pytest.mark.posix("named pipes")
def test_a_pipe_for_the_record_of_a_run_is_not_waited_for(tmp_path, caplog):
    os.mkfifo(tmp_path / "configuration.yaml")
    assert run_folder.recorded_seed(tmp_path) is None
    assert "configuration.yaml cannot be read: it is a pipe or a device" in caplog.text
    assert run_folder.recorded_behaviors(tmp_path) == {}
    assert run_folder.recorded_start(tmp_path) is None


@pytest.mark.posix("links need a right there")
@pytest.mark.parametrize(
    ("inner", "resume"),
    [("Ball", True), ("run_logs", True), ("best", True), ("Ball/videos", True), ("run_logs", False)],
)
def test_a_run_whose_folders_lead_out_of_it_is_not_written_to(settings, older, tmp_path, inner, resume):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "engine_errors.json").write_text("of the user")
    if not resume:  # what a start that failed leaves, which is no obstacle
        shutil.rmtree(older / "Ball")
    path = older / inner
    if path.exists():
        shutil.rmtree(path)
    path.symlink_to(precious)
    with (
        pytest.raises(TrainerError, match=re.escape(f"{path} leads to {precious}, outside")),
        claimed_run_folder(settings(resume=resume)),
    ):
        pass
    assert [one.name for one in precious.iterdir()] == ["engine_errors.json"]


@pytest.mark.posix("links need a right there")
def test_a_run_that_is_a_link_itself_is_written_to(settings, older, results, tmp_path):
    shutil.move(older, tmp_path / "disk")
    older.symlink_to(tmp_path / "disk")
    (older / "latest").symlink_to("Ball")
    with claimed_run_folder(settings(resume=True)) as folder:
        assert folder == older


@pytest.mark.posix("links need a right there")
@pytest.mark.parametrize("inner", ["Ball", "run_logs", "Ball/ranks"])
def test_a_run_whose_folder_is_a_dead_link_is_refused_before_it_trains(settings, older, tmp_path, inner):
    path = older / inner
    if path.exists():
        shutil.rmtree(path)
    path.symlink_to(tmp_path / "disk that is not mounted")
    with (
        pytest.raises(
            TrainerError, match=re.escape(f"{path} leads to {path.readlink()}, and there is nothing")
        ),
        claimed_run_folder(settings(resume=True)),
    ):
        pass


@pytest.mark.posix("links need a right there")
def test_a_dead_link_in_the_place_of_a_file_is_no_obstacle(settings, older, tmp_path):
    (older / "Ball" / "Ball-500.onnx").symlink_to(tmp_path / "nothing")
    (older / "run_logs" / "warnings.log").symlink_to(tmp_path / "nothing")
    with claimed_run_folder(settings(resume=True)) as folder:
        assert folder == older
