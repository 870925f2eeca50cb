"""ML-Agents checkpoints are converted: the same policy, values and optimizer, or a reason why not."""

import copy

import numpy as np
import pytest
import torch
from lanista.trainers.checkpoints.file import load_checkpoint
from lanista.trainers.checkpoints.mlagents.names import (
    policy_tensors,
    state_value_tensors,
    team_critic_tensors,
    twin_tensors,
)
from lanista.trainers.checkpoints.mlagents.weights import is_mlagents, step_of, trainer_of
from lanista.trainers.utils.errors import CheckpointError
from mlagentscheckpoints import FOLDER, NAMES, case_of
from mlagentsjudgements import algorithm_of, assert_judges_alike
from reliability.resume import differences

SACS = [name for name in NAMES if case_of(name)["trainer"] == "sac"]
ADAMS_OF_POLICIES = ("Optimizer:policy_optimizer", "Optimizer:value_optimizer", "Optimizer:adam")


def checkpoint(name):
    return load_checkpoint(FOLDER / name / "checkpoint.pt")


def begun(name, state=None, **changes):
    """An algorithm initialized from the checkpoint, and the mismatches."""
    algorithm = algorithm_of(case_of(name), **changes)
    return algorithm, algorithm.initialize_from(checkpoint(name) if state is None else state)


def test_there_are_checkpoints_of_all_kinds():
    kinds = {(case["trainer"], case["shared_critic"]) for case in map(case_of, NAMES)}
    assert kinds == {("ppo", False), ("ppo", True), ("poca", False), ("sac", False)}


@pytest.mark.parametrize("name", NAMES)
def test_networks_act_and_value_as_those_of_ml_agents(name):
    algorithm, told = begun(name)
    assert told == []
    assert_judges_alike(algorithm, case_of(name), FOLDER / name / "said.npz")


@pytest.mark.parametrize("name", NAMES)
def test_they_are_recognized(name):
    state = checkpoint(name)
    assert is_mlagents(state)
    assert trainer_of(state) == case_of(name)["trainer"]
    assert step_of(state) >= case_of(name)["steps"]
    assert not is_mlagents(algorithm_of(case_of(name)).state_dict())


@pytest.mark.parametrize("name", NAMES)
def test_the_optimizer_continues_as_that_of_ml_agents(name):
    """One step of torch's Adam with ML-Agents' state and of ours, by the same gradients."""
    algorithm, _ = begun(name)
    state = checkpoint(name)
    adam = next(state[entry] for entry in ADAMS_OF_POLICIES if entry in state)
    assert algorithm.optimizer.adam.steps == int(next(iter(adam["state"].values()))["step"]) > 0
    head, rate, gradient = "action_model._discrete_distribution.branches.0.bias", 0.01, 0.5
    if head not in state["Policy"]:
        head = "action_model._continuous_distribution.mu.bias"
    number = [key for key in state["Policy"] if "normalizer" not in key].index(head)
    theirs = torch.nn.Parameter(state["Policy"][head].clone())
    reference = torch.optim.Adam([theirs], lr=rate)
    reference.state[theirs] = copy.deepcopy(adam["state"][number])
    theirs.grad = torch.full_like(theirs, gradient)
    reference.step()
    algorithm.optimizer.zero_grad()
    algorithm.optimizer.flat.gradient.fill_(gradient)
    algorithm.optimizer.step(rate, 0)
    ours = policy_tensors(algorithm.network)[head]
    np.testing.assert_allclose(ours.detach(), theirs.detach(), rtol=1e-5, atol=1e-7)


def assert_moments(state, adam, modules):
    """The tensors of `modules`, by entries, equal the first moments of this optimizer of ML-Agents."""
    moments, number, seen = state[f"Optimizer:{adam}"]["state"], 0, 0
    for entry, views in modules.items():
        for key in (key for key in state[entry] if "normalizer" not in key):
            if number in moments and key in views:
                torch.testing.assert_close(views[key].detach(), moments[number]["exp_avg"])
                seen += 1
            number += 1
    assert seen == len(moments)


