"""The built-in callbacks: stop at a reward, keep the best, write a video."""

import json
import logging
import re
from dataclasses import replace

import numpy as np
import pytest
from lanista.trainers.callbacks import (
    Callback,
    CheckpointSaved,
    EpisodeEnd,
    EvaluationEnd,
    TrainingBegin,
)
from lanista.trainers.callbacks import video as write_video
from lanista.trainers.callbacks.keep_best import KeepBest
from lanista.trainers.callbacks.stop_at_reward import StopAtReward
from lanista.trainers.callbacks.video import WriteVideo
from lanista.trainers.runner.evaluation.evaluator import Evaluator
from lanista.trainers.settings import RunOptions
from lanista.trainers.utils.films import Frame, has_ffmpeg
from line_game import Line, LineGame
from line_runs import EVALUATED, START
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def write(runs, callbacks, more=""):
    runs.configure(f"{EVALUATED}{more}callbacks: {callbacks}\n")


def episode(reward, behavior="A"):
    return EpisodeEnd(behavior, 1, 0, 0, reward, None, 5)


def judged(score, behavior="A", step=10, folder=None, save=lambda: None, shown=None):
    return EvaluationEnd(
        behavior, step, score, 0.0, [score], [], [5], 0.1, folder, save, shown or (lambda *told: None)
    )


def test_stop_at_reward_compares_the_mean_of_a_behavior_s_last_episodes():
    stop = StopAtReward(2.0, behavior="A", episodes=3)
    rewards = [9.0, 0.0, 1.0, 2.0, 3.0]
    assert [stop.on_episode_end(episode(reward)) is not None for reward in rewards] == [
        *(False, False, True),  # (9 + 0 + 1) / 3
        *(False, True),
    ]
    assert stop.on_episode_end(episode(50.0, "B")) is None and stop.on_evaluation_end(judged(9.0)) is None
    again = StopAtReward(2.0, behavior="A", episodes=3)
    again.load_state_dict(json.loads(json.dumps(stop.state_dict())))
    assert "3 episodes of A is 2.000, at least 2" in again.on_episode_end(episode(1.0))


def test_stop_at_reward_compares_what_groups_earn_and_each_team_alike():
    def ends(reward, of_group, seat):
        return stop.on_episode_end(EpisodeEnd("A", 1, 0, 0, reward, of_group, 5, seat))

    stop = StopAtReward(2.0, episodes=2)
    assert ends(9.0, None, "A?team=0") is None and ends(9.0, 3.0, "A?team=0") is None
    assert ends(9.0, 3.0, "A?team=0"), "the last two of its only team"
    assert ends(9.0, 0.0, "A?team=1") is None, "the other team is waited for"
    assert ends(9.0, 0.0, "A?team=1") is None, "(3 + 0) / 2"
    assert ends(9.0, 2.0, "A?team=1") and ends(9.0, 9.0, "A?team=1")


def test_a_resumed_stop_at_reward_compares_all_teams():
    """The one whose episode ends first would decide a game that one wins and the other loses."""

    def ends(stop, reward, seat):
        return stop.on_episode_end(EpisodeEnd("A", 1, 0, 0, reward, 0.0, 5, seat))

    stop = StopAtReward(0.5, episodes=3)
    for _ in range(5):
        ended = [ends(stop, reward, seat) for seat, reward in (("A?team=0", 1.0), ("A?team=1", -1.0))]
    assert ended == [None, None]
    again = StopAtReward(0.5, episodes=3)
    again.load_state_dict(json.loads(json.dumps(stop.state_dict())))
    assert ends(again, 1.0, "A?team=0") is None, "(1 - 1) / 2"


def test_stop_at_reward_may_compare_the_score_of_an_evaluation():
    stop = StopAtReward(2.0, evaluation=True)
    assert stop.on_episode_end(episode(9.0)) is None and stop.on_evaluation_end(judged(1.9)) is None
    assert "of A in a test is 2.500" in stop.on_evaluation_end(judged(2.5))


