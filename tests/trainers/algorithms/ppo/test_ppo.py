"""An update of PPO is what plain formulas, torch's derivatives and torch's Adam make of the same steps."""

import logging
import math

import numpy as np
import pytest
import torch
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.algorithms.ppo.ppo import PPO
from lanista.trainers.buffers.rollout_buffer import EvaluatedSteps, RolloutBatch
from lanista.trainers.settings.models.behavior import TrainerSettings
from mlagents_envs.base_env import ActionSpec
from specs import vector_spec

ACTIONS = {"continuous": ActionSpec(2, ()), "branches": ActionSpec(0, (3, 2))}
STEPS, BATCH, EPOCHS, MAX_STEPS, STEP = 22, 8, 2, 1000, 250
INITIAL = {"learning_rate": 0.01, "epsilon": 0.3, "beta": 0.02}


def algorithm(actions: ActionSpec, batch_size: int = BATCH, **hyper) -> PPO:
    settings = TrainerSettings.model_validate(
        {
            "trainer_type": "ppo",
            "hyperparameters": {
                **INITIAL,
                "batch_size": batch_size,
                "buffer_size": 20,
                "num_epoch": EPOCHS,
                "learning_rate_schedule": "linear",
                **hyper,
            },
            "network_settings": {"hidden_units": 6, "num_layers": 2},
            "reward_signals": {"extrinsic": {}, "gail": {"demo_path": "d"}},
            "max_steps": MAX_STEPS,
        }
    )
    spec = vector_spec([3], actions.continuous_size, actions.discrete_branches)
    return PPO(spec, settings, torch.device("cpu"), 5, NonFinitePolicy.STOP)


def some_steps(actions: ActionSpec, seed: int = 0) -> EvaluatedSteps:
    random = np.random.default_rng(seed)

    def normal(*shape):
        return random.normal(size=shape).astype(np.float32)

    branches = actions.discrete_branches
    chosen = [random.integers(size, size=STEPS) for size in branches]
    mask = random.random((STEPS, sum(branches))) < 0.2
    for start, choice in zip(np.cumsum((0, *branches)), chosen):
        mask[np.arange(STEPS), start + choice] = False
    return EvaluatedSteps(
        obs=[normal(STEPS, 3)],
        continuous=normal(STEPS, actions.continuous_size),
        discrete=np.stack(chosen, 1).astype(np.int32) if branches else np.zeros((STEPS, 0), np.int32),
        log_probs=normal(STEPS, actions.continuous_size + len(branches)) - 1.0,
        action_mask=mask if branches else None,
        values=normal(STEPS, 2),
        returns=normal(STEPS, 2),
        advantages=normal(STEPS),
    )


class Reference:
    """The update written down once more, from the formulas alone."""

    def __init__(self, ppo: PPO, clip_values: bool) -> None:
        self.clip_values = clip_values
        self.p = {k: v.detach().clone().requires_grad_() for k, v in ppo.network.named_parameters()}
        self.order = torch.Generator()
        self.order.set_state(ppo.shuffler.get_state())
        left = 1 - STEP / MAX_STEPS
        self.rate = (INITIAL["learning_rate"] - 1e-10) * left + 1e-10
        self.epsilon = (INITIAL["epsilon"] - 0.1) * left + 0.1
        self.beta = (INITIAL["beta"] - 1e-5) * left + 1e-5
        self.kl, self.clipped = [], []
        self.adam = torch.optim.Adam(self.p.values(), lr=self.rate)

    def outputs(self, obs):
        """What the heads of actor and critic give."""
        actor = critic = obs
        for layer in range(2):
            w, b = self.p[f"body.layers.{layer}.weight"], self.p[f"body.layers.{layer}.bias"]
            actor, critic = (x @ w[k] + b[k] for k, x in enumerate((actor, critic)))
            actor, critic = (x * torch.sigmoid(x) for x in (actor, critic))
        heads = (actor @ self.p["actions.weight"] + self.p["actions.bias"]), critic @ self.p["values.weight"]
        return heads[0], heads[1] + self.p["values.bias"]

    def policy(self, columns, actions, continuous, discrete, mask):
        """Log-probabilities per component, and the entropy of each row."""
        if actions.continuous_size:
            sigma = self.p["actions.log_sigma"].exp()
            deviation = (continuous - columns) ** 2 / (2 * sigma**2 + 1e-7)
            log_probs = -deviation - (sigma + 1e-7).log() - math.log(math.sqrt(2 * math.pi))
            entropy = 0.5 * (2 * math.pi * math.e * sigma**2 + 1e-7).log()
            return log_probs, entropy.mean().expand(len(continuous))
        columns = torch.where(mask, torch.tensor(-1e8), columns)
        log_probs, entropy = [], 0
        for branch, logits in enumerate(columns.split(actions.discrete_branches, 1)):
            p = logits.softmax(1)
            log_probs.append((p + 1e-7).log().gather(1, discrete[:, branch : branch + 1].long()))
            entropy = entropy - (p * (p + 1e-7).log()).sum(1)
        return torch.cat(log_probs, 1), entropy

    def update(self, actions, steps):
        """[minibatches, 2] the policy and value losses."""
        advantages = torch.from_numpy(steps.advantages).double()
        advantages = ((advantages - advantages.mean()) / advantages.std(correction=0)).float()
        losses = []
        for _ in range(EPOCHS):
            order = torch.randperm(STEPS, generator=self.order)
            for start in range(0, STEPS - BATCH + 1, BATCH):
                rows = order[start : start + BATCH]
                losses.append(self.step(actions, steps, rows, advantages[rows, None]))
        return np.array(losses)

    def step(self, actions, steps, rows, advantages):
        def some(column):
            return torch.from_numpy(column)[rows]

        columns, values = self.outputs(some(steps.obs[0]))
        mask = None if steps.action_mask is None else some(steps.action_mask)
        continuous, discrete = some(steps.continuous), some(steps.discrete)
        log_probs, entropy = self.policy(columns, actions, continuous, discrete, mask)
        ratio = (log_probs - some(steps.log_probs)).exp()
        bounded = ratio.clamp(1 - self.epsilon, 1 + self.epsilon)
        policy = -torch.minimum(ratio * advantages, bounded * advantages).mean()
        self.kl.append((ratio - 1 - ratio.log()).mean().item())
        self.clipped.append((ratio != bounded).float().mean().item())
        error = (some(steps.returns) - values) ** 2
        if self.clip_values:
            old = some(steps.values)
            clipped = old + (values - old).clamp(-self.epsilon, self.epsilon)
            error = torch.maximum(error, (some(steps.returns) - clipped) ** 2)
        value = error.mean()
        self.adam.zero_grad()
        (policy + 0.5 * value - self.beta * entropy.mean()).backward()
        self.adam.step()
        return abs(policy.item()), value.item()


