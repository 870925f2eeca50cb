"""Callbacks are named in the YAML, with or without arguments; errors are reported before the run."""

import pytest
from installed_plugins import install
from lanista.trainers.callbacks import Callback
from lanista.trainers.callbacks.factory import make_callbacks
from lanista.trainers.callbacks.stop_at_reward import StopAtReward
from lanista.trainers.callbacks.video import WriteVideo
from lanista.trainers.settings import RunOptions, TrainerConfigError
from lanista.trainers.settings.schema import json_schema
from lanista.trainers.utils.errors import TrainerError

MINE = """\
from lanista.trainers.callbacks import Callback


class Watch(Callback):
    def __init__(self, every=1):
        self.every = int(every)


def broken():
    raise OSError("no disk")


def leaving():
    raise SystemExit


def other():
    return 7
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "sheepdog.py").write_text(MINE)
    (tmp_path / "leaving.py").write_text("import sys; sys.exit(2)")
    return tmp_path


def made(text):
    return make_callbacks(RunOptions.from_text(text, "c.yaml"))


def test_callbacks_are_named_with_or_without_arguments(here):
    found = made(
        """\
behaviors: {Ball: {}}
callbacks:
  - sheepdog:Watch
  - sheepdog:Watch: {every: 5}
  - stop_at_reward: {reward: 15, behavior: Ball}
  - keep_best:
"""
    )
    assert list(found) == ["sheepdog:Watch", "sheepdog:Watch#2", "stop_at_reward", "keep_best"]
    assert [found[name].every for name in list(found)[:2]] == [1, 5]
    stop = found["stop_at_reward"]
    assert isinstance(stop, StopAtReward) and (stop.reward, stop.behavior) == (15.0, "Ball")


def test_the_choice_is_recorded_as_written(here):
    options = RunOptions.from_text("callbacks: [sheepdog:Watch, {stop_at_reward: {reward: 3}}]")
    again = RunOptions.from_dict(options.as_dict())
    assert again.callbacks == options.callbacks == ["sheepdog:Watch", {"stop_at_reward": {"reward": 3}}]
    assert "callbacks" not in RunOptions.from_text("callbacks: []").as_dict()
    assert "stop_at_reward" in str(json_schema()["properties"]["callbacks"])


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("stop_at_rewards", r"no callback 'stop_at_rewards' here. Did you mean stop_at_reward\?"),
        ("{stop_at_reward: {}, keep_best: {}}", "indent the arguments below the name"),
        ("{stop_at_reward: 3}", "expected a name, or a name with its arguments"),
        ("7", "expected a name, or a name with its arguments"),
        ("'sheepdog:'", "named as package.module:Class"),
    ],
)
def test_an_invalid_entry_is_reported_with_its_line(entry, message):
    with pytest.raises(TrainerConfigError, match=message) as raised:
        RunOptions.from_text(f"behaviors: {{B: {{}}}}\ncallbacks:\n  - {entry}\n", "c.yaml")
    assert str(raised.value).startswith("c.yaml, line ")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("sheepdog:Wotch", "sheepdog:Wotch cannot be imported: AttributeError"),
        ("nowhere:Watch", "nowhere:Watch cannot be imported: ModuleNotFoundError"),
        ("{sheepdog:Watch: {often: 3}}", r"takes other arguments: .*often.*It is called as Watch\(every=1\)"),
        ("{sheepdog:Watch: {every: x}}", "sheepdog:Watch cannot be made: ValueError"),
        ("sheepdog:broken", "cannot be made: OSError: no disk"),
        ("sheepdog:leaving", "cannot be made: SystemExit"),
        ("leaving:Watch", "leaving:Watch cannot be imported: SystemExit: 2"),
        ("sheepdog:other", "gave 7; expected an object of a class that is derived from"),
        ("stop_at_reward", r"missing a required argument: 'reward'"),
        ("{stop_at_reward: {reward: 1, episodes: 0}}", "found episodes 0, expected at least 1"),
    ],
)
def test_a_callback_that_cannot_be_made_is_reported_with_its_line(here, entry, message):
    with pytest.raises(TrainerConfigError, match=message) as raised:
        made(f"callbacks:\n  - keep_best\n  - {entry}\n")
    assert str(raised.value).startswith("c.yaml, line 3: callbacks.1: ")


def test_plug_ins_provide_callbacks(here, monkeypatch):
    monkeypatch.syspath_prepend(install(here / "site", {"lanista.callbacks": {"collie": "sheepdog:Watch"}}))
    found = made("callbacks: [{collie: {every: 2}}]")
    assert found["collie"].every == 2
    with pytest.raises(TrainerConfigError, match=r"Known: .*collie"):
        made("callbacks: [poodle]")


def test_scripts_pass_callback_objects(here):
    mine = Callback()
    assert list(make_callbacks(RunOptions(), [mine]).items()) == [("Callback", mine)]
    with pytest.raises(TrainerError, match=r"found <class .*>? among the callbacks; expected an object"):
        make_callbacks(RunOptions(), [Callback])


def test_test_video_adds_a_video_callback_per_behavior():
    tested = "test_frequency: 100, test_video: true"
    found = made(f"default_settings: {{{tested}}}\nbehaviors: {{A: {{}}, B: {{test_video: false}}}}")
    films = list(found.values())
    assert all(isinstance(film, WriteVideo) for film in films)
    assert [film.behavior for film in films] == ["A", None] and films[1].without == {"A", "B"}
