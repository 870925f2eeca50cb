"""Runs on a Ray cluster whose nodes, learner and head are killed: what is lost, and what is left behind."""

import os
import signal

import pytest

pytest.importorskip("ray")
pytest.importorskip("cryptography")

from cluster_runs import checkpoints, kill, train
from console_runs import left_behind, until
from local_cluster import local_cluster

pytestmark = pytest.mark.slow

LONG = 10_000_000


@pytest.fixture(scope="module")
def cluster():
    # After so long without its head a node ends; the default is a minute.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "5")
        with local_cluster(nodes=2, cpus=2) as cluster:
            yield cluster


def wait_for_summaries(run, summaries: int = 1) -> None:
    assert until(lambda: len(run.steps) >= summaries or run.process.poll() is not None)
    assert run.process.poll() is None, "\n".join(run.lines)


def nothing_is_left(cluster, folder) -> bool:
    return until(lambda: not cluster.all_engines() and not left_behind(folder))


def test_a_killed_node_costs_no_step_count_and_no_checkpoint(cluster, tmp_path):
    """Each environment takes a whole node here; one whose node is lost waits for the next."""
    run = train(tmp_path, cluster, 2, 20_000, "--max-lifetime-restarts", "0", "--ray-cpus", "2")
    affected, kept = kill(tmp_path, cluster, run, 2)
    cluster.add_node()
    assert run.end() == 0, "\n".join(run.lines)
    assert run.said("Restarting environment") == affected > 0
    assert run.said("cannot be reached any more") == affected
    assert run.steps == sorted(run.steps) and run.steps[-1] == 20_000
    assert kept and kept <= checkpoints(tmp_path)
    assert nothing_is_left(cluster, tmp_path)


def test_a_killed_learner_leaves_nothing_on_the_nodes(cluster, tmp_path):
    run = train(tmp_path, cluster, 2, LONG)
    assert until(lambda: len(cluster.all_engines()) == 2)
    run.process.kill()
    assert nothing_is_left(cluster, tmp_path)


def test_a_stopped_learner_saves_and_leaves_nothing_on_the_nodes(cluster, tmp_path):
    run = train(tmp_path, cluster, 2, LONG, "--set", "behaviors.3DBall.summary_freq=2000")
    wait_for_summaries(run)
    os.kill(run.process.pid, signal.SIGINT)
    assert run.end() == 0, "\n".join(run.lines)
    assert checkpoints(tmp_path)
    assert nothing_is_left(cluster, tmp_path)


def test_a_run_that_loses_the_head_ends_with_one_error_and_its_state(cluster, tmp_path):
    """The last test here: no cluster remains after it."""
    run = train(tmp_path, cluster, 2, LONG, "--set", "behaviors.3DBall.summary_freq=2000")
    wait_for_summaries(run)
    cluster.kill_head()
    assert run.end() == 1
    errors = [line for line in run.lines if "lanista-learn: error: " in line]
    assert len(errors) == 1 and "No Ray head answers at" in errors[0], "\n".join(run.lines)
    assert not run.said("Traceback")
    assert checkpoints(tmp_path)
    assert until(lambda: not left_behind(tmp_path))
