"""A critic remembers each agent for itself, from trajectory to trajectory, until its episode ends."""

import numpy as np
import pytest
import torch
from goldendata import cases
from hypothesis import given, settings
from hypothesis import strategies as st
from lanista.agent_processor.trajectory import AgentKey
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.algorithms.common.recurrent import CriticStates, unroll, waves
from lanista.trainers.algorithms.poca.poca import POCA
from lanista.trainers.algorithms.ppo.ppo import PPO
from lanista.trainers.networks.modules.memory import Memory
from lanista.trainers.settings.models.behavior import TrainerSettings
from lanista.trainers.settings.models.networks import MemorySettings
from mlagents_envs.base_env import ActionSpec
from rollouts import recurrent_rollout
from specs import vector_spec

SIZE = 4
CLOSE = {"rtol": 1e-4, "atol": 1e-5}
A, B, C = AgentKey(0, 1), AgentKey(0, 2), AgentKey(1, 1)


def memory(kind="lstm"):
    return Memory(3, MemorySettings(memory_type=kind, memory_size=SIZE), torch.Generator().manual_seed(1))


def test_an_agents_trajectories_take_turns():
    turns = waves([A, B, A, C, A, B])
    assert [w.tolist() for w in turns] == [[0, 1, 3], [2, 5], [4]]
    assert waves([]) == []


def test_agents_that_end_or_are_forgotten_leave_nothing():
    memories = CriticStates(SIZE)
    states = np.arange(3 * SIZE, dtype=np.float32).reshape(3, SIZE)
    memories.write([A, B, C], states, np.array([False, True, False]))
    np.testing.assert_array_equal(memories.read([C, B, A]), [states[2], np.zeros(SIZE), states[0]])
    memories.reset_agents(1)
    assert len(memories) == 1
    memories.reset_agents(0, np.array([1, 7], np.int32))
    assert len(memories) == 0
    memories.write([A, B, C], states, np.array([False] * 3))
    memories.reset_agents()
    assert len(memories) == 0


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(st.data(), st.sampled_from(["lstm", "gru"]), st.integers(1, 4))
def test_steps_in_one_go_are_the_steps_one_by_one(data, kind, sequence_length):
    """Whatever the lengths and the order of the agents' trajectories, and however these are drained."""
    made, memories = memory(kind), CriticStates(SIZE)
    by_hand = {}
    for _ in range(data.draw(st.integers(1, 3))):
        count = data.draw(st.integers(1, 5))
        agents = [data.draw(st.sampled_from([A, B, C])) for _ in range(count)]
        lengths = [data.draw(st.integers(1, 6)) for _ in range(count)]
        done = [data.draw(st.booleans()) for _ in range(count)]
        begins, ended = [], {a for a in (A, B, C) if a not in by_hand}
        for agent, is_over in zip(agents, done):
            begins.append(agent in ended)
            ended = ended | {agent} if is_over else ended - {agent}
        rollout = recurrent_rollout(lengths, agents, begins, done)
        steps, following = torch.randn(sum(lengths), 3), torch.randn(count, 3)
        said = unroll(made, memories, rollout, sequence_length, steps, following)
        row, sequence = 0, 0
        for j, agent in enumerate(agents):
            state = by_hand.get(agent, torch.zeros(1, SIZE))
            for t in range(lengths[j]):
                if t % sequence_length == 0:
                    np.testing.assert_allclose(said.starts[sequence], state[0].detach(), **CLOSE)
                    sequence += 1
                wanted, state = made(steps[row : row + 1], state, 1)
                torch.testing.assert_close(said.steps[row : row + 1], wanted.detach(), **CLOSE)
                row += 1
            wanted, _ = made(following[j : j + 1], state, 1)
            torch.testing.assert_close(said.following[j : j + 1], wanted.detach(), **CLOSE)
            if done[j]:
                by_hand.pop(agent, None)
            else:
                by_hand[agent] = state
        assert sequence == len(said.starts)
        assert len(memories) == len(by_hand)


def test_an_agent_that_starts_over_has_no_memory_of_an_unfinished_episode():
    """As after a reset of the engine, which may give out the same ids again."""
    made, memories = memory(), CriticStates(SIZE)
    steps = torch.randn(2, 3)
    unroll(made, memories, recurrent_rollout([2], [A], [True]), 2, steps)
    said = unroll(made, memories, recurrent_rollout([2], [A], [True]), 2, steps)
    assert not said.starts.any()


