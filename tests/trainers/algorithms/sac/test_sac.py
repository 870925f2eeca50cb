"""An update of SAC is what plain formulas, torch's derivatives and three of torch's Adams make of a batch."""

import math

import numpy as np
import pytest
import torch
from lanista.envs.validation import NonFinitePolicy
from sacbatches import ACTIONS, algorithm, some_batch, spec_of

ROWS, RATE, TAU, ALPHA, STEP = 12, 0.01, 0.1, 0.4, 250


class Reference:
    """The update written down once more, from the papers' formulas, network by network."""

    def __init__(self, sac) -> None:
        self.actions = sac.spec.action_spec
        self.signals = len(sac.signals)
        entries = zip(("actor", "q", "t", "v"), sac.networks[:-1], strict=True)
        self.p = {
            f"{entry}.{name}": p.detach().clone().requires_grad_()
            for entry, network in entries
            for name, p in network.named_parameters()
        }
        self.target = {k: p.detach().clone() for k, p in self.p.items() if k.startswith("v.")}
        groups = (("actor.",), ("q.", "v."), ("t.",))
        self.adams = [
            torch.optim.Adam([p for k, p in self.p.items() if k.startswith(group)], lr=RATE)
            for group in groups
        ]
        self.noise = torch.Generator()
        self.noise.set_state(sac.noise.get_state())
        self.normalizer = sac.network.encoder.normalizers[0]

    def hidden(self, p, entry, x, stream=0):
        for layer in range(2):
            x = x @ p[f"{entry}body.layers.{layer}.weight"][stream]
            x = x + p[f"{entry}body.layers.{layer}.bias"][stream]
            x = x * torch.sigmoid(x)
        return x

    def v(self, p, x):
        return self.hidden(p, "v.", x) @ p["v.values.weight"] + p["v.values.bias"]

    def q(self, twin, x, actions):
        hidden = self.hidden(self.p, "q.", torch.cat((x, actions), 1), twin)
        out = hidden @ self.p["q.head.weight"][twin] + self.p["q.head.bias"][twin]
        return out.view(len(x), self.signals, -1)

    def policy(self, x, noise, mask):
        """Sampled actions, their log-probability, and each branch's probabilities."""
        features, log_std = self.hidden(self.p, "actor.", x), self.p["actor.actions.log_sigma"]
        columns = features @ self.p["actor.actions.weight"] + self.p["actor.actions.bias"]
        n, width = self.actions.continuous_size, sum(self.actions.discrete_branches)
        mu, sigma = columns[:, :n], columns[:, n + width :].clamp(-20, 2).exp()
        if log_std.numel():  # exploration is a function of the state
            sigma = (features**2 @ log_std.exp() ** 2 + 1e-6).sqrt()
        normal = torch.distributions.Normal(mu, sigma)
        raw = mu + sigma * noise
        log_prob = (normal.log_prob(raw) - torch.log(1 - torch.tanh(raw) ** 2)).sum(1)
        logits = columns[:, n : n + width]
        if mask is not None:
            logits = torch.where(mask, torch.tensor(-1e8), logits)
        branches = (
            [part.softmax(1) for part in logits.split(self.actions.discrete_branches, 1)] if width else []
        )
        return raw.tanh(), log_prob, branches

    def over(self, q, weights):
        """The mean over branches of sum_a w(a) Q(a): [B, S, N] -> [B, S]."""
        parts = q.split(self.actions.discrete_branches, 2)
        return sum((part * w[:, None]).sum(2) for part, w in zip(parts, weights, strict=True)) / len(parts)

    def losses(self, batch):
        a = self.actions
        noise = torch.randn((ROWS, a.continuous_size), generator=self.noise)
        x = self.normalizer(torch.cat(batch.obs, 1))
        following = self.normalizer(torch.cat(batch.next_obs, 1))
        sampled, log_prob, branches = self.policy(x, noise, batch.action_mask)
        alpha, alphas = self.p["t.log_continuous"].exp().detach(), self.p["t.log_discrete"].exp().detach()
        certainties = [(p * (p + 1e-7).log()).sum(1) for p in branches]
        taken = [self.q(k, x, batch.actions.continuous) for k in (0, 1)]
        drawn = [self.q(k, x, sampled) for k in (0, 1)]
        with torch.no_grad():
            targets = batch.rewards + batch.discounts * self.v(self.target, following)
            if branches:
                low = torch.minimum(*(self.over(q, branches) for q in drawn))
                bonus = sum(c * k for c, k in zip(certainties, alphas, strict=True)) / len(branches)
            else:
                low, bonus = torch.minimum(*(q[..., 0] for q in drawn)), torch.zeros(ROWS)
            if a.continuous_size:
                bonus = bonus + alpha * log_prob
            aims = low - bonus[:, None]
        if branches:
            hot = [
                torch.nn.functional.one_hot(batch.actions.discrete[:, k], size).float()
                for k, size in enumerate(a.discrete_branches)
            ]
            taken = [self.over(q, hot) for q in taken]
        else:
            taken = [q[..., 0] for q in taken]
        weights = torch.ones(ROWS) if batch.weights is None else batch.weights

        def mse(values, aim):
            return 0.5 * (weights[:, None] * (values - aim) ** 2).mean()

        of_critics = [mse(q, targets) for q in taken] + [mse(self.v(self.p, x), aims)]
        mean_q = drawn[0].mean(1)
        gain = mean_q[:, 0]
        loss, temperature = 0.0, 0.0
        if branches:
            gain = len(branches) * self.over(mean_q[:, None], branches)[:, 0]
            loss = sum(c * k for c, k in zip(certainties, alphas, strict=True)) - gain
            log_alphas = self.p["t.log_discrete"]
            for k, (size, c) in enumerate(zip(a.discrete_branches, certainties, strict=True)):
                missing = (c.detach() + 0.2 * math.log(size)).mean()
                temperature = temperature - log_alphas[k] * missing / len(branches)
        if a.continuous_size:
            loss = loss + alpha * log_prob - gain
            missing = (log_prob.detach() - a.continuous_size).mean()
            temperature = temperature - self.p["t.log_continuous"] * missing
        return loss.mean(), of_critics, temperature

    def update(self, batch):
        policy, of_critics, temperature = self.losses(batch)
        actor, critics, alphas = self.adams
        everything = [policy, sum(of_critics), temperature]
        gradients = [
            torch.autograd.grad(loss, adam.param_groups[0]["params"], retain_graph=True, allow_unused=True)
            for loss, adam in zip(everything, self.adams, strict=True)
        ]
        for adam, found in zip((actor, critics, alphas), gradients, strict=True):
            for p, gradient in zip(adam.param_groups[0]["params"], found, strict=True):
                p.grad = gradient
            adam.step()
        for key, slow in self.target.items():
            slow.copy_(TAU * self.p[key].detach() + (1 - TAU) * slow)
        return [policy.item(), *(loss.item() for loss in of_critics)]


