"""SAC with memories, images, entities and goals, in both precisions."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from lanista.agent_processor.trajectory import AgentKey
from lanista.trainers.networks.critics import BurnInSequences
from lanista.trainers.networks.modules.distributions import Actions
from lanista.trainers.networks.modules.memory import Memory
from lanista.trainers.networks.modules.passes import Precision
from lanista.trainers.settings.models.networks import MemorySettings
from mlagents_envs.base_env import ObservationType
from rollouts import recurrent_rollout
from sacbatches import ACTIONS, algorithm, some_batch, spec_of

LENGTH, COUNT, SIZE = 4, 3, 8
ROWS = LENGTH * COUNT
MEMORY = {"memory": {"memory_size": SIZE, "sequence_length": LENGTH}}
SHAPES = {"picture": ((3, 20, 20), (4,)), "entities": ((6, 3), (4,)), "goal": ((4,), (3,))}


def remembering(kind, **hyper):
    return algorithm(spec_of(ACTIONS[kind]), network=MEMORY, **hyper)


def sequences(spec, real=None, **changes):
    real = torch.ones(ROWS, dtype=torch.bool) if real is None else real
    return some_batch(spec, ROWS, states=(COUNT, SIZE), real=real, **changes)


def learn(sac, batch, steps=2):
    for _ in range(steps):
        result = sac.update(batch, 0)
    return result


def weights(sac):
    return {entry: sac.state_dict()[entry] for entry in ("Policy", "Q", "Value", "Target", "Temperatures")}


def same(one, other):
    return all(torch.equal(one[e][k], other[e][k]) for e in one for k in one[e])


def assert_everything_moves(sac, batch):
    """But normalizers, and the coefficient of a kind of actions that there is none of."""

    def tensors():
        return {f"{e}.{n}": t.clone() for e, m in weights(sac).items() for n, t in m.items() if t.numel()}

    before = tensors()
    figures = learn(sac, batch).metrics
    assert all(np.isfinite(x) for name, x in figures.items() if "Discrete" not in name)
    still = [name for name, tensor in tensors().items() if torch.equal(tensor, before[name])]
    without = [] if sac.spec.action_spec.continuous_size else ["Temperatures.log_continuous"]
    assert [name for name in still if "normalizers" not in name] == without


@pytest.mark.parametrize("precision", Precision)
@pytest.mark.parametrize("kind", ACTIONS)
def test_with_a_memory_all_weights_learn(kind, precision):
    sac = remembering(kind, precision=precision)
    assert_everything_moves(sac, sequences(sac.spec, masked=True))


@pytest.mark.parametrize("kind", ACTIONS)
@pytest.mark.parametrize("precision", Precision)
@pytest.mark.parametrize("sense", SHAPES)
def test_with_other_senses_all_weights_learn(sense, precision, kind):
    spec = spec_of(ACTIONS[kind], SHAPES[sense])
    if sense == "goal":
        spec.observation_specs[1] = spec.observation_specs[1]._replace(
            observation_type=ObservationType.GOAL_SIGNAL
        )
    sac = algorithm(spec, precision=precision)
    batch = some_batch(spec, ROWS)
    if sense == "picture":
        images = [(rows[0].abs() * 80).clamp(0, 255).to(torch.uint8) for rows in (batch.obs, batch.next_obs)]
        batch = replace(batch, obs=[images[0], batch.obs[1]], next_obs=[images[1], batch.next_obs[1]])
    assert_everything_moves(sac, batch)


@pytest.mark.parametrize("kind", ACTIONS)
@pytest.mark.parametrize("burn_in_ratio", [0.0, 0.5])
def test_padding_and_what_follows_it_are_not_learned_from(kind, burn_in_ratio):
    real = torch.ones(ROWS, dtype=torch.bool)
    real[LENGTH - 1 :: LENGTH] = False
    one, other = (remembering(kind, burn_in_ratio=burn_in_ratio) for _ in range(2))
    batch = sequences(one.spec, real)
    others = sequences(one.spec, real, seed=2)

    def mixed(a, b):
        return torch.where(real.view(-1, *[1] * (a.dim() - 1)), a, b)

    changed = replace(
        batch,
        obs=[mixed(a, b) for a, b in zip(batch.obs, others.obs, strict=True)],
        next_obs=[mixed(a, b) for a, b in zip(batch.next_obs, others.next_obs, strict=True)],
        actions=Actions(*(mixed(a, b) for a, b in zip(batch.actions, others.actions, strict=True))),
        rewards=mixed(batch.rewards, others.rewards),
        discounts=mixed(batch.discounts, others.discounts),
    )
    assert learn(one, batch).metrics == pytest.approx(learn(other, changed).metrics, nan_ok=True)
    assert same(weights(one), weights(other))


@pytest.mark.parametrize("kind", ACTIONS)
def test_a_burn_in_is_read_but_not_learned_from(kind):
    """What was earned there changes nothing; what was seen there does, through the memories."""
    half = remembering(kind, burn_in_ratio=0.5)
    batch = sequences(half.spec)
    warming = (torch.arange(ROWS) % LENGTH < LENGTH // 2).unsqueeze(1)
    assert len(learn(half, batch).td_errors) == ROWS // 2
    earning = remembering(kind, burn_in_ratio=0.5)
    learn(earning, replace(batch, rewards=torch.where(warming, 100.0, batch.rewards)))
    assert same(weights(half), weights(earning))
    seeing = remembering(kind, burn_in_ratio=0.5)
    learn(seeing, replace(batch, obs=[torch.where(warming, -o, o) for o in batch.obs]))
    assert not same(weights(half), weights(seeing))


def test_a_run_through_a_memory_is_its_steps_one_by_one():
    memory = Memory(5, MemorySettings(memory_size=SIZE))
    rows, states = torch.randn(ROWS, 5), torch.randn(COUNT, SIZE)
    expected, state = [], states
    for t in range(LENGTH):
        said, state = memory(rows[t::LENGTH], state, 1)
        expected.append(said)
    whole = torch.stack(expected, 1)
    for burn_in in (0, 1, 3):
        found = BurnInSequences(LENGTH, burn_in).run(memory, rows, states)
        torch.testing.assert_close(found, whole[:, burn_in:].flatten(0, 1))


def test_the_value_starts_a_sequence_with_its_own_memory():
    """And nothing but the first row of a sequence tells of it."""
    sac, same_start, other_start = (remembering("continuous") for _ in range(3))
    batch = sequences(sac.spec)
    first = (torch.arange(ROWS) % LENGTH == 0).unsqueeze(1)
    states = batch.extra["value_states"]
    learn(sac, batch, 1)
    learn(same_start, replace(batch, extra={"value_states": torch.where(first, states, 7.0)}), 1)
    learn(other_start, replace(batch, extra={"value_states": torch.where(first, 7.0, states)}), 1)
    assert same(weights(sac), weights(same_start))
    assert not torch.equal(sac._value_weights, other_start._value_weights)


def test_the_value_s_memory_is_kept_with_the_steps():
    """What the replay gives back at a sequence's first step is the state that V was in there."""
    rollout = recurrent_rollout([6, 3], [AgentKey(0, 1), AgentKey(0, 2)], [True, True], memory_size=SIZE)
    sac = algorithm(spec_of(ACTIONS["continuous"], ((3,),)), network=MEMORY | {"normalize": False})
    value = sac.networks.value
    values = sac.estimates(rollout)["Value"]
    kept = sac.extra(rollout)["value_states"]
    assert [column.name for column in sac.extra_columns] == ["value_states"] and kept.shape == (9, SIZE)
    rows = torch.from_numpy(rollout.obs[0][:9])
    with torch.no_grad():
        for start, length in ((0, 4), (4, 2), (6, 3)):
            part, state = value.encoding([rows[start : start + length]]), torch.from_numpy(kept[[start]])
            expected = value.values(value.memory()(part, state, length)[0])
            np.testing.assert_allclose(values[start : start + length], expected, rtol=1e-5, atol=1e-6)
    assert not kept[0].any() and not kept[6].any() and kept[4].any()


def test_the_target_remembers_what_came_before():
    """V' of a sequence's t-th next observation is that of a memory which has seen all up to there."""
    sac = algorithm(spec_of(ACTIONS["continuous"], ((3,),)), network=MEMORY | {"normalize": False})
    target, states = sac.networks.target, torch.zeros(COUNT, SIZE)
    seen = torch.randn(COUNT, LENGTH + 1, 3)
    obs, following = (seen[:, k : k + LENGTH].flatten(0, 1) for k in (0, 1))
    found = sac.forward._next_values(target, [obs], [following], states, BurnInSequences(LENGTH))
    said, _ = target.memory()(target.encoding([seen.flatten(0, 1)]), states, LENGTH + 1)
    expected = target.values(said).view(COUNT, LENGTH + 1, -1)[:, 1:].flatten(0, 1)
    torch.testing.assert_close(found, expected)
