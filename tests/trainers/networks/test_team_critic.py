"""The team's critic is ML-Agents', evaluated by what its sets share."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from goldendata import array, cases
from lanista.trainers.networks.modules.attention import HEADS, LAYER_NORM_EPS, POOL_EPS
from lanista.trainers.networks.modules.distributions import flat_actions
from lanista.trainers.networks.team_critic import Members, TeamCritic
from lanista.trainers.settings.models.networks import NetworkSettings
from referencenets import load_parameters, team_critic_parameters
from specs import vector_spec
from torch.nn import functional


@pytest.mark.parametrize("case", cases("networks", "forward_poca_critic"))
def test_values_and_baselines_are_the_reference_s(case):
    given, expected = case["inputs"], case["expected"]
    spec = vector_spec(
        [shape[0] for shape in given["observation_shapes"]],
        given["continuous_size"],
        given["discrete_branches"],
    )
    critic = TeamCritic(spec, NetworkSettings.model_validate(given["network_settings"]), ["extrinsic"])
    load_parameters(team_critic_parameters(critic), given["weights"])
    own = [array(o) for o in given["self_obs"]]
    mates = [[array(o) for o in mate] for mate in given["mates_obs_nan_is_missing"]]
    steps, width = len(own[0]), 1 + len(mates)
    # Every step is a set of its own: its agent, then the teammates; rows [steps, width] one after another.
    obs = [np.stack([o, *(mate[k] for mate in mates)], 1) for k, o in enumerate(own)]
    absent = np.isnan(obs[0][..., 0])
    rows = [torch.from_numpy(np.nan_to_num(o).reshape(steps * width, -1).astype(np.float32)) for o in obs]

    def of_members(own_part, parts, columns, dtype):
        stacked = [np.zeros((steps, columns), dtype), *(np.asarray(p, dtype) for p in parts)]
        return torch.from_numpy(np.stack(stacked, 1).reshape(steps * width, columns))

    continuous = of_members(None, given["mates_continuous_actions"], given["continuous_size"], np.float32)
    discrete = of_members(None, given["mates_discrete_actions"], len(given["discrete_branches"]), np.int64)
    actions = flat_actions(continuous, discrete, given["discrete_branches"])
    members = Members(None, torch.from_numpy(absent), steps, width)
    close = {"rtol": 1e-4, "atol": 1e-5}
    with torch.no_grad():
        values, baselines = critic.evaluate(rows, actions, members)
        np.testing.assert_allclose(values[:, 0], expected["value"], **close)
        np.testing.assert_allclose(baselines[:, 0, 0], expected["baseline"], **close)
        assert critic.largest.item() == expected["max_agents_after"]
        alone = [torch.from_numpy(o.astype(np.float32)) for o in own]
        none = torch.zeros(steps, actions.shape[1])
        values, baselines = critic.evaluate(alone, none, Members(None, None, steps, 1))
        np.testing.assert_allclose(values[:, 0], expected["value_without_mates"], **close)
        np.testing.assert_allclose(baselines[:, 0, 0], expected["baseline_without_mates"], **close)


def plain(critic, entities, count):
    """Attention over one set [n, h] as the papers write it, then the head."""
    attention = critic.attention
    x = functional.layer_norm(entities, (attention.size,), eps=LAYER_NORM_EPS)
    q, k, v = (
        (x @ m.weight + m.bias).view(len(x), HEADS, -1)
        for m in (attention.query, attention.key, attention.value)
    )
    p = (torch.einsum("qhd,khd->hqk", q, k) / math.sqrt(attention.size)).softmax(-1)
    mixed = torch.einsum("hqk,khd->qhd", p, v).flatten(1)
    out = functional.layer_norm(
        mixed @ attention.out.weight + attention.out.bias + x, (attention.size,), eps=LAYER_NORM_EPS
    )
    encoding = critic.body.stream(0, (out.sum(0) / (len(x) + POOL_EPS)).unsqueeze(0))
    share = torch.tensor([[2.0 * count / critic.largest.item() - 1.0]])
    return critic.values(torch.cat((encoding, share), 1))[0]


@pytest.mark.parametrize("sizes", [[1], [3, 3, 3], [2, 5, 1, 4], [8]])
@pytest.mark.parametrize("shared_rows", [False, True])
def test_sets_with_shared_members_are_valued_as_if_each_were_alone(sizes, shared_rows):
    torch.manual_seed(3)
    spec = vector_spec([4, 3], 2, (3,))
    critic = TeamCritic(spec, NetworkSettings(hidden_units=16, num_layers=2), ["extrinsic", "gail"])
    for parameter in critic.parameters():
        parameter.data.normal_(0, 0.4)
    widest, number = max(sizes), sum(sizes)
    critic.largest.fill_(float(widest))
    inputs, actions = [torch.randn(number, 7)], torch.randn(number, 5)
    sets = torch.full((len(sizes), widest), -1)
    left = 0
    for g, size in enumerate(sizes):
        sets[g, :size] = torch.arange(left, left + size)
        left += size
    rows = torch.where(sets < 0, sets[:, :1], sets)
    absent = None if (sets >= 0).all() else sets < 0
    if shared_rows:
        values, baselines = critic.evaluate(inputs, actions, Members(rows, absent, len(sizes), widest))
    else:
        flat = rows.flatten()
        members = Members(None, absent, len(sizes), widest)
        values, baselines = critic.evaluate([x[flat] for x in inputs], actions[flat], members)
    weight = torch.randn(number, 2)
    total, expected = torch.zeros(()), torch.zeros(())
    encodings = critic.encoder(inputs)
    waiting = critic.embed_waiting(encodings)
    acting = critic.embed_acting(torch.cat((encodings, actions), 1))
    step = 0
    for g, size in enumerate(sizes):
        team = sets[g, :size]
        value = plain(critic, waiting[team], size)
        torch.testing.assert_close(values[g], value, rtol=1e-4, atol=1e-5)
        for i in range(size):
            others = torch.cat((team[:i], team[i + 1 :]))
            baseline = plain(critic, torch.cat((waiting[team[i : i + 1]], acting[others])), size)
            torch.testing.assert_close(baselines[g, i], baseline, rtol=1e-4, atol=1e-5)
            total = total + ((baselines[g, i] + values[g]) * weight[step]).sum()
            expected = expected + ((baseline + value) * weight[step]).sum()
            step += 1
    parameters = list(critic.parameters())
    got = torch.autograd.grad(total, parameters)
    for gradient, wanted in zip(got, torch.autograd.grad(expected, parameters), strict=True):
        torch.testing.assert_close(gradient, wanted, rtol=1e-3, atol=1e-4)


def test_the_number_of_members_is_relative_to_the_largest_team_seen():
    critic = TeamCritic(vector_spec([2], 1, ()), NetworkSettings(hidden_units=8), ["extrinsic"])
    with torch.no_grad():
        critic.values.weight.zero_()
        critic.values.weight[-1] = 1.0
        absent = torch.tensor([[False, False], [False, True]])
        values = critic.value([torch.randn(4, 2)], Members(None, absent, 2, 2))
    assert values[:, 0].tolist() == [1.0, 0.0]
    assert critic.largest.item() == 2.0


def test_a_width_that_heads_do_not_divide_is_refused():
    with pytest.raises(ValueError, match="divisible by 4, not 10"):
        TeamCritic(vector_spec([2], 1, ()), NetworkSettings(hidden_units=10), ["extrinsic"])
