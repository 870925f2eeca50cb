"""Errors that engines print reach the user and the run's files, and end the run where that is wanted."""

import json
from pathlib import Path

import pytest
from lanista.envs.engines.engine_errors import EngineError, EngineErrors, ErrorPolicy, summary
from lanista.envs.engines.logs import new_log
from lanista.envs.manager.async_env import SyncAdapter
from lanista.envs.manager.manager import EnvManager
from lanista.trainers.callbacks import Callback
from lanista.trainers.checkpoints.engine_errors import RecordedErrors, errors_file
from lanista.trainers.cli.main import run
from lanista.trainers.runner import environments
from lanista.trainers.runner import training as training_run
from lanista.trainers.runner.environments import make_env_manager, make_evaluation_environment
from lanista.trainers.settings.options import RunOptions
from lanista.trainers.tools import attach
from line_game import LineGame
from line_runs import EVALUATED, START
from printing_game import FAILED, THROWN
from two_ranks import launch

YAML = """\
default_settings:
  trainer_type: ppo
  hyperparameters: {batch_size: 16, buffer_size: 128, num_epoch: 1}
  network_settings: {hidden_units: 8, num_layers: 1}
  checkpoint_interval: 200
  max_steps: 400
  time_horizon: 8
  summary_freq: 100
"""
STOP = ("--engine-errors", "stop")
THREADED = ("--set", "default_settings.threaded=true")
BOTH = {"behaviors": ["Tiny?team=0", "Other?team=0"]}


@pytest.fixture
def runs(runs):
    runs.configure(YAML)
    runs.prints = {20: [THROWN], 40: [THROWN, FAILED]}
    return runs


def kept(run="r", rank=""):
    """What the run has recorded; None if it has recorded nothing."""
    path = Path("results", run, "run_logs", f"engine_errors{rank}.json")
    return json.loads(path.read_text()) if path.exists() else None


def counts(record):
    return {kind["text"]: kind["count"] for kind in record["kinds"]}


def test_the_first_of_each_kind_is_told_at_once_and_all_are_counted(runs, capsys):
    assert runs(*START) == 0
    out = capsys.readouterr().out
    first = "environment 0 (Unity) has printed an error: NullReferenceException: Object reference not set"
    assert out.count(first) == 1 and f"{first} (Assets/MyAgent.cs:42). Its log: " in out
    assert out.count("has printed an error: Assertion failed (Assets/Arena.cs:7).") == 1
    assert out.index("has printed an error") < out.index("Step: 100")
    summary = (
        "environment 0 (Unity) has printed 7 errors: 6 x NullReferenceException: Object reference not set "
        "(Assets/MyAgent.cs:42); 1 x Assertion failed (Assets/Arena.cs:7). The log of environment 0: "
    )
    assert out.count(summary) == 1 and out.index("The brain of Tiny") < out.index(summary)
    assert summary in Path("results/r/run_logs/warnings.log").read_text()
    record = kept()
    assert record["total"] == 7 and record["is_complete"]
    assert record["kinds"][0] == {
        "engine": "Unity",
        "environment": "environment 0",
        "text": THROWN[0],
        "place": "Assets/MyAgent.cs:42",
        "is_warning": False,
        "log": "run_logs/Player-0.log",
        "count": 6,
    }
    assert counts(record) == {THROWN[0]: 6, FAILED[0]: 1}


def test_a_run_whose_engines_print_no_errors_says_and_writes_nothing(runs, capsys):
    runs.prints = {}
    assert runs(*START, *STOP) == 0
    assert "printed" not in capsys.readouterr().out and kept() is None


def test_errors_are_ignored_where_that_is_wanted(runs, capsys):
    assert runs(*START, "--engine-errors", "ignore") == 0
    assert "printed" not in capsys.readouterr().out and kept() is None


@pytest.mark.parametrize(
    ("more", "rules"),
    [((), {}), (THREADED, {}), (("--num-envs", "2"), {}), ((), BOTH)],
    ids=["", "threaded", "two environments", "two behaviors"],
)
def test_the_run_ends_saved_with_the_first_error_where_that_is_wanted(runs, capsys, more, rules):
    runs.rules |= rules
    assert runs(*START, *STOP, *more) == 1
    said = capsys.readouterr()
    log = Path("results/r/run_logs/Player-0.log").absolute()
    assert (
        "environment 0 (Unity) has printed an error, with which the run ends (env_settings.engine_errors: "
        f"stop): NullReferenceException: Object reference not set (Assets/MyAgent.cs:42). Its log: {log}. "
        "What was learned is saved: correct the game, and go on with --resume."
    ) in said.err
    assert "Learning was interrupted" in said.out and "Traceback" not in said.err
    assert Path("results/r/Tiny.onnx").exists() and 0 < runs.state()["step"] < 400
    assert kept()["kinds"][0]["text"] == THROWN[0]