def test_an_agent_that_loses_a_life_goes_on_with_its_memory():
    made, memories = memory(), CriticStates(SIZE)
    first = recurrent_rollout([2], [A], [True], [True])
    first.life_lost = np.array([True])
    unroll(made, memories, first, 2, torch.randn(2, 3))
    kept = memories.read([A])
    said = unroll(made, memories, recurrent_rollout([2], [A], [False], [True]), 2, torch.randn(2, 3))
    assert kept.all()
    np.testing.assert_array_equal(said.starts, kept)
    assert not len(memories), "its episode is over"


SPEC = vector_spec([3], 1)


@pytest.mark.parametrize("case", cases("returns", "recurrent_critic_memory"))
def test_critic_memories_of_a_run(case):
    """The reference's calls and rows; but whose memory a trajectory goes on with is our own affair.

    ML-Agents keeps one for all agents and PPO forgets it only with a trajectory that truly ends, POCA never
    (pitfalls C2). Each agent has its own here, and it ends with the agent's episode, however that ends.
    """
    given_, expected = case["inputs"], case["expected"]["per_trajectory"]
    length, poca = given_["sequence_length"], given_["trainer"] == "poca"
    config = TrainerSettings.model_validate(
        {
            "trainer_type": given_["trainer"],
            "network_settings": {"memory": {"sequence_length": length, "memory_size": SIZE}},
        }
    )
    algorithm = (POCA if poca else PPO)(SPEC, config, torch.device("cpu"), 0, NonFinitePolicy.STOP)
    calls = calls_of(algorithm.critic.memory() if poca else algorithm.network.memory(-1))
    last: dict[str, np.ndarray] = {}
    for trajectory, wanted in zip(given_["trajectories"], expected, strict=True):
        name, steps = trajectory["agent_id"], trajectory["length"]
        env, _, agent = name.removeprefix("agent_").partition("-")
        rollout = recurrent_rollout(
            [steps], [AgentKey(int(env), int(agent))], [name not in last], [trajectory["done"]]
        )
        rollout.interrupted_at_end[:] = trajectory["interrupted"]
        calls.clear()
        zeros = {"extrinsic": np.zeros(steps, np.float32)}
        evaluated = algorithm.evaluate(rollout, zeros, {"extrinsic": False}).steps
        lengths = wanted["sequence_lengths_of_critic_calls"]
        # POCA's baselines remember for themselves; nothing follows them.
        assert [call[0] for call in calls] == (lengths + lengths[:-1] if poca else lengths)
        assert len(evaluated) == wanted["stored_rows"]
        stored = evaluated.value_memory if poca else evaluated.critic_memory
        assert len(stored) == wanted["stored_rows"] // length
        before = last.pop(name, np.zeros(SIZE, np.float32))
        np.testing.assert_allclose(stored[0], before, **CLOSE)
        if not trajectory["done"]:
            last[name] = calls[len(lengths) - 2][1]
    assert len(algorithm.evaluator.value_states if poca else algorithm.memories) == len(last)


def calls_of(memory_: Memory) -> list[tuple[int, np.ndarray]]:
    """Grows with every call: how many steps, and the state behind them."""
    calls, forward = [], memory_.forward

    def recording(encodings, state, length):
        outputs, after = forward(encodings, state, length)
        calls.append((length, after[0].numpy()))
        return outputs, after

    memory_.forward = recording
    return calls


def test_trajectories_are_padded_to_whole_sequences():
    config = TrainerSettings.model_validate(
        {"trainer_type": "ppo", "network_settings": {"memory": {"sequence_length": 3, "memory_size": SIZE}}}
    )
    spec = SPEC._replace(action_spec=ActionSpec(1, (2,)))
    algorithm = PPO(spec, config, torch.device("cpu"), 0, NonFinitePolicy.STOP)
    rollout = recurrent_rollout([4, 3], [A, B], [True, False], [True, False])
    rollout.memory = np.arange(7 * SIZE, dtype=np.float32).reshape(7, SIZE)
    rollout.discrete = np.ones((7, 1), np.int32)
    rollout.action_mask = np.array([[False, True]] * 6 + [[True, False]])
    rollout.log_probs = np.full((7, 2), -1.0, np.float32)
    steps = algorithm.evaluate(rollout, {"extrinsic": np.ones(7, np.float32)}, {"extrinsic": False}).steps
    assert steps.real.tolist() == [True] * 4 + [False] * 2 + [True] * 3
    for column in (steps.obs[0], steps.continuous, steps.discrete, steps.log_probs, steps.values):
        assert len(column) == 9
        assert not column[4:6].any()
    assert not steps.returns[4:6].any() and not steps.advantages[4:6].any()
    np.testing.assert_array_equal(steps.obs[0][steps.real], rollout.obs[0])
    assert steps.action_mask[4:6].tolist() == [[False, True]] * 2
    np.testing.assert_array_equal(steps.memory, rollout.memory[[0, 3, 4]])
