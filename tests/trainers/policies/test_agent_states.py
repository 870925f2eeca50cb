"""Who acts with which memory: each agent with its own, from its episode's first decision to its last."""

import numpy as np
import policysteps
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lanista.agent_processor.processor import AgentManager
from lanista.envs.base import EnvironmentStep
from lanista.trainers.networks.actor_critic import ActorCritic
from lanista.trainers.policies.agent_states import AgentMemories, AgentStates
from lanista.trainers.policies.policy import ActContext, Policy
from lanista.trainers.settings.models.networks import NetworkSettings
from mlagents_envs.base_env import TerminalSteps
from simple_engine import ListSink
from specs import vector_spec

SPEC = vector_spec([2], 1, (3,))
BEHAVIOR = "Ball?team=0"
SIZE = 4


class Run:
    """What a controller does with one behavior's messages: answer, then hand them to the processor."""

    def __init__(self, kind="lstm"):
        chosen = NetworkSettings(hidden_units=8, memory={"memory_type": kind, "memory_size": SIZE})
        self.network = ActorCritic(SPEC, chosen, ["extrinsic"])
        self.policy = Policy(self.network, SPEC, seed=1)
        self.states = AgentStates(SIZE)
        self.manager = AgentManager(BEHAVIOR, SPEC, 100, ListSink(), memory_size=SIZE)
        self.answers = {}

    def message(self, env, asking, ending=(), void=(), fresh=False):
        """One environment's message; the states with which the asking agents went into their decisions."""
        step = EnvironmentStep(
            env,
            {BEHAVIOR: (decisions(asking), terminals(ending))},
            {},
            fresh=fresh,
            void_agents={BEHAVIOR: np.array(void, np.int32)} if void else {},
        )
        self.states.end_episodes(step, BEHAVIOR)
        batches = [step.steps[BEHAVIOR][0]]
        sources = [(env, BEHAVIOR)]
        before = self.states.read(sources, batches)
        (decision,) = self.policy.act(batches, ActContext(sources, self.states))
        if fresh:
            self.manager.end_episode(env)
        if void:
            self.manager.reset_agents(env, np.array(void, np.int32))
        answer = None if fresh else self.answers.get(env)
        self.manager.add_experiences(*step.steps[BEHAVIOR], env, answer)
        self.answers[env] = decision
        kept = self.manager.memories(env, np.array(asking, np.int32))
        np.testing.assert_array_equal(before, kept, err_msg="the rows hold other states than were acted on")
        return before, decision.memory


def decisions(ids):
    return policysteps.decisions(policysteps.random_obs([(2,)], len(ids), len(ids)), ids)


def terminals(ids):
    n, ids = len(ids), np.array(ids, np.int32)
    zeros = np.zeros(n, np.float32)
    return TerminalSteps(
        [np.zeros((n, 2), np.float32)], zeros, np.zeros(n, bool), ids, np.zeros(n, np.int32), zeros
    )


def test_each_agent_continues_with_the_state_of_its_last_decision():
    run = Run()
    first, after = run.message(0, [3, 5])
    assert not first.any() and after.any(axis=1).all()
    before, later = run.message(0, [5])
    np.testing.assert_array_equal(before, after[1:])
    before, _ = run.message(0, [3, 5, 9])
    np.testing.assert_array_equal(before, np.stack([after[0], later[0], np.zeros(SIZE)]))


def test_an_episode_end_resets_the_memory_even_if_the_id_returns_at_once():
    run = Run()
    run.message(0, [3, 5])
    before, _ = run.message(0, [3, 5], ending=[3])
    assert not before[0].any() and before[1].any()


def test_a_reset_or_void_steps_end_memories_of_that_environment_alone():
    run = Run()
    for env in (0, 1):
        run.message(env, [3, 5])
    before, _ = run.message(0, [3, 5], void=[5])
    assert before[0].any() and not before[1].any()
    before, _ = run.message(0, [3, 5], fresh=True)
    assert not before.any()
    before, _ = run.message(1, [3, 5])
    assert before.any(axis=1).all()


def test_acting_is_the_networks_own_result():
    for kind in ("lstm", "gru"):
        run = Run(kind)
        run.policy.deterministic = True
        states = np.random.default_rng(0).normal(size=(3, SIZE)).astype(np.float32)
        steps = decisions([1, 2, 3])
        sources = [(0, BEHAVIOR)]
        run.states.store(sources, [steps], states)
        (found,) = run.policy.act([steps], ActContext(sources, run.states))
        with torch.no_grad():
            inputs = run.network.prepare([torch.from_numpy(steps.obs[0])])
            distribution, after = run.network.act_with_memory(inputs, torch.from_numpy(states))
            wanted = distribution.deterministic()
        np.testing.assert_allclose(found.action.continuous, wanted.continuous, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(found.action.discrete, wanted.discrete)
        np.testing.assert_allclose(found.memory, after, rtol=1e-5, atol=1e-6)


def test_decisions_for_several_environments_bring_each_its_states():
    run = Run()
    batches = [decisions([1, 2]), decisions([1])]
    sources = [(0, BEHAVIOR), (1, BEHAVIOR)]
    decided = run.policy.act(batches, ActContext(sources, run.states))
    assert [d.memory.shape for d in decided] == [(2, SIZE), (1, SIZE)]
    np.testing.assert_array_equal(
        run.states.read(sources[::-1], batches[::-1]), np.concatenate([decided[1].memory, decided[0].memory])
    )


IDS = st.one_of(st.just([4, 1, 7]), st.just([7, 4, 1]), st.lists(st.integers(0, 9), max_size=6, unique=True))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.sampled_from(["read", "store", "drop"]), IDS), max_size=12))
def test_memories_are_a_table_by_id_in_whatever_order_agents_ask(calls):
    memories, table = AgentMemories(2), {}
    for number, (what, ids) in enumerate(calls, start=1):
        ids = np.array(ids, np.int32)
        rows = np.stack([ids, np.full(len(ids), number)], 1).astype(np.float32)
        if what == "store":
            memories.store(ids, rows)
            table |= dict(zip(ids.tolist(), rows.copy(), strict=True))
            rows[:] = -1.0  # it keeps rows of its own
        elif what == "drop":
            memories.drop(ids)
            table = {agent: row for agent, row in table.items() if agent not in ids}
        found = memories.read(ids)
        wanted = [table.get(agent, np.zeros(2)) for agent in ids.tolist()]
        np.testing.assert_array_equal(found, np.reshape(wanted, (-1, 2)))
        found[:] = -1.0
        assert len(memories) == len(table)
