"""Learning in a thread of its own: what it finds wrong ends the run, and nothing of it is lost."""

import re
import threading
from types import SimpleNamespace

import pytest
from console_runs import YAML, learn, weights_are_finite
from lanista.agent_processor.queues import AgentManagerQueue
from lanista.trainers.checkpoints.file import load_checkpoint
from lanista.trainers.trainer.thread import LearnerThread, stop_all
from scripted_engine import executable, first_free_port

pytestmark = pytest.mark.slow

SAC = "buffer_size: 1000, buffer_init_steps: 32"
THREADED = YAML.replace(": ppo", ": sac").replace("buffer_size: 64", SAC) + "    threaded: true\n"


def step_of(ended):
    (path,) = ended.files("checkpoint.pt")
    return load_checkpoint(path)["step"]


def test_a_run_learns_to_its_end_and_goes_on(tmp_path):
    game = executable(tmp_path, "greet(); steps(10**6)")
    ended = learn(tmp_path, "--env", game, yaml=THREADED)
    assert ended.good and step_of(ended) > 400 and ended.files("Ball.onnx")
    first = step_of(ended)
    ended = learn(tmp_path, "--env", game, "--resume", yaml=THREADED.replace("400", "800"))
    assert ended.good and f"resuming training from step {first}" in ended.out
    assert step_of(ended) > 800 and weights_are_finite(ended.files("*.pt"))


ALL_AT_ONCE = """\
    threaded: true
    test_frequency: 100
    test_episodes: 1
    test_max_decisions: 20
    keep_best: 1
"""


def test_a_run_goes_on_after_its_weights_were_saved_while_updates_are_overdue(tmp_path):
    """By a test whose policy is one of the best, by a resumed run with its replay, by another behavior."""
    names = "Ball", "Goal"
    hyper = "batch_size: 8, buffer_size: 500, buffer_init_steps: 0, steps_per_update: 0.5"
    first = THREADED.replace("    threaded: true\n", ALL_AT_ONCE)
    first = first.replace(f"batch_size: 8, {SAC}", hyper + ", save_replay_buffer: true")
    second = first.partition("behaviors:\n")[2].replace("  Ball:", "  Goal:").replace("100\n", "70\n")
    script = f"""
        greet()
        for i in range(10**6):
            ask(message(b"".join(observation(i, i % 7, name=name) for name in {names})))
    """
    flags = ["--env", executable(tmp_path, script), "--base-port", str(first_free_port(8))]
    for limit in (400, 800):  # the second one is resumed
        yaml = (first + second).replace("max_steps: 400", f"max_steps: {limit}")
        ended = learn(tmp_path, *flags, *["--resume"][: limit > 400], yaml=yaml)
        assert ended.good and all(ended.files(f"{name}.onnx") for name in names)


def test_what_the_thread_finds_wrong_ends_the_run_with_what_was_learnt(tmp_path):
    script = "greet(); steps(200); ask(message(observation(1, 2, reward=3e38))); steps(10**6)"
    ended = learn(tmp_path, "--env", executable(tmp_path, script), yaml=THREADED)
    assert re.search(r"a reward of agent_0-1 is 3e\+38", ended.error)
    assert step_of(ended) >= 176 and weights_are_finite(ended.files("*.pt")) and ended.files("Ball.onnx")


@pytest.fixture
def thread():
    """A thread whose trainer fails when it is told to, and its queue of one place."""
    queue = AgentManagerQueue("Ball", 1)
    fail = threading.Event()

    def learn_on():
        if fail.is_set():
            raise FloatingPointError("a flaw")
        return False

    made = LearnerThread(SimpleNamespace(name="Ball", collected=queue, learn=learn_on))
    made.start()
    yield made, queue, fail
    stop_all([made])


def test_a_collector_that_waits_at_a_full_queue_gets_to_see_the_error(thread):
    learner_thread, queue, fail = thread
    collector = threading.Thread(target=lambda: [queue.put(number) for number in range(5)], daemon=True)
    collector.start()
    while queue.qsize() < 1:
        pass
    assert collector.is_alive() and learner_thread.error is None
    fail.set()
    collector.join(60)
    assert not collector.is_alive()
    assert str(learner_thread.error) == "a flaw"


def test_who_wants_the_end_at_once_does_not_wait_for_a_long_update(thread):
    learner_thread, _, _ = thread
    busy, entered = threading.Event(), threading.Event()
    learner_thread.learner.learn = lambda: entered.set() or busy.wait()
    entered.wait()
    stop_all([learner_thread], 0.01)
    assert learner_thread.is_alive()
    busy.set()
    stop_all([learner_thread])
    assert not learner_thread.is_alive()
