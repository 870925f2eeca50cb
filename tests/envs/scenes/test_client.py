"""A world as the process at the other end of the wire."""

import logging
import os
import signal
import subprocess
import sys
import threading
from contextlib import closing

import numpy as np
import pytest
from lanista.envs.base import StatsAggregationMethod
from lanista.envs.grpc.server import ServerSession
from lanista.envs.protocol.decoder import Decoder
from lanista.envs.protocol.encoder import Encoder, encode_quit
from lanista.envs.scenes.client import UnexpectedActionsError, check_actions, main
from lanista.envs.scenes.parts.sensors import vector_spec
from lanista.envs.scenes.world import Parameters, World, without_groups
from lanista.envs.side_channels import (
    EngineConfigurationChannel,
    EnvironmentParametersChannel,
    SideChannelManager,
    StatsSideChannel,
)
from lanista.envs.unity import UnityEnvironment
from mlagents_envs.base_env import ActionSpec, ActionTuple, BehaviorSpec
from mlagents_envs.exception import UnityEnvironmentException

PATIENCE = 30.0


class Counter(World):
    """Two agents that request decisions at every other step, a statistic, and a parameter."""

    def __init__(self, areas: int = 2, start: float = 0.5, label: str = "x") -> None:
        """`areas`: how many agents
        `start`: the first number they see.
        """
        self.areas, self.start, self.label = areas, start, label
        self.steps = 0

    def specs(self):
        return {"Counter?team=0": BehaviorSpec([vector_spec(2)], ActionSpec(1, (3,)))}

    def reset(self, random, parameters):
        self.parameters, self.steps, self.seen = parameters, 0, random.random()
        return self._report(np.zeros(self.areas))

    def step(self, actions):
        self.steps += 1
        if self.steps % 2:
            self.last = actions["Counter?team=0"]
            return {}
        assert not actions
        continuous, discrete = self.last
        return self._report(continuous[:, 0] + 10 * discrete[:, 0])

    def statistics(self):
        return [("Counter/Steps", float(self.steps), StatsAggregationMethod.SUM)]

    def _report(self, reward):
        obs = np.full((self.areas, 2), self.start, np.float32)
        obs[:, 1] = self.parameters.get("offset", self.seen)
        ids = np.arange(self.areas, dtype=np.int32)
        return {"Counter?team=0": without_groups(ids, [obs], reward.astype(np.float32))}


class Trainer:
    """A trainer's end, and a `Counter` that runs in a thread of this process."""

    def __init__(self, *arguments, world=Counter):
        self.endpoint = ServerSession.listen(0)
        self.decoder = Decoder()
        command = ["--mlagents-port", str(self.endpoint.port), *arguments]
        self.status = None
        self.thread = threading.Thread(target=self._run, args=(world, command), daemon=True)
        self.thread.start()

    def _run(self, world, command):
        self.status = main(world, command, "counter")

    def receive(self):
        request = self.endpoint.receive(PATIENCE)
        assert request is not None
        return self.decoder.decode(request)

    def answer(self, data):
        self.endpoint.reply(data)

    def handshake(self, seed=1, areas=1):
        hello = self.receive().hello
        self.answer(Encoder().initialization(seed, areas))
        assert self.receive().steps is None
        return hello

    def end(self):
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()
        self.endpoint.close()
        return self.status

    def quit(self):
        self.answer(encode_quit())
        return self.end()


def started(log, *arguments, seed=1, areas=1, **options):
    """A trainer whose engine has answered the first reset, and that answer."""
    trainer = Trainer("-logFile", str(log), *arguments, **options)
    trainer.handshake(seed, areas)
    trainer.answer(Encoder().reset(b""))
    return trainer, trainer.receive()


def actions(continuous, discrete, side_channel=b""):
    tuple_ = ActionTuple(np.float32(continuous)[:, None], np.int32(discrete)[:, None])
    return Encoder().actions({"Counter?team=0": tuple_}, side_channel)


@pytest.fixture(autouse=True)
def own_logging():
    """The worlds run in threads of this process: their messages reach no handlers of earlier set-ups.

    The package's logger is restored after every test (conftest.py), the root logger here.
    """
    root, package = logging.getLogger(), logging.getLogger("lanista")
    handlers, level = list(root.handlers), root.level
    package.handlers[:], package.propagate = [], True
    package.setLevel(logging.NOTSET)
    yield
    for handler in set(root.handlers) - set(handlers):
        handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def log(tmp_path):
    return tmp_path / "logs" / "Player.log"


def test_a_whole_session(log):
    trainer = Trainer("-nographics", "-batchmode", "-logFile", str(log), "--start", "0.25")
    hello = trainer.handshake()
    assert hello.communication_version == "1.5.0"
    trainer.answer(Encoder().reset(b""))
    first = trainer.receive()
    (decisions, terminals) = first.steps["Counter?team=0"]
    assert (len(decisions), len(terminals)) == (2, 0)
    assert decisions.obs[0][0, 0] == 0.25
    trainer.answer(actions([0.5, 0.25], [1, 2]))
    (decisions, _) = trainer.receive().steps["Counter?team=0"]
    np.testing.assert_allclose(decisions.reward, [10.5, 20.25])
    assert trainer.quit() == 0
    assert "said goodbye" in log.read_text()


