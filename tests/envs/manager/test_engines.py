"""EnvManager over live engine processes that are killed, frozen or quit."""

import signal
import threading

import console_runs
import psutil
import pytest
from engine_processes import engine_process
from lanista.envs.manager.manager import EnvManager
from lanista.envs.manager.restarts import RestartLimits
from lanista.envs.unity import UnityEnvironment
from scripted_engine import executable

pytestmark = [
    pytest.mark.slow,
    pytest.mark.posix("kills and freezes processes by signals"),
]
BALL = "Ball?team=0"


class Herd:
    """A started manager over engine processes, and what is needed to harm them."""

    def __init__(self, program, num_envs, timeout=30.0, **options):
        self.program = program
        self.timeout = timeout
        self.newest: dict[int, UnityEnvironment] = {}
        self.pids: list[int] = []
        self.manager = EnvManager(self._make, num_envs, **options)
        self.manager.start()
        self.counts = [0] * num_envs
        for step in self.manager.reset():
            self._take(step)

    def _make(self, env):
        made = UnityEnvironment(self.program, worker_id=env, timeout_wait=self.timeout, non_finite=None)
        self.newest[env] = made
        self.pids.append(engine_process(made.port).pid)
        return made

    def harm(self, env, sign):
        engine_process(self.newest[env].port).send_signal(sign)

    def until(self, env, enough):
        """Step all until `enough(step)` for a step of `env`; how many steps others did meanwhile."""
        others = 0
        while True:
            found = False
            for step in self.manager.wait(60):
                self._take(step)
                others += step.env != env
                found = found or (step.env == env and enough(step))
            if found:
                return others

    def _take(self, step):
        """Check that each environment's steps come one after the other, and go on."""
        count = int(step.steps[BALL][0].obs[0][0, 0])
        assert count == (0 if step.fresh else self.counts[step.env] + 1)
        self.counts[step.env] = count
        self.manager.send(step.env, {})


@pytest.fixture
def herd(tmp_path):
    """Makes herds; after the test none of their engines may live."""
    herds = []

    def herd(script, num_envs, **options):
        made = Herd(executable(tmp_path, script), num_envs, **options)
        herds.append(made)
        return made

    yield herd
    for made in herds:
        made.manager.close()
        gone = console_runs.until(lambda: not any(map(psutil.pid_exists, made.pids)))  # noqa: B023
        assert gone, "an engine was left behind"


def fresh(step):
    return step.fresh


def test_a_killed_engine_comes_back_and_others_lose_nothing(herd):
    four = herd("greet(); steps(10**9)", 4, limits=RestartLimits(-1, -1, 60))
    for env in (1, 3, 0):
        four.until(env, lambda step: not step.fresh)
        four.harm(env, signal.SIGKILL)
        others = four.until(env, fresh)
        assert others > 20, "others stood still while an engine was started again"
    assert four.manager.restarts == 3


def test_a_frozen_engine_is_restarted_while_others_go_on(herd):
    three = herd("greet(); steps(10**9)", 3)
    frozen = three.newest[2]
    frozen.timeout_wait = 1.5  # for its answers; starting takes as long as a busy machine needs
    three.until(2, lambda step: True)
    three.harm(2, signal.SIGSTOP)
    assert three.until(2, fresh) > 100
    assert three.newest[2] is not frozen
    assert three.manager.restarts == 1


def test_an_interrupted_start_leaves_no_engine(tmp_path):
    """Ctrl-C while engines greet: close() returns, and the engines go when their launches are over."""
    program = executable(tmp_path, "time.sleep(2); greet(); steps(10**9)")
    began = threading.Event()

    def make_env(env):
        began.set()
        return UnityEnvironment(program, worker_id=env, timeout_wait=30)

    manager = EnvManager(make_env, 2)
    threading.Thread(target=manager.start, daemon=True).start()
    assert began.wait(20)
    manager.close()
    for worker in manager._workers.values():
        assert worker.launcher.join(60)
    assert console_runs.until(lambda: not console_runs.left_behind(tmp_path))
