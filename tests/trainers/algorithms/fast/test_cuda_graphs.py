"""On a GPU gradient steps are replays of a graph, and learn what single kernels, or a CPU, learn."""

from operator import methodcaller
from typing import NamedTuple

import numpy as np
import pytest
import replaybatches
import sacbatches
import torch
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.algorithms.dqn import DQN
from lanista.trainers.algorithms.fast.cuda_graphs import map_tensors, tensors_of
from lanista.trainers.algorithms.ppo.ppo import PPO
from lanista.trainers.buffers.rollout_buffer import EvaluatedSteps, RolloutBatch
from lanista.trainers.networks.observations import to_tensors
from lanista.trainers.settings.models.behavior import TrainerSettings
from specs import spec_of_shapes

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU that torch can use")
STEPS, BATCH = 70, 16
SPECS = {
    "vectors": spec_of_shapes(((5,), (3,)), (), 2),
    "hybrid": spec_of_shapes(((5,),), (), 2, (3, 2)),
    "image and goal": spec_of_shapes(((3, 36, 36), (2,)), (False, True), 0, (4,)),
    "entities": spec_of_shapes(((4,), (6, 5)), (), 0, (3, 3)),
}


SHAPES = {"vectors": ((5,), (3,)), "image": ((3, 36, 36), (3,)), "goal": ((5,), (3,))}
GOALS = {"goal": (False, True)}
OFF_POLICY = [("sac", actions) for actions in sacbatches.ACTIONS] + [("dqn", "branches")]


class Pair(NamedTuple):
    first: torch.Tensor
    rest: dict


def test_the_tensors_of_a_batch_are_found_and_replaced_wherever_they_are():
    one, two = torch.ones(2), torch.zeros(3)
    batch = ([one, None], Pair(two, {"a": one}), 4)
    assert [id(t) for t in tensors_of(batch)] == [id(one), id(two), id(one)]
    doubled = map_tensors(batch, lambda tensor: 2 * tensor)
    assert doubled[0][1] is None and doubled[2] == 4
    assert torch.equal(doubled[1].rest["a"], 2 * one) and isinstance(doubled[1], Pair)


def algorithm(name, device="cuda", non_finite=NonFinitePolicy.STOP, **hyper):
    settings = TrainerSettings.model_validate(
        {
            "trainer_type": "ppo",
            "hyperparameters": {
                **{"batch_size": BATCH, "buffer_size": 60, "num_epoch": 2, "max_grad_norm": 0.5},
                **hyper,
            },
            "network_settings": {"hidden_units": 16, "num_layers": 2},
            "max_steps": 1000,
        }
    )
    return PPO(SPECS[name], settings, torch.device(device), 5, non_finite)


def some_steps(name, seed=0):
    spec, random = SPECS[name], np.random.default_rng(seed)

    def normal(*shape):
        return random.normal(size=(STEPS, *shape)).astype(np.float32)

    branches, width = spec.action_spec.discrete_branches, spec.action_spec.continuous_size
    chosen = [random.integers(size, size=STEPS) for size in branches]
    return EvaluatedSteps(
        obs=[normal(*sensor.shape) for sensor in spec.observation_specs],
        continuous=normal(width),
        discrete=np.stack(chosen, 1).astype(np.int32) if branches else np.zeros((STEPS, 0), np.int32),
        log_probs=normal(width + len(branches)) - 1.0,
        action_mask=None,
        values=normal(1),
        returns=normal(1),
        advantages=normal(1)[:, 0],
    )


def off_policy_spec(actions, shapes):
    spec = sacbatches.ACTIONS[actions]
    return spec_of_shapes(SHAPES[shapes], GOALS.get(shapes, ()), spec.continuous_size, spec.discrete_branches)


def off_policy(kind, spec, device):
    if kind == "sac":
        return sacbatches.algorithm(spec, device=device, learning_rate=0.001)
    hyper, signals = {"learning_rate": 0.001}, sacbatches.SIGNALS
    return replaybatches.algorithm(DQN, spec, kind, hyper, signals=signals, device=device)


def weights(algorithm):
    return algorithm.policy_optimizer.flat.vector.detach().cpu()


@pytest.fixture
def without_data(monkeypatch):
    """On the device `meta` whatever depends on data raises, as it does while a graph is captured."""
    monkeypatch.setattr(torch, "_fused_adam_", lambda *args, **kwargs: None)  # it has no kernel there


@pytest.mark.slow
@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("values", [{}, {"clip_value_loss": True}, {"normalize_values": True}])
def test_a_step_of_ppo_waits_for_no_data(name, values, without_data):
    ppo, steps = algorithm(name, "meta", **values), some_steps(name)
    with torch.no_grad():
        inputs = ppo.network.encoder.prepare(to_tensors(steps.obs, ppo.device))
    batch = RolloutBatch.of(steps, inputs, ppo.device)
    assert ppo._step_on_device(batch, torch.zeros(3, device="meta")).shape == (4,)


