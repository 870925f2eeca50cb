"""One behavior of a run: when its trainer is called, what its actor receives, what it writes."""

import re

import numpy as np
import pytest
import torch
from lanista.agent_processor.trajectory import EpisodesDropped
from lanista.envs.base import StatsAggregationMethod
from lanista.trainers.checkpoints.file import CheckpointError, load_checkpoint
from lanista.trainers.checkpoints.status import TrainingStatus
from lanista.trainers.curriculum import Curriculum, TrainingProgress
from lanista.trainers.policies.onnx.graph import BrainVerificationError
from lanista.trainers.settings.options import RunOptions
from lanista.trainers.settings.yaml_source import Source
from lanista.trainers.stats.display import make_display
from lanista.trainers.stats.writer import StatsWriter
from lanista.trainers.trainer.context import RunContext
from lanista.trainers.trainer.learner import Learner
from lanista.trainers.trainer.off_policy import OffPolicyTrainer
from lanista.trainers.utils.errors import TrainerError
from mlagents_envs.base_env import DecisionSteps
from specs import vector_spec
from stub_rollouts import BUILD_ROLLOUT, StubTrajectory, rollout_of

SPEC = vector_spec([4], continuous=2)
BUFFER = 640


def make(folder, name="Ball", writers=(), run=None, **keys):
    """A learner of a run in `folder`; `run`: more of its context."""
    hyper = {"batch_size": 64, "buffer_size": BUFFER}
    behavior = {"trainer_type": "ppo", "hyperparameters": hyper, **keys}
    options = RunOptions.from_source(Source({"behaviors": {name: behavior}}))
    status = TrainingStatus(folder / "status.json")
    display = make_display("test", plain=True)
    context = RunContext(
        folder=folder, seed=1, status=status, writers=writers, display=display, **(run or {})
    )
    return Learner(name, SPEC, options.behavior(name), context)


@pytest.fixture
def learner(tmp_path):
    return make(tmp_path)


def test_a_behavior_that_the_run_to_start_from_has_not_trained_begins_anew(tmp_path, caplog):
    """Those that the configuration lists are looked for before the run; this one has appeared since."""
    make(tmp_path / "old", "Other").finish()
    learner = make(tmp_path / "new", run={"initialize_from": tmp_path / "old"})
    assert learner.trainer.step == 0
    assert f"Ball: {tmp_path / 'old'} has no such behavior; it starts with random weights." in caplog.text
    with pytest.raises(TrainerError, match="Could not initialize from"):
        make(tmp_path / "play", run={"initialize_from": tmp_path / "old", "training": False})


def test_a_trainer_that_is_behind_leaves_new_trajectories_in_the_bounded_queue(tmp_path, monkeypatch):
    learner = make(tmp_path, trainer_type="sac", hyperparameters={}, self_play={})
    learner.add_team("Ball?team=0")
    learner.trainer.advance = lambda: True
    for behind, left in ((True, 1), (False, 0)):
        monkeypatch.setattr(
            OffPolicyTrainer, "has_overdue_updates", property(lambda self, behind=behind: behind)
        )
        learner.collected.put(EpisodesDropped(0, None))
        learner.learn()
        assert learner.collected.qsize() == left
        learner.collected.drain()


def waiting(agents):
    zeros, ids = np.zeros(agents, np.float32), np.arange(agents, dtype=np.int32)
    return DecisionSteps([torch.zeros(agents, 4).numpy()], zeros, ids, None, ids, zeros)


@pytest.mark.parametrize(
    ("agents", "ticks_per_call"),
    [((3,), 4), ((100, 28), 1)],
    ids=["10 steps, a 64th of the buffer, are there at every fourth tick", "many agents"],
)
def test_a_trainer_is_called_when_a_64th_of_its_buffer_is_queued(learner, agents, ticks_per_call):
    calls = []
    learner.trainer.advance = lambda: calls.append(1)
    batches = [waiting(number) for number in agents]
    for tick in range(12):
        learner.act_requests(batches, [(env, "Ball?team=0") for env in range(len(batches))])
        learner.advance()
        assert len(calls) == (tick + 1) // ticks_per_call


@pytest.fixture
def gathered(monkeypatch):
    """Trajectories of so many steps, whose observations are random numbers around 3."""

    def gather(trajectories, with_teammates=True):
        (steps,) = map(len, trajectories)
        observations = np.random.default_rng(steps).normal(3.0, 2.0, (steps, 4)).astype(np.float32)
        return rollout_of([steps], obs=[observations], continuous=2)

    monkeypatch.setattr(BUILD_ROLLOUT, gather)


