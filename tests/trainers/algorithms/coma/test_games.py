"""Games whose solutions are known, learned from beginning to end."""

import numpy as np
import pytest
import torch
from coma_plays import Batch, Play, settings, vector_spec
from lanista.agent_processor.rollout import build_rollout
from lanista.trainers.algorithms.coma.minibatches import RosterMinibatches
from lanista.trainers.networks.multi_actor import exported_networks

pytestmark = pytest.mark.slow

QUICK = {"batch_size": 64, "buffer_size": 256, "learning_rate": 5e-3, "learning_rate_schedule": "constant"}
SETTLED = {"epsilon_start": 0.3, "epsilon_end": 0.0, "epsilon_decay_steps": 3000}


def play_matrix_game(payoff, updates, **keys):
    """Two agents that see nothing act once; the group earns the payoff of both actions."""
    play = Play(
        vector_spec([1], [len(payoff)]), settings(**{**QUICK, **SETTLED, "max_num_agents": 2, **keys})
    )
    seen = [np.ones((2, 1), np.float32)]
    actions, earned = play.tell(Batch([0, 1], seen)), []
    while play.updates < updates:
        earned.append(payoff[actions[0, 0]][actions[1, 0]])
        actions = play.tell(Batch([0, 1], seen), Batch([0, 1], seen, group_reward=earned[-1]))
        if len(earned) % 16 == 0:
            play.trainer.advance()
    return play, np.mean(earned[-100:])


@pytest.mark.parametrize("clip", [True, False])
def test_two_agents_learn_to_agree(clip):
    _, earned = play_matrix_game([[1.0, 0.0], [0.0, 1.0]], 12 if clip else 40, clip=clip)
    assert earned > 0.9


DIFFER = [[0.0, 1.0], [1.0, 0.0]]


@pytest.mark.parametrize("how", [{"share_parameters": False}, {"index_on_actor": True}])
def test_agents_with_equal_observations_learn_to_differ_by_their_slots(how):
    play, earned = play_matrix_game(DIFFER, 15, **how)
    assert earned > 0.9
    brains = exported_networks(play.algorithm.network)
    assert list(brains) == ["-place0", "-place1"]
    chosen = [b.act([torch.ones(1, 1)]).deterministic().discrete.item() for b in brains.values()]
    assert sorted(chosen) == [0, 1], "each brain knows its place by itself"


def test_one_policy_for_both_cannot_differ_for_certain():
    _, earned = play_matrix_game(DIFFER, 10)
    assert earned < 0.8


def test_the_critic_learns_the_payoffs_and_the_advantages_follow_from_them():
    """With lambda and one step an episode, Q is the payoff; A what the action adds to the average."""
    payoff = np.array([[2.0, -1.0], [0.5, 1.0]])
    keys = {"epsilon_start": 1.0, "epsilon_end": 1.0, "beta": 0.0}  # chance alone acts: all pairs are seen
    play, _ = play_matrix_game(payoff.tolist(), 40, **keys)
    seen = [np.ones((2, 1), np.float32)]
    for _ in range(30):
        play.tell(Batch([0, 1], seen), Batch([0, 1], seen))
    rows = build_rollout(play.manager.trajectory_queue.drain(), with_teammates=False)
    algorithm = play.algorithm
    rewards = {"extrinsic": np.zeros(rows.steps, np.float32)}
    steps = algorithm.evaluate(rows, rewards, {"extrinsic": False}).steps
    advantages = algorithm._advantages(RosterMinibatches(algorithm.networks, steps))[:, 0]
    for i in range(rows.steps):
        first, second = rows.discrete[rows.roster[i], 0]
        own = payoff[:, second] if rows.roster[i, 0] == i else payoff[first]
        assert advantages[i] == pytest.approx(payoff[first, second] - own.mean(), abs=0.25)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_a_team_with_a_memory_acts_on_a_signal_from_the_start(kind):
    """The first observation says which action is right at the third step, when nobody sees it anymore."""
    memory = {"memory": {"memory_size": 16, "sequence_length": 4, "memory_type": kind}}
    keys = {**QUICK, **SETTLED, "max_num_agents": 2, "learning_rate": 1e-2, "network_settings": memory}
    play = Play(vector_spec([2], [2]), settings(**keys))
    random, earned = np.random.default_rng(0), []
    blank = [np.zeros((2, 2), np.float32)]

    def instruction():
        word = int(random.integers(2))
        return word, [np.eye(2, dtype=np.float32)[[word, word]]]

    word, seen = instruction()
    play.tell(Batch([0, 1], seen))
    for episode in range(1500):
        play.tell(Batch([0, 1], blank))
        actions = play.tell(Batch([0, 1], blank))
        earned.append(float((actions[:, 0] == word).mean()))
        word, seen = instruction()
        play.tell(Batch([0, 1], seen), Batch([0, 1], blank, group_reward=earned[-1]))
        if episode % 8 == 0:
            play.trainer.advance()
        if np.mean(earned[-60:]) > 0.9 and len(earned) > 60:
            break
    assert np.mean(earned[-60:]) > 0.9


def test_teams_with_changing_members_are_learned_from():
    """A member that dies early learns from what the team earns afterwards.

    Of two members the first may give something up before it dies (action 1), without which the second earns
    nothing later; the second sees whether it did.
    """
    keys = {**QUICK, **SETTLED, "max_num_agents": 2, "reward_signals": {"extrinsic": {"gamma": 0.95}}}
    play = Play(vector_spec([3], [2]), settings(**keys))
    gave = []
    roles = np.eye(2, 3, dtype=np.float32)
    while play.updates < 25:
        actions = play.tell(Batch([0, 1], [roles]))
        gave.append(int(actions[0, 0]))
        left = [np.array([[0.0, 1.0, gave[-1]]], np.float32)]
        play.tell(Batch([1], left), Batch([0], [roles[:1]], [-0.1 * gave[-1]]))
        play.tell(Batch([1], left))
        play.tell(None, Batch([1], left, group_reward=float(gave[-1])))
        if len(gave) % 8 == 0:
            play.trainer.advance()
    assert np.mean(gave[-50:]) > 0.9
