"""An update whose critic another process learns gives the numbers of one that is made here."""

import copy
import logging

import numpy as np
import pytest
import torch
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.algorithms.ppo.halves import FEWEST_STEPS
from lanista.trainers.algorithms.ppo.ppo import PPO
from lanista.trainers.settings.models.behavior import TrainerSettings
from rollouts import random_rollout
from specs import image_spec, vector_spec

BEHAVIORS = {
    "continuous": vector_spec([5, 3], continuous=3),
    "discrete": vector_spec([7], branches=(3, 2)),
    "mixed": vector_spec([6], continuous=2, branches=(4,)),
}
STEPS, BATCH, EPOCHS = 700, 20, 3


def make(spec, hyper=None, network=None, non_finite=NonFinitePolicy.STOP, of=PPO, **settings) -> PPO:
    config = TrainerSettings.model_validate(
        {
            "trainer_type": "ppo",
            "hyperparameters": {"batch_size": BATCH, "num_epoch": EPOCHS, **(hyper or {})},
            "network_settings": {"hidden_units": 32, "num_layers": 2, "normalize": True, **(network or {})},
            **settings,
        }
    )
    return of(spec, config, torch.device("cpu"), 3, non_finite)


def jobs_of(halved: PPO) -> int:
    """How often its helper was asked."""
    if halved.halves.rounded_alike is False:
        pytest.skip("products of one network have not the bits of two networks' on this processor")
    return halved.helper.jobs


class Twin:
    """In place of the other process: another algorithm in this one, which gets copies."""

    def __init__(self, algorithm: PPO, *, lost: bool = False) -> None:
        self.algorithm, self.lost, self.jobs = algorithm, lost, 0

    def begin(self, job) -> bool:
        self.jobs += 1
        self.outcome = None if self.lost else copy.deepcopy(job).run(self)
        return True

    def result(self):
        return self.outcome

    def abandon(self) -> None:
        self.abandoned = True