def test_updates_that_are_left_over_are_made_as_agents_act(tmp_path, gathered):
    """Not whenever the loop has waited in vain for an engine, which depends on the machine."""
    hyper = {"batch_size": 64, "buffer_size": BUFFER, "steps_per_update": 1.0}
    learner = make(tmp_path, trainer_type="sac", hyperparameters=hyper)
    learner.add_team("Ball?team=0")
    learner.collected.put(StubTrajectory(80))
    learner.act_requests([waiting(8)], [(0, "Ball?team=0")])
    made = []
    for acts in (True, False, False, True, True):
        if acts:
            learner.act_requests([waiting(1)], [(0, "Ball?team=0")])
        assert learner.advance() == acts
        made.append(learner.trainer.updates.updates - 1)
    assert made == [3, 3, 3, 6, 9]


def test_a_policy_that_was_tested_or_saved_is_told_from_one_that_has_learned_since(tmp_path, gathered):
    """Both may have one step. Saved weights stay until more steps are counted; tested ones may change."""
    hyper = {"batch_size": 64, "buffer_size": BUFFER, "steps_per_update": 1.0}
    learner = make(tmp_path, trainer_type="sac", hyperparameters=hyper, test_frequency=50)
    learner.add_team("Ball?team=0")
    tests = learner.evaluation_schedule

    def tick(*steps):
        before = learner.trainer.updates.updates
        for number in steps:
            learner.collected.put(StubTrajectory(number))
        learner.act_requests([waiting(8)], [(0, "Ball?team=0")])
        learner.advance()
        return learner.trainer.updates.updates - before

    assert tick(80) and learner.trainer.step == 80
    tests.advance(80)
    assert not tests.is_due_at_end(80)
    assert tick() and learner.trainer.step == 80 and tests.is_due_at_end(80)
    tests.advance(80)
    for save in (learner.save, learner.checkpointer.save_with_others):
        assert save()
        assert not tick() and not tests.is_due_at_end(learner.trainer.step)
        assert tick(8) and tests.is_due_at_end(learner.trainer.step)
        tests.advance(learner.trainer.step)


def same(a, b):
    return all(torch.equal(a.state_dict()[name], b.state_dict()[name]) for name in a.state_dict())


def test_an_acting_copy_gets_the_normalizer_s_statistics_and_every_update(tmp_path, gathered):
    hyper = {"batch_size": 64, "buffer_size": 4 * BUFFER, "buffer_init_steps": BUFFER}
    keys = {"trainer_type": "sac", "hyperparameters": hyper, "network_settings": {"normalize": True}}
    learner = make(tmp_path, threaded=True, **keys)
    learner.add_team("Ball?team=0")
    acting, learning = learner.inference.network, learner.algorithm.network
    assert acting is not learning and same(acting, learning)
    for steps, parameters_change in ((20, False), (30, False), (BUFFER, True)):
        before = {name: p.detach().clone() for name, p in acting.named_parameters()}
        learner.collected.put(StubTrajectory(steps))
        learner.trainer.advance()
        assert not same(acting, learning), "it has its own values until it acts"
        learner.act_requests([waiting(3)], [(0, "Ball?team=0")])
        assert same(acting, learning)
        changed = [not torch.equal(p, before[name]) for name, p in acting.named_parameters()]
        assert any(changed) == parameters_change


def test_updates_that_change_the_policy_out_of_proportion_are_warned_of_once_per_doubling(tmp_path, caplog):
    learner = make(tmp_path)
    for kl in (0.02, 0.9, 14.5, 20.0, 29.5):
        learner.trainer._report_update({"Policy/Approximate KL": kl})
    found = re.findall(
        r"Ball: the policy changed by an approximate KL divergence of (\S+) in one", caplog.text
    )
    assert found == ["14.5", "29.5"]


def test_what_is_queued_at_the_end_is_counted_and_saved(tmp_path, gathered):
    learner = make(tmp_path)
    learner.add_team("Ball?team=0")
    learner.collected.put(StubTrajectory(7))
    learner.process_remaining()
    learner.finish()
    assert load_checkpoint(tmp_path / "Ball" / "checkpoint.pt")["step"] == 7


@pytest.mark.parametrize("kind", [FloatingPointError, RuntimeError])
def test_a_flawed_last_trajectory_does_not_prevent_the_last_save(tmp_path, monkeypatch, kind):
    learner = make(tmp_path)

    def flawed():
        raise kind("too large")

    monkeypatch.setattr(learner.trainer, "process_queues", flawed)
    learner.process_remaining()
    with pytest.raises(kind, match="too large"):
        learner.finish()
    assert (tmp_path / "Ball.onnx").exists()


