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


@pytest.mark.parametrize("max_norm", [None, 3.0])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_steps_that_wait_for_nothing_are_the_same_steps(max_norm, weight_decay):
    def made(on_device):
        policy = CheckedAdam(network(1).parameters(), 0.01, NonFinitePolicy.DROP, weight_decay=weight_decay)
        policy.max_norm = max_norm
        for step, size in enumerate((1.0, 5.0, float("nan"), 0.0, 0.2)):
            policy.flat.gradient.fill_(size)
            if on_device:
                policy.step_on_device(torch.tensor(0.01 / (step + 1)))
            else:
                policy.step(0.01 / (step + 1), step)
        if on_device:
            policy.read_steps(5)
        return policy.flat.vector.detach(), policy.adam.steps, policy.pop_mean_norm()

    (ours, steps, norm), (theirs, _, theirs_norm) = made(True), made(False)
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-7)
    assert steps == 4 and norm == pytest.approx(theirs_norm)


def test_on_a_device_no_step_is_taken_after_a_gradient_that_is_not_finite():
    policy = CheckedAdam(network(1).parameters(), 0.01, NonFinitePolicy.STOP)
    before = policy.flat.vector.detach().clone()
    for size in (float("inf"), 1.0, 1.0):
        policy.flat.gradient.fill_(size)
        policy.step_on_device(torch.tensor(0.01))
    with pytest.raises(FloatingPointError, match="at step 7 is not a finite number"):
        policy.read_steps(7)
    assert torch.equal(policy.flat.vector, before) and policy.adam.steps == 0