@pytest.mark.parametrize("name", ["hybrid-team-memory", *SACS])
def test_the_moments_of_every_tensor_are_assigned_to_it(name):
    """Read by tensor names, the flat vector holds what ML-Agents wrote (for SAC, by three optimizers)."""
    algorithm, _ = begun(name)
    state = checkpoint(name)
    algorithm.optimizer.flat.vector.data.copy_(algorithm.optimizer.adam.mean)
    policy = {"Policy": policy_tensors(algorithm.network)}
    if name not in SACS:
        critic = {"Optimizer:critic": team_critic_tensors(algorithm.critic)}
        assert_moments(state, "adam", policy | critic)
        return
    networks = algorithm.networks
    q, value = twin_tensors(networks.q), state_value_tensors(networks.value)
    assert_moments(state, "policy_optimizer", policy)
    assert_moments(state, "value_optimizer", {"Optimizer:q_network": q, "Optimizer:value_network": value})
    temperatures = networks.temperatures
    both = [temperatures.log_discrete.detach(), temperatures.log_continuous.detach()[None]]
    for number, moment in state["Optimizer:entropy_optimizer"]["state"].items():
        torch.testing.assert_close(both[number], moment["exp_avg"])


@pytest.mark.parametrize("name", SACS)
def test_entropy_coefficients_of_sac_start_as_the_settings_say(name):
    """They are in no checkpoint of ML-Agents (pitfall C7)."""
    algorithm, _ = begun(name, hyperparameters={"init_entcoef": 0.25})
    alpha = algorithm.networks.temperatures.alpha
    assert alpha.continuous.item() == pytest.approx(0.25)
    assert alpha.discrete.tolist() == pytest.approx([0.25] * len(case_of(name)["branches"]))


def test_a_target_that_does_not_fit_is_the_value_s():
    state = checkpoint("ball3d-sac")
    del state["Optimizer:target_network"]
    algorithm, told = begun("ball3d-sac", state)
    assert told == [] and torch.equal(algorithm._target_weights, algorithm._value_weights)


def test_critics_of_sac_that_do_not_fit_are_named_one_by_one():
    algorithm, told = begun("hybrid-sac", reward_signals={"extrinsic": {}})
    assert [clause.partition(" ")[0] for clause in told] == ["q_network"] * 4 + ["value_network"] * 2
    theirs = checkpoint("hybrid-sac")
    head = theirs["Optimizer:q_network"]["q2_network.value_heads.value_heads.extrinsic.bias"]
    assert torch.equal(algorithm.networks.q.head.bias[1, 0], head)
    assert algorithm.optimizer.adam.steps == 0


def test_a_sac_run_takes_the_discrete_policy_of_ppo():
    _, told = begun("basic-sac", checkpoint("basic-sac") | {"Optimizer:value_optimizer": {}})
    assert len(told) == 1 and told[0].startswith("Optimizer (")


# What does not fit ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "network, says",
    [
        ({"hidden_units": 16}, "seq_layers.0.weight is [8, 8] in the file, [16, 8] here"),
        ({"num_layers": 1}, "seq_layers.2.weight is [8, 8] in the file, this network has no such part"),
        ({"num_layers": 3}, "seq_layers.4.weight is not in the file, here [8, 8]"),
        ({"normalize": False}, "normalizer.running_mean is [8] in the file, this network has no such part"),
        ({"memory": {"memory_size": 8}}, "network_body.lstm.lstm.weight_ih_l0 is not in the file"),
        (
            {"memory": {"memory_size": 8, "memory_type": "gru"}},
            "network_body.lstm.gru.weight_ih_l0 is not in the file",
        ),
    ],
)
def test_another_policy_is_refused_layer_by_layer(network, says):
    case = case_of("ball3d")
    with pytest.raises(CheckpointError) as error:
        begun("ball3d", network_settings=case["network_settings"] | network)
    assert says in str(error.value)
    assert "hidden_units 8, num_layers 2, 8 inputs, normalize true, no memory" in str(error.value)


def test_a_refusal_leaves_the_network_unchanged():
    algorithm = algorithm_of(case_of("ball3d"), network_settings={"hidden_units": 16})
    before = copy.deepcopy(algorithm.network.state_dict())
    with pytest.raises(CheckpointError):
        algorithm.initialize_from(checkpoint("ball3d"))
    assert not differences(before, algorithm.network.state_dict())


