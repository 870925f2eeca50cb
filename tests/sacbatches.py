"""SAC, and batches to try it on."""

from dataclasses import replace

import replaybatches
import torch
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.algorithms.sac.forward import VALUE_STATES
from lanista.trainers.algorithms.sac.sac import SAC
from lanista.trainers.networks.modules.passes import Precision
from lanista.trainers.settings.yaml_source import under
from mlagents_envs.base_env import ActionSpec
from specs import spec_of_shapes

ACTIONS = {
    "continuous": ActionSpec(2, ()),
    "branches": ActionSpec(0, (3, 2)),
    "one branch": ActionSpec(0, (4,)),
    "hybrid": ActionSpec(2, (3, 3)),
}
SIGNALS = ("extrinsic", "rnd")
NETWORK = {"hidden_units": 16, "num_layers": 2, "normalize": True}


def spec_of(actions, shapes=((5,), (3,))):
    return spec_of_shapes(shapes, (), actions.continuous_size, actions.discrete_branches)


def algorithm(
    spec,
    *,
    network=None,
    signals=SIGNALS,
    seed=5,
    non_finite=NonFinitePolicy.STOP,
    precision=Precision.FLOAT32,
    device="cpu",
    **hyper,
):
    network = under(NETWORK, network or {})
    return replaybatches.algorithm(
        SAC, spec, "sac", hyper, network, signals, seed, non_finite, precision, device
    )


def some_batch(spec, rows, *, signals=2, seed=1, states=None, **options):
    """Random steps, by default with the rewards of `SIGNALS`; `states`: [sequences, memory size]."""
    batch = replaybatches.batch(spec, rows, signals, seed, **options)
    if states is None:
        return batch
    generator = torch.Generator().manual_seed(seed)
    of_value = torch.randn(rows, states[1], generator=generator)
    return replace(batch, states=torch.randn(states, generator=generator), extra={VALUE_STATES: of_value})
