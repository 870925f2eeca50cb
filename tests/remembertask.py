"""A task that cannot be done without a memory."""

import numpy as np
from lanista.agent_processor.processor import AgentManager
from lanista.agent_processor.trajectory import Trajectory
from lanista.envs.base import EnvironmentStep
from lanista.trainers.networks.actor_critic import ActorCritic
from lanista.trainers.policies.agent_states import AgentStates
from lanista.trainers.policies.policy import ActContext, Policy
from mlagents_envs.base_env import DecisionSteps, TerminalSteps
from specs import vector_spec


class RememberTask:
    """At an episode's first step one of two signs is shown; the last action is to name it: reward 1, else 0.

    Observations: the two signs, and whether the next action is the last.
    """

    LENGTH = 4
    BEHAVIOR = "Remember?team=0"
    spec = vector_spec([3], 0, (2,))

    def __init__(self, agents: int, seed: int) -> None:
        self.agents = agents
        self.random = np.random.default_rng(seed)
        self.ids = np.arange(agents, dtype=np.int32)
        self.rewards: list[float] = []

    def start(self, network: ActorCritic) -> None:
        """Let this network act from now on."""
        self.policy = Policy(network, self.spec, seed=1)
        self.states = AgentStates(network.memory_size)
        self.manager = AgentManager(self.BEHAVIOR, self.spec, 100, self, memory_size=network.memory_size)

    def episodes(self) -> list[Trajectory]:
        """One episode of every agent."""
        signs, decided = self.random.integers(2, size=self.agents), None
        for t in range(self.LENGTH):
            obs = np.zeros((self.agents, 3), np.float32)
            obs[:, 2] = t == self.LENGTH - 1
            if t == 0:
                obs[self.ids, signs] = 1.0
            decided = self._decide(self._decisions(obs), self._terminals(0), decided)
        correct = (decided.action.discrete[:, 0] == signs).astype(np.float32)
        self.rewards.append(float(correct.mean()))
        ending = EnvironmentStep(
            0, {self.BEHAVIOR: (DecisionSteps.empty(self.spec), self._terminals(self.agents, correct))}, {}
        )
        self.states.end_episodes(ending, self.BEHAVIOR)
        self.manager.add_experiences(*ending.steps[self.BEHAVIOR], 0, decided)
        return self.manager.trajectory_queue.drain()

    def recent(self) -> float:
        """The mean reward of the last episodes."""
        return float(np.mean(self.rewards[-3:]))

    def _decide(self, decisions, terminals, before):
        (decided,) = self.policy.act([decisions], ActContext([(0, self.BEHAVIOR)], self.states))
        self.manager.add_experiences(decisions, terminals, 0, before)
        return decided

    def _decisions(self, obs):
        zeros = np.zeros(self.agents, np.float32)
        return DecisionSteps([obs], zeros, self.ids, None, np.zeros(self.agents, np.int32), zeros)

    def _terminals(self, n, rewards=None):
        zeros = np.zeros(n, np.float32)
        return TerminalSteps(
            [np.zeros((n, 3), np.float32)],
            zeros if rewards is None else rewards,
            np.zeros(n, bool),
            self.ids[:n],
            np.zeros(n, np.int32),
            zeros,
        )

    # Statistics go nowhere.
    def add_stat(self, *_):
        pass

    add_stats = set_stat = add_stat
