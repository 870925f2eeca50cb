"""Engines on the nodes of a Ray cluster of several nodes, all of them on this machine."""

from pathlib import Path

import numpy as np
import psutil
import pytest

pytest.importorskip("ray")
pytest.importorskip("cryptography")

from console_runs import until
from lanista.envs.base import Decision
from lanista.envs.errors import ClusterError
from lanista.envs.manager.manager import EnvManager
from lanista.envs.manager.restarts import RestartLimits
from lanista.envs.ray.cluster import Cluster
from lanista.envs.ray.spec import ClusterSettings, EngineSpec
from lanista.envs.unity import UnityEnvironment
from local_cluster import local_cluster
from mlagents_envs.exception import UnityEnvironmentException
from scripted_engine import executable

ANSWER_SECONDS = 60.0
NO_RESTARTS = RestartLimits(max_lifetime_restarts=0, restarts_rate_limit_n=0)
CRASH = """\
greet()
ask(message(observation(1.0, 0.5)))
print("the disk is full", flush=True)
os._exit(7)
"""
SHY = """\
print("no licence", flush=True)
os._exit(3)
"""


@pytest.fixture(scope="module")
def nodes():
    with local_cluster(nodes=3, cpus=2) as cluster:
        yield cluster


@pytest.fixture
def join(nodes):
    joined = []

    def join(file_name: str, number: int = 1, **settings) -> Cluster:
        example = EngineSpec(file_name, 0, ANSWER_SECONDS)
        joined.append(Cluster(ClusterSettings(nodes.address, **settings), example, number))
        return joined[-1]

    yield join
    for cluster in joined:
        cluster.close()


def environment(cluster: Cluster, index: int, file_name: str, log_folder: Path | None = None):
    order = EngineSpec(file_name, index, ANSWER_SECONDS, log_folder=log_folder)
    name = f"environment {index}"
    return UnityEnvironment(
        worker_id=index,
        timeout_wait=ANSWER_SECONDS,
        engine_name=name,
        non_finite=None,
        connect=lambda on_exit: cluster.connect(order, name, on_exit),
    )


def zeros(manager: EnvManager, step) -> dict[str, Decision]:
    answer = {}
    for name, (decisions, _) in step.steps.items():
        action = manager.behavior_specs[name].action_spec.empty_action(len(decisions))
        unknown = np.zeros((len(decisions), 1), np.float32)
        answer[name] = Decision(decisions.agent_id, action, action, unknown, unknown[:, 0])
    return answer


def turn(manager: EnvManager, steps):
    for step in steps:
        manager.send(step.env, zeros(manager, step))
    return manager.wait()


def test_a_lost_node_costs_only_the_episodes_of_its_environments(nodes, join):
    """No restart is allowed here: a node that is gone is no fault of its environments."""
    scene = "scene:ball3d"
    cluster = join(scene, 3)
    with EnvManager(lambda k: environment(cluster, k, scene), 3, NO_RESTARTS) as manager:
        manager.start()
        steps = manager.reset()
        victim = max(nodes.nodes, key=lambda each: len(nodes.engines(each)))
        struck = len(nodes.engines(victim))
        assert 1 <= struck < 3, "Ray spreads them over the nodes"
        nodes.kill_node(victim)
        fresh, went_on = set(), 0
        for _ in range(100_000):
            steps = turn(manager, steps)
            fresh |= {step.env for step in steps if step.fresh}
            went_on += sum(not step.fresh for step in steps)
            if len(fresh) == struck:
                break
        assert (len(fresh), manager.restarts) == (struck, struck), "they were started again elsewhere"
        assert went_on > struck, "the others went on meanwhile"
        for _ in range(10):
            steps = turn(manager, steps)
        assert manager.restarts == struck
    cluster.close()
    assert until(lambda: not nodes.all_engines()), "nothing is left on the nodes that live"


def test_the_end_of_an_engine_is_told_with_its_node_and_its_last_words(nodes, join, tmp_path, caplog):
    game = executable(tmp_path, CRASH)
    with caplog.at_level("INFO"):
        env = environment(join(game), 2, game, tmp_path / "logs")
    assert f"its log is {tmp_path / 'logs' / 'Player-2.log'} there" in caplog.text
    env.reset()
    with pytest.raises(UnityEnvironmentException) as caught:
        env.step()
    env.close()
    told = str(caught.value)
    assert "It ran on node " in told and "return code 7" in told and "the disk is full" in told


def test_an_engine_that_ends_before_it_calls(nodes, join, tmp_path):
    game = executable(tmp_path, SHY)
    with pytest.raises(UnityEnvironmentException) as caught:
        environment(join(game), 0, game)
    told = str(caught.value)
    assert told.startswith("environment 0: The engine ended before it connected to the trainer")
    assert "return code 3" in told and "no licence" in told


def test_an_executable_that_is_not_on_the_nodes(nodes, join, tmp_path):
    with pytest.raises(ClusterError, match=r"^On node .*: Couldn't launch the Gone environment.*more nodes"):
        join(str(tmp_path / "Gone.x86_64"))


def test_too_little_room_is_told_with_what_there_is(nodes, join):
    with pytest.raises(ClusterError) as caught:
        join("scene:basic", 1000, cpus=0.5)
    room = len(nodes.nodes) * 4 + 4
    assert str(caught.value).startswith(
        f"The Ray cluster has room for {room} environments of 0.5 CPU (--ray-cpus), but 1000 are wanted. "
        "There are node "
    )


def test_a_driver_that_is_gone_is_replaced(nodes, join):
    """As when the node's own Ray process was started again: the engines are lost, and the run is not."""
    scene = "scene:basic"
    cluster = join(scene)
    with EnvManager(lambda k: environment(cluster, k, scene), 1, NO_RESTARTS) as manager:
        manager.start()
        steps = manager.reset()
        drivers = [each for each in psutil.Process().children() if _is_driver(each)]
        for driver in drivers:
            driver.kill()
        steps = turn(manager, steps)
        while not any(step.fresh for step in steps):
            steps = turn(manager, steps)
        assert manager.restarts == 1


def _is_driver(process: psutil.Process) -> bool:
    try:
        return "lanista.envs.ray.driver" in process.cmdline()
    except psutil.Error:  # it has ended meanwhile
        return False