@pytest.mark.parametrize("clip_values", [False, True], ids=["", "clipped values"])
@pytest.mark.parametrize("kind", ACTIONS)
def test_an_update_equals_the_formulas(kind, clip_values):
    actions = ACTIONS[kind]
    ppo, steps = algorithm(actions, clip_value_loss=clip_values), some_steps(actions)
    reference = Reference(ppo, clip_values)
    figures = ppo.update(steps, STEP)
    losses = reference.update(actions, steps)
    # Of 22 steps two minibatches of 8 are learned from in each epoch; six sit out.
    assert len(losses) == ppo.optimizer.adam.steps == 4
    close = {"rel": 1e-4, "abs": 1e-6}
    assert figures["Losses/Policy Loss"] == pytest.approx(losses[:, 0].mean(), **close)
    assert figures["Losses/Value Loss"] == pytest.approx(losses[:, 1].mean(), **close)
    assert figures["Policy/Learning Rate"] == pytest.approx(reference.rate)
    assert figures["Policy/Epsilon"] == pytest.approx(reference.epsilon)
    assert figures["Policy/Beta"] == pytest.approx(reference.beta)
    assert figures["Policy/Approximate KL"] == pytest.approx(np.mean(reference.kl), **close)
    assert figures["Policy/Clip Fraction"] == pytest.approx(np.mean(reference.clipped), **close)
    for name, parameter in ppo.network.named_parameters():
        torch.testing.assert_close(parameter.data, reference.p[name].data, rtol=1e-3, atol=1e-5, msg=name)


@pytest.mark.parametrize("kind", ACTIONS)
def test_every_column_is_shuffled_in_the_same_order(kind):
    """Each row is one step's: rows of a minibatch are found in the buffer as they are."""
    actions = ACTIONS[kind]
    ppo, steps = algorithm(actions), some_steps(actions)
    whole = RolloutBatch.of(steps, [torch.from_numpy(o) for o in steps.obs], torch.device("cpu"))

    def joined(rows):
        columns = [
            *rows.inputs,
            *rows.actions,
            rows.old_log_probs,
            rows.advantages,
            rows.old_values,
            rows.returns,
        ]
        return torch.cat([c.float() for c in columns], 1)

    rows = joined(whole)
    seen = torch.cat([joined(minibatch) for minibatch in whole.minibatches(BATCH, ppo.shuffler)])
    which = (seen[:, None] == rows[None]).all(-1).float()
    assert torch.equal(which.sum(1), torch.ones(len(seen))), "each is exactly one of the buffer's rows"
    assert which.sum(0).max() == 1 and len(seen) == 16


def test_without_a_whole_minibatch_no_losses_are_reported(caplog):
    actions = ACTIONS["continuous"]
    ppo = algorithm(actions, batch_size=STEPS + 1)
    before = ppo.optimizer.flat.vector.clone()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            figures = ppo.update(some_steps(actions), STEP)
            assert set(figures) == {"Policy/Learning Rate", "Policy/Epsilon", "Policy/Beta"}
    assert caplog.text.count("no whole minibatch of batch_size 23") == 1
    assert torch.equal(ppo.optimizer.flat.vector, before)
