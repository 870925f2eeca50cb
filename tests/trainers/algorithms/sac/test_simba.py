"""SAC by SimBa's recipe: an update is what plain formulas and AdamW make of a batch; what it refuses."""

import math
from dataclasses import replace

import pytest
import replaybatches
import torch
from lanista.trainers.algorithms.sac.simba import SimbaSAC
from lanista.trainers.checkpoints.metadata import KEY, build_network, describe_network
from lanista.trainers.networks.actor import Actor
from lanista.trainers.networks.modules.heads import HeadConfig
from lanista.trainers.settings.errors import TrainerConfigError
from lanista.trainers.settings.models.networks import NetworkSettings
from lanista.trainers.settings.options import RunOptions
from lanista.trainers.trainer.factory import make_algorithm
from mlagents_envs.base_env import ActionSpec
from sacbatches import ACTIONS, SIGNALS, some_batch, spec_of

RATE, TAU, ALPHA, ROWS, STEP = 0.01, 0.1, 0.4, 12, 250
HYPER = {"recipe": "simba", "learning_rate": RATE, "tau": TAU, "init_entcoef": ALPHA}
NETWORK = {"hidden_units": 8, "num_layers": 2, "critic": {"hidden_units": 6, "num_layers": 1}}


def simba(spec, network=NETWORK, **hyper):
    return replaybatches.algorithm(SimbaSAC, spec, "sac", HYPER | hyper, network, SIGNALS, seed=5)


def layer_norm(x):
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt()


class Reference:
    """The update written down once more, with one network after the other and no shared code."""

    def __init__(self, sac):
        self.actions, self.signals = sac.spec.action_spec, len(sac.signals)
        parts = {"actor": sac.network, "q": sac.q, "t": sac.temperatures}
        self.p = {k: replaybatches.copied(network) for k, network in parts.items()}
        self.target = {name: p.detach().clone() for name, p in self.p["q"].items()}
        self.adams = [
            torch.optim.AdamW(self.p[k].values(), lr=RATE, weight_decay=decay)
            for k, decay in (("q", 0.01), ("actor", 0.01), ("t", 0.0))
        ]
        self.noise = torch.Generator()
        self.noise.set_state(sac.noise.get_state())
        self.normalizer = sac.network.encoder.normalizers[0]

    def hidden(self, p, x, stream, blocks):
        def linear(k, x):
            return x @ p[f"body.layers.{k}.weight"][stream] + p[f"body.layers.{k}.bias"][stream]

        x = linear(0, x)
        for k in range(blocks):
            inner = linear(2 * k + 1, layer_norm(x))
            x = x + linear(2 * k + 2, inner * torch.sigmoid(inner))
        return layer_norm(x)

    def q(self, p, x, actions):
        """[2, B, S, N]."""
        x = torch.cat((x, actions), 1)
        twins = [self.hidden(p, x, k, 1) @ p["head.weight"][k] + p["head.bias"][k] for k in (0, 1)]
        return torch.stack(twins).view(2, len(x), self.signals, -1)

    def policy(self, x, mask):
        """Sampled actions, their log-probability, and each branch's probabilities."""
        p, n, sizes = self.p["actor"], self.actions.continuous_size, self.actions.discrete_branches
        columns = self.hidden(p, x, 0, 2) @ p["actions.weight"] + p["actions.bias"]
        mu, logits, log_sigma = columns.tensor_split((n, n + sum(sizes)), 1)
        normal = torch.distributions.Normal(mu, log_sigma.clamp(-20, 2).exp())
        raw = mu + normal.scale * torch.randn((len(x), n), generator=self.noise)
        log_prob = (normal.log_prob(raw) - torch.log(1 - torch.tanh(raw) ** 2)).sum(1)
        if mask is not None:
            logits = torch.where(mask, torch.tensor(-1e8), logits)
        return raw.tanh(), log_prob, [part.softmax(1) for part in logits.split(sizes, 1)] if sizes else []

    def expected(self, q, branches):
        """The mean over branches of sum_a p(a) Q(a): [..., S, N] -> [..., S]."""
        if not branches:
            return q[..., 0]
        parts = q.split(self.actions.discrete_branches, -1)
        return sum((part * p[:, None]).sum(-1) for part, p in zip(parts, branches)) / len(branches)

    def update(self, batch):
        x, following = (self.normalizer(torch.cat(obs, 1)) for obs in (batch.obs, batch.next_obs))
        sizes, continuous = self.actions.discrete_branches, self.actions.continuous_size > 0
        alpha, alphas = (self.p["t"][f"log_{k}"].exp().detach() for k in ("continuous", "discrete"))

        def bonus(log_prob, branches):
            certain = [a * (p * (p + 1e-7).log()).sum(1) for a, p in zip(alphas, branches)]
            return continuous * alpha * log_prob, certain

        with torch.no_grad():
            actions, log_prob, branches = self.policy(following, batch.next_action_mask)
            low = self.expected(self.q(self.target, following, actions), branches).amin(0)
            penalty, certain = bonus(log_prob, branches)
            penalty = penalty + (sum(certain) / len(sizes) if sizes else 0.0)
            targets = batch.rewards + batch.discounts * (low - penalty[:, None])
        hot = [
            torch.nn.functional.one_hot(batch.actions.discrete[:, k], size).float()
            for k, size in enumerate(sizes)
        ]
        taken = self.expected(self.q(self.p["q"], x, batch.actions.continuous), hot)
        weights = torch.ones(len(x)) if batch.weights is None else batch.weights
        losses = [0.5 * (weights[:, None] * (q - targets) ** 2).mean() for q in taken]
        self.step(0, sum(losses))
        actions, log_prob, branches = self.policy(x, batch.action_mask)
        gains = self.q(self.p["q"], x, actions).amin(0).mean(1, keepdim=True)
        penalty, certain = bonus(log_prob, branches)
        gain = self.expected(gains, branches)[:, 0] * max(len(sizes), 1)
        loss = (penalty + sum(certain) - gain * (continuous + bool(sizes))).mean()
        self.step(1, loss)
        logs, temperature = self.p["t"], 0.0
        for k, (size, p) in enumerate(zip(sizes, branches)):
            entropy = -(p * (p + 1e-7).log()).sum(1).detach()
            gap = (0.2 * math.log(size) - entropy).mean()
            temperature = temperature - logs["log_discrete"][k] * gap / len(sizes)
        if continuous:
            gap = (log_prob.detach() - 0.5 * self.actions.continuous_size).mean()
            temperature = temperature - logs["log_continuous"] * gap
        self.step(2, temperature)
        for name, p in self.target.items():
            p.lerp_(self.p["q"][name].detach(), TAU)
        return [loss.item(), *(one.item() for one in losses)], (taken - targets).abs().mean((0, 2))

    def step(self, which, loss):
        self.adams[which].zero_grad()
        for other in self.adams:
            other.zero_grad()
        loss.backward()
        self.adams[which].step()