BY_STATE = {"state_dependent_exploration": {}, "initial_log_std": -1.0}
KINDS = [*((kind, {}) for kind in ACTIONS), ("continuous", BY_STATE), ("hybrid", BY_STATE)]


@pytest.mark.parametrize("kind, network", KINDS)
@pytest.mark.parametrize("masked_and_weighted", [False, True])
def test_weights_and_losses_are_those_of_the_formulas(kind, network, masked_and_weighted):
    torch.manual_seed(3)
    spec = spec_of(ACTIONS[kind])
    sac = algorithm(spec, network=network, learning_rate=RATE, tau=TAU, init_entcoef=ALPHA)
    sac.network.update_normalization([4 * torch.randn(40, 5) + 1, torch.randn(40, 3)])
    reference = Reference(sac)
    for seed in range(3):
        batch = some_batch(spec, ROWS, masked=masked_and_weighted, weighted=masked_and_weighted, seed=seed)
        expected = reference.update(batch)
        result = sac.update(batch, STEP)
        names = ("Policy", "Q1", "Q2", "Value")
        found = [result.metrics[f"Losses/{name} Loss"] for name in names]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    entries = dict(zip(("actor", "q", "t", "v"), sac.networks[:-1], strict=True))
    for key, wanted in reference.p.items():
        entry, _, name = key.partition(".")
        found = entries[entry].get_parameter(name)
        torch.testing.assert_close(found.data, wanted.data, rtol=1e-3, atol=2e-5, msg=key)
    for key, wanted in reference.target.items():
        found = sac.networks.target.get_parameter(key.partition(".")[2])
        torch.testing.assert_close(found.data, wanted, rtol=1e-3, atol=2e-5, msg=key)


