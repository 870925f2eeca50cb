"""A rank or a learner that is stopped: the run names it, ends by one signal, and goes on if it goes on."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest
from console_runs import PATIENCE, YAML, end, left_behind, start, until, weights_are_finite
from scripted_engine import executable, first_free_port

pytestmark = [pytest.mark.slow, pytest.mark.posix("signals are sent to processes")]

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


@pytest.fixture
def torchrun(tmp_path):
    """A run of two ranks that `torchrun` has started: its process, and those of the ranks."""
    words = ["--standalone", "--nproc-per-node", "2", "-m", "lanista.trainers.learn", "c.yaml"]
    engine = executable(tmp_path, "greet(); steps(10**9)")
    flags = ["--env", engine, "--base-port", str(first_free_port(8)), "--num-envs", "2", "--run-id", "r"]
    (tmp_path / "c.yaml").write_text(ENDLESS)
    with (
        (tmp_path / "said").open("w") as log,
        subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", *words, *flags, "--timeout-wait", "6"],
            cwd=tmp_path,
            stdout=log,
            stderr=log,
        ) as process,
    ):
        assert until(lambda: any(tmp_path.rglob("*.onnx"))), (tmp_path / "said").read_text()
        children = psutil.Process(process.pid).children()
        yield process, sorted(children, key=lambda child: int(child.environ()["RANK"]))
        process.kill()


@pytest.mark.parametrize("signaled", [False, True])
def test_torchrun_ends_a_run_whose_rank_is_stopped(torchrun, tmp_path, signaled):
    """The first rank, which gives the other one up, saves and fails: then torchrun ends the other one."""
    process, ranks = torchrun
    ranks[1].suspend()
    if signaled:
        ranks[0].send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 1
    said = (tmp_path / "said").read_text()
    ending = ", and the run is ending" if signaled else r", as if .* \(env_settings\.timeout_wait"
    assert re.search(r"The learner 1 of 2 has shown no sign of life for \d+ s" + ending, said), said
    assert weights_are_finite(list((tmp_path / "results").rglob("Ball*.pt")))
    assert until(lambda: not left_behind(tmp_path)), left_behind(tmp_path)


def test_a_first_rank_of_torchrun_that_is_stopped_is_awaited_until_a_signal_ends_another_one(
    torchrun, tmp_path
):
    process, ranks = torchrun
    steps = lambda: (tmp_path / "said").read_text().count("Step: ")  # noqa: E731
    ranks[0].suspend()
    time.sleep(10)  # longer than the timeout of engines
    assert process.poll() is None
    ranks[0].resume()
    counted = steps()
    assert until(lambda: steps() > counted + 2)
    ranks[1].send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0, (tmp_path / "said").read_text()
    assert (tmp_path / "results" / "r" / "Ball.onnx").exists()


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
