"""Off-policy algorithms, and batches as a replay gives them, of random numbers."""

import numpy as np
import torch
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.buffers.replay.sampler import ReplayBatch
from lanista.trainers.networks.modules.distributions import Actions
from lanista.trainers.networks.modules.passes import Precision
from lanista.trainers.settings.options import RunOptions
from lanista.trainers.settings.yaml_source import under


def algorithm(
    kind,
    spec,
    trainer_type,
    hyper=None,
    network=None,
    signals=("extrinsic",),
    seed=1,
    non_finite=NonFinitePolicy.STOP,
    precision=Precision.FLOAT32,
    device="cpu",
):
    """A fresh algorithm of the class `kind`, with settings as a YAML would give them."""
    behavior = {
        "trainer_type": trainer_type,
        "hyperparameters": hyper or {},
        "network_settings": under({"hidden_units": 8, "num_layers": 1}, network or {}),
        "max_steps": 1000,
    }
    settings = RunOptions.from_dict({"behaviors": {"B": behavior}}).behavior("B")
    (extrinsic,) = settings.reward_signals.values()
    several = {name: extrinsic.model_copy(update={"gamma": 0.99 - 0.1 * i}) for i, name in enumerate(signals)}
    settings = settings.model_copy(update={"reward_signals": several})
    return kind(spec, settings, torch.device(device), seed, non_finite, precision)


def batch(spec, steps, signals=1, seed=0, *, masked=False, weighted=False, real=None, states=None):
    """`masked`: in each branch one action at least is allowed, before the steps the one that was taken."""
    random = np.random.default_rng(seed)

    def normal(*shape):
        return torch.from_numpy(random.normal(size=shape).astype(np.float32))

    branches = spec.action_spec.discrete_branches
    discrete = np.stack([random.integers(b, size=steps) for b in branches], 1) if branches else None

    def mask(allowed=None):
        if not masked or not branches:
            return None
        forbidden = random.random((steps, sum(branches))) < 0.5
        start = 0
        for k, size in enumerate(branches):
            free = random.integers(size, size=steps) if allowed is None else allowed[:, k]
            forbidden[np.arange(steps), start + free] = False
            start += size
        return torch.from_numpy(forbidden)

    continuous = normal(steps, spec.action_spec.continuous_size).clamp(-1, 1)
    return ReplayBatch(
        obs=[normal(steps, *sensor.shape) for sensor in spec.observation_specs],
        next_obs=[normal(steps, *sensor.shape) for sensor in spec.observation_specs],
        actions=Actions(
            continuous,
            torch.zeros((steps, 0), dtype=torch.int64) if discrete is None else torch.from_numpy(discrete),
        ),
        next_action_mask=mask(),
        rewards=normal(steps, signals),
        discounts=torch.from_numpy(random.choice([0.0, 0.9, 0.99], (steps, signals)).astype(np.float32)),
        weights=torch.from_numpy(random.uniform(0.1, 1, steps).astype(np.float32)) if weighted else None,
        action_mask=mask(discrete),
        real=real,
        states=states,
    )


def swish(x):
    """Swish, x sigmoid(x)."""
    return x / (1 + torch.exp(-x))


def copied(module):
    """The parameters of a module by name, each a leaf of its own."""
    return {name: p.detach().clone().requires_grad_() for name, p in module.named_parameters()}
