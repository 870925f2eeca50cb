"""Verifies a brain before it is written: the file must act as the policy that was trained."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from numpy.typing import NDArray
from onnx import ModelProto
from torch import Tensor

from ...networks.actor import ActingNetwork
from ...networks.modules.distributions import ENGINE_RANGE, ActionDistribution
from ...networks.observation_kinds import ObservationKind, observation_kind
from .graph import BrainVerificationError, not_importable

BATCHES = (1, 64)
STEPS = 4
"""How many steps a recurrent brain is run with its own memory."""
RELATIVE, ABSOLUTE = 1e-4, 1e-5
ROUNDING = 4.0
"""Outputs may differ further by so many times the network's own rounding error, which is large where a policy
is steep, as one that balances something."""
NEARLY_EQUAL = 1e-4
"""The choice between actions whose probabilities differ by less may depend on rounding."""
ABSENT = 0.3
"""The share of absent entities in the tested sets."""
DRAWS = 1024
QUANTILES = (-1.5, -0.5, 0.0, 0.5, 1.5)
"""Standard deviations from the mean at which the sampled actions' distribution is compared."""
# Dvoretzky, Kiefer and Wolfowitz: the largest distance between the distribution of n draws and the true one
# exceeds sqrt(ln(2 / p) / 2n) with a probability below p: a correct file is refused once in 10^12 components.
CONFIDENT_DISTANCE = math.sqrt(math.log(2e12) / (2 * DRAWS))

Floats = NDArray[Any]
"""float32, or float64 where something is measured."""
Arrays = Mapping[str, NDArray[Any]]


@torch.no_grad()
def verify(model: ModelProto, network: ActingNetwork) -> None:
    """Check that `model` is valid ONNX, that engines import it and that it acts as `network` (on the CPU).

    Raises:
        BrainVerificationError: it is not so.
    """
    name, session = model.graph.name, load_session(model)
    unknown = not_importable(model)
    if unknown:
        raise BrainVerificationError(
            f"The brain of '{name}' uses operators that Unity does not import: {', '.join(sorted(unknown))}."
        )
    random = np.random.default_rng(0)
    for batch in BATCHES:
        _check_in_closed_loop(name, session, network, batch, random)
    if network.actions.greedy:
        return
    inputs = _random_inputs(network, 1, random)
    check_sampled(name, _sample(session, inputs), _expected(network, inputs)[0])


def load_session(model: ModelProto) -> Any:
    """Runs `model`, which has been checked to be valid and to have finite weights.

    Raises:
        BrainVerificationError: it is not so.
    """
    name = model.graph.name
    try:
        onnx.checker.check_model(model, full_check=True)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # both packages raise types of their own, onnxruntime a dozen
        raise BrainVerificationError(f"The brain of '{name}' is not valid ONNX: {error}") from error
    for stored in model.graph.initializer:
        if not np.isfinite(onnx.numpy_helper.to_array(stored)).all():
            raise BrainVerificationError(
                f"The brain of '{name}' has numbers that are not finite in '{stored.name}': "
                f"training has diverged. Go back to an earlier checkpoint and lower the learning rate."
            )
    return session


def _check_in_closed_loop(
    name: str, session: Any, network: ActingNetwork, batch: int, random: np.random.Generator
) -> None:
    """Compare the likeliest actions; with a memory over several steps, each with the state from the last one.

    The first step's state is random: with zeros, as at an episode's start, not all weights would matter.
    """
    remembered: Arrays = {}
    for step in range(STEPS if network.memory_size else 1):
        inputs = {**_random_inputs(network, batch, random), **remembered}
        found = _run(session, inputs)
        expected, states = _expected(network, inputs)
        _check_deterministic(name, found, expected, batch, partial(_action_rounding, network))
        if network.actions.greedy:
            _check_equal(name, found)
        if states is not None:
            _check_states(name, found, states.numpy()[:, None], batch, step)
            remembered = {"recurrent_in": found["recurrent_out"]}


def _run(session: Any, inputs: Arrays) -> Arrays:
    names = [value.name for value in session.get_outputs()]
    wanted = {value.name for value in session.get_inputs()}
    feeds = {key: value for key, value in inputs.items() if key in wanted}
    try:
        return dict(zip(names, session.run(names, feeds)))
    except Exception as error:  # onnxruntime has a dozen types of its own, below Exception only.
        name = session.get_modelmeta().graph_name
        raise BrainVerificationError(f"The brain of '{name}' cannot be run: {error}") from error


