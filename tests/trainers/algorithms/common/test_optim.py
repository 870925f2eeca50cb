"""Parameters in one vector behave as parameters do, and Adam on it is torch's Adam."""

import pytest
import torch
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.algorithms.common.optim import CheckedAdam, FlatAdam, FlatParameters
from torch import nn


def network(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 2))


def test_adam_on_the_vector_moves_every_weight_as_torch_adam_does():
    ours, theirs = network(3), network(3)
    flat = FlatParameters(ours.parameters())
    adam, reference = FlatAdam(flat, 0.01), torch.optim.Adam(theirs.parameters(), lr=0.01)
    for step in range(30):
        x = torch.randn(11, 5, generator=torch.Generator().manual_seed(step))
        flat.zero_grad()
        ours(x).square().sum().backward()
        adam.step()
        reference.zero_grad()
        theirs(x).square().sum().backward()
        reference.step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_a_restored_optimizer_continues_bit_for_bit():
    def run(steps, resume_at=None):
        net = network(1)
        adam = FlatAdam(FlatParameters(net.parameters()), 0.01)
        for step in range(steps):
            if step == resume_at:
                saved = {k: v.clone() if torch.is_tensor(v) else v for k, v in adam.state_dict().items()}
                weights = [p.detach().clone() for p in net.parameters()]
                net = network(2)
                with torch.no_grad():
                    for p, w in zip(net.parameters(), weights, strict=True):
                        p.copy_(w)
                adam = FlatAdam(FlatParameters(net.parameters()), 0.01)
                adam.load_state_dict(saved)
            adam.parameters.zero_grad()
            net(torch.ones(3, 5) * step).sum().backward()
            adam.step()
        return adam.parameters.vector

    assert torch.equal(run(8), run(8, resume_at=4))


def test_loading_weights_into_the_module_reaches_the_vector():
    net, other = network(1), network(2)
    flat = FlatParameters(net.parameters())
    net.load_state_dict(other.state_dict())
    assert torch.equal(flat.vector, torch.cat([p.reshape(-1) for p in other.parameters()]))


@pytest.mark.parametrize(("max_norm", "kept"), [(None, 1.0), (20.0, 1.0), (5.0, 0.5)])
def test_a_gradient_beyond_the_greatest_norm_is_scaled_down_to_it(max_norm, kept):
    optimizer = CheckedAdam(network(1).parameters(), 0.01, NonFinitePolicy.STOP)
    optimizer.max_norm = max_norm
    gradient = torch.zeros_like(optimizer.flat.gradient)
    gradient[:2] = torch.tensor([6.0, 8.0])
    optimizer.flat.gradient.copy_(gradient)
    optimizer.step(0.01, 0)
    torch.testing.assert_close(optimizer.flat.gradient, kept * gradient)
    optimizer.flat.gradient.mul_(0.0)
    optimizer.step(0.01, 0)
    assert optimizer.pop_mean_norm() == 5.0
    assert optimizer.pop_mean_norm() is None


def test_a_gradient_that_is_not_finite_is_dropped_before_it_is_clipped():
    optimizer = CheckedAdam(network(1).parameters(), 0.01, NonFinitePolicy.DROP)
    optimizer.max_norm = 1.0
    before = optimizer.flat.vector.detach().clone()
    optimizer.flat.gradient[0] = float("inf")
    optimizer.step(0.01, 0)
    assert torch.equal(optimizer.flat.vector, before) and optimizer.pop_mean_norm() is None
