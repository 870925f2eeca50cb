"""COMA within a run: the learner's policy, its files, and what can be restored from them."""

import copy

import numpy as np
import pytest
import torch
from coma_plays import Batch, vector_spec
from crowd import make_learner
from lanista.trainers.checkpoints.file import load_checkpoint
from lanista.trainers.checkpoints.metadata import build_network
from lanista.trainers.cli.main import run
from lanista.trainers.networks.multi_actor import exported_networks
from lanista.trainers.policies.onnx.runtime import Brain
from mlagents_envs.base_env import TerminalSteps
from reliability.resume import differences

SPEC = vector_spec([2], [3, 2])
ID = "Team?team=0"
WAYS = {"shared": {}, "unshared": {"share_parameters": False}, "indexed": {"index_on_actor": True}}


def learner(folder, hyper, memory=False, above=None, **keys):
    """`above`: keys of the behavior; `keys`: of the run."""
    network = {"hidden_units": 16, "num_layers": 1}
    if memory:
        network["memory"] = {"memory_size": 8, "sequence_length": 8}
    hyper = {"batch_size": 16, "buffer_size": 64, "max_num_agents": 3, **hyper}
    behavior = {"trainer_type": "coma", "hyperparameters": hyper, "network_settings": network}
    behavior |= {"time_horizon": 8, **(above or {})}
    return make_learner(folder, SPEC, behavior, "Team", **keys)


def collect(one, steps=40):
    """A team of two in one environment, stepped as the controller does."""
    random, decided = np.random.default_rng(0), None
    for _ in range(steps):
        batch = Batch([4, 7], [random.normal(size=(2, 2))], random.normal(size=2)).decisions()
        one.add_team(ID).add_experiences(batch, TerminalSteps.empty(SPEC), 0, decided)
        (decided,) = one.act_requests([batch], [(0, ID)])[0].decide()
        one.trainer.advance()
    return decided


@pytest.mark.parametrize("memory", [False, True])
@pytest.mark.parametrize("hyper", WAYS.values(), ids=WAYS.keys())
def test_a_run_learns_and_exports_brains_that_act_as_its_networks(tmp_path, hyper, memory):
    one = learner(tmp_path, hyper, memory)
    collect(one)
    first = one.finish()
    brains = exported_networks(one.algorithm.network)
    assert first == tmp_path / f"Team{next(iter(brains))}.onnx"
    batch = Batch([4, 7], [np.array([[1.0, -1.0], [0.3, 2.0]])]).decisions()
    for suffix, network in brains.items():
        played = Brain(tmp_path / f"Team{suffix}.onnx").act(batch, deterministic=True).discrete
        obs = network.prepare([torch.from_numpy(batch.obs[0])])
        if memory:
            wanted, _ = network.act_with_memory(obs, torch.zeros(2, network.memory_size))
        else:
            wanted = network.act(obs)
        np.testing.assert_array_equal(played, wanted.deterministic().discrete)
    listed = one.checkpointer.checkpoints.checkpoints[-1].files
    assert sum(file.suffix == ".onnx" for file in listed) == len(brains)
    assert all((one.checkpointer.checkpoints.folder / file.name).exists() for file in listed)


@pytest.mark.parametrize("hyper", WAYS.values(), ids=WAYS.keys())
def test_a_checkpoint_can_be_resumed_and_exported(tmp_path, hyper, capsys):
    one = learner(tmp_path, hyper)
    collect(one)
    one.save()
    two = learner(tmp_path, hyper, resume=True)
    weights = one.algorithm.network.state_dict()
    assert not differences(weights, two.algorithm.network.state_dict())
    assert two.algorithm.exploration == one.algorithm.exploration
    checkpoint = tmp_path / "Team" / "checkpoint.pt"
    _, rebuilt = build_network(load_checkpoint(checkpoint))
    assert not differences(weights, rebuilt.state_dict())
    assert run(["export", str(checkpoint), str(tmp_path / "out.onnx")]) == 0
    printed = capsys.readouterr().out
    for suffix in exported_networks(one.algorithm.network):
        assert (tmp_path / f"out{suffix}.onnx").exists() and f"out{suffix}.onnx" in printed


def test_old_brains_of_all_slots_are_removed_with_their_checkpoints(tmp_path):
    one = learner(tmp_path, {"share_parameters": False})
    one.checkpointer.checkpoints.keep = 2
    for step in (10, 20, 30):
        one.trainer.schedule.restore(step)
        one.save()
    left = sorted(file.name for file in (tmp_path / "Team").glob("*.onnx"))
    assert left == [f"Team-{step}-place{place}.onnx" for step in (20, 30) for place in range(3)]


def test_agents_explore_in_training_and_are_greedy_in_evaluation(tmp_path):
    training = learner(tmp_path / "a", {"epsilon_start": 1.0})
    testing = learner(tmp_path / "b", {"epsilon_start": 1.0}, training=False)
    seen = np.ones((400, 2), np.float32)
    batch = Batch(list(range(400)), [seen], group=0).decisions()
    actions = {}
    for name, one in {"training": training, "testing": testing}.items():
        one.add_team(ID).add_experiences(batch, TerminalSteps.empty(SPEC), 0, None)
        (decided,) = one.act_requests([batch], [(0, ID)])[0].decide()
        actions[name] = decided.action.discrete
        assert decided.exploration == (1.0 if name == "training" else 0.0)
    assert len(np.unique(actions["testing"], axis=0)) == 1
    shares = np.bincount(actions["training"][:, 0], minlength=3) / 400
    np.testing.assert_allclose(shares, 1 / 3, atol=0.1)


@pytest.mark.parametrize("hyper", WAYS.values(), ids=WAYS.keys())
def test_a_separate_acting_network_receives_the_learned_weights(tmp_path, hyper):
    one = learner(tmp_path, hyper, above={"threaded": True})
    assert one.inference.network is not one.algorithm.network
    before = copy.deepcopy(one.inference.network.state_dict())

    def same(run):
        assert not differences(run.algorithm.network.state_dict(), run.inference.network.state_dict())

    same(one)
    collect(one, 50)
    one.act_requests([Batch([4, 7], [np.zeros((2, 2))]).decisions()], [(0, ID)])[0].decide()
    same(one)
    assert differences(before, one.inference.network.state_dict()), "it has learned"
    one.save()
    same(learner(tmp_path, hyper, above={"threaded": True}, resume=True))
