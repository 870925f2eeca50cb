"""Callbacks receive events in order; a reason or a failure of theirs ends the run and saves it."""

import json
from collections import Counter

import pytest
from lanista.trainers.callbacks import Callback
from lanista.trainers.callbacks.dispatcher import (
    HOOKS,
    CallbackDispatcher,
    CallbackError,
    final_brains,
    named,
)
from lanista.trainers.callbacks.events import EpisodeEnd, Event, StepTaken, TrainingEnd
from line_runs import START
from printing_game import FAILED, THROWN
from recorded_events import Recorder

YAML = """\
default_settings:
  trainer_type: ppo
  hyperparameters: {batch_size: 16, buffer_size: 128, num_epoch: 1}
  network_settings: {normalize: true, hidden_units: 8, num_layers: 1}
  checkpoint_interval: 200
  max_steps: 460
  time_horizon: 8
  summary_freq: 100
  test_frequency: 150
  test_episodes: 4
"""


@pytest.fixture
def runs(runs):
    runs.configure(YAML)
    runs.prints = {5: [THROWN], 9: [FAILED]}
    return runs


def train(runs, *callbacks, more=()):
    """A run with these callbacks, as a script starts it."""
    runs.train(*START, *more, callbacks=callbacks)


def test_every_hook_is_called_with_its_event(runs, tmp_path):
    heard = Recorder()
    train(runs, heard)
    folder = tmp_path / "results" / "r"
    (begin,), (end,) = heard.of("on_training_begin"), heard.of("on_training_end")
    assert heard.events[0] is begin and heard.events[-1] is end
    assert (begin.run_id, begin.folder.resolve(), begin.resumed) == ("r", folder, False)
    assert end.error is None and end.reason is None and end.steps["Tiny"] > 460
    assert end.brains["Tiny"].resolve() == folder / "Tiny.onnx" and end.brains["Tiny"].exists()
    steps = heard.of("on_environment_step")
    assert [s.steps.get("Tiny", 0) for s in steps] == sorted(s.steps.get("Tiny", 0) for s in steps)
    assert 4 * len(steps) >= end.steps["Tiny"] and all(
        "Tiny?team=0" in s.environment_step.steps for s in steps
    )
    updates = [u.step for u in heard.of("on_update_end")]
    assert len(updates) == 3 and updates == sorted(updates) and updates[0] > 128
    assert all("Losses/Policy Loss" in u.metrics for u in heard.of("on_update_end"))
    saved = heard.of("on_checkpoint")
    assert [c.step // 200 for c in saved] == [0, 1, 2]
    assert all(c.weights.exists() and c.brains[0].exists() and c.due for c in saved)
    tests = heard.of("on_evaluation_end")
    assert [t.step // 150 for t in tests] == [1, 2, 3]
    assert all(len(t.rewards) == len(t.lengths) == 4 for t in tests)
    numbers = [e.number for e in heard.of("on_evaluation_step")]
    assert numbers.count(0) == 3 and max(numbers) >= 3
    ended = [score for e in heard.of("on_evaluation_step") for score in e.ended]
    assert sorted(s.reward for s in ended) == sorted(r for t in tests for r in t.rewards)


def test_episodes_and_summaries_are_those_of_the_curves(runs):
    heard = Recorder()
    train(runs, heard)
    rewards = [e.reward for e in heard.of("on_episode_end")]
    record = runs.state()["record"]["seats"]["Tiny?team=0"]["recent"]
    assert rewards[-len(record) :] == record and len(rewards) > 30
    assert all(
        1 <= e.length <= 12 and e.environment == 0 and 0 <= e.agent < 4 for e in heard.of("on_episode_end")
    )
    summaries = heard.of("on_summary")
    training = [s for s in summaries if "Environment/Cumulative Reward" in s.metrics]
    assert [s.step for s in training] == [100, 200, 300, 400]
    assert "Step" not in training[0].metrics and training[0].metrics["Policy/Entropy"] > 0
    tests = [s for s in summaries if "Evaluation/Cumulative Reward" in s.metrics]
    assert [s.step for s in tests] == [t.step for t in heard.of("on_evaluation_end")]


def test_only_defined_hooks_are_called(runs):
    hub = CallbackDispatcher({"idle": Callback()})
    assert not any(hub.has_hook(kind) for kind in Event.__subclasses__())
    seen = []

    class OnlyTheEnd(Callback):
        def on_training_end(self, event):
            seen.append(event)

    hub = CallbackDispatcher({"end": OnlyTheEnd()})
    assert hub.has_hook(TrainingEnd) and not hub.has_hook(StepTaken) and not hub.has_hook(EpisodeEnd)


@pytest.mark.parametrize(
    "hook", ["on_environment_step", "on_episode_end", "on_update_end", "on_evaluation_end"]
)
def test_a_reason_ends_the_run_as_max_steps_would(runs, capsys, hook):
    heard = Recorder(**{hook: "it is enough"})
    train(runs, heard)
    out = capsys.readouterr().out
    assert out.count("The callback Recorder ends the training: it is enough") == 1
    assert "Learning was interrupted" not in out and "give the same command with --resume" in out
    end = heard.events[-1]
    assert end.reason.endswith("it is enough") and end.error is None and end.steps["Tiny"] < 460
    assert runs.state()["step"] == end.steps["Tiny"] and end.brains["Tiny"].exists()


def test_a_reason_given_during_an_evaluation_aborts_it(runs, capsys):
    heard = Recorder(on_evaluation_step="seen enough")
    train(runs, heard)
    assert len(heard.of("on_evaluation_step")) == 1 and not heard.of("on_evaluation_end")
    assert "The test was aborted; a resumed run starts with it." in capsys.readouterr().out
    again = Recorder()
    train(runs, again, more=["--resume"])
    assert again.of("on_evaluation_end")[0].step // 150 == 1


class Failing(Callback):
    """Fails in one hook at its second call, or at the first if there is only one."""

    def __init__(self, hook, error=ValueError):
        self.hook, self.error, self.calls = hook, error, Counter()

    def fail(self, hook):
        self.calls[hook] += 1
        if hook == self.hook and self.calls[hook] == (1 if "training" in hook else 2):
            raise self.error("no such sheep")


for _hook in HOOKS:
    setattr(Failing, _hook, (lambda hook: lambda self, event: self.fail(hook))(_hook))


@pytest.mark.parametrize(
    ("hook", "error"), [*((hook, ValueError) for hook in HOOKS), ("on_summary", SystemExit)]
)
def test_a_failure_names_callback_and_hook_and_nothing_is_lost(runs, tmp_path, hook, error):
    failing, heard = Failing(hook, error), Recorder()
    with pytest.raises(CallbackError) as raised:
        train(runs, failing, heard)
    assert str(raised.value).startswith(f"The callback Failing failed in {hook} (test_hooks.py, line ")
    assert f"{error.__name__}: no such sheep" in str(raised.value)
    assert isinstance(raised.value.__cause__, error)
    assert isinstance(heard.events[-1], TrainingEnd), "the others hear of the end"
    assert failing.calls[hook] <= 2, "it is not called any more"
    steps = heard.events[-1].steps.get("Tiny", 0)
    assert (tmp_path / "results" / "r" / "Tiny.onnx").exists() == (steps > 0)
    assert not steps or runs.state()["step"] == steps


def test_an_invalid_reason_is_a_failure(runs):
    with pytest.raises(CallbackError, match="it returned True; expected None, or a text"):
        train(runs, Recorder(on_episode_end=True))


@pytest.mark.slow
def test_in_a_thread_calls_never_overlap_and_a_reason_ends_the_run(runs, tmp_path):
    class Overlap(Recorder):
        def __init__(self):
            super().__init__()
            self.inside = 0
            self.most = 0

        def on_episode_end(self, event):
            self.inside += 1
            self.most = max(self.most, self.inside)
            self.events.append(event)
            self.inside -= 1
            return "two hundred" if len(self.of("on_episode_end")) == 20 else None

        on_environment_step = on_episode_end

    overlap = Overlap()
    train(runs, overlap, more=["--set", "default_settings.threaded=true"])
    assert overlap.most == 1 and overlap.events[-1].reason.endswith("two hundred")
    assert (tmp_path / "results" / "r" / "Tiny.onnx").exists()


class Counting(Callback):
    """Counts episodes, over the runs that are resumed."""

    def __init__(self):
        self.episodes = 0
        self.begun_with = None

    def on_training_begin(self, event):
        self.begun_with = self.episodes

    def on_episode_end(self, event):
        self.episodes += 1

    def state_dict(self):
        return {"episodes": self.episodes}

    def load_state_dict(self, state):
        self.episodes = state["episodes"]


@pytest.mark.slow
def test_a_resumed_run_restores_the_states(runs, tmp_path, capsys):
    first, again = Counting(), Counting()
    train(runs, first)
    train(runs, again, more=["--resume", "--set", "default_settings.max_steps=600"])
    assert again.begun_with == first.episodes > 0 and again.episodes > first.episodes
    states = tmp_path / "results" / "r" / "run_logs" / "callbacks.json"
    assert json.loads(states.read_text()) == {"Counting": {"episodes": again.episodes}}
    train(runs, more=["--resume", "--set", "default_settings.max_steps=700"])
    assert (
        "The callback Counting has a saved state, but is not part of the run any more"
        in capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [("[1]", "found list, expected an object"), ('{"Counting": {}}', "does not accept its state")],
)
def test_states_that_cannot_be_restored_are_reported(runs, tmp_path, text, message):
    train(runs, Counting())
    states = tmp_path / "results" / "r" / "run_logs" / "callbacks.json"
    states.write_text(text)
    with pytest.raises(Exception, match=message):
        train(runs, Counting(), more=["--resume"])
    assert states.read_text() == text


def test_callbacks_of_equal_names_are_numbered():
    assert list(named([("a", Callback()), ("a", Callback()), ("b", Callback())])) == ["a", "a#2", "b"]


def test_the_models_of_slots_are_among_the_last_ones(tmp_path):
    for name in ("Team-place0.onnx", "Team-place1.onnx", "Solo.onnx", "Other-place0.onnx"):
        (tmp_path / name).touch()
    found = final_brains(tmp_path, ["Team", "Solo", "None"])
    assert found == {name: tmp_path / f"{name}.onnx" for name in ("Team-place0", "Team-place1", "Solo")}