def test_stop_at_reward_ends_a_run(runs, tmp_path, capsys):
    write(runs, "[{stop_at_reward: {reward: -0.5, evaluation: true}}]")
    assert runs(*START) == 0
    out = capsys.readouterr().out
    assert "The callback stop_at_reward ends the training: the score of Tiny in a test is" in out
    assert out.count("Test at Step") == 1 and (tmp_path / "results" / "r" / "Tiny.onnx").exists()


def test_stop_at_reward_does_not_end_an_inference(runs, capsys):
    write(runs, "[{stop_at_reward: {reward: -50, episodes: 2}}]")
    assert runs(*START) == 0
    assert "ends the training" in capsys.readouterr().out
    assert runs(*START, "--resume", "--inference", "--inference-steps", "300") == 0
    out = capsys.readouterr().out
    assert "ends the training" not in out and "Not Training" in out
    steps = [int(step) for step in re.findall(r"Step: (\d+)\..*Not Training", out)]
    assert steps[-1] - steps[0] >= 200


def test_keep_best_keeps_the_best_evaluated_checkpoint_with_its_brain(runs, tmp_path, capsys):
    write(runs, "keep_best")
    assert runs(*START) == 0
    folder = tmp_path / "results" / "r"
    tests = [(float(mean), step) for step, mean in _tests(capsys.readouterr().out)]
    best, step = max(tests, key=lambda test: test[0])
    state = json.loads((folder / "run_logs" / "callbacks.json").read_text())["keep_best"]
    assert state["best"]["Tiny"] == pytest.approx(best, abs=6e-4)
    assert (folder / "best" / "Tiny.pt").read_bytes() == (folder / "Tiny" / f"Tiny-{step}.pt").read_bytes()
    assert (folder / "best" / "Tiny.onnx").exists()


def _tests(out):
    return re.findall(r"Tiny\. Test at Step: (\d+)\. Mean Reward: (\S+)\. Std", out)


def kept(tmp_path):
    keep = KeepBest()
    keep.on_training_begin(TrainingBegin("r", tmp_path, RunOptions(), False))
    return keep


def checkpoint(folder, step, reward):
    weights = folder / f"A-{step}.pt"
    weights.write_text(str(step))
    return CheckpointSaved("A", step, weights, (), reward, True)


def test_without_evaluations_keep_best_compares_training_rewards(tmp_path):
    keep = kept(tmp_path)
    for step, reward in (1, None), (2, 1.0), (3, 0.5), (4, 2.0):
        keep.on_checkpoint(checkpoint(tmp_path, step, reward))
        assert (tmp_path / "best").exists() == (step > 1)
    assert (tmp_path / "best" / "A.pt").read_text() == "4"
    again = kept(tmp_path)
    again.load_state_dict(json.loads(json.dumps(keep.state_dict())))
    again.on_checkpoint(checkpoint(tmp_path, 5, 1.5))
    assert (tmp_path / "best" / "A.pt").read_text() == "4", "a resumed run continues comparing"


def test_a_first_evaluation_supersedes_training_rewards(tmp_path):
    keep = kept(tmp_path)
    keep.on_checkpoint(checkpoint(tmp_path, 1, 99.0))
    keep.on_evaluation_end(judged(2.0, save=lambda: checkpoint(tmp_path, 2, None).weights))
    keep.on_checkpoint(checkpoint(tmp_path, 3, 100.0))
    keep.on_evaluation_end(judged(1.0, save=lambda: checkpoint(tmp_path, 4, None).weights))
    assert (tmp_path / "best" / "A.pt").read_text() == "2"


def test_returns_of_groups_supersede_those_of_agents_in_keep_best(tmp_path):
    keep = kept(tmp_path)
    keep.on_checkpoint(checkpoint(tmp_path, 1, 9.0))
    for step, reward in (2, 0.25), (3, 0.5), (4, 0.25):
        if step == 4:  # a resumed run
            state, keep = json.loads(json.dumps(keep.state_dict())), kept(tmp_path)
            keep.load_state_dict(state)
        keep.on_checkpoint(replace(checkpoint(tmp_path, step, reward), by_groups=True))
    assert (tmp_path / "best" / "A.pt").read_text() == "3"


