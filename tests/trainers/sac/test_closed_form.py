"""The closed form is the gradient of the losses, whatever the actions and the networks."""

import numpy as np
import pytest
import torch
from lanista.trainers.algorithms.sac.fused import DenseGradient, fits
from lanista.trainers.algorithms.sac.update import DerivedGradient
from sacbatches import ACTIONS, algorithm, some_batch, spec_of


def shaken(sac):
    """With weights everywhere that are not those of a beginning, so that every term counts."""
    with torch.no_grad():
        sac.optimizer.flat.vector.add_(0.2 * torch.randn_like(sac.optimizer.flat.vector))
        sac._of_target.add_(0.2 * torch.randn_like(sac._of_target))
    return sac


@pytest.mark.parametrize("kind", ACTIONS)
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("signals", [("extrinsic",), ("extrinsic", "rnd")])
@pytest.mark.parametrize("masked_and_weighted", [False, True])
@pytest.mark.parametrize("xp", [np, torch], ids=["numpy", "torch"])
def test_it_is_what_automatic_differentiation_gives(kind, layers, signals, masked_and_weighted, xp):
    torch.manual_seed(1)
    spec = spec_of(ACTIONS[kind])
    sac = shaken(algorithm(spec, network={"num_layers": layers}, signals=signals, init_entcoef=0.3))
    rows, flat = 24, sac.optimizer.flat
    batch = some_batch(
        spec, rows, signals=len(signals), masked=masked_and_weighted, weighted=masked_and_weighted
    )
    if batch.action_mask is not None:
        batch.action_mask[:3] = True  # nothing is left to choose
    noise = torch.randn(rows, spec.action_spec.continuous_size)
    flat.zero_grad()
    expected = DerivedGradient(sac.networks, None, 1, sac.precision, sac.device)(batch, noise)
    gradient = flat.gradient.clone()
    flat.gradient.fill_(7.0)  # what lies there from before must not count
    alphas = list(sac.networks.temperatures.parameters())
    for alpha in alphas:
        alpha.grad.zero_()  # a kind of actions that there is none of has no gradient
    dense = sac.gradient
    assert isinstance(dense, DenseGradient) and dense.xp is np
    if xp is torch:
        dense.xp = torch
        for name in ("log_alpha", "d_log_alpha", "entropies"):
            setattr(dense, name, [torch.from_numpy(np.asarray(x)) for x in getattr(dense, name)])
        dense.members = torch.from_numpy(dense.members)
    found = dense(batch, noise)
    for name, loss in expected._asdict().items():
        torch.testing.assert_close(torch.as_tensor(getattr(found, name)), loss, msg=name)
    torch.testing.assert_close(flat.gradient, gradient, rtol=1e-4, atol=1e-6)


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
    ],
)
def test_it_is_taken_where_it_fits(network, quick):
    sac = algorithm(spec_of(ACTIONS["continuous"]), network=network)
    assert fits(sac.networks) is quick
    assert isinstance(sac.gradient, DenseGradient) is quick