def _sample(session: Any, inputs: Arrays) -> Arrays:
    """`DRAWS` rows of outputs for one row of inputs; in several runs, since images are large."""
    batch = BATCHES[-1]
    repeated = {key: value.repeat(batch, axis=0) for key, value in inputs.items()}
    runs = [_run(session, repeated) for _ in range(DRAWS // batch)]
    wanted = [name for name in runs[0] if name in ("continuous_actions", "discrete_actions")]
    return {name: np.concatenate([run[name] for run in runs]) for name in wanted}


def _random_inputs(network: ActingNetwork, batch: int, random: np.random.Generator) -> Arrays:
    """Observations in the range of the network's normalizers; masks that allow at least one action."""
    obs = {f"obs_{i}": rows for i, rows in enumerate(random_observations(network, batch, random))}
    sizes = network.spec.action_spec.discrete_branches
    masks = random.random((batch, sum(sizes))) < 0.7
    start = 0
    for size in sizes:
        masks[np.arange(batch), start + random.integers(size, size=batch)] = True
        start += size
    inputs = {**obs, "action_masks": masks.astype(np.float32)}
    if network.memory_size:
        inputs["recurrent_in"] = random.uniform(-1.0, 1.0, (batch, 1, network.memory_size)).astype(np.float32)
    return inputs


def random_observations(
    network: ActingNetwork, batch: int, random: np.random.Generator
) -> list[NDArray[np.float32]]:
    """[batch, *shape] per observation, in the range of the network's normalizers."""
    rows = []
    for spec in network.spec.observation_specs:
        sampled = random.standard_normal((batch, *spec.shape), dtype=np.float32)
        if observation_kind(spec, any_shape=True) is ObservationKind.VARIABLE_LENGTH:
            sampled[random.random(sampled.shape[:2]) < ABSENT] = 0.0
        rows.append(sampled)
    scales = network.encoder.observation_scale()
    return [
        (row * 2.0 * np.asarray(deviation) + np.asarray(mean)).astype(np.float32)
        for row, (mean, deviation) in zip(rows, scales)
    ]


def agree(found: Floats, wanted: Floats, rounding: Callable[[], Floats]) -> bool:
    """Whether a file's results and the network's, both [batch, size], are equal but for rounding.

    `rounding` measures the network's own error [size] in float32; called where the usual bound is exceeded.
    """
    wrong = np.abs(found - wanted)
    allowed = ABSOLUTE + RELATIVE * np.abs(wanted)
    return bool((wrong <= allowed).all() or (wrong <= allowed + ROUNDING * rounding()).all())


def _action_rounding(network: ActingNetwork) -> Floats:
    """[size] how far continuous actions are from those in float64, at most, over a batch of random inputs."""
    inputs = _random_inputs(network, BATCHES[-1], np.random.default_rng(0))
    wide = copy.deepcopy(network).double()
    rounded, _ = _expected(network, inputs)
    exact, _ = _expected(wide, inputs, torch.float64)
    actions = [each.to_engine(each.deterministic().continuous).numpy() for each in (rounded, exact)]
    return np.asarray(np.abs(actions[0] - actions[1]).max(axis=0))


def _expected(
    network: ActingNetwork, inputs: Arrays, dtype: torch.dtype = torch.float32
) -> tuple[ActionDistribution, Tensor | None]:
    """The distribution, and the new states [batch, memory_size] of a network with a memory."""
    count = len(network.spec.observation_specs)
    obs = [torch.from_numpy(inputs[f"obs_{i}"]).to(dtype) for i in range(count)]
    forbidden = torch.from_numpy(inputs["action_masks"] == 0.0)
    if not network.memory_size:
        return network.act(network.prepare(obs), forbidden), None
    states = torch.from_numpy(inputs["recurrent_in"][:, 0]).to(dtype)
    return network.act_with_memory(network.prepare(obs), states, action_mask=forbidden)


def _check_states(name: str, found: Arrays, wanted: NDArray[np.float32], batch: int, step: int) -> None:
    _same_shape(name, "recurrent_out", found, wanted.shape)
    wrong = np.abs(found["recurrent_out"] - wanted)
    if not (wrong <= ABSOLUTE + RELATIVE * np.abs(wanted)).all():
        raise BrainVerificationError(
            f"The brain of '{name}' and the network differ by {wrong.max():.3g} in what they remember (batch "
            f"of {batch}, step {step}, component {int(wrong.max((0, 1)).argmax())})."
        )


def _check_deterministic(
    name: str, found: Arrays, expected: ActionDistribution, batch: int, rounding: Callable[[], Floats]
) -> None:
    """Compare the likeliest actions; `rounding`: of the continuous ones, see `agree`."""
    wanted = expected.deterministic()
    if expected.mu.shape[1]:
        actions = expected.to_engine(wanted.continuous).numpy()
        _same_shape(name, "deterministic_continuous_actions", found, actions.shape)
        if not agree(found["deterministic_continuous_actions"], actions, rounding):
            wrong = np.abs(found["deterministic_continuous_actions"] - actions)
            raise BrainVerificationError(
                f"The brain of '{name}' and the network differ by {wrong.max():.3g} in a deterministic "
                f"continuous action (batch of {batch}, component {int(wrong.max(0).argmax())})."
            )
    if expected.branches.sizes:
        actions = wanted.discrete.numpy()
        _same_shape(name, "deterministic_discrete_actions", found, actions.shape)
        chosen = torch.from_numpy(found["deterministic_discrete_actions"])
        shortfall = expected.shortfall(chosen)
        if not (shortfall <= NEARLY_EQUAL).all():
            raise BrainVerificationError(
                f"The brain of '{name}' does not choose the network's likeliest action (batch of {batch}, "
                f"branch {int(shortfall.max(0).values.argmax())}, {float(shortfall.max()):.3g} less likely)."
            )


def _same_shape(name: str, output: str, found: Arrays, shape: Sequence[int]) -> None:
    if output not in found or found[output].shape != tuple(shape):
        actual = found[output].shape if output in found else "absent"
        raise BrainVerificationError(
            f"Output '{output}' of the brain of '{name}' is {actual} instead of {tuple(shape)}."
        )


def _check_equal(name: str, found: Arrays) -> None:
    """A greedy policy's sampled outputs, which engines read by default, are the deterministic ones."""
    for output in ("continuous_actions", "discrete_actions"):
        if output in found and not np.array_equal(found[output], found[f"deterministic_{output}"]):
            raise BrainVerificationError(
                f"The outputs '{output}' and 'deterministic_{output}' of the brain of '{name}' differ, and "
                "its policy always does the same."
            )


def check_sampled(name: str, found: Arrays, expected: ActionDistribution) -> None:
    """Compare the distribution of many draws for one observation with the network's."""
    if expected.mu.shape[1]:
        _same_shape(name, "continuous_actions", found, (DRAWS, expected.mu.shape[1]))
        _check_gaussians(name, found["continuous_actions"], expected)
    if expected.branches.sizes:
        _same_shape(name, "discrete_actions", found, (DRAWS, len(expected.branches.sizes)))
        probabilities = expected.probabilities[0].numpy()
        for k, size in enumerate(expected.branches.sizes):
            sampled = np.bincount(found["discrete_actions"][:, k], minlength=size) / DRAWS
            distance = np.abs(np.cumsum(sampled - probabilities[k, :size])).max()
            _check_distance(name, f"discrete branch {k}", distance)


def _check_gaussians(name: str, sampled: NDArray[np.float32], expected: ActionDistribution) -> None:
    if not np.abs(sampled).max() <= 1.0 + ABSOLUTE:
        raise BrainVerificationError(
            f"The brain of '{name}' gives a continuous action of {np.abs(sampled).max():.3g}; "
            f"engines take -1 to 1."
        )
    mu, sigma = expected.mu[0], expected.log_sigma.expand_as(expected.mu)[0].exp()
    # Where sigma is lost in the rounding of mu, there is no distribution to compare.
    resolved = (sigma > 1e-4 * mu.abs().clamp(min=1.0)).numpy()
    limit = ENGINE_RANGE if expected.squashed else expected.action_range
    for quantile in QUANTILES:
        raw = mu + quantile * sigma
        inside = ((raw.abs() < limit).numpy()) & resolved
        if not inside.any():
            continue
        below = (sampled <= expected.to_engine(expected.squash(raw)).numpy()).mean(0)
        distance = np.abs(below - 0.5 * math.erfc(-quantile / math.sqrt(2.0)))[inside].max()
        _check_distance(name, "continuous actions", float(distance))


def _check_distance(name: str, what: str, distance: float) -> None:
    if not distance <= CONFIDENT_DISTANCE:
        raise BrainVerificationError(
            f"The brain of '{name}' does not sample its {what} as the network does: the distributions are "
            f"{distance:.2f} apart (at most {CONFIDENT_DISTANCE:.2f} is expected in {DRAWS} draws)."
        )
