"""A recurrent team: members who go on are valued with what is remembered of each of them."""

import numpy as np
import torch
from coma_plays import Batch, Play, settings, vector_spec
from lanista.agent_processor.rollout import build_rollout
from lanista.agent_processor.trajectory import AgentKey
from lanista.trainers.algorithms.coma.critic import Steps
from lanista.trainers.algorithms.coma.evaluation import NextMembers
from lanista.trainers.networks.modules.memory import PackedSequences

SPEC = vector_spec([2], [3])
MEMORY = {"memory": {"memory_size": 8, "sequence_length": 4}}
# What the others do next does not matter to what is compared: nobody acts but by chance, and alike.
CONFIG = {
    "batch_size": 8,
    "buffer_size": 1000,
    "max_num_agents": 2,
    "network_settings": MEMORY,
    "time_horizon": 3,
    "epsilon_start": 1.0,
    "epsilon_end": 1.0,
}


def eyes(*agents):
    return [np.array([[agent, agent * agent] for agent in agents], np.float32) / 10.0]


def expected_behind(play, rows, states):
    """[J] what the target expects where members go on with these states, by (trajectory, place)."""
    nets, found = play.algorithm.networks, []
    actions = torch.zeros(len(rows.reward), 1, dtype=torch.int64)
    table = nets.table_of(nets.target, [torch.from_numpy(o.copy()) for o in rows.obs], actions)
    for j, roster in enumerate(rows.next_roster):
        values = []
        for place in np.flatnonzero(roster >= 0).tolist():
            there = torch.from_numpy(np.where(roster >= 0, roster, len(rows.reward))[None])
            one = Steps(there[:, place], there, torch.tensor([place]))
            state = torch.from_numpy(states[j, place][None])
            with torch.no_grad():
                values.append(float(nets.target(table, one, PackedSequences([1], state))[0, 0].mean()))
        found.append(np.mean(values) if values else 0.0)
    return np.array(found)


def without_others_actions(play):
    """The critics read what the others do as nothing."""
    for critic in (play.algorithm.networks.critic, play.algorithm.networks.target):
        table = critic.table

        def blind(inputs, states, discrete, table=table):
            return (whole := table(inputs, states, discrete))._replace(actions=whole.actions * 0.0)

        critic.table = blind
        for parameter in critic.parameters():
            parameter.data.normal_(0, 0.4, generator=torch.Generator().manual_seed(len(parameter)))


def test_each_member_after_a_truncation_is_valued_with_its_own_memory():
    play = Play(SPEC, settings(**CONFIG))
    without_others_actions(play)
    for tick in range(4):
        play.tell(Batch([1, 2], eyes(1 + tick, 2 - tick)))
    rows = build_rollout(play.manager.trajectory_queue.drain(), with_teammates=False)
    assert rows.next_place.tolist() == [0, 1]
    found = play.algorithm.evaluator(rows, 1.0).following[:, 0]
    memories = play.algorithm.evaluator.target_memories.read([AgentKey(0, 1), AgentKey(0, 2)])
    assert np.abs(memories[0] - memories[1]).max() > 1e-3
    both = np.stack([memories, memories])
    np.testing.assert_allclose(found, expected_behind(play, rows, both), rtol=1e-4, atol=1e-5)
    crossed = expected_behind(play, rows, both[:, ::-1])
    assert np.abs(found - crossed).max() > 1e-4, "whose memory it is matters"


def test_a_survivor_is_valued_with_its_recurrent_state_and_an_unknown_agent_with_zeros():
    play = Play(SPEC, settings(**CONFIG))
    without_others_actions(play)
    for tick in range(4):
        play.tell(Batch([1, 2], eyes(1 + tick, 2 - tick)))
    play.algorithm.evaluator(build_rollout(play.manager.trajectory_queue.drain(), with_teammates=False), 1.0)
    (known,) = play.algorithm.evaluator.target_memories.read([AgentKey(0, 1)])
    play.tell(Batch([1], eyes(7)), Batch([2], eyes(8)))  # of 1 nothing newer is known than that
    rows = build_rollout(play.manager.trajectory_queue.drain(), with_teammates=False)
    assert rows.next_place.tolist() == [-1]
    assert rows.next_agents.tolist() == [[1, -1]]
    states = np.stack([known, np.zeros_like(known)])[None]
    found = play.algorithm.evaluator(rows, 1.0).following[:, 0]
    np.testing.assert_allclose(found, expected_behind(play, rows, states), rtol=1e-4, atol=1e-5)
    play.algorithm.reset_agents(0, np.array([1]))
    found = play.algorithm.evaluator(rows, 1.0).following[:, 0]
    np.testing.assert_allclose(found, expected_behind(play, rows, 0 * states), rtol=1e-4, atol=1e-5)


def test_the_newest_states_are_those_before_the_row_and_none_of_an_earlier_life():
    play = Play(SPEC, settings(**{**CONFIG, "max_num_agents": 3}))
    play.tell(Batch([1, 2], eyes(1, 2)))
    play.tell(Batch([1, 2], eyes(1, 2)), Batch([2], eyes(3)))  # 2 dies and lives again at once
    for _ in range(3):
        play.tell(Batch([1, 2], eyes(1, 2)))
    rows = build_rollout(play.manager.trajectory_queue.drain(), with_teammates=False)
    assert [agent.agent for agent in rows.agents] == [2, 1, 2]
    assert rows.next_place.tolist() == [-1, 0, 2]
    assert rows.next_agents.tolist() == [[1, -1, 2], [1, -1, 2], [1, -1, 2]]
    following = NextMembers(rows)
    earlier, behind = np.full((6, 1), 9.0, np.float32), np.array([[10.0], [20.0], [30.0]], np.float32)
    # 1 cut before 2: behind the death, what was known of 1 and nothing of the new 2.
    assert following.latest(earlier, behind)[:2, 0].tolist() == [9.0, 0.0]
    # 1 is cut one message before 2 is: then 2 is still new.
    assert following.latest(earlier, behind)[2:, 0].tolist() == [20.0, 0.0, 20.0, 30.0]


def test_the_last_observation_of_an_interrupted_member_has_its_actor_s_memory():
    play = Play(SPEC, settings(**CONFIG))
    play.tell(Batch([1, 2], eyes(1, 2)))
    play.tell(Batch([1, 2], eyes(2, 3)))
    before = play.manager.memories(0, np.array([1, 2]))
    decided = play._decided[0].memory
    assert np.abs(decided - before).max() > 0.0
    ids = [2, 77, 1]  # nobody knows 77
    play.tell(None, Batch(ids, eyes(*ids), interrupted=True))
    rows = build_rollout(play.manager.trajectory_queue.drain(), with_teammates=False)
    for roster in rows.next_roster:
        np.testing.assert_array_equal(rows.memory[roster], decided)
