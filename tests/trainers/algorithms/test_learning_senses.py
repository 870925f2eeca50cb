"""Every trainer learns from images of bytes, entities, goals and vectors at once."""

import numpy as np
import pytest
import torch
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.algorithms.coma.critic import CentralCritic, Steps
from lanista.trainers.networks.multi_actor import MultiActor
from lanista.trainers.policies.greedy import CheckpointPolicy
from lanista.trainers.settings.models.behavior import TrainerSettings
from lanista.trainers.settings.models.networks import NetworkSettings
from lanista.trainers.trainer.factory import make_algorithm
from mlagents_envs.base_env import DecisionSteps
from rollouts import make_rollout
from specs import spec_of_shapes

SHAPES = [(3,), (3, 20, 20), (4, 3), (2,)]
SPEC = spec_of_shapes(SHAPES, [0, 0, 0, 1], continuous=1, branches=(2,))
MEMORIES = [None, {"memory_size": 8, "sequence_length": 4}]
STEPS, TRAJECTORIES = 8, 4


def observations(random, rows):
    obs = [random.normal(size=(rows, *shape)).astype(np.float32) for shape in SHAPES]
    obs[1] = random.integers(0, 256, obs[1].shape).astype(np.uint8)
    obs[2][:, 2:] = 0.0
    obs[3] = np.eye(2, dtype=np.float32)[random.integers(0, 2, rows)]
    return obs


def rollout(teams, memory_size):
    """Trajectories of agents that, in `teams`, act two by two."""
    random, n = np.random.default_rng(0), STEPS * TRAJECTORIES
    mates = np.arange(n).reshape(TRAJECTORIES, STEPS)[[1, 0, 3, 2]].reshape(n, 1) if teams else None
    return make_rollout(
        [STEPS] * TRAJECTORIES,
        observations(random, n),
        continuous=random.normal(size=(n, 1)).astype(np.float32),
        discrete=random.integers(0, 2, (n, 1)).astype(np.int32),
        action_mask=np.zeros((n, 2), bool),
        reward=random.normal(size=n).astype(np.float32),
        memory=np.zeros((n, memory_size), np.float32) if memory_size else None,
        teammates=mates,
        next_obs=observations(random, TRAJECTORIES),
        all_group_dones=np.zeros(TRAJECTORIES, bool),
    )


@pytest.mark.parametrize("memory", MEMORIES, ids=["feedforward", "recurrent"])
@pytest.mark.parametrize("trainer", ["ppo", "poca", "mappo"])
def test_an_update_moves_every_part_of_actor_and_critic(trainer, memory):
    network = {"hidden_units": 8, "normalize": True, "memory": memory, "critic": {"num_layers": 3}}
    hyper = {"batch_size": 16, "buffer_size": 32, "learning_rate": 0.01}
    config = TrainerSettings.model_validate(
        {"trainer_type": trainer, "network_settings": network, "hyperparameters": hyper}
    )
    algorithm = make_algorithm(SPEC, config, torch.device("cpu"), 0, NonFinitePolicy.STOP)
    critic = getattr(algorithm, "critic", None)
    networks = [algorithm.network] if critic is None else [algorithm.network, critic]
    before = [{k: v.clone() for k, v in one.state_dict().items()} for one in networks]
    rows = rollout(trainer != "ppo", memory["memory_size"] if memory else 0)
    algorithm.update_normalizer(rows.own("obs")["obs"])
    evaluation = algorithm.evaluate(rows, {"extrinsic": rows.reward}, {"extrinsic": False})
    assert evaluation.steps.obs[1].dtype == np.uint8
    losses = algorithm.update(evaluation.steps, 0)
    assert all(np.isfinite(list(losses.values())))
    for one, old in zip(networks, before):
        still = [
            n for n, p in one.named_parameters() if torch.equal(p, old[n]) and "actions.log_sigma" not in n
        ]
        assert not still


@pytest.mark.parametrize("hidden", [None, 0, 1])
@pytest.mark.parametrize("shared", [True, False])
def test_coma_s_actors_and_critic_read_them_too(shared, hidden):
    """`hidden` is the state, which the critic alone reads: a vector, or an image."""
    spec = spec_of_shapes(SHAPES, [0, 0, 0, 1], branches=(2,))
    config, places, rows = NetworkSettings(hidden_units=8, normalize=True), 2, 6
    actors = MultiActor(spec, config, places, shared=shared, indexed=shared, hidden=hidden)
    critic = CentralCritic(spec, config, places, ["a"], hidden, 1 if shared else places)
    obs = [torch.from_numpy(o) for o in observations(np.random.default_rng(0), rows)]
    where = torch.tensor([0, 1] * 3)
    expected = actors.act(actors.prepare(obs), where).logits
    assert expected.shape == (rows, 2)
    for place in range(places):
        alone = actors.standalone(place)
        torch.testing.assert_close(alone.act(alone.prepare(obs)).logits[place::2], expected[place::2])
    if hidden is not None:
        changed = [o.clone() for o in obs]
        changed[hidden] = changed[hidden].flip(0)
        torch.testing.assert_close(actors.act(actors.prepare(changed), where).logits, expected)
    table = critic.table(*critic.prepare(obs), torch.zeros(rows, 1, dtype=torch.int64))
    pairs = torch.arange(rows).view(3, 2).repeat_interleave(2, 0)
    values = critic(table, Steps(torch.arange(rows), pairs, where))
    assert values.shape == (rows, 1, 2)
    values.sum().backward()
    assert all(p.grad is not None for n, p in critic.named_parameters() if "encoder" in n)


@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize("hidden", [0, 1])
def test_coma_s_actors_have_goals_and_a_state_that_they_do_not_read(hidden, num_layers):
    """Also where the goal makes the weights of the only layer."""
    spec = spec_of_shapes([(3,), (4,), (2,)], [0, 0, 1], branches=(5,))
    config = NetworkSettings(hidden_units=8, num_layers=num_layers)
    actors = MultiActor(spec, config, 2, hidden=hidden)
    obs = [torch.randn(6, *o.shape) for o in spec.observation_specs]
    where = torch.tensor([0, 1] * 3)

    def logits(index):
        changed = [o.clone() for o in obs]
        changed[index] += 1.0
        return actors.logits(actors.prepare(changed), where)[0]

    expected, _ = actors.logits(actors.prepare(obs), where)
    read = [index for index in range(3) if not torch.equal(logits(index), expected)]
    assert read == [1 - hidden, 2]


def test_coma_s_actor_of_a_checkpoint_passes_over_a_state_that_is_a_picture():
    """Though what it reads is a vector alone."""
    spec, ids, zeros = spec_of_shapes([(3,), (3, 20, 20)], branches=(5,)), np.arange(40), np.zeros(40)
    actor = MultiActor(spec, NetworkSettings(hidden_units=8), 2, hidden=1).standalone(0)
    with torch.no_grad():
        actor.actions.weight.mul_(30.0)
    vectors = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    said = []
    for state in (np.zeros((40, 3, 20, 20), np.float32), np.ones((40, 3, 20, 20), np.float32)):
        steps = DecisionSteps([vectors, state], zeros, ids, None, ids, zeros)
        said.append(CheckpointPolicy(actor, 0).act(steps, deterministic=True).discrete)
    np.testing.assert_array_equal(*said)
    expected = actor.act(actor.prepare([torch.from_numpy(vectors)])).deterministic().discrete
    np.testing.assert_array_equal(said[0], expected)
    assert len(np.unique(expected)) > 1