def test_a_warning_of_an_addon_is_told_and_ends_nothing(runs, capsys, monkeypatch):
    monkeypatch.setattr("printing_game.IS_WARNING", True)
    assert runs(*START, *STOP) == 0
    out = capsys.readouterr().out
    assert "has printed a warning: " in out and "has printed 7 warnings: " in out
    assert kept()["kinds"][0]["is_warning"]


def test_the_errors_of_several_environments_are_summed_up_together(runs, capsys):
    assert runs(*START, "--num-envs", "2") == 0
    out = capsys.readouterr().out
    assert "2 environments (Unity) have printed 14 errors: 12 x NullReferenceException" in out


def test_a_game_that_is_corrected_goes_on_where_the_error_ended_the_run(runs):
    assert runs(*START, *STOP) == 1
    runs.prints = {}
    assert runs(*START, *STOP, "--resume") == 0
    assert runs.state()["step"] >= 400 and kept()["total"] == 3


def test_an_error_at_the_launch_ends_the_run_with_nothing_to_save(runs, capsys):
    runs.prints = {0: [FAILED]}
    assert runs(*START, *STOP) == 1
    said = capsys.readouterr()
    assert "Nothing was learned: correct the game, and give the same command again." in said.err
    assert not list(Path("results").rglob("*.onnx")) and kept()["total"] == 1
    assert runs(*START) == 0, "the run has not begun, and needs no --force"
    runs.prints = {}
    assert runs(*START, "--force") == 0 and kept() is None


def test_what_engines_print_at_their_very_end_counts(runs):
    """A listener looks twice a second: the last errors of a run are found as its engines are closed."""
    runs.prints = {-1: [FAILED]}
    watching = Watching()
    assert runs(*START, *STOP) == 1
    assert Path("results/r/Tiny.onnx").exists() and runs.state()["step"] >= 400
    runs.train(*START, "--force", callbacks=[watching])
    assert [event.text for event in watching.events] == [FAILED[0]]


class Hanging(SyncAdapter):
    """From its 10th step on the game prints an error, and answers no more."""

    def __init__(self, game, errors):
        super().__init__(game)
        self.errors = errors

    def poll(self):
        if self.env.steps < 10:
            return super().poll()
        self.errors.add(EngineError("Godot", "environment 0", "Parse Error", "res://broken.gd:19"))
        return False


def test_an_error_ends_a_run_that_waits_for_an_engine_which_never_answers(runs, monkeypatch, capsys):
    def make(options, seed, log_folder, cluster=None, errors=None):
        game = LineGame(seed, **runs.rules)
        game.send_step = None  # an environment that need not answer at once
        return EnvManager(lambda _: Hanging(game, errors), 1)

    for module in (training_run, environments):
        monkeypatch.setattr(module, "make_env_manager", make)
    assert runs(*START, *STOP) == 1
    assert "(env_settings.engine_errors: stop): Parse Error (res://broken.gd:19)." in capsys.readouterr().err


@pytest.mark.parametrize(("flags", "status"), [((), 0), (STOP, 1)], ids=["warn", "stop"])
def test_errors_in_tests_during_training_count(runs, capsys, flags, status):
    runs.configure(EVALUATED)
    runs.prints, runs.test_prints = {}, {2: [FAILED]}
    assert runs(*START, *flags) == status
    out = capsys.readouterr().out
    assert out.count("environment 1 (Unity) has printed an error: Assertion failed") == 1
    assert ("Test at Step" in out) == (not flags) and kept()["total"] == (1 if flags else 4)


def test_errors_while_nothing_is_learned_are_kept_apart(runs, capsys):
    assert runs(*START) == 0
    steps = ("--resume", "--inference", "--inference-steps", "50")
    assert runs(*START, *steps, *STOP) == 1
    assert "Nothing was learned" in capsys.readouterr().err
    assert kept()["total"] == 7 and kept(rank="-inference")["total"] == 3


