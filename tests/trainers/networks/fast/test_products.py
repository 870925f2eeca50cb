"""Large float32 products go to another library only where that is as exact, and only during updates."""

import threading
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.algorithms.coma.coma import COMA
from lanista.trainers.algorithms.common.optim import CheckedAdam
from lanista.trainers.algorithms.poca.poca import POCA
from lanista.trainers.algorithms.ppo.ppo import PPO
from lanista.trainers.networks.fast import onednn as products
from lanista.trainers.networks.fast.onednn import (
    LARGEST_ERROR,
    MIN_PRODUCTS,
    keeps_float32,
    large_products,
    torch_products,
    uses_onednn,
)
from lanista.trainers.settings.models.behavior import TrainerSettings
from lanista.trainers.trainer.on_policy import OnPolicyTrainer
from mlagents_envs.base_env import ActionSpec, BehaviorSpec
from rollouts import random_rollout, team_rollout
from specs import image_spec, sensor, vector_spec
from trainer_surroundings import Events, Record

CPU, SPEC, TEAM = torch.device("cpu"), vector_spec([3], continuous=1), vector_spec([3], branches=(2,))


@pytest.fixture(autouse=True)
def _asked_anew():
    keeps_float32.cache_clear()
    yield
    keeps_float32.cache_clear()


def setting():
    """What torch multiplies float32 matrices by; None of a torch that does not say."""
    return getattr(getattr(torch.backends.mkldnn, "matmul", None), "fp32_precision", None)


def trainer(make, spec=SPEC, in_thread=False, **keys):
    config = {"trainer_type": make.name.lower(), **keys}
    config["hyperparameters"] = {
        "batch_size": keys.pop("rows", MIN_PRODUCTS),
        "buffer_size": 600,
        "num_epoch": 2,
    }
    config.pop("rows", None)
    settings = TrainerSettings.model_validate(config)
    algorithm = make(spec, settings, CPU, 0, NonFinitePolicy.STOP)
    return OnPolicyTrainer(settings, algorithm, {}, Record(), Events(), in_thread=in_thread)


def learned(found):
    """The weights after an update, and torch's setting during it."""
    steps = random_rollout([600, 600], 1, SPEC)
    rewards = {"extrinsic": np.sin(np.arange(1200)).astype(np.float32)}
    found.buffer.append(found.algorithm.evaluate(steps, rewards, {"extrinsic": False}).steps)
    update, during = found.algorithm.update, []
    found.algorithm.update = lambda *given: (during.append(setting()), update(*given))[1]
    assert found._learn()
    assert setting() == found.before
    return found.algorithm.optimizer.flat.vector.detach().clone(), during[0]


@pytest.mark.parametrize("number, device", [(MIN_PRODUCTS - 1, "cpu"), (None, "cpu"), (MIN_PRODUCTS, "cuda")])
def test_small_minibatches_and_other_devices_keep_torch_s_default(number, device):
    before = setting()
    with large_products(number, torch.device(device)):
        assert setting() == before


def test_products_are_as_exact_as_float32_wherever_they_are_replaced():
    before, replaced = setting(), keeps_float32()
    with large_products(MIN_PRODUCTS, CPU):
        assert (setting() != before) == replaced
        assert products.product_error() <= LARGEST_ERROR
    assert setting() == before


@pytest.mark.slow
def test_a_library_that_rounds_to_bfloat16_is_refused():
    with torch.autocast("cpu", torch.bfloat16):
        assert products.product_error() > LARGEST_ERROR
        assert not keeps_float32()


def test_a_torch_without_the_setting_goes_without(monkeypatch):
    monkeypatch.setattr(torch.backends, "mkldnn", SimpleNamespace(is_available=lambda: True))
    assert not keeps_float32()
    with large_products(MIN_PRODUCTS, CPU):
        assert products.product_error() <= LARGEST_ERROR


