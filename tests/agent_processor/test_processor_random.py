"""Random scripts, through the processor and through the plain model of it: the same trajectories, to the bit.

The scripts do what engines do and what they should not: agents of several environments with the same ids,
decisions that come late or stay unanswered, ids that end and begin in one message, end twice or end unknown,
groups that are joined, left and joined again, forced resets, agents declared void.
"""

from itertools import count
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanista.agent_processor.rows import RowStore
from plain_processor import PlainProcessor
from processor_scripts import Player
from simple_engine import vector_spec
from told_trajectories import same, told

BRANCHES = (2, 3)
MEMORY = 2

AGENTS = 5
GROUPS = (0, 1, 1, 1, 2)
"""The group in which each agent starts."""

DEEDS = ["decide"] * 8 + ["nothing", "nothing", "end", "interrupt", "end and begin", "end twice"]

does = st.sampled_from(DEEDS)
step = st.fixed_dictionaries(
    {
        "op": st.just("step"),
        "worker": st.sampled_from([0, 0, 1]),
        "answered": st.sampled_from([True] * 6 + [False]),
        "does": st.lists(does, min_size=AGENTS, max_size=AGENTS),
        "order": st.permutations(range(AGENTS)),
        "moves": st.one_of(*[st.none()] * 5, st.tuples(st.integers(0, AGENTS - 1), st.integers(0, 2))),
    }
)
forced = st.fixed_dictionaries({"op": st.just("end_episode"), "worker": st.sampled_from([None, 0, 1])})
forget = st.fixed_dictionaries(
    {
        "op": st.just("forget"),
        "worker": st.integers(0, 1),
        "agent_id": st.lists(st.integers(0, AGENTS), max_size=3),
    }
)
scripts = st.lists(st.one_of(*[step] * 20, forced, forget), max_size=30)


class Author:
    """Writes the events out: every number in them is another one, so that nothing can be mistaken."""

    def __init__(self) -> None:
        self.numbers = count(1)
        self.waiting: dict[int, list[int]] = {}
        self.group = {(env, i): group for env in (0, 1) for i, group in enumerate(GROUPS)}

    def floats(self, *shape: int) -> np.ndarray:
        n = int(np.prod(shape))
        return np.array([next(self.numbers) for _ in range(n)], np.float32).reshape(shape)

    def write(self, event: dict[str, Any]) -> dict[str, Any]:
        if event["op"] != "step":
            return event
        env, decided = event["worker"], None
        if event["answered"] and env in self.waiting:
            decided = self.answer(self.waiting[env])
        if event["moves"] is not None:
            moved, group = event["moves"]
            self.group[env, moved] = group
        done = [(i, event["does"][i]) for i in event["order"]]
        ends = [(i, what) for i, what in done if what not in ("decide", "nothing")]
        ends += [(i, "interrupt") for i, what in done if what == "end twice"]
        terminal = self.batch(env, [i for i, _ in ends])
        terminal["interrupted"] = [what == "interrupt" for _, what in ends]
        self.waiting[env] = [i for i, what in done if what in ("decide", "end and begin")]
        decision = self.batch(env, self.waiting[env])
        n = len(self.waiting[env])
        decision["action_mask"] = [self.floats(n, size) % 2 == 0 for size in BRANCHES]
        return {"op": "step", "worker": env, "actions": decided, "decision": decision, "terminal": terminal}

    def batch(self, env: int, ids: list[int]) -> dict[str, Any]:
        n = len(ids)
        return {
            "agent_id": ids,
            "obs": [self.floats(n, 2), self.floats(n, 1, 2)],
            "reward": self.floats(n),
            "group_id": [self.group[env, i] for i in ids],
            "group_reward": self.floats(n),
        }

    def answer(self, ids: list[int]) -> dict[str, Any]:
        n = len(ids)
        return {
            "agent_ids": ids,
            "continuous": self.floats(n, 1),
            "discrete": self.floats(n, 2).astype(np.int32),
            "log_probs_continuous": self.floats(n, 1),
            "log_probs_discrete": self.floats(n, 2),
            "entropy": self.floats(n),
            "memory_out": self.floats(n, MEMORY),
        }