def test_a_resumed_run_adds_to_what_is_recorded(runs):
    assert runs(*START) == 0
    runs.prints = {3: [THROWN], 5: [("Script error", "", 2)]}
    assert runs(*START, "--resume", "--set", "default_settings.max_steps=600") == 0
    assert counts(kept()) == {THROWN[0]: 9, FAILED[0]: 1, "Script error": 2} and kept()["total"] == 12


def test_the_record_is_written_with_every_checkpoint(runs, monkeypatch):
    seen = []
    real = training_run.TrainerController._reset_if_due
    monkeypatch.setattr(
        training_run.TrainerController,
        "_reset_if_due",
        lambda controller, answers: (seen.append(kept()), real(controller, answers))[1],
    )
    assert runs(*START) == 0
    assert seen[0] is None and seen[-2]["total"] == 7


DAMAGED = (
    "{",
    "[1]",
    '{"kinds": []}',
    '{"total": -1, "kinds": []}',
    '{"total": 1, "kinds": [3]}',
    '{"total": 1, "kinds": [{"engine": 1, "environment": "", "text": "", "place": "", "count": 1}]}',
    '{"total": 1, "kinds": [' + ",".join(["{}"] * 101) + "]}",
    "[" * 10**5,
    " " * (1 << 20) + "{}",
)