def test_metrics_of_an_update():
    sac = algorithm(spec_of(ACTIONS["hybrid"]), learning_rate=0.02, learning_rate_schedule="linear")
    before = sac.networks.temperatures.log_discrete.detach().clone()
    result = sac.update(some_batch(sac.spec, ROWS), STEP)
    assert result.metrics["Policy/Learning Rate"] == pytest.approx(0.015)
    alphas = sac.networks.temperatures.log_discrete.detach().exp()
    assert not torch.equal(alphas.log(), before)
    assert result.metrics["Policy/Discrete Entropy Coeff"] == pytest.approx(alphas.mean().item())
    assert result.td_errors.shape == (ROWS,) and bool((result.td_errors > 0).all())


def test_errors_are_the_distances_from_the_targets():
    """Where rewards are huge, they are all that the error is made of."""
    spec = spec_of(ACTIONS["continuous"])
    batch = some_batch(spec, ROWS)
    batch.rewards.mul_(1e6)
    result = algorithm(spec).update(batch, STEP)
    torch.testing.assert_close(result.td_errors, batch.rewards.abs().mean(1), rtol=1e-3, atol=10.0)


def test_a_coefficient_without_actions_of_its_kind_stays():
    sac = algorithm(spec_of(ACTIONS["branches"]), init_entcoef=0.7)
    for _ in range(3):
        figures = sac.update(some_batch(sac.spec, ROWS), STEP).metrics
    assert figures["Policy/Continuous Entropy Coeff"] == pytest.approx(0.7)
    assert figures["Policy/Discrete Entropy Coeff"] != pytest.approx(0.7)
    sac = algorithm(spec_of(ACTIONS["continuous"]))
    assert math.isnan(sac.update(some_batch(sac.spec, ROWS), STEP).metrics["Policy/Discrete Entropy Coeff"])


@pytest.mark.parametrize("network", [{}, {"activation": "relu"}])
def test_numbers_that_are_not_finite_stop_or_are_left_out(network):
    spec = spec_of(ACTIONS["continuous"])
    batch = some_batch(spec, ROWS)
    batch.rewards[3] = float("nan")
    stopped = algorithm(spec, network=network)
    before = stopped.optimizer.flat.vector.detach().clone()
    with pytest.raises(FloatingPointError, match="at step 250"):
        stopped.update(batch, STEP)
    assert torch.equal(stopped.optimizer.flat.vector, before)
    going_on = algorithm(spec, network=network, non_finite=NonFinitePolicy.DROP)
    going_on.update(batch, STEP)
    assert torch.equal(going_on.optimizer.flat.vector, before)


@pytest.mark.parametrize("network", [{}, {"memory": {"memory_size": 8, "sequence_length": 4}}])
def test_a_restored_algorithm_continues_as_it_would_have(network):
    """Pitfall C7: the entropy coefficients are a part of it."""
    spec = spec_of(ACTIONS["hybrid"])

    def batch(seed):
        states, real = ((3, 8), torch.ones(ROWS, dtype=torch.bool)) if network else (None, None)
        return some_batch(spec, ROWS, states=states, real=real, seed=seed)

    sac, other = algorithm(spec, network=network), algorithm(spec, network=network, seed=9)
    for seed in range(2):
        sac.update(batch(seed), STEP)
    other.load_state_dict(sac.state_dict())
    for one in (sac, other):
        one.metrics_after = one.update(batch(7), STEP).metrics
    assert sac.metrics_after == other.metrics_after
    assert torch.equal(sac.optimizer.flat.vector, other.optimizer.flat.vector)
    assert torch.equal(sac._target_weights, other._target_weights)


def test_a_run_starts_from_the_weights_of_another():
    spec = spec_of(ACTIONS["hybrid"])
    sac, other = algorithm(spec), algorithm(spec, seed=9)
    sac.update(some_batch(spec, ROWS), STEP)
    assert other.initialize_from(sac.state_dict()) == []
    assert torch.equal(sac.optimizer.flat.vector, other.optimizer.flat.vector)
    assert torch.equal(sac._target_weights, other._target_weights)
    assert other.optimizer.adam.steps == 1
    one_signal = algorithm(spec, seed=9, signals=("extrinsic",))
    mismatches = " ".join(one_signal.initialize_from(sac.state_dict()))
    assert "Value.values" in mismatches and "Q.head" in mismatches and "Policy" not in mismatches
    assert torch.equal(one_signal._target_weights, one_signal._value_weights)