def test_a_last_brain_that_fails_verification_is_an_error_and_no_older_one_is_listed(tmp_path, monkeypatch):
    learner = make(tmp_path)

    def export(*arguments, **keywords):
        raise BrainVerificationError("it acts otherwise")

    monkeypatch.setattr("lanista.trainers.policies.onnx.export.export_brain", export)
    with pytest.raises(CheckpointError, match=r"weights at the end .* are saved, but not their brain"):
        learner.finish()
    assert (tmp_path / "Ball" / "checkpoint.pt").exists() and not (tmp_path / "Ball.onnx").exists()
    assert learner.run.status.get("Ball", "final_checkpoint") is None


class Summaries(StatsWriter):
    def __init__(self):
        self.values = {}

    def write_stats(self, category, values, step):
        self.values[step] = values


def test_every_summary_holds_the_lessons(tmp_path):
    summaries = Summaries()
    heights = (
        "{curriculum: [{name: a, value: 1, completion_criteria: {behavior: Ball}}, {name: b, value: 2}]}"
    )
    options = RunOptions.from_text(f"environment_parameters: {{gravity: 3, height: {heights}}}")
    curriculum = Curriculum(options.environment_parameters)
    curriculum.advance(lambda _: TrainingProgress(0, 1, [1.0]))
    learner = make(tmp_path, writers=[summaries], run={"curriculum": curriculum})
    for step in (10, 20):
        learner.on_summary(step)
        for parameter, lesson in (("gravity", 0.0), ("height", 1.0)):
            told = summaries.values[step][f"Environment/Lesson Number/{parameter}"]
            assert told.aggregated_value == lesson
            assert told.aggregation_method is StatsAggregationMethod.MOST_RECENT


def test_a_name_outside_the_run_s_folder_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(TrainerError, match=r"\.\./Ball"):
        make(tmp_path / "run", name="../Ball")
    assert not list(tmp_path.iterdir())


def test_a_new_run_starts_with_the_weights_that_fit(tmp_path, caplog):
    older = make(tmp_path / "older", network_settings={"hidden_units": 16, "normalize": True})
    older.finish()
    path = str(tmp_path / "older" / "Ball")
    newer = make(tmp_path / "newer", init_path=path, network_settings={"hidden_units": 16})
    assert newer.trainer.step == 0
    for name, weights in newer.algorithm.network.state_dict().items():
        assert torch.equal(weights, older.algorithm.network.state_dict()[name])
    assert "Policy.encoder.normalizers.0 (this network has no such part)" in caplog.text
    with pytest.raises(CheckpointError, match=r"Ball: could not initialize from .*nothing of its policy"):
        make(tmp_path / "third", init_path=path, network_settings={"hidden_units": 17})


@pytest.mark.parametrize(
    ("name", "advice"),
    [("Ball", "behaviors.Ball.max_steps"), ("My.Ball", "'behaviors.\"My.Ball\".max_steps'")],
)
def test_a_run_resumed_at_its_end_says_why_nothing_happens(tmp_path, caplog, name, advice):
    run = make(tmp_path, name, max_steps=100)
    run.trainer.schedule.step = 101
    run.finish()
    make(tmp_path, name, max_steps=102, run={"resume": True})
    assert "max_steps" not in caplog.text
    make(tmp_path, name, max_steps=100, run={"resume": True})
    assert f"{name}: has reached max_steps (100): nothing is left to train" in caplog.text
    assert f"--set {advice}=" in caplog.text


def test_a_resumed_run_loads_its_own_weights_strictly(tmp_path):
    older = make(tmp_path / "older", run={})
    older.finish()
    path = str(tmp_path / "older" / "Ball")
    run = make(tmp_path / "run", init_path=path)
    with torch.no_grad():
        run.algorithm.optimizer.flat.vector.add_(1.0)
    run.finish()
    resumed = make(tmp_path / "run", init_path=path, run={"resume": True})
    assert same(resumed.algorithm.network, run.algorithm.network)
    with pytest.raises(CheckpointError, match="cannot be resumed"):
        make(tmp_path / "run", network_settings={"normalize": True}, run={"resume": True})


@pytest.mark.parametrize("trainer", ["ppo", "sac"])
def test_a_resumed_run_has_its_reward_signals_in_their_order(tmp_path, trainer):
    """Critics and replays have a column for each, which nothing but its place names."""
    signals = {"extrinsic": {}, "rnd": {}}
    make(tmp_path, trainer_type=trainer, reward_signals=signals).finish()
    make(tmp_path, trainer_type=trainer, reward_signals=signals, run={"resume": True})
    swapped = dict(reversed(signals.items()))
    with pytest.raises(CheckpointError, match=r"reward_signals was .*extrinsic.*rnd.*, is .*rnd.*extrinsic"):
        make(tmp_path, trainer_type=trainer, reward_signals=swapped, run={"resume": True})
