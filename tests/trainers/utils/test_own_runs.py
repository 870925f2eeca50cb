"""A run is one's own by a mark that nobody else can make, and that allows only what was done before."""

import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from lanista.trainers.utils import trust
from lanista.trainers.utils.trust import MARKS, is_own, mark_own
from lanista.trainers.utils.trusted_names import Named

POSIX = pytest.mark.posix("geteuid")
GAME = Named(("/opt/game.x86_64", "--level", "3"))
MODULE = Named(("python:own_game:make",))
NETWORK = Named(imports=("own_game:Net",))


@pytest.fixture
def key(tmp_path, monkeypatch):
    """Where this user's key is made; the current folder has a module of the user's."""
    for variable in ("XDG_DATA_HOME", "WIN_PD_OVERRIDE_LOCAL_APPDATA"):
        monkeypatch.setenv(variable, str(tmp_path / "data"))
    place = tmp_path / "project"
    place.mkdir()
    (place / "own_game.py").write_text("raise AssertionError('it is not imported')")
    monkeypatch.chdir(place)
    return tmp_path / "data" / "lanista" / "run-key"


def run_of(place, *named):
    """The folder of a run that started and imported this."""
    run = Path(place, "run")
    (run / "run_logs").mkdir(parents=True)
    for each in named:
        mark_own(run, each)
    return run


@pytest.mark.parametrize("named", [GAME, MODULE, NETWORK])
def test_what_a_run_did_is_its_users_own(key, tmp_path, named):
    run = run_of("results", named)
    assert is_own(run, named)
    moved = run.rename(tmp_path / "moved")
    assert is_own(moved, named), "in another folder it stays the user's"
    shutil.rmtree(key.parent)
    assert not is_own(moved, named), "on another machine it is anybody's"


@pytest.mark.parametrize(
    "other",
    [
        Named(("/opt/game.x86_64", "--level", "4")),
        Named(("/opt/game.x86_64", "--level", "3", "--log", "x")),
        Named(("/opt/game.x86_64 --level 3",)),
        Named(("/opt/game.x86_64",)),
        Named(GAME.environment, imports=("own_game:Net",)),
        Named(imports=("/opt/game.x86_64",)),
    ],
)
def test_nothing_else_is(key, other):
    assert not is_own(run_of("results", GAME), other)


def test_each_part_of_what_was_done_counts(key):
    run = run_of("results", Named(GAME.environment, ("own_game:Net", "own_game:Other")))
    for named in (GAME, NETWORK, Named(GAME.environment, ("own_game:Other",))):
        assert is_own(run, named)
    mark_own(run, MODULE)
    assert is_own(run, GAME) and is_own(run, MODULE), "a resumed run keeps what it did"


@pytest.mark.parametrize("named", [GAME, MODULE, NETWORK])
def test_in_another_folder_the_same_words_may_mean_something_else(key, tmp_path, named, monkeypatch):
    run = run_of("results", named).absolute()
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "own_game.py").write_text("")
    monkeypatch.chdir(tmp_path / "theirs")
    assert not is_own(run, named)


def test_a_module_in_another_place_is_another_module(key, tmp_path, monkeypatch):
    run = run_of("results", MODULE, NETWORK)
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "own_game.py").write_text("")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "first"), *sys.path])
    assert not is_own(run, MODULE) and not is_own(run, NETWORK)


def test_what_lies_in_the_folder_of_the_run_is_never_its_users_own(key, monkeypatch):
    """Whoever sends a run back may have changed it."""
    run = Path("outcomes", "run")
    (run / "run_logs").mkdir(parents=True)
    (run / "game.sh").write_text("")
    (run / "their_game.py").write_text("")
    monkeypatch.setattr(sys, "path", [str(run.absolute()), *sys.path])
    for words in (
        (str(run / "game.sh"),),
        (str((run / "game.sh").absolute()),),
        (f"godot:{run}?scene=x",),
        ("/bin/sh", str(run / "game.sh")),
        ("/bin/sh", f"--script={run}/game.sh"),
        ("python:their_game:make",),
        ("python:outcomes.run.their_game:make",),
    ):
        mark_own(run, Named(words))
        assert not (run / MARKS).exists() and not is_own(run, Named(words))


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "[1, null, []]", '["00"]', '["é"]', "[" * 100_000, "x" * 100_000, '"' + "0" * 64 + '"'],
)
def test_marks_of_others_allow_nothing(key, text):
    run = run_of("results", GAME)
    (run / MARKS).write_text(text)
    assert not is_own(run, GAME)
    mark_own(run, GAME)
    assert is_own(run, GAME)


def test_the_marks_tell_nothing(key):
    run = run_of("results", GAME, MODULE)
    text = (run / MARKS).read_text()
    assert "game" not in text and "project" not in text and key.read_bytes().hex() not in text


def test_what_is_part_of_lanista_needs_no_mark(key):
    run = run_of("results", Named(("scene:basic?areas=8",)), Named())
    assert not (run / MARKS).exists() and not key.exists()


@POSIX
def test_the_key_is_its_users_alone(key):
    run = run_of("results", GAME)
    assert key.stat().st_mode & 0o777 == 0o600
    for change, undo in ((0o640, 0o600), (0o604, 0o600), (0o620, 0o600)):
        key.chmod(change)
        assert not is_own(run, GAME)
        key.chmod(undo)
    data = key.read_bytes()
    for wrong in (data[:-1], data + b"x", b""):
        key.write_bytes(wrong)
        assert not is_own(run, GAME)
    key.write_bytes(data)
    assert is_own(run, GAME)
    aside = key.rename(key.with_name("aside"))
    key.symlink_to(aside)
    assert not is_own(run, GAME), "a link may lead to what others know"


@POSIX
def test_the_key_of_another_user_is_none(key, monkeypatch):
    run = run_of("results", GAME)
    monkeypatch.setattr(trust.os, "geteuid", lambda: 12345)
    assert not is_own(run, GAME)


@pytest.mark.parametrize("place", ["file", "~", None])
def test_a_key_that_cannot_be_made_leaves_a_run_without_a_mark(tmp_path, monkeypatch, place):
    """A container may have no home; the current folder, which may be anybody's, is none."""

    def user_data_path(*_, **__):
        if place is None:
            raise RuntimeError("could not determine the home directory")
        return Path(place if place == "~" else tmp_path / place, "lanista")

    (tmp_path / "file").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("platformdirs.user_data_path", user_data_path)
    run = run_of("results", GAME)
    (run / MARKS).write_text(f'["{"0" * 64}"]')
    mark_own(run, GAME)
    assert not is_own(run, GAME) and not (tmp_path / "~").exists()


def test_runs_that_begin_together_make_one_key(key):
    with ThreadPoolExecutor(16) as threads:
        runs = list(threads.map(lambda number: run_of(f"results-{number}", GAME), range(16)))
    assert all(is_own(run, GAME) for run in runs)
    assert [path.name for path in key.parent.iterdir()] == [key.name]