def evaluated(algorithm: PPO, seed: int):
    lengths = [STEPS // 7 - 3, STEPS // 7 + 3] * 3 + [STEPS // 7]
    rollout = random_rollout(lengths, seed, algorithm.spec, memory_size=algorithm.network.memory_size)
    random = np.random.default_rng(seed)
    signals = algorithm.signals
    rewards = {name: random.normal(size=STEPS).astype(np.float32) for name in signals}
    return algorithm.evaluate(rollout, rewards, dict.fromkeys(signals, False)).steps


def state_of(algorithm: PPO) -> list[torch.Tensor]:
    adam = algorithm.optimizer.adam
    moments = algorithm.optimizer.flat.vector.detach(), adam.mean, adam.square, torch.tensor(adam.steps)
    return [each.clone() for each in (*moments, algorithm.shuffler.get_state())]


def assert_alike(one: PPO, other: PPO) -> None:
    for own, its in zip(state_of(one), state_of(other), strict=True):
        assert torch.equal(own, its)


@pytest.mark.parametrize("kind", BEHAVIORS)
@pytest.mark.parametrize("layers", [1, 3])
def test_an_update_in_halves_has_the_bits_of_a_whole_one(kind, layers):
    whole, halved, twin = (make(BEHAVIORS[kind], network={"num_layers": layers}) for _ in range(3))
    halved.helper = Twin(twin)
    for seed in range(2):
        metrics = [one.update(evaluated(one, seed), 100) for one in (whole, halved)]
        assert metrics[0] == pytest.approx(metrics[1], rel=1e-6) and metrics[0]["Losses/Value Loss"] > 0
        assert_alike(whole, halved)
    assert jobs_of(halved) == 2 and whole.optimizer.adam.steps == 2 * EPOCHS * (STEPS // BATCH)
    norms = [one.pop_gradient_norm() for one in (whole, halved)]
    assert norms[0] == pytest.approx(norms[1], rel=1e-5)


def test_several_signals_and_normalized_values_are_halved_too():
    signals = {"extrinsic": {}, "rnd": {"network_settings": {"hidden_units": 8, "num_layers": 1}}}
    keys = {"hyper": {"normalize_values": True}, "reward_signals": signals}
    whole, halved, twin = (make(BEHAVIORS["continuous"], **keys) for _ in range(3))
    halved.helper = Twin(twin)
    for one in (whole, halved):
        one.update(evaluated(one, 0), 100)
    assert jobs_of(halved) == 1
    assert_alike(whole, halved)


@pytest.mark.parametrize(("kind", "size"), [("lstm", 32), ("gru", 16)])
def test_a_memory_is_halved_too(kind, size):
    """Sequences of 4 steps, the last ones of trajectories padded: minibatches of 5 of them."""
    memory = {"memory_size": size, "sequence_length": 4, "memory_type": kind}
    whole, halved, twin = (make(BEHAVIORS["mixed"], network={"memory": memory}) for _ in range(3))
    halved.helper = Twin(twin)
    for seed in range(2):
        for one in (whole, halved):
            one.update(evaluated(one, seed), 100)
        assert_alike(whole, halved)
    assert jobs_of(halved) == 2


def test_without_the_other_process_all_is_learned_here():
    whole, halved, twin = (make(BEHAVIORS["mixed"]) for _ in range(3))
    halved.helper = Twin(twin, lost=True)
    metrics = [one.update(evaluated(one, 0), 100) for one in (whole, halved)]
    assert metrics[0] == metrics[1] and jobs_of(halved) == 1
    assert_alike(whole, halved)


@pytest.mark.parametrize("column", ["continuous", "returns"])
def test_a_gradient_that_is_not_finite_stops_the_run_where_a_whole_update_does(column):
    whole, halved, twin = (make(BEHAVIORS["continuous"]) for _ in range(3))
    halved.helper = Twin(twin)
    for one in (whole, halved):
        steps = evaluated(one, 0)
        getattr(steps, column)[30] = np.inf
        with np.errstate(invalid="ignore"), pytest.raises(FloatingPointError, match="at step 100"):
            one.update(steps, 100)
    assert_alike(whole, halved)


def test_such_minibatches_are_left_out_for_both_networks(caplog):
    drop = {"non_finite": NonFinitePolicy.DROP}
    whole, halved, twin = (make(BEHAVIORS["continuous"], **drop) for _ in range(3))
    halved.helper = Twin(twin)
    with caplog.at_level(logging.WARNING):
        for one in (whole, halved):
            steps = evaluated(one, 0)
            steps.returns[30] = np.inf
            one.update(steps, 100)
    assert caplog.text.count("Minibatch left out") == 2
    assert whole.optimizer.adam.steps == EPOCHS * (STEPS // BATCH - 1)
    assert_alike(whole, halved)


def test_a_norm_beyond_float32_is_refused_as_by_a_whole_update():
    whole, halved, twin = (make(BEHAVIORS["continuous"]) for _ in range(3))
    halved.helper = Twin(twin)
    for one in (whole, halved):
        steps = evaluated(one, 0)
        steps.returns[:] = 1e19
        with np.errstate(over="ignore"), pytest.raises(FloatingPointError):
            one.update(steps, 100)
    assert_alike(whole, halved)


@pytest.mark.parametrize(
    ("spec", "keys"),
    [
        (BEHAVIORS["continuous"], {"hyper": {"shared_critic": True}}),
        (BEHAVIORS["continuous"], {"hyper": {"max_grad_norm": 0.5}}),
        (BEHAVIORS["continuous"], {"hyper": {"clip_value_loss": True}}),
        (BEHAVIORS["continuous"], {"network": {"hidden_units": 48}}),
        (image_spec(3, 20, 20), {}),
    ],
    ids=["shared critic", "clipped gradient", "clipped values", "48 units", "picture"],
)
def test_what_cannot_be_halved_is_not(spec, keys):
    if spec not in BEHAVIORS.values():
        spec = vector_spec([2], continuous=1)._replace(observation_specs=[spec])
    assert not make(spec, **keys).can_be_halved


def test_an_error_in_the_midst_leaves_the_weights_of_before(monkeypatch):
    """They are saved when the run ends of it."""
    halved, twin = (make(BEHAVIORS["continuous"]) for _ in range(2))
    halved.helper, steps = Twin(twin), evaluated(halved, 0)
    halved.halves.rounded_alike = True
    before, real, left = state_of(halved), halved.halves.actor, [20]

    def fail_later(*arguments):
        left[0] -= 1
        if not left[0]:
            raise MemoryError
        return real(*arguments)

    monkeypatch.setattr(halved.halves, "actor", fail_later)
    with pytest.raises(MemoryError):
        halved.update(steps, 100)
    assert all(map(torch.equal, before, state_of(halved))) and halved.helper.abandoned


def test_another_objective_of_a_plug_in_is_not_halved():
    class Own(PPO):
        def _evaluate_actions(self, batch):
            return super()._evaluate_actions(batch)

    spec = BEHAVIORS["continuous"]
    assert make(spec).can_be_halved and not make(spec, of=Own).can_be_halved


def test_where_products_round_otherwise_nobody_is_asked(monkeypatch):
    halved, twin = (make(BEHAVIORS["continuous"]) for _ in range(2))
    halved.helper = Twin(twin)
    monkeypatch.setattr(halved.halves, "critic", lambda batch, epsilon, beta: None)
    assert halved.update(evaluated(halved, 0), 100)["Losses/Value Loss"] > 0
    assert not halved.helper.jobs and halved.halves.rounded_alike is False


def test_a_short_update_asks_nobody():
    halved, twin = (make(BEHAVIORS["continuous"], {"batch_size": 100}) for _ in range(2))
    halved.helper = Twin(twin)
    assert EPOCHS * (STEPS // 100) < FEWEST_STEPS
    halved.update(evaluated(halved, 0), 100)
    assert not halved.helper.jobs and halved.optimizer.adam.steps == EPOCHS * (STEPS // 100)