@pytest.mark.parametrize("text", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_record_is_told_and_the_run_goes_on(runs, capsys, text):
    assert runs(*START) == 0
    path = Path("results/r/run_logs/engine_errors.json")
    path.write_text(text)
    runs.prints = {3: [THROWN]}
    assert runs(*START, "--resume", "--set", "default_settings.max_steps=500") == 0
    assert "engine_errors.json cannot be read: " in capsys.readouterr().out
    assert kept()["total"] == 3


def test_a_full_disk_costs_a_warning(runs, capsys, monkeypatch):
    def full(path, text):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lanista.trainers.checkpoints.engine_errors.atomic_write_text", full)
    assert runs(*START) == 0
    assert "engine_errors.json could not be written" in capsys.readouterr().out


def test_what_a_full_disk_has_refused_is_written_once_there_is_room(tmp_path):
    errors = RecordedErrors(path=errors_file(tmp_path))
    errors.printed.add(EngineError("Unity", "environment 0", *FAILED[:2]))
    errors.save()  # there is no such folder yet
    errors_file(tmp_path).parent.mkdir()
    errors.save()
    assert json.loads(errors_file(tmp_path).read_text())["total"] == 1


def test_errors_name_the_log_that_holds_them_after_later_engines_have_started(tmp_path):
    folder, file = tmp_path / "run_logs", errors_file(tmp_path)

    def logs(recorded):
        recorded.save()
        return [kind["log"] for kind in json.loads(file.read_text())["kinds"]]

    recorded = RecordedErrors(path=file)
    log = new_log(folder, 0, recorded.printed)
    log.path.write_text("1")
    recorded.printed.add(EngineError("Unity", "environment 0", "the first", "A.cs:1", log.path))
    assert logs(recorded) == ["run_logs/Player-0.log"]
    new_log(folder, 0, recorded.printed).path.write_text("2")  # it was restarted
    recorded.printed.add(EngineError("Unity", "environment 0", "the second", "A.cs:2", log.path))
    assert logs(recorded) == ["run_logs/Player-0.1.log", "run_logs/Player-0.log"]
    assert recorded.printed.first.log.read_text() == "1" and str(recorded.printed.first.log) in summary(
        recorded.printed
    )
    resumed = RecordedErrors(path=file, resumed=True)
    for _ in range(2):
        new_log(folder, 0, resumed.printed).path.write_text("3")
        assert logs(resumed) == ["run_logs/Player-0.1.log", "run_logs/Player-0.2.log"]
    assert json.loads(file.read_text())["total"] == 2


class Watching(Callback):
    """Ends the run with an error of some text."""

    def __init__(self, ends_with=None):
        self.ends_with, self.events = ends_with, []

    def on_engine_error(self, event):
        self.events.append(event)
        return "the game is broken" if event.text == self.ends_with else None


def test_callbacks_hear_of_each_kind_once_with_file_and_line(runs):
    watching = Watching()
    runs.train(*START, callbacks=[watching])
    first, second = watching.events
    assert (first.engine, first.environment, first.place) == (
        "Unity",
        "environment 0",
        "Assets/MyAgent.cs:42",
    )
    assert (first.text, second.text) == (THROWN[0], FAILED[0]) and first.log.name == "Player-0.log"
    assert 0 < first.steps["Tiny"] < second.steps["Tiny"]


def test_a_callback_may_end_the_run(runs, capsys):
    runs.train(*START, callbacks=[Watching(FAILED[0])])
    assert "The callback Watching ends the training: the game is broken" in capsys.readouterr().out
    assert Path("results/r/Tiny.onnx").exists() and runs.state()["step"] < 400


def test_callbacks_hear_of_errors_before_a_run_fails(runs):
    runs.prints, runs.rules["until"] = {5: [FAILED]}, 5
    watching = Watching()
    with pytest.raises(Exception, match="ended the session"):
        runs.train(*START, callbacks=[watching])
    assert [event.text for event in watching.events] == [FAILED[0]]
    assert kept()["total"] == 2, "the engine was restarted once"


def test_runs_lists_them(runs, capsys):
    assert runs(*START) == 0
    capsys.readouterr()
    assert run(["runs"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("The engines of r have printed 7 errors: 6 x NullReferenceException")
    assert run(["runs", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert entry["engine_errors"] == kept()


def test_every_environment_of_a_run_gets_the_same_place_for_errors(monkeypatch, tmp_path):
    opened = []
    monkeypatch.setattr(
        environments,
        "open_environment",
        lambda options: opened.append(options) or LineGame(1, ["A"], agents=1, max_len=3),
    )
    errors = EngineErrors(ErrorPolicy.STOP)
    options = RunOptions.from_dict({"env_settings": {"env_path": "Game", "num_envs": 2}})
    with make_env_manager(options, 1, tmp_path, None, errors) as manager:
        manager.start()
    with make_evaluation_environment(options, tmp_path, None, errors).launched(
        rendered=False, should_stop=lambda: False
    ):
        pass
    assert len(opened) == 3 and all(each.errors is errors for each in opened)


def test_engines_that_connect_by_themselves_get_it_too(monkeypatch):
    sources = []
    monkeypatch.setattr(attach, "AttachSource", lambda server, make, refusal: sources.append(make))
    monkeypatch.setattr(attach, "EnvManager", lambda *args, **keys: None)
    monkeypatch.setattr(attach, "open_environment", lambda options: options)
    errors, engine = EngineErrors(), type("Engine", (), {"where": "10.0.0.7", "file_name": None})()
    options = RunOptions.from_dict({"env_settings": {"listen": "localhost:0"}})
    make_env_manager(options, 1, Path("logs"), None, errors)
    assert sources[0](0, engine).errors is errors


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 2], ids=["of rank 0", "of rank 1"])
def test_all_ranks_end_saved_with_an_error_of_any(runs, tmp_path, number, capfd):
    prints = runs.prints
    game = runs._game

    def printing(own, _, errors, **rules):
        return game(own, prints if own == number else {}, errors, **rules)

    runs._game = printing
    flags = [*START, *STOP, "--num-envs", "3", "--set", "torch_settings.num_threads=1"]
    assert launch(tmp_path, lambda rank: runs(*flags)) == [1, 1]
    said = capfd.readouterr()
    assert said.err.count(f"environment {number} (Unity) has printed an error, with which the run ends") >= 1
    assert Path("results/r/Tiny.onnx").exists()
    assert kept(rank="-1" if number else "")["total"] == 3 and kept(rank="" if number else "-1") is None


@pytest.mark.slow
def test_what_engines_of_another_rank_print_at_their_very_end_counts(runs, tmp_path, capfd):
    game = runs._game
    runs._game = lambda own, _, errors, **rules: game(own, {-1: [FAILED]} if own else {}, errors, **rules)
    flags = [*START, *STOP, "--num-envs", "2", "--set", "torch_settings.num_threads=1"]
    assert launch(tmp_path, lambda rank: runs(*flags)) == [1, 1]
    assert "environment 1 (Unity) has printed an error, with which the run ends" in capfd.readouterr().err


@pytest.mark.slow
def test_errors_of_other_ranks_are_summed_up_on_the_console(runs, tmp_path, capfd):
    flags = [*START, "--num-envs", "2", "--set", "torch_settings.num_threads=1"]
    assert launch(tmp_path, lambda rank: runs(*flags)) == [0, 0]
    out = capfd.readouterr().out
    assert "environment 0 (Unity) has printed 7 errors" in out
    assert "The environments of learner 1 have printed 7 errors: 6 x NullReferenceException" in out
    assert kept()["total"] == kept(rank="-1")["total"] == 7