def test_the_seed_reaches_the_world_and_the_trainers_areas_win(log):
    def first_observation(seed, areas):
        trainer, first = started(log, seed=seed, areas=areas)
        assert trainer.quit() == 0
        return first.steps["Counter?team=0"][0].obs[0]

    assert first_observation(3, 1).shape == (2, 2)
    assert first_observation(3, 5).shape == (5, 2)
    assert first_observation(3, 1)[0, 1] == first_observation(3, 1)[0, 1]
    assert first_observation(3, 1)[0, 1] != first_observation(-3, 1)[0, 1]


def test_parameters_and_statistics_travel(log):
    parameters, engine = EnvironmentParametersChannel(), EngineConfigurationChannel()
    engine.set_configuration_parameters(80, 80, 1, 20.0, -1, 60)
    parameters.set_float_parameter("gravity", 4.0)
    channels = [parameters, engine]
    with closing(
        UnityEnvironment("scene:ball3d?areas=3", seed=2, side_channels=channels, log_folder=str(log.parent))
    ) as env:
        env.reset()
        env.step()
        decisions, _ = env.get_steps("3DBall?team=0")
        np.testing.assert_allclose(decisions.obs[0][:, 6], -5 * 4.0 * 0.02, rtol=1e-5)

    trainer, first = started(log)
    statistics = StatsSideChannel()
    SideChannelManager([statistics]).process(first.side_channel)
    assert statistics.get_and_reset_stats() == {"Counter/Steps": [(0.0, StatsAggregationMethod.SUM)]}
    trainer.quit()


def test_a_step_before_the_first_reset_is_one(log):
    trainer = Trainer("-logFile", str(log))
    trainer.handshake()
    trainer.answer(Encoder().actions({}, b""))
    (decisions, _) = trainer.receive().steps["Counter?team=0"]
    assert len(decisions) == 2
    assert trainer.quit() == 0


class Failing(Counter):
    def step(self, actions):
        raise RuntimeError("the world ends here")


@pytest.mark.parametrize(
    ("world", "sent", "reason"),
    [
        (Counter, ([0.5], [1]), "(2, 1) and (2, 1); the trainer sent (1, 1) and (1, 1)"),
        (Failing, ([0, 0], [0, 0]), "RuntimeError: the world ends here"),
    ],
)
def test_wrong_actions_and_errors_of_the_world_end_the_session_with_the_reason_in_the_log(
    log, world, sent, reason
):
    trainer, _ = started(log, world=world)
    trainer.answer(actions(*sent))
    assert trainer.end() == 1
    assert reason in log.read_text()


def test_missing_actions_are_refused_only_where_an_agent_requested_a_decision():
    world = Counter()
    batches = world.reset(np.random.default_rng(0), Parameters())
    with pytest.raises(UnexpectedActionsError, match="sent \\(0, 0\\)"):
        check_actions({}, batches, world.specs())
    idle = {name: without_groups(b.agent_id[:0], [], b.reward[:0]) for name, b in batches.items()}
    check_actions({}, idle, world.specs())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no --mlagents-port"),
        (["--mlagents-port", "5"], None),
        (["--mlagents-port", "many"], "invalid int value: 'many'"),
        (["--mlagents-port", "5", "--area", "3"], "unknown option --area"),
        (["--mlagents-port", "5", "--start", "soon"], "invalid float value: 'soon'"),
    ],
)
def test_a_command_line_is_understood_or_refused(arguments, message, capsys, monkeypatch):
    monkeypatch.setattr("lanista.envs.scenes.client.CONNECT_SECONDS", 0.1)
    status = main(Counter, arguments, "counter")
    output = capsys.readouterr().err
    if message is None:
        assert status == 1
        assert "No trainer listened on port 5" in output
    else:
        assert status == 2
        assert message in output
        assert "--areas INT" in output
        assert "how many agents (default 2)" in output


def scene(*arguments, **options):
    return subprocess.Popen([sys.executable, "-m", "lanista.envs.scenes", *arguments], text=True, **options)


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ([], 2, "ball3d"),
        (["--help"], 0, "basic"),
        (["bal3d"], 2, "Did you mean 'ball3d'"),
        (["ball3d", "--mlagents-port", "5", "--areas", "0"], 2, "at least 1"),
    ],
)
def test_the_command_of_scenes(arguments, status, message):
    process = scene(*arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == status
    assert message in output


def test_a_scene_whose_trainer_is_killed_ends_by_itself(tmp_path):
    script = (
        "import sys, time\n"
        "from lanista.envs.grpc.server import ServerSession\n"
        "endpoint = ServerSession.listen(0)\n"
        "print(endpoint.port, flush=True)\n"
        "assert endpoint.receive(30)\n"
        "print('called', flush=True)\n"
        "time.sleep(60)\n"
    )
    trainer = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    log = tmp_path / "Player.log"
    engine = scene("basic", "--mlagents-port", trainer.stdout.readline().strip(), "-logFile", str(log))
    try:
        assert trainer.stdout.readline().strip() == "called"
        os.kill(trainer.pid, signal.SIGKILL)
        assert engine.wait(PATIENCE) == 1
        assert "is gone" in log.read_text()
    finally:
        engine.kill()
        trainer.kill()
        trainer.wait()
        trainer.stdout.close()
        engine.wait()


def test_a_scene_that_refuses_its_options_says_so_through_the_environment():
    with pytest.raises(UnityEnvironmentException, match="invalid int value: 'three'"):
        UnityEnvironment("scene:ball3d?areas=three")


def test_a_scene_needs_neither_torch_nor_what_only_trainers_need():
    code = (
        "import sys, lanista.envs.scenes.client, lanista.envs.scenes.worlds.ball3d\n"
        "print(sorted(sys.modules.keys() & {'torch', 'pydantic', 'rich', 'PIL', 'onnx', 'yaml'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