def test_updates_learn_the_same_up_to_rounding_and_the_same_bits_again():
    keeps_float32()
    plain, replaced = [], []
    for weights, replace in ((plain, False), (replaced, True), (replaced, True)):
        one = trainer(PPO)
        one.before = setting()
        if not replace:
            one.dense_products = None
        found, during = learned(one)
        assert (during != one.before) == (replace and keeps_float32())
        weights.append(found)
    assert torch.equal(*replaced)
    assert (plain[0] - replaced[0]).norm() / plain[0].norm() < 1e-5


@pytest.mark.parametrize(
    "make, keys",
    [
        (PPO, {"rows": 64}),
        (PPO, {"in_thread": True}),
        (PPO, {"network_settings": {"memory": {"memory_size": 8, "sequence_length": 8}}}),
        (COMA, {"spec": TEAM}),
        (
            POCA,
            {"spec": BehaviorSpec([sensor((4, 5), "near")], ActionSpec(0, (2,))), "rows": MIN_PRODUCTS // 64},
        ),
    ],
)
def test_small_or_varying_products_and_threads_that_learn_do_not_change_it(make, keys):
    with trainer(make, **keys).compute_context():
        assert not uses_onednn()


@pytest.mark.parametrize(
    "make, spec",
    [(POCA, TEAM), (PPO, image_spec(3, 20, 20)), (PPO, sensor((4, 5), "near"))],
)
def test_teams_images_and_entities_use_it_too(make, spec):
    spec = spec if spec is TEAM else BehaviorSpec([spec], ActionSpec(0, (2,)))
    with trainer(make, spec=spec, rows=MIN_PRODUCTS // 64).compute_context():
        assert uses_onednn() == keeps_float32()


def test_attention_over_very_many_entities_is_left_to_torch():
    spec = BehaviorSpec([sensor((2000, 5), "near")], ActionSpec(0, (2,)))
    with trainer(PPO, spec=spec).compute_context():
        assert not uses_onednn()


def test_norms_of_gradients_are_those_of_torch_s_library():
    """One that multiplies a vector with itself much faster; with other bits than oneDNN's."""
    norms = []
    for number in (None, MIN_PRODUCTS):
        weights = torch.nn.Parameter(torch.zeros(100_003))
        optimizer = CheckedAdam([weights], 0.1, NonFinitePolicy.STOP)
        optimizer.flat.gradient.copy_(torch.randn(100_003, generator=torch.Generator().manual_seed(1)))
        with large_products(number, CPU):
            optimizer.step(0.1, 0)
            assert uses_onednn() == (number is not None and keeps_float32())
        norms.append(optimizer.pop_mean_norm())
    assert norms[0] == norms[1]


def test_an_error_leaves_everything_as_it_was():
    before = setting()
    with pytest.raises(ZeroDivisionError), large_products(MIN_PRODUCTS, CPU), torch_products():
        raise ZeroDivisionError
    assert setting() == before
    assert not uses_onednn()


def test_a_thread_beside_it_neither_counts_as_inside_nor_changes_the_setting():
    seen = []

    def beside():
        with torch_products():
            seen.append((setting(), uses_onednn()))

    with large_products(MIN_PRODUCTS, CPU):
        inside = setting()
        thread = threading.Thread(target=beside)
        thread.start()
        thread.join()
        assert setting() == inside
    assert seen == [(inside, False)]


def test_a_library_that_is_never_used_is_not_kept(monkeypatch):
    """Torch ignores the setting on processors without bfloat16: then nothing needs few shapes."""
    monkeypatch.setattr(products, "onednn_products", nullcontext)
    assert not keeps_float32()


def test_teams_are_valued_with_it():
    spec = vector_spec([3], 1, (2,))
    one, used = trainer(POCA, spec=spec), []
    evaluate = one.algorithm.evaluate

    def watched(rollout, rewards, _):
        used.append(uses_onednn())
        return evaluate(rollout, rewards, {"extrinsic": False})

    one.algorithm.evaluate = watched
    rollout = team_rollout(np.random.default_rng(1), [3, 2], 4)
    one._store(rollout, {"extrinsic": np.zeros(rollout.steps, np.float32)})
    assert used == [keeps_float32()]


def test_beside_a_learner_process_a_run_uses_it_too():
    with trainer(PPO, threaded=True).compute_context():
        assert uses_onednn() == keeps_float32()
