"""`threaded: true` of PPO, POCA, MAPPO: a process updates while the next steps are collected."""

import contextlib
import logging
import re
from itertools import pairwise

import psutil
import pytest
import torch
from console_runs import YAML, end, learn, start, until, weights_are_finite
from crowd import Crowd, Mortals, learn_from, make_learner, write_demonstration
from lanista.trainers.checkpoints.file import load_checkpoint
from lanista.trainers.trainer.learner_process import UpdateJob
from lanista.trainers.utils.errors import TrainerError
from reliability.resume import differences
from scripted_engine import executable
from specs import spec_of_shapes

pytestmark = pytest.mark.slow

HYPER = {"batch_size": 16, "buffer_size": 64, "num_epoch": 2}
SIGNALS = {
    "extrinsic": {},
    "rnd": {"network_settings": {"hidden_units": 8, "num_layers": 1, "normalize": True}},
    "curiosity": {"strength": 0.1, "network_settings": {"hidden_units": 8, "num_layers": 1}},
    "gail": {"use_vail": True, "network_settings": {"hidden_units": 8, "num_layers": 1}},
}
LSTM = {"memory_size": 8, "sequence_length": 8}


def behavior(trainer="ppo", hyper=None, memory=None, **keys):
    network = {"hidden_units": 8, "num_layers": 1, "normalize": True}
    network |= {} if memory is None else {"memory": memory}
    of_algorithm = {"trainer_type": trainer, "hyperparameters": hyper or HYPER}
    return {**of_algorithm, "network_settings": network, "time_horizon": 8, **keys}


VECTOR = spec_of_shapes([[3]], continuous=2)
CASES = {
    "ppo": (behavior(), VECTOR),
    "ppo with a memory, signals and a teacher": (behavior(memory=LSTM), VECTOR),
    "ppo that normalizes values": (behavior(hyper={**HYPER, "normalize_values": True}), VECTOR),
    "ppo on images": (behavior(), spec_of_shapes([[2], [1, 20, 20]], branches=[3])),
    "poca": (behavior("poca"), VECTOR),
    "mappo": (behavior("mappo", memory=LSTM), VECTOR),
}


@pytest.fixture
def learners():
    """Makes learners, and ends their processes."""
    made = []

    def make(*how, **keys):
        made.append(make_learner(*how, **keys))
        return made[-1]

    yield make
    for one in made:
        one.close()


def of_case(case, folder):
    settings, spec = CASES[case]
    if "a teacher" in case:
        demo = {"demo_path": str(write_demonstration(folder / "d.demo", spec, [9, 14]))}
        signals = {**SIGNALS, "gail": {**SIGNALS["gail"], **demo}}
        settings = {**settings, "reward_signals": signals, "behavioral_cloning": {**demo, "steps": 2000}}
    return settings, spec


@pytest.mark.parametrize("case", CASES)
def test_an_update_there_has_the_bits_of_one_here(learners, tmp_path, case):
    settings, spec = of_case(case, tmp_path)
    crowds = [Mortals(spec) if case == "poca" else Crowd(spec) for _ in range(2)]
    here, there = (
        learners(tmp_path / name, spec, {**settings, "threaded": name == "there"})
        for name in ("here", "there")
    )
    for _ in range(2):
        before = there.trainer.learning_state()["Optimizer"]["steps"]
        for one, crowd in zip((here, there), crowds):
            learn_from(one, crowd.play(one, 40))
        assert there.trainer.learning_state()["Optimizer"]["steps"] == before, "it is under way"
        assert not len(there.trainer.buffer) and not len(here.trainer.buffer)
        there.trainer.finish_update()
        states = [one.trainer.learning_state() for one in (here, there)]
        assert states[0]["Optimizer"]["steps"] > before
        assert not differences(*states)


def collected(crowd, learner, ticks=40):
    learn_from(learner, crowd.play(learner, ticks))


def test_agents_act_by_the_weights_of_the_update_before_the_last(learners, tmp_path):
    one, crowd = learners(tmp_path, VECTOR, behavior(threaded=True)), Crowd(VECTOR)
    updates, real = [], one.on_update
    one.on_update = lambda metrics: (updates.append(metrics), real(metrics))
    acting = []
    for _ in range(3):
        collected(crowd, one)
        acting.append(one.algorithm.policy_optimizer.flat.vector.detach().clone())
    assert len(updates) == 2 and all("Losses/Policy Loss" in metrics for metrics in updates)
    assert [torch.equal(*pair) for pair in pairwise(acting)] == [False, False]
    first = learners(tmp_path / "b", VECTOR, behavior(threaded=True))
    assert torch.equal(acting[0], first.algorithm.policy_optimizer.flat.vector)


def test_statistics_of_observations_go_on_while_it_learns(learners, tmp_path):
    one, crowd = learners(tmp_path, VECTOR, behavior(threaded=True)), Crowd(VECTOR)
    collected(crowd, one)
    collected(crowd, one, 10)
    (normalizer,) = one.algorithm.network.encoder.normalizers
    seen = int(normalizer.steps)
    one.trainer.finish_update()
    assert int(normalizer.steps) == seen > 160