@pytest.mark.parametrize(
    "name, case, keys, says",
    [
        ("hybrid", {"branches": [3, 4]}, {}, r"branches.1.weight is \[2, 8\] in the file, \[4, 8\] here"),
        (
            "basic-shared",
            {},
            {"hyperparameters": {"shared_critic": False}},
            r"shared_critic true.*value_heads",
        ),
        ("basic-shared", {"shared_critic": False}, {"trainer_type": "coma"}, "ppo, poca or sac"),
    ],
    ids=["other actions", "a shared critic", "coma, which ML-Agents lacks"],
)
def test_runs_that_cannot_use_a_checkpoint_refuse_it(name, case, keys, says):
    algorithm = algorithm_of(case_of(name) | case, **keys)
    with pytest.raises(CheckpointError, match=says):
        algorithm.initialize_from(checkpoint(name))


def test_a_policy_is_taken_from_another_trainer_and_the_dropped_critic_is_named():
    case = case_of("coop-push")
    algorithm, told = begun("coop-push", trainer_type="ppo")
    assert told == ["critic (in the file it is that of trainer_type poca, here of ppo)"]
    fresh = algorithm_of(case, trainer_type="ppo")
    assert torch.equal(algorithm.network.values.weight, fresh.network.values.weight)
    theirs = checkpoint("coop-push")["Policy"]["network_body._body_endoder.seq_layers.0.weight"]
    assert torch.equal(algorithm.network.body.layers[0].weight[0], theirs.T)
    assert algorithm.optimizer.adam.steps == 0


def test_a_new_reward_signal_starts_from_scratch_and_the_others_continue():
    algorithm, told = begun("hybrid", reward_signals={"rnd": {}, "extrinsic": {}})
    assert [clause for clause in told if "rnd.weight is not in the file" in clause]
    assert [clause for clause in told if "curiosity.weight is [1, 8] in the file" in clause]
    heads = algorithm.network.values
    fresh = algorithm_of(case_of("hybrid"), reward_signals={"rnd": {}, "extrinsic": {}}).network.values
    theirs = checkpoint("hybrid")["Optimizer:critic"]["value_heads.value_heads.extrinsic.weight"]
    assert torch.equal(heads.weight[:, 1], theirs[0])
    assert torch.equal(heads.weight[:, 0], fresh.weight[:, 0])


def test_sac_is_refused_by_name():
    state = checkpoint("ball3d") | {"Optimizer:q_network": {}}
    with pytest.raises(CheckpointError, match="trainer sac"):
        begun("ball3d", state)


@pytest.mark.parametrize("entry", ["Policy", "Optimizer:critic"])
def test_weights_that_are_not_finite_are_refused(entry):
    state = checkpoint("ball3d")
    state[entry]["network_body._body_endoder.seq_layers.0.bias"][3] = float("nan")
    with pytest.raises(CheckpointError, match=r"seq_layers.0.bias holds NaN"):
        begun("ball3d", state)


def test_a_critic_of_other_normalization_is_named():
    state = checkpoint("ball3d")
    for key, tensor in state["Optimizer:critic"].items():
        if key.endswith("running_mean"):
            tensor += 1
    _, told = begun("ball3d", state)
    assert len(told) == 1 and "running_mean is not the policy's" in told[0]


@pytest.mark.parametrize("missing", [True, False], ids=["missing", "of other tensors"])
def test_without_a_matching_optimizer_a_new_one_is_used(missing):
    """A plug-in trainer may write none."""
    state = checkpoint("ball3d")
    state["Optimizer:value_optimizer"]["param_groups"][0]["params"].pop()
    if missing:
        del state["Optimizer:value_optimizer"]
    algorithm, (told,) = begun("ball3d", state)
    assert told.startswith("Optimizer (not in the file)" if missing else "Optimizer (it moves")
    assert algorithm.optimizer.adam.steps == 0
    assert_judges_alike(algorithm, case_of("ball3d"), FOLDER / "ball3d" / "said.npz")