def random_script(random: Random, length: int) -> list[dict[str, Any]]:
    """A long script in which agents mostly live on, for what only shows after a while."""
    lives, moves = random.choice((0, 0, 100)), random.choice((0.02, 0.4))

    def event() -> dict[str, Any]:
        kind, env = random.random(), random.choice((0, 0, 1))
        if kind < 0.01:
            return {"op": "end_episode", "worker": random.choice((None, 0, 1))}
        if kind < 0.03:
            return {"op": "forget", "worker": env, "agent_id": [random.randrange(AGENTS + 1)]}
        return {
            "op": "step",
            "worker": env,
            "answered": random.random() < 0.95,
            "does": [random.choice(["decide"] * lives + DEEDS) for _ in range(AGENTS)],
            "order": random.sample(range(AGENTS), AGENTS),
            "moves": (random.randrange(AGENTS), random.randrange(3)) if random.random() < moves else None,
        }

    return [event() for _ in range(length)]


@settings(max_examples=150, deadline=None)
@given(scripts, st.integers(1, 4), st.sampled_from([1, 4, 64]))
def test_any_script_gives_the_trajectories_of_the_simple_model(
    script: list[Any], horizon: int, block_rows: int
) -> None:
    check(script, horizon, block_rows)


@pytest.mark.parametrize("seed", range(16))
def test_a_long_script_gives_the_trajectories_of_the_simple_model(seed: int) -> None:
    random = Random(seed)
    check(random_script(random, 200), random.choice((1, 3, 10, 100)), random.choice((1, 2, 8, 64)))


def check(script: list[Any], horizon: int, block_rows: int) -> None:
    """Play the script both ways and compare everything that comes out."""
    spec = vector_spec((2,), (1, 2), continuous=1, branches=BRANCHES)
    player = Player(spec, horizon, MEMORY)
    player.manager._rows = RowStore(spec, MEMORY, block_rows)
    model = PlainProcessor(horizon, MEMORY, len(BRANCHES))
    author, trajectories = Author(), []
    for event in map(author.write, script):
        trajectories += player.play(event)
        if event["op"] == "step":
            model.step(event["worker"], event["actions"], event["decision"], event["terminal"])
        elif event["op"] == "forget":
            for i in event["agent_id"]:
                model.forget((event["worker"], i))
        else:
            model.end_episode(event["worker"])
    same(player.sink.stats, model.stats, "stats")
    # Read only now: what the store has dropped meanwhile, the trajectories must have kept.
    same(told(spec, trajectories), model.trajectories, "trajectories")
    for trajectory, expected in zip(trajectories, model.trajectories):
        same(trajectory.next_obs, expected["next_obs"], "next_obs")
        same(trajectory.next_teammates_obs, expected["next_group_obs"], "next_mates_obs")
        same(told(spec, [trajectory]), [expected], "alone")


@settings(max_examples=100, deadline=None)
@given(scripts)
def test_memories_are_those_of_the_last_decision_of_an_episode(script: list[Any]) -> None:
    spec = vector_spec((2,), (1, 2), continuous=1, branches=BRANCHES)
    player = Player(spec, 3, MEMORY)
    author = Author()
    state: dict[tuple[int, int], np.ndarray] = {}
    for event in map(author.write, script):
        player.play(event)
        env = event["worker"]
        if event["op"] == "step":
            for i, row in zip(
                (event["actions"] or {}).get("agent_ids", []), (event["actions"] or {}).get("memory_out", [])
            ):
                if (env, i) in state:
                    state[env, i] = row
            for i in event["terminal"]["agent_id"]:
                state.pop((env, i), None)
            for i in event["decision"]["agent_id"]:
                state.setdefault((env, i), np.zeros(MEMORY))
        elif event["op"] == "forget":
            for i in event["agent_id"]:
                state.pop((env, i), None)
        else:
            state = {key: row for key, row in state.items() if env is not None and key[0] != env}
        for e in (0, 1):
            expected = [state.get((e, i), np.zeros(MEMORY)) for i in range(AGENTS + 1)]
            same(
                player.manager.memories(e, np.arange(AGENTS + 1, dtype=np.int32)),
                expected,
                f"environment {e}",
            )
