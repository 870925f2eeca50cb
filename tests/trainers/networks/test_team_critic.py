"""The team's critic is ML-Agents', evaluated by what its sets share."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import torch
from goldendata import array, cases
from lanista.trainers.networks.modules.attention import HEADS, LAYER_NORM_EPS, POOL_EPS
from lanista.trainers.networks.modules.distributions import flat_actions
from lanista.trainers.networks.team_critic import TeamCritic, TeamSets
from lanista.trainers.settings.models.networks import NetworkSettings
from lanista.trainers.settings.validation import ATTENTION_HEADS
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
    rows = critic.encoder.prepare(rows)

    def of_members(own_part, parts, columns, dtype):
        stacked = [np.zeros((steps, columns), dtype), *(np.asarray(p, dtype) for p in parts)]
        return torch.from_numpy(np.stack(stacked, 1).reshape(steps * width, columns))

    continuous = of_members(None, given["mates_continuous_actions"], given["continuous_size"], np.float32)
    discrete = of_members(None, given["mates_discrete_actions"], len(given["discrete_branches"]), np.int64)
    actions = flat_actions(continuous, discrete, given["discrete_branches"])
    numbers = (~absent).sum(1)
    order = np.argsort(numbers, kind="stable")
    present = ~absent[order]
    which = (order[:, None] * width + np.arange(width))[present]
    sets = TeamSets(tuple(zip(*(x.tolist() for x in np.unique(numbers, return_counts=True)))))
    own_slots = present.cumsum().reshape(present.shape)[:, 0] - 1
    close = {"rtol": 1e-4, "atol": 1e-5}
    with torch.no_grad():
        values, baselines = critic.evaluate([x[which] for x in rows], actions[which], sets)
        np.testing.assert_allclose(values[:, 0], array(expected["value"])[order], **close)
        np.testing.assert_allclose(baselines[own_slots, 0], array(expected["baseline"])[order], **close)
        assert critic.largest.item() == expected["max_agents_after"]
        alone = critic.encoder.prepare([torch.from_numpy(o.astype(np.float32)) for o in own])
        none = torch.zeros(steps, actions.shape[1])
        values, baselines = critic.evaluate(alone, none, TeamSets(((1, steps),)))
        np.testing.assert_allclose(values[:, 0], expected["value_without_mates"], **close)
        np.testing.assert_allclose(baselines[:, 0], expected["baseline_without_mates"], **close)


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


@pytest.mark.parametrize("sizes", [[1], [1, 1, 2], [3, 3, 3], [1, 2, 4, 5], [8]])
@pytest.mark.parametrize("shared_rows", [False, True])
def test_sets_of_all_sizes_are_valued_as_if_each_were_alone(sizes, shared_rows):
    """Values, baselines, and in float64 the gradients of all parameters up to rounding."""
    torch.manual_seed(3)
    spec = vector_spec([4, 3], 2, (3,))
    critic = TeamCritic(spec, NetworkSettings(hidden_units=[16, 10]), ["extrinsic", "gail"]).double()
    for parameter in critic.parameters():
        parameter.data.normal_(0, 0.4)
    number = sum(sizes)
    critic.largest.fill_(float(max(sizes)))
    inputs, actions = [torch.randn(number, 7).double()], torch.randn(number, 5).double()
    if shared_rows:
        rows = torch.randint(number, (number,))
        sets = TeamSets(tuple(Counter(sizes).items()), rows)
    else:
        rows, sets = torch.arange(number), TeamSets(tuple(Counter(sizes).items()))
    values, baselines = critic.evaluate(inputs, actions, sets)
    weight = torch.randn(number, 2)
    total, expected = torch.zeros(()), torch.zeros(())
    encodings = critic.encoder(inputs)
    waiting = critic.embed_waiting(encodings)
    acting = critic.embed_acting(torch.cat((encodings, actions), 1))
    step = 0
    for g, team in enumerate(rows.split(sizes)):
        value = plain(critic, waiting[team], len(team))
        torch.testing.assert_close(values[g], value)
        for i in range(len(team)):
            others = torch.cat((team[:i], team[i + 1 :]))
            baseline = plain(critic, torch.cat((waiting[team[i : i + 1]], acting[others])), len(team))
            torch.testing.assert_close(baselines[step], baseline)
            total = total + ((baselines[step] + values[g]) * weight[step]).sum()
            expected = expected + ((baseline + value) * weight[step]).sum()
            step += 1
    used = [p for name, p in critic.named_parameters() if max(sizes) > 1 or "acting" not in name]
    got = torch.cat([g.flatten() for g in torch.autograd.grad(total, used)])
    wanted = torch.cat([g.flatten() for g in torch.autograd.grad(expected, used)])
    assert (got - wanted).norm() / wanted.norm() < 1e-6


def test_the_number_of_members_is_relative_to_the_largest_team_seen():
    critic = TeamCritic(vector_spec([2], 1, ()), NetworkSettings(hidden_units=8), ["extrinsic"])
    with torch.no_grad():
        critic.values.weight.zero_()
        critic.values.weight[-1] = 1.0
        values = critic.value([torch.randn(3, 2)], TeamSets(((1, 1), (2, 1))))
    assert values[:, 0].tolist() == [0.0, 1.0]
    assert critic.largest.item() == 2.0


def test_the_settings_know_the_number_of_heads():
    assert ATTENTION_HEADS == HEADS


def test_a_width_that_heads_do_not_divide_is_refused():
    with pytest.raises(ValueError, match="divisible by 4, not 10"):
        TeamCritic(vector_spec([2], 1, ()), NetworkSettings(hidden_units=10), ["extrinsic"])
