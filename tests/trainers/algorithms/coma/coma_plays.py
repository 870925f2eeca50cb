"""Games of a few lines, played through the agent processor and a policy as in a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from lanista.agent_processor.processor import AgentManager
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.algorithms.coma.coma import COMA
from lanista.trainers.policies.agent_states import AgentStates
from lanista.trainers.policies.policy import ActContext, SlotPolicy
from lanista.trainers.rewards.extrinsic import TeamReward
from lanista.trainers.settings.models.behavior import TrainerSettings
from lanista.trainers.trainer.factory import make_policy
from lanista.trainers.trainer.on_policy import OnPolicyTrainer
from mlagents_envs.base_env import ActionSpec, BehaviorSpec, DecisionSteps, TerminalSteps
from specs import sensor
from trainer_surroundings import Events, Record


def vector_spec(sizes: Sequence[int], branches: Sequence[int], names: Sequence[str] = ()) -> BehaviorSpec:
    names = names or [f"sensor{i}" for i in range(len(sizes))]
    sensors = [sensor((size,), name) for size, name in zip(sizes, names, strict=True)]
    return BehaviorSpec(sensors, ActionSpec(0, tuple(branches)))


def settings(**hyper) -> TrainerSettings:
    """Of a small network; keys of hyperparameters, and of the levels above by their names."""
    above = {key: hyper.pop(key) for key in ("time_horizon", "max_steps", "reward_signals") if key in hyper}
    network = {"hidden_units": 32, "num_layers": 1, **hyper.pop("network_settings", {})}
    rest = {"max_steps": 10**6, "time_horizon": 64, "network_settings": network, **above}
    return TrainerSettings.model_validate({"trainer_type": "coma", "hyperparameters": hyper, **rest})


def make(spec: BehaviorSpec, config: TrainerSettings, seed: int = 0) -> COMA:
    return COMA(spec, config, torch.device("cpu"), seed, NonFinitePolicy.STOP)


@dataclass
class Batch:
    """Agents of one environment that say something: ids, observations [n, ...] per sensor, rewards."""

    ids: Sequence[int]
    obs: list[np.ndarray]
    reward: Sequence[float] | None = None
    group: Sequence[int] | int = 1
    group_reward: float = 0.0
    interrupted: bool = False
    mask: list[np.ndarray] | None = None

    def _common(self):
        n = len(self.ids)
        groups = np.full(n, self.group, np.int32) if isinstance(self.group, int) else self.group
        reward = np.zeros(n) if self.reward is None else self.reward
        return (
            [np.asarray(o, np.float32).reshape(n, -1) for o in self.obs],
            np.asarray(reward, np.float32),
            np.asarray(self.ids, np.int32),
            np.asarray(groups, np.int32),
            np.full(n, self.group_reward, np.float32),
        )

    def decisions(self) -> DecisionSteps:
        obs, reward, ids, groups, group_reward = self._common()
        return DecisionSteps(obs, reward, ids, self.mask, groups, group_reward)

    def terminals(self) -> TerminalSteps:
        obs, reward, ids, groups, group_reward = self._common()
        interrupted = np.full(len(ids), self.interrupted)
        return TerminalSteps(obs, reward, interrupted, ids, groups, group_reward)


@dataclass
class Play:
    """A behavior's processor, policy and trainer; `tell` what the environment says, get the actions."""

    spec: BehaviorSpec
    config: TrainerSettings
    seed: int = 0

    def __post_init__(self) -> None:
        self.algorithm = make(self.spec, self.config, self.seed)
        reward = TeamReward(self.config.hyperparameters.reward)
        self.policy = make_policy(self.algorithm.network, self.spec, self.seed + 2, deterministic=False)
        providers, self._events = dict.fromkeys(self.config.reward_signals, reward), Events()
        self.trainer = OnPolicyTrainer(self.config, self.algorithm, providers, Record(), self._events)
        self.manager = AgentManager(
            "Team?team=0",
            self.spec,
            self.config.time_horizon,
            Record(),
            memory_size=self.algorithm.networks.actors.memory_size,
            places=self.algorithm.traits.roster_size,
        )
        self.trainer.subscribe(self.manager.trajectory_queue)
        self._decided = {}

    @property
    def updates(self) -> int:
        return sum(kind == "updated" for kind, *_ in self._events.calls)

    def tell(self, deciding: Batch | None, ending: Batch | None = None, env: int = 0) -> np.ndarray:
        """One message of an environment. The actions [n, branches] of those who decide."""
        decisions = DecisionSteps.empty(self.spec) if deciding is None else deciding.decisions()
        terminals = TerminalSteps.empty(self.spec) if ending is None else ending.terminals()
        self.manager.add_experiences(decisions, terminals, env, self._decided.pop(env, None))
        if deciding is None:
            return np.zeros((0, len(self.spec.action_spec.discrete_branches)), np.int32)
        sources, states, slots = [(env, "Team?team=0")], None, None
        size = self.algorithm.networks.actors.memory_size
        if size:
            states = AgentStates(size)
            states.store(sources, [decisions], self.manager.memories(env, decisions.agent_id))
        if isinstance(self.policy, SlotPolicy):
            slots = torch.from_numpy(self.manager.places(env, decisions.agent_id))
        context = ActContext(sources, states, slots, exploration=self.algorithm.exploration)
        (decision,) = self.policy.act([decisions], context)
        self._decided[env] = decision
        return decision.action.discrete