def test_keep_best_of_a_run_of_before_had_compared_groups_in_evaluations_alone(tmp_path):
    keep = kept(tmp_path)
    keep.load_state_dict({"best": {"A": 0.0, "B": 0.5}, "tested": ["B"]})
    keep.on_checkpoint(replace(checkpoint(tmp_path, 1, -1.0), by_groups=True))
    keep.on_evaluation_end(replace(judged(0.25, "B"), by_groups=True))
    assert keep.state_dict()["best"] == {"A": -1.0, "B": 0.5}


def test_keep_best_copies_no_brains_of_other_steps(tmp_path):
    """A run that returned to an older checkpoint has files of later steps with the same prefix."""
    keep = kept(tmp_path)
    for name in ("A-10.onnx", "A-100.onnx", "A-10-place0.onnx", "A-100-place0.onnx"):
        (tmp_path / name).write_text(name)
    keep.on_evaluation_end(judged(5.0, save=lambda: checkpoint(tmp_path, 10, None).weights))
    found = {path.name: path.read_text() for path in (tmp_path / "best").iterdir()}
    assert found == {"A.pt": "10", "A.onnx": "A-10.onnx", "A-place0.onnx": "A-10-place0.onnx"}


def test_a_behavior_s_name_is_not_used_as_a_pattern(tmp_path):
    keep = kept(tmp_path)
    for ending in ("pt", "onnx"):
        (tmp_path / f"A[1]-10.{ending}").write_text(ending)
    keep.on_evaluation_end(judged(5.0, behavior="A[1]", save=lambda: tmp_path / "A[1]-10.pt"))
    assert (tmp_path / "best" / "A[1].onnx").read_text() == "onnx"


def test_a_best_policy_that_could_not_be_saved_does_not_count(tmp_path):
    keep = kept(tmp_path)
    keep.on_evaluation_end(judged(5.0, save=lambda: None))
    keep.on_evaluation_end(judged(4.0, save=lambda: checkpoint(tmp_path, 2, None).weights))
    assert (tmp_path / "best" / "A.pt").read_text() == "2" and keep.state_dict()["best"] == {"A": 4.0}


def filmed(frames, score=4.0, **more):
    """The end of an evaluation whose best episode is so many frames long, or has no film."""
    pixels = [np.full((8, 8, 3), number, np.uint8) for number in range(frames or 0)]
    asked = []

    def film(most):
        asked.append(most)
        return None if frames is None else [Frame(each) for each in pixels[:most]]

    return replace(judged(score, **more), film=film), asked


def test_the_video_is_of_the_best_episode_and_only_asked_for_if_it_is_written(tmp_path, monkeypatch):
    films = []
    monkeypatch.setattr(write_video, "has_ffmpeg", lambda: False)
    monkeypatch.setattr(
        write_video, "gif", lambda frames, ms: films.append([f.pixels()[0, 0, 0] for f in frames]) or b"film"
    )
    shown, asked = [], []
    film = WriteVideo(pictures=4, every=2, without=["B"])
    for behavior in ("A", "A", "A", "B"):
        told = lambda *told: shown.append(told)  # noqa: E731
        event, most = filmed(9, behavior=behavior, folder=tmp_path, shown=told)
        film.on_evaluation_end(event)
        asked.append(most)
    assert asked == [[4], [], [4], []]
    assert films == [[0, 1, 2, 3]] * 2
    assert (tmp_path / "videos" / "A-10.gif").read_bytes() == b"film"
    assert shown == [("Evaluation/Best Episode", b"film", (8, 8))] * 2


