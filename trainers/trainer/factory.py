"""Makes the algorithm, reward signals and trainer of a behavior from its settings."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import torch
from mlagents_envs.base_env import BehaviorSpec

from ...agent_processor.queues import StatsSink
from ...envs.errors import DemonstrationError
from ...envs.validation import NonFinitePolicy
from ..algorithms.base import Algorithm, OffPolicyAlgorithm, OnPolicyAlgorithm
from ..algorithms.common.actions import UnsupportedActionError
from ..algorithms.imitation.behavioral_cloning import BehavioralCloning, ClonedPolicy
from ..algorithms.imitation.implicit_q_learning import ImplicitQLearning
from ..buffers.demonstrations import Demonstrations, load_demonstrations, load_transitions
from ..networks.actor import Actor
from ..networks.actor_critic import ActorCritic
from ..networks.allocation import naming_key_of_allocation
from ..networks.modules.passes import Precision
from ..networks.multi_actor import MultiActor
from ..networks.observation_kinds import UnsupportedObservationError
from ..networks.observations import require_equal_groups
from ..policies.exploration import Explorer
from ..policies.greedy import make_actor_policy
from ..policies.policy import Policy, SlotPolicy
from ..policies.state_dependent import StateDependentNoise, noise_of
from ..rewards.factory import make_learned_rewards, make_reward_providers
from ..settings.models.algorithms import SACRecipe, SACSettings
from ..settings.models.behavior import TrainerSettings
from ..settings.models.hyperparameters import OffPolicyHyperparamSettings
from ..settings.models.rewards import (
    BehavioralCloningSettings,
    CloningMethod,
    IQLSettings,
)
from ..settings.registry import find_trainer
from ..settings.validation import refusals
from ..utils.errors import TrainerError
from ..utils.plugins import imported
from .context import TrainerEvents, TrainerOptions
from .off_policy import OffPolicyTrainer
from .on_policy import OnPolicyTrainer
from .trainer import Trainer

if TYPE_CHECKING:
    from typing_extensions import Unpack


_algorithms = {
    "ppo": "ppo.ppo:PPO",
    "poca": "poca.poca:POCA",
    "mappo": "mappo:MAPPO",
    "coma": "coma.coma:COMA",
    "sac": "sac.sac:SAC",
    "simba": "sac.simba:SimbaSAC",
    "dqn": "dqn:DQN",
    "ddpg": "ddpg:DDPG",
    "td3": "ddpg:TD3",
}
"""Module and class, each imported where a behavior learns by it."""


def _algorithm_of(settings: TrainerSettings) -> Callable[..., Any]:
    hyper, name = settings.hyperparameters, settings.trainer_type
    if name == "sac" and isinstance(hyper, SACSettings) and hyper.recipe is SACRecipe.SIMBA:
        name = "simba"
    if name not in _algorithms:
        return algorithm_of_plugin(name)
    module, _, algorithm = _algorithms[name].partition(":")
    found: Callable[..., Any] = getattr(import_module(f"..algorithms.{module}", __package__), algorithm)
    return found


def make_algorithm(
    spec: BehaviorSpec,
    settings: TrainerSettings,
    device: torch.device,
    seed: int,
    non_finite: NonFinitePolicy,
    precision: Precision = Precision.FLOAT32,
) -> Algorithm:
    """Make the networks and the update of a behavior.

    Raises:
        TrainerError: a plug-in's algorithm cannot be imported, or lacks what it must have; or there is not
            enough memory for the networks.
        UnsupportedObservationError: an observation cannot be encoded, or one that the settings name does not
            exist.
        UnsupportedActionError: the algorithm does not support such actions.
    """
    make = _algorithm_of(settings)
    if device.type == "cuda":  # gradients of convolutions would be summed up in another order in each run
        torch.backends.cudnn.deterministic = True
    with naming_key_of_allocation("network_settings", settings.network_settings):
        algorithm: Algorithm = make(spec, settings, device, seed, non_finite, precision)
    return algorithm


def untrainable(spec: BehaviorSpec, settings: TrainerSettings) -> str | None:
    """Why a behavior cannot be trained with these settings; None if it can.

    Networks are made and discarded to find out; not of plug-ins, whose constructors may have side effects.
    """
    refused = refusals(settings)
    if refused:
        return "; ".join(map(str, refused))
    if settings.trainer_type not in _algorithms:
        return None
    how: tuple[torch.device, int, NonFinitePolicy] = (torch.device("cpu"), 0, NonFinitePolicy.STOP)
    try:
        algorithm = make_algorithm(spec, settings, *how)
        make_learned_rewards(spec, settings.reward_signals, *how, action_range=None)
        make_cloning(algorithm, spec, settings, *how)
        if settings.demonstrations is not None:
            load_transitions(settings.demonstrations.demo_path, spec, settings.demonstrations.partial_demos)
    except (UnsupportedObservationError, UnsupportedActionError, DemonstrationError, TrainerError) as error:
        return str(error)
    return None


def make_cloning(
    algorithm: Algorithm,
    spec: BehaviorSpec,
    settings: TrainerSettings,
    device: torch.device,
    seed: int,
    non_finite: NonFinitePolicy,
) -> BehavioralCloning | None:
    """What trains the policy on demonstrations; None if the settings have no behavioral_cloning.

    Raises:
        DemonstrationError: the demonstration cannot be read, or is of another behavior.
    """
    own = settings.behavioral_cloning
    if own is None:
        return None
    demos = load_demonstrations(own.demo_path, spec, own.partial_demos)
    return cloning_from(demos, own, algorithm, settings, device, seed, non_finite)


def cloning_from(
    demos: Demonstrations,
    cloning: BehavioralCloningSettings,
    algorithm: Algorithm,
    settings: TrainerSettings,
    device: torch.device,
    seed: int,
    non_finite: NonFinitePolicy,
    values: ImplicitQLearning | None = None,
) -> BehavioralCloning:
    """What trains the policy of an algorithm on these demonstrations; `values`: see `BehavioralCloning`."""
    hyper, memory = settings.hyperparameters, settings.network_settings.memory
    return BehavioralCloning(
        ClonedPolicy(algorithm.policy, algorithm.policy_optimizer.flat),
        demos,
        cloning,
        learning_rate=hyper.learning_rate,
        batch_size=hyper.batch_size,
        sequence_length=1 if memory is None else memory.sequence_length,
        device=device,
        seed=seed,
        non_finite=non_finite,
        as_engine=settings.clones_engine_actions,
        values=values,
    )


def make_values(
    demos: Demonstrations,
    algorithm: Algorithm,
    settings: TrainerSettings,
    device: torch.device,
    seed: int,
    non_finite: NonFinitePolicy,
) -> ImplicitQLearning | None:
    """What weighs the steps of demonstrations for `clone.method: iql`; None for another method.

    Raises:
        UnsupportedObservationError: an observation cannot be encoded by the critic's settings.
    """
    clone, own = settings.clone, settings.network_settings
    if clone is None or clone.method is not CloningMethod.IQL:
        return None
    values = ImplicitQLearning(
        demos,
        own.critic or own,
        clone.iql or IQLSettings(),
        gamma=settings.reward_signals["extrinsic"].gamma,
        learning_rate=settings.hyperparameters.learning_rate,
        device=device,
        seed=seed,
        non_finite=non_finite,
    )
    state = getattr(settings.hyperparameters, "state_observation", None)
    try:
        require_equal_groups(algorithm.network.encoder, values.value.encoder)
    except UnsupportedObservationError:
        if state is None:
            raise
        raise UnsupportedObservationError(
            f"clone.method: iql learns the values of all observations, and the policies do not read {state} "
            "(hyperparameters.state_observation), which needs vectors alone: set clone.method: bc"
        ) from None
    return values


def explorer_of(algorithm: Algorithm) -> Explorer | StateDependentNoise | None:
    """What explores for the agents of a policy and keeps states of them; None where nothing does."""
    return algorithm.explorer or noise_of(algorithm.network)


def make_policy(
    network: Actor | ActorCritic | MultiActor,
    spec: BehaviorSpec,
    seed: int,
    *,
    deterministic: bool,
    explorer: Explorer | StateDependentNoise | None = None,
) -> Policy:
    """The policy that acts with an algorithm's network, or with a copy of it.

    `explorer`: as of `explorer_of`.
    """
    if isinstance(network, MultiActor):
        return SlotPolicy(network, spec, seed, deterministic=deterministic)
    return make_actor_policy(network, spec, seed, deterministic=deterministic, explorer=explorer)


def make_trainer(
    spec: BehaviorSpec,
    settings: TrainerSettings,
    algorithm: Algorithm,
    stats: StatsSink,
    events: TrainerEvents,
    **options: Unpack[TrainerOptions],
) -> Trainer:
    """The trainer of `algorithm`, with its reward signals and, in training, its behavioral cloning.

    `options` as of the trainers, with the run's `seed`.

    Raises:
        DemonstrationError: a demonstration cannot be read, or is of another behavior.
        TrainerError: a replay does not fit into the memory, or a plug-in's algorithm cannot be trained.
    """
    seed, device = options.get("seed", 0), options.get("device") or torch.device("cpu")
    non_finite = options.get("non_finite", NonFinitePolicy.STOP)
    providers = make_reward_providers(algorithm, spec, settings, device, seed, non_finite)
    options["seed"] = seed + 3
    trainer: Trainer
    if isinstance(settings.hyperparameters, OffPolicyHyperparamSettings):
        off_policy = cast(OffPolicyAlgorithm, algorithm)
        trainer = OffPolicyTrainer(settings, off_policy, providers, stats, events, spec, **options)
    else:
        on_policy = cast("OnPolicyAlgorithm[Any]", algorithm)
        trainer = OnPolicyTrainer(settings, on_policy, providers, stats, events, **options)
    if trainer.training:
        trainer.cloning = make_cloning(algorithm, spec, settings, device, seed + 4, non_finite)
    return trainer


def algorithm_of_plugin(trainer_type: str) -> Callable[..., Any]:
    """Import the algorithm of a plug-in's `trainer_type`.

    Raises:
        TrainerError: the module has none of this name, or importing it failed.
    """
    trainer = find_trainer(trainer_type)
    place = trainer.algorithm if trainer is not None else ""
    return imported(f"The algorithm of trainer_type {trainer_type}", place)