@pytest.mark.parametrize(("kind", "actions"), OFF_POLICY)
@pytest.mark.parametrize("shapes", SHAPES)
def test_a_step_of_sac_or_dqn_waits_for_no_data(kind, actions, shapes, without_data):
    spec = off_policy_spec(actions, shapes)
    batch = sacbatches.some_batch(spec, 24, masked=True, weighted=True)
    given = map_tensors(batch, methodcaller("to", "meta"))
    noise = torch.zeros(24, spec.action_spec.continuous_size, device="meta")
    made = off_policy(kind, spec, "meta")
    found = made._step_on_device((given, noise) if kind == "sac" else given, torch.zeros(1, device="meta"))
    assert found.shape == (24 + (4 if kind == "sac" else 1),)


@needs_gpu
@pytest.mark.parametrize("name", SPECS)
def test_replayed_steps_are_those_of_single_kernels_and_of_a_cpu(name):
    replayed, single, cpu = algorithm(name), algorithm(name), algorithm(name, "cpu")
    assert replayed.captured is not None and cpu.captured is None
    single.captured = None
    found = []
    for each in (replayed, single, cpu):
        metrics = [each.update(some_steps(name, seed), 100 * seed) for seed in range(3)][-1]
        found.append(metrics | each.pop_gradient_norm())
    torch.testing.assert_close(weights(replayed), weights(single), rtol=1e-4, atol=1e-5)
    # Where a gradient is nearly zero, Adam moves a weight by its sign, which rounding decides.
    assert (weights(replayed) - weights(cpu)).abs().mean() < 2e-5
    for key, value in found[0].items():
        assert value == pytest.approx(found[1][key], rel=1e-3, abs=1e-5), key
        assert value == pytest.approx(found[2][key], rel=2e-2, abs=1e-3), key


@needs_gpu
@pytest.mark.parametrize("name", SPECS)
def test_a_restored_algorithm_continues_bit_for_bit(name):
    whole = algorithm(name)
    whole.update(some_steps(name, 0), 0)
    saved = map_tensors(whole.state_dict(), torch.clone)
    whole.update(some_steps(name, 1), 100)
    resumed = algorithm(name)
    resumed.load_state_dict(saved)
    resumed.update(some_steps(name, 1), 100)
    assert torch.equal(weights(whole), weights(resumed))


@needs_gpu
def test_a_gradient_that_is_not_finite_stops_with_the_weights_from_before_it():
    ppo, steps = algorithm("vectors"), some_steps("vectors")
    steps.returns[:] = np.inf
    before = weights(ppo)
    with pytest.raises(FloatingPointError, match="at step 250 is not a finite number"):
        ppo.update(steps, 250)
    assert torch.equal(weights(ppo), before) and ppo.optimizer.adam.steps == 0


@needs_gpu
def test_minibatches_that_are_not_finite_are_left_out():
    ppo, steps = algorithm("vectors", non_finite=NonFinitePolicy.DROP, num_epoch=2), some_steps("vectors")
    steps.returns[3] = np.inf
    order = torch.Generator()
    order.set_state(ppo.shuffler.get_state())
    learned = [torch.randperm(STEPS, generator=order)[: STEPS // BATCH * BATCH] for _ in range(2)]
    ppo.update(steps, 250)
    assert ppo.optimizer.adam.steps == 2 * (STEPS // BATCH) - sum(3 in rows for rows in learned)
    assert torch.isfinite(weights(ppo)).all()


@needs_gpu
@pytest.mark.parametrize(("kind", "actions"), OFF_POLICY)
@pytest.mark.parametrize("shapes", SHAPES)
def test_batches_are_learned_from_alike_by_replays_by_single_kernels_and_on_a_cpu(kind, actions, shapes):
    spec = off_policy_spec(actions, shapes)
    found = []
    for device, captured in (("cuda", True), ("cuda", False), ("cpu", False)):
        algorithm = off_policy(kind, spec, device)
        assert (algorithm.captured is not None) == (device == "cuda")
        if not captured:
            algorithm.captured = None
        for seed in range(4):
            batch = sacbatches.some_batch(spec, 24, seed=seed, masked=seed == 2, weighted=True)
            result = algorithm.update(map_tensors(batch, methodcaller("to", device)), 100)
        assert result.td_errors is not None
        found.append((weights(algorithm), result.td_errors.cpu(), result.metrics))
    for others, tolerance in ((found[1], 1e-4), (found[2], 1e-2)):
        torch.testing.assert_close(found[0][:2], others[:2], rtol=tolerance, atol=tolerance)
        assert found[0][2] == pytest.approx(others[2], rel=10 * tolerance, abs=tolerance, nan_ok=True)
