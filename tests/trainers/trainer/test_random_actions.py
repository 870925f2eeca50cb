"""With `random_initial_actions` agents that learn act uniformly at random until learning may start."""

import numpy as np
import pytest
import torch
from crowd import BEHAVIOR, Crowd, learn_from, make_learner
from lanista.trainers.runner.evaluation.rollout import EvaluationPolicy
from specs import vector_spec

RANDOM_STEPS = 48
MEMORY = {"memory": {"memory_size": 4, "sequence_length": 4}}
KINDS = {
    "sac": ("sac", vector_spec([3], 2), {}),
    "sac, hybrid": ("sac", vector_spec([3], 2, (3, 2)), {}),
    "sac with a memory": ("sac", vector_spec([3], 2), MEMORY),
    "td3": ("td3", vector_spec([3], 2), {}),
    "ddpg": ("ddpg", vector_spec([3], 2), {}),
    "dqn": ("dqn", vector_spec([3], 0, (3, 2)), {}),
}


def learner(folder, kind, *, random=True, training=True, **network):
    trainer, spec, more = KINDS[kind]
    hyper = {"batch_size": 8, "buffer_size": 500, "steps_per_update": 1000}
    hyper |= {"buffer_init_steps": RANDOM_STEPS, "random_initial_actions": random}
    if trainer == "dqn":
        hyper["epsilon_start"] = hyper["epsilon_end"] = 0.0
    network |= {"hidden_units": 8, "num_layers": 1, **more}
    behavior = {"trainer_type": trainer, "hyperparameters": hyper, "network_settings": network}
    return make_learner(folder, spec, behavior | {"time_horizon": 6}, training=training)


def with_other_weights(one):
    """The same learner, whose network would act in another way."""
    with torch.no_grad():
        for parameter in one.inference.network.parameters():
            parameter.mul_(-5.0)
    return one


def decisions(one, ticks):
    """What the agents of a crowd decide, tick by tick, while the learner processes their steps."""
    crowd, found = Crowd(one.spec), []
    for _ in range(ticks):
        learn_from(one, crowd.play(one, 1))
        found.append(crowd.decided[BEHAVIOR])
    return found


def flat(decision):
    return np.concatenate([decision.action.continuous, decision.action.discrete], axis=1)


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_policy_decides_only_from_buffer_init_steps_on(tmp_path, kind, deterministic):
    one = learner(tmp_path / "one", kind, deterministic=deterministic)
    other = with_other_weights(learner(tmp_path / "other", kind, deterministic=deterministic))
    # Trajectories of 6 steps: after the 13th tick the trainer has two of each of 4 agents, 48 steps.
    first, second = decisions(one, 20), decisions(other, 20)
    differs = [not np.array_equal(flat(a), flat(b)) for a, b in zip(first, second, strict=True)]
    assert not any(differs[:13]) and any(differs[13:])
    assert len({tuple(row) for a in first[:13] for row in flat(a).tolist()}) > 5, "chance, not habit"


@pytest.mark.parametrize("kind", KINDS)
def test_the_replay_holds_what_the_engine_was_sent(tmp_path, kind):
    one = learner(tmp_path, kind)
    sent = [d.env_action for d in decisions(one, 13)]
    held = one.trainer.replay.columns
    for name in ("continuous", "discrete"):
        rows = getattr(held, name)[: len(one.trainer.replay)].tolist()
        assert {tuple(row) for row in rows} <= {tuple(row) for a in sent for row in getattr(a, name).tolist()}
    reach = np.abs(np.concatenate([a.continuous for a in sent]))
    assert (reach <= 1.0).all() and reach.max(initial=1.0) > 0.8


def test_forbidden_actions_are_never_taken(tmp_path):
    one = learner(tmp_path, "dqn")
    crowd, forbidden = Crowd(one.spec), 0
    for _ in range(12):
        asking = crowd.step().steps[BEHAVIOR][0]
        (decided,) = one.act_requests([asking], [(0, BEHAVIOR)])[0].decide()
        for branch, mask in enumerate(asking.action_mask):
            assert not mask[np.arange(4), decided.action.discrete[:, branch]].any()
            forbidden += int(mask.sum())
    assert forbidden > 10


def test_recurrent_states_follow_the_observations_all_the_same(tmp_path):
    kind = "sac with a memory"
    random, own = (decisions(learner(tmp_path / str(r), kind, random=r), 13) for r in (True, False))
    for a, b in zip(random, own, strict=True):
        assert not np.array_equal(flat(a), flat(b))
        np.testing.assert_array_equal(a.memory, b.memory)


@pytest.mark.parametrize("kind", ["sac", "td3"])
def test_agents_that_do_not_learn_act_by_the_policy(tmp_path, kind):
    given = {"training": False, "deterministic": True}
    one = decisions(learner(tmp_path / "one", kind, **given), 1)
    other = decisions(with_other_weights(learner(tmp_path / "other", kind, **given)), 1)
    assert not np.array_equal(flat(one[0]), flat(other[0]))


def test_evaluations_are_not_random(tmp_path):
    one = learner(tmp_path, "sac")
    policy = EvaluationPolicy(one.spec, one.algorithm.network, time_horizon=6, slots=0)
    asking = Crowd(one.spec).step().steps[BEHAVIOR][0]
    again = [policy.act([asking], [(0, BEHAVIOR)])[0].env_action.continuous for _ in range(2)]
    np.testing.assert_array_equal(*again)
