"""Engines on the nodes of a Ray cluster, all of them on this machine."""

from pathlib import Path

import psutil
import pytest

pytest.importorskip("ray")
pytest.importorskip("cryptography")

import scripted_game
from console_runs import learn, ppo_yaml, until
from lanista.envs.engines.options import EngineOptions
from lanista.envs.errors import ClusterError
from lanista.envs.manager.manager import EnvManager
from lanista.envs.manager.restarts import RestartLimits
from lanista.envs.opening import open_environment
from lanista.envs.ray.cluster import Cluster
from lanista.envs.ray.nodes import ClusterSettings
from local_cluster import CRASHING_ENGINE, local_cluster
from mlagents_envs.exception import UnityEnvironmentException
from scripted_engine import executable

pytestmark = pytest.mark.slow

posix = pytest.mark.posix("makes programs of scripts")
ANSWER_SECONDS = 60.0
NO_RESTARTS = RestartLimits(max_lifetime_restarts=0, restarts_rate_limit_n=0)
UNLICENSED_ENGINE = """\
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
        example = EngineOptions(path=file_name, timeout_wait=ANSWER_SECONDS)
        joined.append(Cluster(ClusterSettings(nodes.address, **settings), example, number))
        return joined[-1]

    yield join
    for cluster in joined:
        cluster.close()


def environment(cluster: Cluster, index: int, file_name: str, log_folder: Path | None = None):
    options = EngineOptions(
        path=file_name,
        worker_id=index,
        timeout_wait=ANSWER_SECONDS,
        log_folder=log_folder,
        non_finite=None,
    )
    return open_environment(cluster.connected(options))


def step_all(manager: EnvManager, steps):
    for step in steps:
        manager.send(step.env, {})
    return manager.wait()


@pytest.mark.parametrize("engine", ["scene", pytest.param("godot", marks=posix)])
def test_a_lost_node_costs_only_the_episodes_of_its_environments(nodes, join, tmp_path, engine):
    """No restart is allowed here: the loss of a node does not count as a failure of its environments."""
    scene = "scene:ball3d" if engine == "scene" else "godot:" + scripted_game.executable(tmp_path)
    while len(nodes.nodes) < 2:
        nodes.add_node()
    cluster = join(scene, 3)
    with EnvManager(lambda k: environment(cluster, k, scene), 3, NO_RESTARTS) as manager:
        manager.start()
        steps = manager.reset()
        killed = max(nodes.nodes, key=lambda each: len(nodes.engines(each)))
        affected = len(nodes.engines(killed))
        assert 1 <= affected < 3, "Ray spreads them over the nodes"
        nodes.kill_node(killed)
        fresh, continued = set(), 0
        for _ in range(100_000):
            steps = step_all(manager, steps)
            fresh |= {step.env for step in steps if step.fresh}
            continued += sum(not step.fresh for step in steps)
            if len(fresh) == affected:
                break
        assert (len(fresh), manager.restarts) == (affected, affected), "they were restarted elsewhere"
        assert continued > affected, "the others continued meanwhile"
        for _ in range(10):
            steps = step_all(manager, steps)
        assert manager.restarts == affected
    cluster.close()
    assert until(lambda: not nodes.all_engines()), "nothing is left on the remaining nodes"


def test_the_end_of_an_engine_is_reported_with_its_node_and_output(nodes, join, tmp_path, caplog):
    game = executable(tmp_path, CRASHING_ENGINE)
    with caplog.at_level("INFO"):
        env = environment(join(game), 2, game, tmp_path / "logs")
    assert f"its log is {tmp_path / 'logs' / 'Player-2.log'} there" in caplog.text
    env.reset()
    with pytest.raises(UnityEnvironmentException) as caught:
        env.step()
    env.close()
    for part in ("It ran on node ", "return code 7", "the disk is full"):
        assert part in str(caught.value)


def test_an_engine_that_ends_before_it_connects_is_an_error_with_its_output(nodes, join, tmp_path):
    game = executable(tmp_path, UNLICENSED_ENGINE)
    with pytest.raises(UnityEnvironmentException) as caught:
        environment(join(game), 0, game)
    message = str(caught.value)
    assert message.startswith("environment 0: The engine ended before it connected to the trainer")
    assert "return code 3" in message and "no licence" in message


def test_an_executable_that_is_missing_on_the_nodes_is_an_error(nodes, join, tmp_path):
    with pytest.raises(ClusterError, match=r"^On node .*: Couldn't launch the Gone environment.*more nodes"):
        join(str(tmp_path / "Gone.x86_64"))


def test_too_few_processors_are_an_error_that_lists_the_nodes(nodes, join):
    with pytest.raises(ClusterError) as caught:
        join("scene:basic", 1000, cpus=0.5)
    room = len(nodes.nodes) * 4 + 4
    assert str(caught.value).startswith(
        f"The Ray cluster has room for {room} environments of 0.5 CPU (--ray-cpus), but 1000 are wanted. "
        "There are node "
    )


MISMATCHING_GAME = """\
print("WARNING: minor verison mismatch 7 6", flush=True)
walker = Walker()
def answer(message):
    if walker.actions == 5:
        print("SCRIPT ERROR: the level is gone", flush=True)
        os._exit(9)
    return walker(message)
play(answer)
"""


@posix
def test_a_godot_game_is_told_from_its_output_and_its_end_is_reported_with_its_node(
    nodes, join, tmp_path, caplog
):
    """What it wrote in the beginning was asked for while it ran: that must not hide how it ended."""
    game = "godot:" + scripted_game.executable(tmp_path, MISMATCHING_GAME)
    env = environment(join(game), 0, game)
    assert "speaks another version of the protocol (WARNING: minor verison mismatch 7 6)" in caplog.text
    env.reset()
    with pytest.raises(UnityEnvironmentException) as caught:
        for _ in range(10):
            env.step()
    env.close()
    for part in ("It ran on node ", "return code 9", "the level is gone"):
        assert part in str(caught.value)
    assert "environment 0 (Godot) has printed an error: the level is gone" in caplog.text


@posix
def test_a_run_trains_in_godot_games_on_the_nodes(nodes, tmp_path):
    game = "godot:" + scripted_game.executable(tmp_path)
    yaml = ppo_yaml("walker", {"batch_size": 16, "buffer_size": 64}, {"hidden_units": 8}, max_steps=300)
    ended = learn(tmp_path, "--env", game, "--ray", nodes.address, "--num-envs", "3", yaml=yaml)
    assert ended.good, ended.err
    assert all(f"Environment {worker} runs on node " in ended.out for worker in range(3))
    assert "Connected to a Godot game with godot_rl_agents" in ended.out
    assert ended.files("walker.onnx")


def test_a_driver_that_was_killed_is_replaced(nodes, join):
    """As when the node's own Ray process was restarted: the engines are lost, but the run continues."""
    scene = "scene:basic"
    cluster = join(scene)
    with EnvManager(lambda k: environment(cluster, k, scene), 1, NO_RESTARTS) as manager:
        manager.start()
        steps = manager.reset()
        drivers = [each for each in psutil.Process().children() if _is_driver(each)]
        for driver in drivers:
            driver.kill()
        steps = step_all(manager, steps)
        while not any(step.fresh for step in steps):
            steps = step_all(manager, steps)
        assert manager.restarts == 1


def _is_driver(process: psutil.Process) -> bool:
    try:
        return "lanista.envs.ray.driver" in process.cmdline()
    except psutil.Error:  # it has ended meanwhile
        return False
