"""A run of somebody else holds links to files of the user: nothing of these is shown, changed or uploaded."""

import json
import os

import pytest
from lanista.envs.utils.regular_files import is_file_within, links_out, require_within
from lanista.trainers.api import TrainingResult
from lanista.trainers.callbacks.dispatcher import final_brains
from lanista.trainers.checkpoints.engine_errors import ErrorRecord, errors_file
from lanista.trainers.checkpoints.file import CheckpointError, load_checkpoint
from lanista.trainers.checkpoints.status import TrainingStatus, TrainingStatusError
from lanista.trainers.cli.main import run
from lanista.trainers.cli.runs import record
from lanista.trainers.cli.runs.record import REWARD, find_runs, read_run
from lanista.trainers.policies.onnx.load import LoadError, find_policy
from lanista.trainers.stats.event_files import read_curves, read_extent
from lanista.trainers.tools.report.contents import RunResult
from lanista.trainers.tools.sweep.metric import Metric
from lanista.trainers.tools.tournament.match import MatchError
from lanista.trainers.tools.tournament.players import participants_of
from made_runs import make_run

pytestmark = pytest.mark.posix("links need a right there")
LEADS = "it leads to"
TABLE = f"step,time,{REWARD}\n100,1.0,77.5\n"


@pytest.fixture
def folder(tmp_path):
    """A run, beside the user's own files."""
    (tmp_path / "mine").mkdir()
    return make_run(tmp_path / "results", "r")


def replace(path, target):
    """Put a link to `target`, or to a file with this text, in a file's place."""
    if isinstance(target, str):
        results = next(parent for parent in path.parents if parent.name == "results")
        victim = results.with_name("mine") / path.name
        victim.write_text(target)
        target = victim
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("configuration.yaml", "env_settings: {seed: 77}"),
        ("run_logs/training_status.json", '{"Ball": {"final_checkpoint": {"steps": 77}}}'),
        ("run_logs/timers.json", '{"metadata": {"lanista_version": "77"}}'),
        ("run_logs/engine_errors.json", '{"total": 77, "kinds": []}'),
    ],
)
def test_what_a_link_leads_to_is_not_listed(folder, name, text):
    replace(folder / name, text)
    found = read_run(folder)
    assert any(problem.startswith(f"{os.path.basename(name)}: {LEADS}") for problem in found.problems)
    assert (found.seed, found.first.steps, found.program, found.engine_errors.total) != (77, 77, "77", 77)
    assert found.seed in (0, None) and found.first.steps == 200
    assert found.program is None and not found.engine_errors.total


def test_curves_that_lead_out_of_the_run_are_named_and_not_read(folder, tmp_path):
    table = replace(folder / "Ball" / "summaries.csv", TABLE)
    for path in (folder / "Ball").glob("events*"):
        elsewhere = path.rename(tmp_path / "mine" / path.name)
        path.symlink_to(elsewhere)
    for read in (read_curves(folder / "Ball"), read_extent(folder / "Ball", (REWARD,))):
        assert read.problems and all(LEADS in problem for problem in read.problems)
    assert not read_curves(folder / "Ball").by_tag
    assert Metric(REWARD, None, 1).curve(folder) == {}
    table.unlink()
    table.write_text(TABLE)
    assert Metric(REWARD, None, 1).curve(folder) == {100: 77.5}


@pytest.mark.parametrize("name", ["{mine}", "../../mine", ".", "..", "a\0b"])
def test_a_behavior_whose_name_is_a_path_shows_nothing_of_what_is_there(folder, tmp_path, name):
    mine = tmp_path / "mine"
    (mine / "videos").mkdir()
    (mine / "videos" / "a.gif").write_bytes(b"precious")
    (mine / "summaries.csv").write_text(TABLE)
    (mine / f"{mine.name}.onnx").write_bytes(b"precious")
    name = name.format(mine=mine)
    (folder / "configuration.yaml").write_text(json.dumps({"behaviors": {name: {}, "Ball": {}}}))
    found = RunResult.read(read_run(folder))
    assert found.film(name) is None
    assert not any(curve.values for one in [found.behaviors[name]] for curve in one.curves.by_tag.values())
    assert run(["report", str(folder), "-o", str(tmp_path / "page.html")]) == 0


def _load_onnx(folder):
    find_policy(folder)


def _load_status(folder):
    TrainingStatus(folder / "run_logs" / "training_status.json").read()


def _load_errors(folder):
    ErrorRecord.read(errors_file(folder))


def _load_weights(folder):
    load_checkpoint(folder / "Ball" / "checkpoint.pt", within=folder)


def _result(folder):
    TrainingResult.from_folder(folder)


