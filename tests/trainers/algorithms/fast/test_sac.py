"""The fused gradient is the gradient of the losses, whatever the actions and the networks."""

import numpy as np
import pytest
import torch
from lanista.trainers.algorithms.fast.dense import NUMPY, TORCH
from lanista.trainers.algorithms.fast.sac import FusedSACGradient
from sacbatches import ACTIONS, algorithm, some_batch, spec_of


def shaken(sac):
    """With weights everywhere that are not those of a beginning, so that every term counts."""
    with torch.no_grad():
        sac.optimizer.flat.vector.add_(0.2 * torch.randn_like(sac.optimizer.flat.vector))
        sac._target_weights.add_(0.2 * torch.randn_like(sac._target_weights))
    return sac


@pytest.mark.parametrize("kind", ACTIONS)
@pytest.mark.parametrize("widths", [[16], [16, 16, 16], [12, 20]], ids=str)
@pytest.mark.parametrize("signals", [("extrinsic",), ("extrinsic", "rnd")])
@pytest.mark.parametrize("masked_and_weighted", [False, True])
@pytest.mark.parametrize("backend", [NUMPY, TORCH], ids=["numpy", "torch"])
def test_it_equals_automatic_differentiation(kind, widths, signals, masked_and_weighted, backend):
    torch.manual_seed(1)
    spec = spec_of(ACTIONS[kind])
    rows = 24
    batch = some_batch(
        spec, rows, signals=len(signals), masked=masked_and_weighted, weighted=masked_and_weighted
    )
    if batch.action_mask is not None:
        batch.action_mask[:3] = True  # nothing is left to choose
    network = {"hidden_units": widths}
    sac = shaken(algorithm(spec, network=network, signals=signals, init_entcoef=0.3))
    assert sac.fused.backend is NUMPY
    if backend is TORCH:
        sac.fused.backend = TORCH
        for name in ("log_alpha", "d_log_alpha", "target_entropies"):
            setattr(sac.fused, name, [torch.from_numpy(np.asarray(x)) for x in getattr(sac.fused, name)])
        sac.fused.members = torch.from_numpy(sac.fused.members)
    autograd = algorithm(spec, network=network, signals=signals, init_entcoef=0.3)
    autograd.load_state_dict(sac.state_dict())
    autograd.fused = None
    sac.optimizer.flat.gradient.fill_(7.0)  # what lies there from before must not count
    for alpha in sac.networks.temperatures.parameters():
        alpha.grad.zero_()  # a kind of actions that there is none of has no gradient
    expected, found = autograd.update(batch, 0), sac.update(batch, 0)
    for name, loss in expected.metrics.items():
        assert found.metrics[name] == pytest.approx(loss, rel=1e-4, abs=1e-6, nan_ok=True), name
    torch.testing.assert_close(found.td_errors, expected.td_errors)
    gradients = [one.optimizer.flat.gradient for one in (sac, autograd)]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("network", "quick"),
    [
        ({}, True),
        ({"layer_norm": True}, False),
        ({"activation": "relu"}, False),
        ({"memory": {"memory_size": 8, "sequence_length": 4}}, False),
        ({"critic": {"hidden_units": 24}}, False),
        ({"critic": {"num_layers": 3}}, False),
        ({"critic": {"activation": "tanh"}}, False),
        ({"critic": {"hidden_units": 16}}, True),
        ({"hidden_units": [12, 20]}, True),
        ({"hidden_units": [12, 20], "critic": {"hidden_units": [20, 12]}}, False),
    ],
)
def test_it_is_taken_where_it_fits(network, quick):
    sac = algorithm(spec_of(ACTIONS["continuous"]), network=network)
    assert FusedSACGradient.is_faster(sac.networks, sac.precision) is quick
    assert isinstance(sac.fused, FusedSACGradient) is quick