@pytest.mark.parametrize("options", [{}, {"masked": True, "weighted": True}], ids=["plain", "weighted"])
@pytest.mark.parametrize("kind", ACTIONS)
def test_updates_are_those_of_the_formulas(kind, options):
    spec = spec_of(ACTIONS[kind])
    sac = simba(spec)
    rows = some_batch(spec, 40, seed=3)
    sac.network.update_normalization(rows.obs)
    reference = Reference(sac)
    for seed in range(3):
        batch = some_batch(spec, ROWS, seed=seed, **options)
        found = sac.update(batch, STEP)
        losses, errors = reference.update(batch)
        named = [found.metrics[f"Losses/{name} Loss"] for name in ("Policy", "Q1", "Q2")]
        torch.testing.assert_close(torch.tensor(named), torch.tensor(losses), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(found.td_errors, errors.detach(), rtol=1e-4, atol=1e-5)
    for network, p in ((sac.network, "actor"), (sac.q, "q"), (sac.temperatures, "t")):
        for name, value in network.named_parameters():
            torch.testing.assert_close(value, reference.p[p][name], rtol=2e-3, atol=2e-4)
    for name, value in sac.target.network.named_parameters():
        torch.testing.assert_close(value, reference.target[name], rtol=2e-3, atol=2e-4)


@pytest.mark.slow
def test_it_learns_which_actions_pay():
    spec = spec_of(ActionSpec(1, ()), ((1,),))
    sac = simba(spec, {"hidden_units": 8, "num_layers": 1}, learning_rate=0.01)
    generator = torch.Generator().manual_seed(0)
    whole = some_batch(spec, 64, signals=2)
    for _ in range(300):
        places, actions = torch.rand((2, 64, 1), generator=generator) * 2 - 1
        batch = replace(
            whole,
            obs=[places],
            actions=whole.actions._replace(continuous=actions),
            rewards=-10 * ((actions - places / 2) ** 2).expand(-1, 2),
            discounts=torch.zeros(64, 2),
        )
        sac.network.update_normalization(batch.obs)
        sac.update(batch, 0)
    places = torch.linspace(-0.8, 0.8, 9).unsqueeze(1)
    with torch.no_grad():
        found = sac.network.act(sac.network.prepare([places])).deterministic().continuous
    assert (found - places / 2).abs().max() < 0.15, found


def test_it_learns_from_images_too():
    spec = spec_of(ActionSpec(1, ()), ((2, 12, 12), (3,)))
    sac = simba(spec, {"hidden_units": 8, "num_layers": 1, "vis_encode_type": "fully_connected"})
    before = [p.clone() for p in sac.network.encoder.parameters()]
    sac.update(some_batch(spec, 6), 0)
    assert all(not torch.equal(p, q) for p, q in zip(before, sac.network.encoder.parameters()))


def behavior(network=None, **hyper):
    tree = {"trainer_type": "sac", "hyperparameters": hyper, "network_settings": network or {}}
    return RunOptions.from_dict({"behaviors": {"B": tree}}).behavior("B")


def test_one_key_is_the_whole_recipe():
    chosen = behavior({"critic": {"hidden_units": 32}}, recipe="simba")
    for network in (chosen.network_settings, chosen.network_settings.critic):
        assert network.normalize and network.residual and not network.layer_norm
    assert chosen.hyperparameters.init_entcoef == 0.01
    assert behavior(recipe="simba", init_entcoef=0.3).hyperparameters.init_entcoef == 0.3
    again = RunOptions.from_dict({"behaviors": {"B": chosen.as_dict()}}).behavior("B")
    assert again.as_dict() == chosen.as_dict() and again.network_settings.critic.residual
    plain = behavior()
    assert not plain.network_settings.residual and plain.hyperparameters.init_entcoef == 1.0
    spec = spec_of(ACTIONS["continuous"])
    for settings, kind in ((chosen, "SimbaSAC"), (plain, "SAC")):
        found = make_algorithm(spec, settings, torch.device("cpu"), 0, "stop")
        assert type(found).__name__ == kind


@pytest.mark.parametrize(
    ("network", "place"),
    [
        ({"normalize": False}, "network_settings.normalize"),
        ({"residual": False}, "network_settings.residual"),
        ({"layer_norm": True}, "network_settings.layer_norm"),
        ({"memory": {}}, "network_settings.memory"),
        ({"critic": {"residual": False}}, "network_settings.critic.residual"),
    ],
)
def test_half_of_the_recipe_is_refused_by_its_key(network, place):
    with pytest.raises(TrainerConfigError, match=rf"behaviors\.B\.{place}.*simba") as refused:
        behavior(network, recipe="simba")
    assert len(refused.value.problems) == 1


@pytest.mark.parametrize("residual", [True, False])
def test_a_checkpoint_tells_of_residual_blocks_where_there_are_any(residual):
    """Releases that do not know the key can read all other checkpoints."""
    spec, head = spec_of(ACTIONS["hybrid"]), HeadConfig(squashed=True, sigma_of_state=True)
    settings = NetworkSettings(residual=residual, hidden_units=8, critic={"hidden_units": 4})
    network = Actor(spec, settings, head=head)
    described = describe_network("B", spec, settings, ["extrinsic"], None, head=head)
    assert ("residual" in described["network"]) is residual
    assert ("residual" in described["network"]["critic"]) is residual
    _, rebuilt = build_network({KEY: described, "Policy": network.state_dict()})
    obs = some_batch(spec, 5).obs
    with torch.no_grad():
        wanted, found = (one.act(one.prepare(obs)).deterministic() for one in (network, rebuilt))
    torch.testing.assert_close(found.continuous, wanted.continuous)
    assert rebuilt.body.residual is residual