@pytest.mark.parametrize(
    ("name", "read", "error"),
    [
        ("Ball.onnx", _load_onnx, LoadError),
        ("Ball/checkpoint.pt", _load_onnx, LoadError),
        ("Ball/Ball-100.onnx", _load_onnx, LoadError),
        ("Ball/checkpoint.pt", _load_weights, CheckpointError),
        ("run_logs/training_status.json", _load_status, TrainingStatusError),
        ("run_logs/training_status.json", _result, OSError),
        ("run_logs/engine_errors.json", _load_errors, OSError),
    ],
)
def test_a_reader_of_the_run_names_the_link(folder, name, read, error):
    (folder / "Ball" / "checkpoint.pt").write_text("")
    replace(folder / name, "{}")
    with pytest.raises(error, match=LEADS):
        read(folder)


@pytest.mark.parametrize(
    "words", [["export"], ["check"], ["card", "--episodes", "0"]], ids=lambda words: words[0]
)
def test_a_command_names_the_link(folder, capsys, words):
    name = "configuration.yaml" if words[0] == "check" else "Ball/checkpoint.pt"
    replace(folder / name, "behaviors: [precious]")
    given = folder / name if words[0] == "check" else folder
    status = run([words[0], str(given), *words[1:]])
    told = capsys.readouterr()
    assert status and (words[0] == "check" or LEADS in told.err), "a file that the user names may be a link"


def test_players_and_brains_that_lead_out_of_the_run_do_not_count(folder):
    replace(folder / "Ball" / "checkpoint.pt", "")
    replace(folder / "Ball" / "Ball-100.onnx", "")
    with pytest.raises(MatchError, match=r"no <behavior>.checkpoint\.pt"):
        participants_of(str(folder), folder.parent, "checkpoints")
    replace(folder / "Ball.onnx", "precious")
    assert final_brains(folder, ["Ball"]) == {}
    (folder / "Ball.onnx").unlink()
    (folder / "Ball.onnx").write_text("of the run")
    assert final_brains(folder, ["Ball"]) == {"Ball": folder / "Ball.onnx"}


def test_checkpoints_that_are_dead_links_are_passed_over(folder):
    (folder / "Ball.onnx").write_text("of the run")
    for number, target in enumerate(("nowhere", "Ball-1.onnx")):
        (folder / "Ball" / f"Ball-{number}.onnx").symlink_to(target)
    with pytest.raises(LoadError, match=r"r.Ball\.onnx"):
        find_policy(folder)


def test_links_of_the_user_are_followed(tmp_path):
    """A results folder, a run and its files may be links, as long as what is in the run stays there."""
    real = make_run(tmp_path / "disk" / "results", "r")
    (real / "old.yaml").write_text((real / "configuration.yaml").read_text())
    replace(real / "configuration.yaml", real / "old.yaml")
    (tmp_path / "results").symlink_to(tmp_path / "disk" / "results")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "alias").symlink_to(real)
    for path in (tmp_path / "results" / "r", tmp_path / "mine" / "alias", real):
        found = RunResult.read(read_run(path))
        assert not found.problems and found.record.seed == 0 and found.behaviors["Ball"].best == (200, 2.0)
        assert list(links_out(path)) == []
    assert [path.name for path in find_runs(tmp_path / "results")] == ["r"]
    assert [path.name for path in find_runs(tmp_path / "mine")] == ["alias"]


def test_links_in_a_circle_are_looked_through_once(tmp_path, monkeypatch):
    make_run(tmp_path, "sound")
    for name in "abcdefghij":
        (tmp_path / name).symlink_to(tmp_path)
    looked, real = [], record.is_run

    def is_run(path):
        looked.append(path)
        return real(path)

    monkeypatch.setattr(record, "is_run", is_run)
    assert [path.name for path in find_runs(tmp_path)] == ["sound"]
    assert len(looked) == 11


@pytest.mark.parametrize(
    ("path", "is_within"),
    [
        ("r/a.txt", True),
        ("r/inner", True),
        ("r/x/../a.txt", True),
        ("alias/a.txt", True),
        ("r/loop", True),
        ("r/out", False),
        ("r/folder/a.txt", False),
        ("r/../secret", False),
        ("secret", False),
        ("r-2/a.txt", False),
        ("r/a\0b", False),
    ],
)
def test_what_lies_in_a_folder(tmp_path, path, is_within):
    for name in ("r/x", "elsewhere", "r-2"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("r/a.txt", "elsewhere/a.txt", "secret", "r-2/a.txt"):
        (tmp_path / name).write_text("")
    links = {
        "r/out": "../secret",
        "r/inner": "a.txt",
        "r/folder": "../elsewhere",
        "r/loop": "loop",
        "alias": "r",
    }
    for name, target in links.items():
        (tmp_path / name).symlink_to(target)
    root = tmp_path / ("alias" if path.startswith("alias") else "r")
    if is_within:
        require_within(tmp_path / path, root)
        assert is_file_within(tmp_path / path, root) is not path.endswith("loop")
    else:
        with pytest.raises(OSError, match=r"leads to|null character"):
            require_within(tmp_path / path, root)
        assert not is_file_within(tmp_path / path, root)
    assert sorted(one.name for one in links_out(root)) == ["folder", "out"]
