"""The logs of engines that were started again are kept, and few of them."""

from pathlib import Path

from lanista.envs.engines.logs import KEPT, EngineLog, log_at, new_log


def lives(folder, numbers) -> None:
    for number in numbers:
        new_log(folder, 3).path.write_text(f"life {number}")


def contents(folder) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_each_log_keeps_the_name_that_was_announced_for_it(tmp_path):
    folder = tmp_path / "run_logs"
    announced = []
    for number in (1, 2, 3):
        log = new_log(folder, 3)
        log.path.write_text(f"life {number}")
        announced.append(log.kept_as.name)
    assert announced == ["Player-3.1.log", "Player-3.2.log", "Player-3.3.log"]
    kept = {"Player-3.1.log": "life 1", "Player-3.2.log": "life 2"}
    assert contents(folder) == {**kept, "Player-3.log": "life 3"}


def test_only_the_newest_are_kept(tmp_path):
    lives(tmp_path, range(KEPT + 5))
    kept = {f"Player-3.{k + 1}.log": f"life {k}" for k in range(4, KEPT + 4)}
    assert contents(tmp_path) == {**kept, "Player-3.log": f"life {KEPT + 4}"}


def test_an_empty_log_and_those_of_other_engines_stay_as_they_are(tmp_path):
    others = {"Player-33.log": "a", "Player-33.1.log": "b", "Player-3.x.log": "c", "Player-3.log": ""}
    for name, text in others.items():
        (tmp_path / name).write_text(text)
    assert new_log(tmp_path, 3) == EngineLog(tmp_path / "Player-3.log", tmp_path / "Player-3.1.log")
    assert contents(tmp_path) == others


def test_a_log_that_cannot_be_renamed_starts_no_error(tmp_path, caplog, monkeypatch):
    """Windows renames no file that a process has open."""

    def refuse(path, target):
        raise PermissionError(13, "it is in use")

    (tmp_path / "Player-3.log").write_text("life 1")
    monkeypatch.setattr(Path, "rename", refuse)
    assert new_log(tmp_path, 3).path == tmp_path / "Player-3.log"
    assert "Player-3.log could not be kept: it is in use." in caplog.text


def test_a_log_that_the_users_arguments_name_is_left_to_the_engine(tmp_path):
    own = new_log(tmp_path, 3)
    assert log_at(own.path, own) is own
    assert log_at(tmp_path / "mine.log", own) == EngineLog(tmp_path / "mine.log")
    assert log_at(None, own) is None
