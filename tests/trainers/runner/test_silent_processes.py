"""A rank or a learner that is stopped: the run names it, ends by one signal, and goes on if it goes on."""

import os
import re
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest
from console_runs import YAML, end, start, until, weights_are_finite
from scripted_engine import executable, first_free_port

pytestmark = pytest.mark.slow

if sys.platform == "win32":
    pytest.skip("signals are sent to processes", allow_module_level=True)

ENDLESS = YAML.replace("max_steps: 400", "max_steps: -1").replace(
    "buffer_size: 64", "buffer_size: 64, learning_rate_schedule: constant"
)
KINDS = {
    "rank": ("lanista.trainers.runner.ranks", ENDLESS, ["--num-envs", "2", "--learners", "2"]),
    "learner": ("lanista.trainers.runner.learner_program", ENDLESS + "    threaded: true\n", []),
}
NAMED = {"rank": r"The learner 1 of 2 \(process {pid}, cpu\)", "learner": r"Ball: the process {pid}, .*"}


class Run:
    """A run without an end that has saved its first checkpoint, and the process of this kind."""

    def __init__(self, folder, kind, *arguments):
        _, yaml, flags = KINDS[kind]
        self.folder, self.kind, self.named = folder, kind, NAMED[kind]
        engine = [
            "--env",
            executable(folder, "greet(); steps(10**9)"),
            "--base-port",
            str(first_free_port(8)),
        ]
        self.log = folder / "said"
        with self.log.open("w") as out:
            self.process = start(folder, *engine, *flags, *arguments, yaml=yaml, stdout=out)

    def await_checkpoint(self):
        module, folder = KINDS[self.kind][0], self.folder
        assert until(lambda: any(folder.rglob("*.onnx"))), self.said
        children = psutil.Process(self.process.pid).children()
        (self.other,) = (child for child in children if module in child.cmdline())

    @property
    def said(self):
        return self.log.read_text()

    def steps(self):
        return self.said.count("Step: ")

    def ended(self):
        found = end(self.process, self.folder)
        assert until(lambda: not list(Path(os.environ["TMPDIR"]).iterdir())), "temporary folders are gone"
        return found


@pytest.fixture
def begun(tmp_path, monkeypatch):
    short = tempfile.mkdtemp(prefix="silent")  # a socket lies in it, whose path may not be long
    monkeypatch.setenv("TMPDIR", short)
    runs = []

    def begin(kind, *arguments):
        runs.append(Run(tmp_path, kind, *arguments))
        runs[-1].await_checkpoint()
        return runs[-1]

    yield begin
    for run in runs:
        run.process.kill()
    shutil.rmtree(short, ignore_errors=True)


def stopped(run):
    """Stop the other process, and wait until the run waits for it."""
    run.other.suspend()
    counted = -1
    while run.steps() > counted:
        counted = run.steps()
        time.sleep(2)


@pytest.mark.parametrize("kind", KINDS)
def test_one_signal_saves_what_is_whole_without_it(begun, kind):
    run = begun(kind)
    stopped(run)
    run.process.send_signal(signal.SIGTERM)
    ended = run.ended()
    assert ended.good and ended.files("Ball.onnx") and weights_are_finite(ended.files("Ball*.pt"))
    assert re.search(run.named.format(pid=run.other.pid) + " has shown no sign of life", run.said), run.said
    assert "Learning was interrupted" in run.said


@pytest.mark.parametrize("kind", KINDS)
def test_two_signals_end_the_run_at_once(begun, kind):
    run = begun(kind)
    stopped(run)
    run.process.send_signal(signal.SIGINT)
    run.process.send_signal(signal.SIGTERM)
    ended = run.ended()
    assert ended.status in (0, 130) and weights_are_finite(ended.files("Ball*.pt"))


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_named_when_its_time_is_over(begun, kind):
    run = begun(kind, "--timeout-wait", "6")
    run.other.suspend()
    before = run.said.count("is alive")  # it may have started slowly
    ended = run.ended()
    told = run.named.format(pid=run.other.pid) + r" has shown no sign of life for \d+ s.*--timeout-wait"
    assert re.search(told, ended.error), ended.error
    assert run.said.count("is alive") == before
    assert ended.files("Ball.onnx") and weights_are_finite(ended.files("Ball*.pt"))


@pytest.mark.parametrize("kind", KINDS)
def test_the_run_goes_on_when_it_goes_on_before(begun, kind):
    run = begun(kind)
    stopped(run)
    counted = run.steps()
    run.other.resume()
    assert until(lambda: run.steps() > counted + 2), run.said
    run.process.send_signal(signal.SIGINT)
    ended = run.ended()
    assert ended.good and "sign of life" not in run.said
    assert not [path for path in ended.files("learner-*.log") if path.stat().st_size]


def test_a_rank_that_waits_for_its_engine_ends_with_the_run(begun):
    run = begun("rank", "--timeout-wait", "100000")
    engines = [child for child in run.other.children(recursive=True) if "Game" in " ".join(child.cmdline())]
    for engine in engines:
        engine.suspend()
    assert engines
    run.process.send_signal(signal.SIGTERM)
    ended = run.ended()
    assert ended.good and ended.files("Ball.onnx") and ended.files("1.pt"), "the rank has saved its own part"


def test_nothing_is_left_of_a_rank_that_is_stopped_with_all_that_it_has_started(begun):
    """Its guard, which is to end its engine, and the engine."""
    run = begun("rank")
    for process in (*run.other.children(recursive=True), run.other):
        process.suspend()
    run.process.send_signal(signal.SIGTERM)
    ended = run.ended()
    assert ended.good and ended.files("Ball.onnx") and weights_are_finite(ended.files("Ball*.pt"))


SECOND_ENGINE_HANGS = """
    if sys.argv[sys.argv.index('--mlagents-port') + 1] == '{port}':
        time.sleep(10**6)
    greet(); steps(10**9)
"""


def test_a_rank_whose_engine_never_starts_ends_with_the_run(tmp_path):
    port = first_free_port(8)
    engine = executable(tmp_path, SECOND_ENGINE_HANGS.format(port=port + 1))
    ranks = KINDS["rank"][2]
    log = tmp_path / "said"
    with log.open("w") as out:
        arguments = ["--env", engine, "--base-port", str(port), *ranks, "--timeout-wait", "100000"]
        process = start(tmp_path, *arguments, yaml=ENDLESS, stdout=out)
    assert until(lambda: "rollout will take" in log.read_text()), log.read_text()
    time.sleep(2)  # by then the first rank waits for the other one
    process.send_signal(signal.SIGTERM)
    assert end(process, tmp_path).good, log.read_text()
