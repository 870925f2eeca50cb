"""Environments for hosting processes, and a loop that keeps every detail of what it sees."""

import warnings

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium_games import Cat
from lanista.envs.engines.options import EngineOptions
from lanista.envs.hosting.environment import HostedEnvironment
from lanista.envs.hosting.source import HostedSource
from lanista.envs.python.sources import make_source
from mlagents_envs.base_env import ActionTuple, ObservationSpec


class Images(gymnasium.Env):
    """Observes random images of all kinds, and its last action."""

    observation_space = Dict(
        colors=Box(0, 255, (6, 5, 3), np.uint8),
        gray=Box(0, 255, (6, 5), np.uint8),
        frames=Box(0, 255, (4, 6, 5), np.uint8),
        values=Box(-np.inf, np.inf, (2, 3), np.float32),
        kind=Discrete(3),
        nothing=Box(0, 1, (0,), np.float32),
    )
    action_space = Dict(push=Box(-2, 3, (2,), np.float32), pick=Discrete(4))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.seen(np.zeros(2)), self.allowed()

    def step(self, action):
        self.time += 1
        ended = self.np_random.random() < 0.2
        return self.seen(action["push"]), float(action["pick"]), ended, self.time == 7, self.allowed()

    def seen(self, push):
        pixels = {
            name: self.np_random.integers(0, 256, self.observation_space[name].shape, np.uint8)
            for name in ("colors", "gray", "frames")
        }
        values = np.tile(push, 3).reshape(2, 3) + self.np_random.random((2, 3))
        return {**pixels, "values": values, "kind": self.time % 3, "nothing": np.zeros(0)}

    def allowed(self):
        return {"action_mask": np.array([1, 1, self.time % 2, 1], np.int8)}


def cat():
    """Loses lives."""
    return Cat()


class Wrong(Cat):
    """Fails in its fifth step."""

    def __init__(self, how="shape"):
        super().__init__()
        self.how, self.steps = how, 0

    def step(self, action):
        self.steps += 1
        if self.how == "warn":
            warnings.warn("the physics is unstable", stacklevel=1)
        answer = super().step(action)
        if self.steps < 5:
            return answer
        if self.how == "raise":
            raise KeyError("speed")
        if self.how == "die":
            raise SystemExit
        return answer if self.how == "warn" else (np.zeros(7), *answer[1:])


def odd(method):
    """A BaseEnv one of whose further methods fails."""
    from foreign_env import Foreign

    def fail(*_):
        raise KeyError("speed")

    return type("Odd", (Foreign,), {method: fail})()


def unmade(seed):
    """Cannot be made."""
    raise RuntimeError(f"no licence for {seed}")


def sideways():
    """A BaseEnv whose images have their channels last without saying so."""
    from foreign_env import NAME, SPEC, Foreign

    class Sideways(Foreign):
        behavior_specs = property(
            lambda self: {
                NAME: SPEC._replace(
                    observation_specs=[ObservationSpec((9, 9, 1), (0, 0, 0), SPEC[0][0][2], "image")]
                )
            }
        )

        def get_steps(self, behavior_name):
            decisions, terminals = super().get_steps(behavior_name)
            decisions.obs = [np.zeros((len(decisions), 9, 9, 1))]
            terminals.obs = [np.zeros((len(terminals), 9, 9, 1))]
            return decisions, terminals

    return Sideways()


class Newcomers:
    """A parallel environment without possible_agents; after two steps another kind of agent appears."""

    def __init__(self):
        self.agents = ["first"]

    def reset(self, seed=None):
        self.agents, self.time = ["first"], 0
        return self.seen(), {}

    def step(self, actions):
        self.time += 1
        if self.time == 2:
            self.agents = ["first", "late"]
        no = dict.fromkeys(self.agents, False)
        return self.seen(), dict.fromkeys(self.agents, 1.0), no, no, {}

    def seen(self):
        return {agent: np.full(len(agent), self.time) for agent in self.agents}

    def observation_space(self, agent):
        return Box(0, 99, (len(agent),), np.float32)

    def action_space(self, agent):
        return Discrete(2)

    def close(self):
        pass


def in_place(source, seed, areas):
    """The environment stepped in this process, as a trainer has it."""
    return make_source(
        *(source.path, seed, source.arguments, areas),
        with_state=source.with_state,
        self_play=source.self_play,
        images="uint8",
    )


def hosted(source, seed, areas, **options):
    """The same in a process of its own."""
    if isinstance(source, str):
        source = HostedSource(source)
    return HostedEnvironment.of(
        EngineOptions.of(
            path=source.path,
            additional_args=source.arguments,
            with_state=source.with_state,
            self_play=source.self_play,
            seed=seed,
            num_areas=areas,
            images="uint8",
            non_finite=None,
            **options,
        )
    )


def play(env, steps):
    """Everything that can be seen while allowed actions are taken at random."""
    random = np.random.default_rng(1)
    env.reset()
    seen = []
    for _ in range(steps):
        for name, spec in sorted(env.behavior_specs.items()):
            decisions, terminals = env.get_steps(name)
            if not len(decisions) and not len(terminals):
                continue
            seen.append((name, *map(whole, (decisions, terminals)), lost(env, name)))
            env.set_actions(name, chosen(spec.action_spec, decisions, random))
        env.step()
    return seen


def chosen(spec, decisions, random):
    """Random actions that are allowed."""
    n = len(decisions)
    discrete = np.zeros((n, spec.discrete_size), np.int32)
    for branch, size in enumerate(spec.discrete_branches):
        scores = random.random((n, size))
        if decisions.action_mask is not None:
            scores[decisions.action_mask[branch]] = -1
        discrete[:, branch] = scores.argmax(axis=1)
    return ActionTuple(random.uniform(-1, 1, (n, spec.continuous_size)).astype(np.float32), discrete)


def whole(steps):
    """All fields of the agents by name; without the mask where all actions are allowed."""
    fields = {
        name: np.asarray(getattr(steps, name)).tolist()
        for name in ("reward", "agent_id", "group_id", "group_reward", "interrupted")
        if hasattr(steps, name)
    }
    if len(steps):
        fields["obs"] = [(array.dtype.name, array.tolist()) for array in steps.obs]
    mask = getattr(steps, "action_mask", None)
    if mask is not None and any(branch.any() for branch in mask):
        fields["mask"] = [branch.tolist() for branch in mask]
    return fields


def lost(env, name):
    """The agents that lost a life."""
    return env.lost_lives(name).tolist() if hasattr(env, "lost_lives") else []
