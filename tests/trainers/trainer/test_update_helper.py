"""A process learns PPO's critic beside the run, which learns the actor: the same numbers as without it."""

import logging
import os
import signal

import pytest
from console_runs import until
from crowd import Crowd, learn_from, make_learner
from lanista.trainers.algorithms.common.threads import UpdateThreads
from lanista.trainers.trainer import update_helper
from reliability.resume import differences
from specs import spec_of_shapes

SPEC = spec_of_shapes([[3]], continuous=2)
HYPER = {"batch_size": 4, "buffer_size": 128, "num_epoch": 3}
TWO = UpdateThreads(2)


@pytest.fixture
def learners(tmp_path, monkeypatch):
    """Makes learners that may have a helper from the first update on, and ends their processes."""
    monkeypatch.setattr(update_helper, "START_SECONDS", 0.0)
    made = []

    def make(threads=TWO, hyper=HYPER, **keys):
        network = {"hidden_units": 32, "num_layers": 2, "normalize": True}
        settings = {"trainer_type": "ppo", "hyperparameters": hyper, "network_settings": network, **keys}
        folder = tmp_path / str(len(made))
        made.append(make_learner(folder, SPEC, settings, update_threads=lambda: threads))
        return made[-1]

    yield make
    for one in made:
        one.close()


class Jobs:
    """What a learner's helper is asked, and says."""

    def __init__(self, learner, monkeypatch):
        self.helper, self.halves = learner.algorithm.helper, learner.algorithm.halves
        self.taken: list[bool] = []
        real = self.helper.begin

        def begin(job):
            self.taken.append(real(job))
            return self.taken[-1]

        monkeypatch.setattr(self.helper, "begin", begin)

    def wait_for_process(self):
        if self.halves.rounded_alike is False:
            pytest.skip("products of one network have not the bits of two networks' on this processor")
        assert until(self.helper._process.is_ready)


def test_updates_have_the_bits_of_those_without_it(learners, monkeypatch):
    alone, helped = learners(UpdateThreads()), learners()
    crowds, jobs = [Crowd(SPEC) for _ in range(2)], Jobs(helped, monkeypatch)
    assert alone.algorithm.helper is None
    for turn in range(3):
        for one, crowd in zip((alone, helped), crowds, strict=True):
            learn_from(one, crowd.play(one, 60))
        assert not differences(*(one.trainer.learning_state() for one in (alone, helped)))
        if not turn:
            jobs.wait_for_process()
    assert jobs.taken == [False, True, True]


def test_a_run_whose_helper_dies_goes_on_with_the_same_numbers(learners, monkeypatch, caplog):
    alone, helped = learners(UpdateThreads()), learners()
    crowds, jobs = [Crowd(SPEC) for _ in range(2)], Jobs(helped, monkeypatch)
    with caplog.at_level(logging.WARNING):
        for turn in range(4):
            for one, crowd in zip((alone, helped), crowds, strict=True):
                learn_from(one, crowd.play(one, 60))
            assert not differences(*(one.trainer.learning_state() for one in (alone, helped)))
            if not turn:
                jobs.wait_for_process()
            if turn == 1:
                jobs.helper._process.process.kill()
    assert jobs.taken == [False, True, False, False]
    assert caplog.text.count("The process that is to take a half of the updates was ended") == 1


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="no process can be stopped here")
def test_a_process_that_does_not_answer_is_given_up(learners, monkeypatch, caplog):
    monkeypatch.setattr(update_helper, "SHORTEST_PATIENCE", 0.5)
    monkeypatch.setattr(update_helper, "PATIENCE", 1.0)
    alone, helped = learners(UpdateThreads()), learners()
    crowds, jobs = [Crowd(SPEC) for _ in range(2)], Jobs(helped, monkeypatch)
    for turn in range(3):
        for one, crowd in zip((alone, helped), crowds, strict=True):
            learn_from(one, crowd.play(one, 60))
        assert not differences(*(one.trainer.learning_state() for one in (alone, helped)))
        if not turn:
            jobs.wait_for_process()
            os.kill(jobs.helper._process.process.pid, signal.SIGSTOP)
    assert jobs.taken == [False, True, False] and "does not answer" in caplog.text


def test_one_that_cannot_be_started_is_no_error_of_the_run(learners, monkeypatch, caplog):
    def refuse(name):
        raise FileNotFoundError(2, "No such file or directory", name)

    one, crowd = learners(), Crowd(SPEC)
    monkeypatch.setattr("lanista.trainers.trainer.learner_process.REAPER.make_folder", refuse)
    for _ in range(2):
        learn_from(one, crowd.play(one, 60))
    assert one.trainer.learning_state()["Optimizer"]["steps"] > 0
    assert caplog.text.count("has failed: [Errno 2] No such file") == 1


def test_it_starts_only_when_updates_have_taken_long(learners, monkeypatch):
    monkeypatch.setattr(update_helper, "START_SECONDS", 1e9)
    one, crowd = learners(), Crowd(SPEC)
    for _ in range(2):
        learn_from(one, crowd.play(one, 60))
    assert one.algorithm.helper._process is None and one.trainer.update_seconds > 0


@pytest.mark.parametrize(
    "keys",
    [
        {"threads": UpdateThreads(2, fixed=True)},
        {"threads": UpdateThreads()},
        {"threaded": True},
        {"hyper": {**HYPER, "max_grad_norm": 0.5}},
    ],
    ids=["num_threads", "one processor", "threaded", "clipped"],
)
def test_there_is_none_where_the_user_or_the_objective_does_not_allow_it(learners, keys):
    assert learners(**keys).algorithm.helper is None
