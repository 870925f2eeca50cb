"""The weight of the entropy: learned towards a target, or held."""

import pytest
import replaybatches
import torch
from lanista.trainers.algorithms.sac.sac import SAC
from lanista.trainers.algorithms.sac.simba import SimbaSAC
from sacbatches import ACTIONS, NETWORK, SIGNALS, some_batch, spec_of

RECIPES = {"mlagents": SAC, "simba": SimbaSAC}
COEFFICIENTS = ("Policy/Continuous Entropy Coeff", "Policy/Discrete Entropy Coeff")


def made(recipe, actions="hybrid", network=None, **hyper):
    spec = spec_of(ACTIONS[actions])
    network = {"hidden_units": 16, "num_layers": 2} if network is None else network
    keys = {"recipe": recipe, "learning_rate": 0.01, "init_entcoef": 0.3, **hyper}
    return replaybatches.algorithm(RECIPES[recipe], spec, "sac", keys, network, SIGNALS, seed=5)


def policy_of(algorithm):
    return torch.cat([p.detach().flatten() for p in algorithm.network.parameters()])


def updated(algorithm, seeds):
    for seed in seeds:
        metrics = algorithm.update(some_batch(algorithm.spec, 12, seed=seed), 0).metrics
    return metrics


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("actions", ["continuous", "branches", "hybrid"])
def test_a_held_coefficient_stays_and_is_learned_with(recipe, actions):
    held = made(recipe, actions, entropy_coefficient=0.3)
    learned = made(recipe, actions)
    found, moved = updated(held, [0]), updated(learned, [0])
    assert torch.equal(policy_of(held), policy_of(learned)), "the first update has one coefficient"
    kinds = [name for name, a in zip(COEFFICIENTS, ("branches", "continuous")) if actions != a]
    assert [found[name] for name in kinds] == pytest.approx([0.3] * len(kinds))
    assert all(moved[name] != pytest.approx(0.3) for name in kinds)
    found = updated(held, range(1, 6))
    assert [found[name] for name in kinds] == pytest.approx([0.3] * len(kinds))
    updated(learned, range(1, 6))
    assert not torch.equal(policy_of(held), policy_of(learned))


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_run_that_has_learned_it_goes_on_with_the_held_one(recipe):
    learned = made(recipe)
    updated(learned, range(4))
    held = made(recipe, entropy_coefficient=2.0)
    held.load_state_dict(learned.state_dict())
    reference = made(recipe)
    reference.load_state_dict(learned.state_dict())
    temperatures = reference.modules()["Temperatures"]
    temperatures.hold(2.0)
    assert updated(held, [9])[COEFFICIENTS[0]] == pytest.approx(2.0)
    updated(reference, [9])
    assert torch.equal(policy_of(held), policy_of(reference))


@pytest.mark.parametrize("recipe, usual", [("mlagents", -2.0), ("simba", -1.0)])
def test_the_coefficient_grows_while_the_entropy_is_below_its_target(recipe, usual):
    found = {}
    for target in (-50.0, usual, None, 50.0):
        figures = updated(made(recipe, "continuous", target_entropy=target), range(3))
        found[target] = figures[COEFFICIENTS[0]]
    assert found[-50.0] < 0.3 < found[50.0]
    assert found[None] == found[usual]


@pytest.mark.parametrize("network", [NETWORK, NETWORK | {"activation": "relu"}], ids=["by hand", "autograd"])
def test_both_gradients_hold_it(network):
    figures = updated(made("mlagents", network=network, entropy_coefficient=0.05), range(3))
    assert [figures[name] for name in COEFFICIENTS] == pytest.approx([0.05, 0.05])


@pytest.mark.parametrize("network", [NETWORK, NETWORK | {"activation": "relu"}], ids=["by hand", "autograd"])
def test_a_held_coefficient_counts_in_no_norm(network):
    found = []
    for target in (None, -1000.0):
        keys = {"entropy_coefficient": 0.3, "max_grad_norm": 0.5, "target_entropy": target}
        algorithm = made("mlagents", network=network, **keys)
        updated(algorithm, range(3))
        found.append((algorithm.pop_gradient_norm(), policy_of(algorithm)))
    (norm, policy), (other_norm, other) = found
    assert norm == other_norm and torch.equal(policy, other), "target_entropy has no effect"