def test_the_largest_team_that_was_seen_stays_so_when_an_update_is_taken_in(learners, tmp_path):
    one, crowd = learners(tmp_path, VECTOR, behavior("poca", threaded=True)), Crowd(VECTOR)
    collected(crowd, one)
    one.algorithm.critic.largest.fill_(7.0)
    assert one.trainer.learner_process.is_busy
    one.trainer.finish_update()
    assert one.algorithm.critic.largest.item() == 7.0


def test_what_a_checkpoint_holds_is_the_newest(learners, tmp_path):
    one, crowd = learners(tmp_path, VECTOR, behavior(threaded=True)), Crowd(VECTOR)
    collected(crowd, one)
    assert one.save()
    saved = load_checkpoint(tmp_path / "Crowd" / "checkpoint.pt")
    assert saved["Optimizer"]["steps"] > 0 and not one.trainer.learner_process.is_busy


def test_its_warnings_are_those_of_the_run(learners, tmp_path, caplog):
    few = {**HYPER, "batch_size": 1000}
    one, crowd = learners(tmp_path, VECTOR, behavior(hyper=few, threaded=True)), Crowd(VECTOR)
    with caplog.at_level(logging.WARNING):
        collected(crowd, one)
        one.trainer.finish_update()
    assert "Nothing was learned" in caplog.text


def test_an_error_of_an_update_is_raised_here_with_its_traceback_and_only_once(learners, tmp_path):
    one, crowd = learners(tmp_path, VECTOR, behavior(threaded=True)), Crowd(VECTOR)
    process = one.trainer.learner_process
    crowd.play(one, 1)
    process.begin(UpdateJob(1, {"Policy": {}}, None, None, older=False))
    assert until(lambda: process._channel.has_message())
    with pytest.raises(Exception, match="Missing key") as raised:
        one.trainer.advance()
    assert "load_state_dict" in str(raised.value.__cause__)
    collected(crowd, one)
    one.trainer.finish_update()
    assert one.trainer.learning_state()["Optimizer"]["steps"] > 0, "it is still there"


def test_a_process_that_cannot_start_says_why(learners, tmp_path, monkeypatch):
    monkeypatch.setattr("lanista.trainers.trainer.learner_process.PROGRAM", "lanista.nothing_of_the_kind")
    one, crowd = learners(tmp_path, VECTOR, behavior(threaded=True)), Crowd(VECTOR)
    with pytest.raises(TrainerError, match=r"Crowd: the process .*exit status 1(.|\n)*nothing_of_the_kind"):
        collected(crowd, one)


@pytest.mark.posix("its pipes have short names")
def test_a_temporary_folder_whose_path_is_too_long_for_a_socket_is_named(learners, tmp_path, monkeypatch):
    long = tmp_path / ("long" * 25)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    with pytest.raises(TrainerError, match=r"longlong.* is longer than .* TMPDIR"):
        one, crowd = learners(tmp_path, VECTOR, behavior(threaded=True)), Crowd(VECTOR)
        collected(crowd, one)
    assert not list(long.iterdir())


# Whole runs -----------------------------------------------------------------------------------------------

THREADED = YAML + "    threaded: true\n"
ENDLESS = THREADED.replace("max_steps: 400", "max_steps: -1").replace(
    "buffer_size: 64", "buffer_size: 64, learning_rate_schedule: constant"
)
posix = pytest.mark.posix("signals are sent to processes")


def begun(folder):
    """A run without an end that has saved its first checkpoint, and the process that learns for it."""
    process = start(folder, "--env", executable(folder, "greet(); steps(10**9)"), yaml=ENDLESS)
    assert until(lambda: any(folder.rglob("*.onnx"))), process.communicate()
    (learner,) = [child for child in psutil.Process(process.pid).children() if is_learner(child)]
    return process, learner


def is_learner(process):
    with contextlib.suppress(psutil.Error):
        return "lanista.trainers.runner.learner_program" in process.cmdline()


@posix
def test_a_run_whose_learner_is_killed_ends_in_a_sentence_and_can_be_resumed(tmp_path):
    process, learner = begun(tmp_path)
    learner.kill()
    ended = end(process, tmp_path)
    told = rf"Ball: the process {learner.pid}, .* was ended by signal 9 \(SIGKILL\).*--resume"
    assert re.search(told, ended.error), ended.error
    assert ended.files("Ball.onnx") and weights_are_finite(ended.files("*.pt"))
    step = load_checkpoint(ended.files("checkpoint.pt")[0])["step"]
    resumed = THREADED.replace("max_steps: 400", f"max_steps: {step + 200}")
    game = executable(tmp_path, "greet(); steps(10**6)")
    ended = learn(tmp_path, "--env", game, "--resume", yaml=resumed)
    assert ended.good and f"resuming training from step {step}" in ended.out


@posix
def test_a_killed_run_leaves_no_learner(tmp_path):
    process, learner = begun(tmp_path)
    process.kill()
    end(process, tmp_path)
    assert not is_learner(learner)


def test_a_gradient_that_is_no_number_ends_the_run_with_what_was_learned(tmp_path):
    yaml = THREADED.replace("buffer_size: 64", "buffer_size: 64, learning_rate: 1.0e+30")
    ended = learn(tmp_path, "--env", executable(tmp_path, "greet(); steps(10**6)"), yaml=yaml)
    assert re.search(r"The gradient of the policy at step \d+ is not a finite number", ended.error)
    assert ended.files("Ball.onnx") and weights_are_finite(ended.files("*.pt"))