def test_an_environment_that_does_not_render_is_reported_once(caplog, tmp_path):
    film = WriteVideo()
    film.on_evaluation_end(filmed(None, folder=tmp_path)[0])
    assert not caplog.records, "the replay has failed, which is told elsewhere"
    for _ in range(2):
        film.on_evaluation_end(filmed(0, folder=tmp_path)[0])
    assert sum("There will be no videos" in record.message for record in caplog.records) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("fails", ["mp4", "disk"])
def test_a_video_that_cannot_be_written_is_a_warning(tmp_path, monkeypatch, caplog, fails):
    def encode(frames, ms, ending):
        raise RuntimeError("no codec")

    monkeypatch.setattr(write_video, "has_ffmpeg", lambda: fails == "mp4")
    monkeypatch.setattr(write_video, "encode", encode)
    if fails == "disk":
        (tmp_path / "videos").write_text("in the way")
    WriteVideo().on_evaluation_end(filmed(1, folder=tmp_path)[0])
    (warning,) = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    if fails == "disk":
        assert "could not be written" in warning
    else:
        assert "no MP4 could be made (RuntimeError: no codec)" in warning
        assert (tmp_path / "videos" / "A-10.gif").read_bytes().startswith(b"GIF89a")


class Drawn(LineGame):
    """Renders itself; with `fails`, the third frame raises an error; with `other`, no launch repeats one."""

    drawn, launched, fails, other = 0, 0, False, False

    def __init__(self, seed, max_len, **rules):
        type(self).launched += 1
        super().__init__(seed, max_len=max_len - self.other * (self.launched % 3), **rules)

    def draw(self):
        type(self).drawn += 1
        if self.fails and self.drawn > 2:
            raise OSError("no screen")
        return np.full((10, 12, 3), 20 * self.steps % 256, np.uint8)


@pytest.mark.parametrize("trouble", [None, "fails", "other"])
def test_a_run_with_test_video_records_its_evaluations(runs, tmp_path, capsys, monkeypatch, trouble):
    fails, other = trouble == "fails", trouble == "other"
    kind = type("Drawn", (Drawn,), {"fails": fails, "other": other})
    monkeypatch.setattr("line_runs.LineGame", kind)
    write(runs, "[]", "  test_video: true\n")
    assert runs(*START) == 0
    out, folder = capsys.readouterr().out, tmp_path / "results" / "r" / "Tiny"
    films = sorted((folder / "videos").glob(f"Tiny-*.{'mp4' if has_ffmpeg() else 'gif'}"))
    assert len(_tests(out)) == 4, "the tests themselves take place"
    if fails:
        assert out.count("Evaluations are not filmed: OSError: no screen") == 1 and not films
        return
    assert [film.stem for film in films] == [f"Tiny-{step}" for step, _ in _tests(out)]
    assert ("the environment did not repeat the test" in out) == other
    assert kind.drawn <= 4 * 13, "of each test one episode, which has at most 12 steps"
    events = EventAccumulator(str(folder))
    events.Reload()
    assert len(events.Images("Evaluation/Best Episode")) == 4


def test_of_teams_the_film_is_of_the_group_that_has_earned_most(runs, monkeypatch):
    """Whatever its agents have earned beside, here the less the more their group earns."""
    act, ends, tests, films = Line.act, [0], [], []

    def rising(line, action):
        act(line, action)
        won = line.terminals.group_reward > 0
        ends[0] += 1
        line.terminals.group_reward[won] = ends[0]
        line.terminals.reward[won] = -ends[0]

    class Watching(Callback):
        def on_evaluation_step(self, event):
            if not event.number:
                tests.append([])
            tests[-1].extend(event.ended)

    def film(evaluator, evaluated, parameters, should_stop, best, most):
        films.append(best)
        return []

    monkeypatch.setattr(Line, "act", rising)
    monkeypatch.setattr(Evaluator, "_film", film)
    runs.rules["groups"] = True
    write(runs, "[]", "  test_video: true\n")
    runs.train(*START, callbacks=[Watching()])
    assert len(films) == len(tests) == 4
    for best, ended in zip(films, tests):
        assert best.group_reward == max(one.group_reward for one in ended if one.group_reward is not None) > 1
