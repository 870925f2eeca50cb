"""The settings of one behavior."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Annotated, Any

from pydantic import (
    BeforeValidator,
    Field,
    SerializeAsAny,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    create_model,
    field_validator,
    model_validator,
)

from ...episodes import MAX_DECISIONS
from ...utils.errors import did_you_mean
from ...utils.plugins import PluginError
from ..base import Flag, Integer, Number, Settings, Text, found, own, refuse, wrong
from ..errors import Problem, note
from ..registry import (
    OF_MLAGENTS,
    find_reward_signal,
    find_trainer,
    known_reward_signals,
    known_trainers,
    usable_trainer,
)
from .algorithms import EXPLORATION, SACRecipe, exploration_of_mlagents
from .hyperparameters import HyperparamSettings, ScheduleType
from .networks import NetworkSettings
from .rewards import (
    BehavioralCloningSettings,
    CloneSettings,
    CloningMethod,
    DemonstrationsSettings,
    RewardSignalSettings,
)

DEFAULT_TRAINER = "ppo"
NEVER = -1
"""The test_frequency of a behavior that is not tested."""
ENDLESS = -1
"""The max_steps of a behavior that is trained until the run is stopped."""

OTHER_ALGORITHMS = frozenset(
    (
        *("a2c", "a3c", "acer", "acktr", "trpo", "vpg", "reinforce", "rainbow", "iqn", "qrdqn", "c51"),
        *("tqc", "ars", "maddpg", "matd3", "qmix", "vdn", "impala"),
    )
)
"""Names of algorithms that Lanista does not bring, which are no misspelled ones of its own."""


@cache
def _signals_model(models: tuple[tuple[str, type[RewardSignalSettings]], ...]) -> type[Settings]:
    """A behavior's signals as a model, so that their names are checked and explained like other keys."""
    fields: dict[str, Any] = {name: (model, None) for name, model in models}
    return create_model("RewardSignals", __base__=Settings, **fields)


def _reward_signals(value: Any, info: ValidationInfo) -> Any:
    """Each signal as its own model, in the order in which they are given."""
    models = dict.fromkeys(known_reward_signals(), RewardSignalSettings)
    for name in value if isinstance(value, Mapping) else ():
        try:
            kind = find_reward_signal(name)
        except PluginError as error:
            raise refuse("RewardSignals", Problem((name,), str(error))) from error
        if kind is not None:
            models[name] = kind.settings
    signals = _signals_model(tuple(models.items())).model_validate(value, context=info.context)
    return {name: getattr(signals, name) for name in value}


def _hyperparameters(data: Mapping[str, Any]) -> HyperparamSettings:
    """The defaults of the trainer that was chosen."""
    kind = usable_trainer(data.get("trainer_type"))
    return kind.settings() if kind else HyperparamSettings()


def _five_snapshots(data: dict[str, Any]) -> int:
    return 5 * int(data.get("save_steps", 20000))


class OpponentSampling(str, Enum):
    """How the snapshots that play against the learning team are chosen."""

    UNIFORM = "uniform"
    PRIORITIZED = "prioritized"


class SelfPlaySettings(Settings):
    """The two teams of a behavior learn in turn, while the other one acts with a snapshot."""

    save_steps: Integer = Field(default=20000, ge=1)
    """Trainer steps between snapshots."""
    team_change: Integer = Field(default_factory=_five_snapshots, ge=1)
    """Trainer steps until the other team learns. Not given: 5 x save_steps."""
    swap_steps: Integer = Field(default=2000, ge=1)
    """Steps of the acting team until it gets another snapshot."""
    window: Integer = Field(default=10, ge=1)
    """Number of snapshots to choose opponents from: the more, the more stable is learning."""
    play_against_latest_model_ratio: Number = 0.5
    """Probability that the opponent is the newest policy instead of a snapshot."""
    initial_elo: Number = 1200.0
    """The initial rating."""
    learn_from_both_sides: Flag = own(False)
    """Also learn from the opponents' steps while these act with the newest weights of the same behavior,
    which they then do at every step: up to twice as many steps from the same games. Steps learned from are
    trainer steps. No effect between two behaviors."""
    opponent_sampling: OpponentSampling = own(OpponentSampling.UNIFORM)
    """uniform: all snapshots are equally likely opponents; prioritized: those that the learner beats less
    often are likelier, in proportion to (1 - its win rate)²."""

    @field_validator("play_against_latest_model_ratio")
    @classmethod
    def _probability(cls, value: float, info: ValidationInfo) -> float:
        if not 0 <= value <= 1:
            side = "the newest policy" if value > 1 else "a snapshot"
            why = f"found {value:g}, expected a probability from 0 to 1; the opponent is always {side}."
            note(info, why, value)
        return value

    @model_validator(mode="after")
    def _has_effect(self) -> SelfPlaySettings:
        ratio = self.play_against_latest_model_ratio
        if self.learn_from_both_sides and ratio <= 0:
            message = (
                f"found true, but play_against_latest_model_ratio is {ratio:g}: opponents never act with the "
                "newest weights, whose steps are learned from. Raise it, or remove this key"
            )
            raise self._refusal("learn_from_both_sides", message)
        if self.opponent_sampling is not OpponentSampling.UNIFORM and ratio >= 1:
            message = (
                f"found {self.opponent_sampling.value}, but play_against_latest_model_ratio is {ratio:g}: no "
                "snapshot ever plays. Lower it, or remove this key"
            )
            raise self._refusal("opponent_sampling", message)
        return self


class TrainerSettings(Settings):
    """How the agents of one behavior are trained. Its name in the YAML is the engine's, without `?team=`."""

    trainer_type: Text = DEFAULT_TRAINER
    """The algorithm."""
    hyperparameters: SerializeAsAny[HyperparamSettings] = Field(default_factory=_hyperparameters)
    """The algorithm's own settings; what they are depends on trainer_type."""
    checkpoint_interval: Integer = Field(default=500000, ge=1)
    """Trainer steps between checkpoints."""
    network_settings: NetworkSettings = Field(default_factory=NetworkSettings)
    """The network that acts."""
    reward_signals: Annotated[
        dict[str, SerializeAsAny[RewardSignalSettings]], BeforeValidator(_reward_signals)
    ] = Field(default_factory=lambda: {"extrinsic": RewardSignalSettings()})
    """What the agents are rewarded for. Giving this map replaces the default; name `extrinsic` to keep it."""
    init_path: Text | None = None
    """A checkpoint (.pt) to start from instead of random weights, or a folder with a checkpoint.pt. With
    initialize_from, a bare file name is one of that run's checkpoints. Weights that do not fit are
    initialized randomly, with a warning. A resumed run continues with its own."""
    keep_checkpoints: Integer = 5
    """Number of checkpoints to keep; the oldest are deleted. 0: all."""
    even_checkpoints: Flag = False
    """Spread keep_checkpoints evenly over max_steps (replaces checkpoint_interval)."""
    keep_best: Integer = own(0, ge=0)
    """Number of the best checkpoints to keep in addition to the newest. At every summary the policy is
    compared by the mean reward of the episodes since the last comparison (at least 10), a team's by that of
    its groups; if the behavior has several teams or seats, by the mean over those of each; in self-play by
    the rating. If it is one of the best so far, it is saved at once. The best of all is also
    <behavior>-best.pt and <behavior>-best.onnx. 0: none."""
    max_steps: Integer = Field(default=500000, ge=ENDLESS)
    """Trainer steps (agents' decisions) after which training ends. -1: it continues until it is stopped;
    linear schedules and even_checkpoints, which need an end, are then refused."""
    stop_at_reward: Number | None = own(None)
    """Training of the behavior ends, as at max_steps, once the mean reward of its last 100 finished episodes
    reaches this value; for a team that earns group rewards, their mean; if the behavior has several teams or
    seats, the mean over the last 100 of each; in self-play, once its rating does. Not given: only at
    max_steps."""
    time_horizon: Integer = Field(default=64, ge=1)
    """Steps of an agent after which its unfinished trajectory is handed to the trainer."""
    summary_freq: Integer = Field(default=50000, ge=1)
    """Trainer steps between summaries on the console and in TensorBoard."""
    worker_statistics: Flag = own(False)
    """Also report the rewards and lengths of each environment's episodes separately, as `Environment/Worker
    <k>/Cumulative Reward` and `.../Episode Length`: k from 0 to num_envs - 1."""
    threaded: Flag = False
    """Learn while the environments keep stepping, which takes another processor: ppo, poca and mappo in a
    process, whose rollouts are one update older; others in a thread, which is not repeatable. See
    docs/threaded.md."""
    self_play: SelfPlaySettings | None = None
    """Let two teams train against older versions of themselves. {} for defaults."""
    behavioral_cloning: BehavioralCloningSettings | None = None
    """Imitate demonstrations in addition."""
    demonstrations: DemonstrationsSettings | None = own(None)
    """Learn from demonstrated steps and their rewards beside those of the replay: sac, td3, ddpg and dqn
    (docs/imitation.md)."""
    clone: CloneSettings | None = own(None)
    """Imitate demonstrations alone, without an engine: `lanista clone` (docs/imitation.md)."""
    test_frequency: Integer = own(NEVER, ge=NEVER)
    """Trainer steps between evaluations in a separate environment, in which agents take their best actions
    and nothing is learned (docs/evaluation.md); the final policy is evaluated too. keep_best then uses their
    results. -1: never."""
    test_episodes: Integer = own(10, ge=1)
    """Episodes of an evaluation; for teams whose members are in groups, episodes of groups. If a behavior has
    several teams or seats, this many of each."""
    test_max_decisions: Integer = own(MAX_DECISIONS, ge=1)
    """Decisions after which an evaluation's episode that does not end is cut and counted: an agent that
    always takes its best action may push against a wall forever."""
    test_video: Flag = own(False)
    """Write a video of the best episode of every evaluation, if the environment renders itself: scenes, and
    Gymnasium and PettingZoo environments that render images."""
    framework: Any = Field(default=None, exclude=True)
    """Deprecated, ignored."""

    @model_validator(mode="before")
    @classmethod
    def _exploration_as_mlagents(cls, data: Any, info: ValidationInfo) -> Any:
        """Take the exploration of DQN under the names that ML-Agents' plug-in gives it."""
        hyper = data.get("hyperparameters") if isinstance(data, dict) else None
        if not (isinstance(hyper, dict) and data.get("trainer_type") == "dqn" and EXPLORATION & hyper.keys()):
            return data
        return {**data, "hyperparameters": exploration_of_mlagents(hyper, info)}

    @model_validator(mode="before")
    @classmethod
    def _whose_hyperparameters(cls, data: Any) -> Any:
        if isinstance(data, dict) and "hyperparameters" in data and "trainer_type" not in data:
            message = (
                "Hyperparameters were specified but no trainer_type was given. Add `trainer_type: ppo` "
                f"(known: {', '.join(known_trainers())}) beside them, or to default_settings."
            )
            raise refuse(cls.__name__, Problem(("hyperparameters",), message))
        return data

    @field_validator("trainer_type")
    @classmethod
    def _known_trainer(cls, value: str) -> str:
        try:
            kind = find_trainer(value)
        except PluginError as error:
            raise wrong(f"found {found(value)}, but {error}") from error
        if kind is None:
            known = known_trainers()
            hint = "" if value.lower() in OTHER_ALGORITHMS else did_you_mean(value, known)
            raise wrong(
                f"Invalid trainer type {value} was found.{hint} Known: {', '.join(known)}. Others come as "
                "plug-ins: install the package that brings it, or write one (docs/extending.md)."
            )
        return value

    @field_validator("hyperparameters", mode="before")
    @classmethod
    def _of_the_trainer(cls, value: Any, info: ValidationInfo) -> Any:
        kind = usable_trainer(info.data.get("trainer_type"))
        if kind is None:
            return HyperparamSettings()
        if isinstance(value, HyperparamSettings) and not isinstance(value, kind.settings):
            raise wrong(f"found {type(value).__name__}, expected {kind.settings.__name__}")
        return kind.settings.model_validate(value, context=info.context)

    @field_validator("framework")
    @classmethod
    def _no_framework(cls, value: Any, info: ValidationInfo) -> None:
        note(info, "Framework option was deprecated but was specified")

    @field_validator("reward_signals", mode="wrap")
    @classmethod
    def _some_reward(cls, value: Any, read: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        signals = read(value)
        if signals and not any(signal.strength for signal in signals.values()):
            note(
                info,
                "every strength is 0: no reward reaches the policy, which learns nothing.",
                value,
            )
        return signals

    @field_validator("test_frequency")
    @classmethod
    def _never_or_some(cls, value: int) -> int:
        if value == 0:
            raise wrong("found 0; expected at least 1, or -1 for no tests")
        return value

    @model_validator(mode="after")
    def _filmed_where_tested(self) -> TrainerSettings:
        if self.test_video and not self.tested:
            message = "found true, but there are no tests to film: set test_frequency"
            raise self._refusal("test_video", message)
        return self

    @model_validator(mode="after")
    def _stops_at_a_rating(self) -> TrainerSettings:
        reward, self_play = self.stop_at_reward, self.self_play
        if reward is not None and self_play is not None and reward <= self_play.initial_elo:
            message = (
                f"found {reward:g}; in self-play it is a rating, and ratings start at self_play.initial_elo "
                f"({self_play.initial_elo:g}): expected a higher one"
            )
            raise self._refusal("stop_at_reward", message)
        return self

    @model_validator(mode="after")
    def _whole_recipe(self) -> TrainerSettings:
        """Complete the networks of SimBa's recipe, of which a part alone can be worse than none."""
        if getattr(self.hyperparameters, "recipe", None) is not SACRecipe.SIMBA:
            return self
        policy = self.network_settings
        place: tuple[str, ...] = ("network_settings",)
        networks = [(place, policy)]
        if policy.critic is not None:
            networks.append(((*place, "critic"), policy.critic))
        problems: list[Problem] = []
        for path, network in networks:
            for key, value in (("normalize", True), ("residual", True), ("layer_norm", False)):
                if key in network.model_fields_set and getattr(network, key) is not value:
                    message = (
                        f"found {found(not value)}, and hyperparameters.recipe: simba needs {found(value)}: "
                        "remove this key, or the recipe"
                    )
                    problems.append(Problem((*path, key), message))
                network.complete(key, value)
        if policy.memory is not None:
            message = (
                "hyperparameters.recipe: simba learns from single steps, without a memory; remove this "
                "section, or the recipe"
            )
            problems.append(Problem((*place, "memory"), message))
        if problems:
            raise refuse(type(self).__name__, *problems)
        return self

    @model_validator(mode="after")
    def _offline_learning_fits(self) -> TrainerSettings:
        """Refuse `clone.method: iql` where it cannot learn the policy, or its values."""
        if self.clone is None or self.clone.method is not CloningMethod.IQL:
            return self
        network, path = self.network_settings, ("network_settings",)
        for each, where in ((network, path), (network.critic, (*path, "critic"))):
            if each is not None and each.memory is not None:
                message = (
                    "found a section, and clone.method: iql values single observations, without a memory: "
                    "remove this section, or use method: bc"
                )
                raise refuse(type(self).__name__, Problem((*where, "memory"), message))
        if self.trainer_type == "dqn":
            message = (
                "found dqn, whose network has values and no probabilities that clone.method: iql could "
                "weigh: use ppo or sac, or method: bc"
            )
            raise self._refusal("trainer_type", message)
        if "extrinsic" not in self.reward_signals:
            message = (
                "found no extrinsic, whose gamma clone.method: iql discounts the demonstrations' rewards by: "
                "add it, or use method: bc"
            )
            raise self._refusal("reward_signals", message)
        return self

    @property
    def clones_engine_actions(self) -> bool:
        """Whether cloning compares continuous actions as the engine receives them."""
        cloning = self.behavioral_cloning
        if cloning is not None and cloning.engine_actions is not None:
            return cloning.engine_actions
        return self.trainer_type not in OF_MLAGENTS

    @property
    def tested(self) -> bool:
        """Whether the behavior is tested now and then."""
        return self.test_frequency != NEVER

    @model_validator(mode="after")
    def _sequences_fit(self, info: ValidationInfo) -> TrainerSettings:
        memory = self.network_settings.memory
        if memory is None or not self.hyperparameters.learns_sequences:
            return self
        if memory.sequence_length > self.hyperparameters.batch_size:
            message = (
                f"found {memory.sequence_length}; when using memory, sequence length must be less than or "
                f"equal to batch size, which is {self.hyperparameters.batch_size}"
            )
            place = ("network_settings", "memory", "sequence_length")
            raise refuse(type(self).__name__, Problem(place, message))
        if memory.sequence_length > self.time_horizon:
            note(
                info,
                f"network_settings.memory.sequence_length {memory.sequence_length} is longer than "
                f"time_horizon {self.time_horizon}: no trajectory has so many steps, and what it lacks is "
                f"filled up with padding. Set sequence_length to {self.time_horizon}, or time_horizon to a "
                "multiple of it.",
            )
        return self

    @property
    def endless(self) -> bool:
        """Whether training ends only when the run is stopped."""
        return self.max_steps == ENDLESS

    @model_validator(mode="after")
    def _ends_where_it_must(self) -> TrainerSettings:
        if not self.endless:
            return self
        hyper = self.hyperparameters
        need_an_end = [
            Problem(
                ("hyperparameters", key),
                f"found linear{'' if key in hyper.model_fields_set else ' (the default)'}, which falls until "
                f"max_steps; but max_steps -1 trains until it is stopped. Set {key}: constant",
            )
            for key in type(hyper).model_fields
            if getattr(hyper, key) is ScheduleType.LINEAR
        ]
        if self.even_checkpoints:
            message = (
                "found true, which spreads checkpoints over max_steps; but max_steps -1 trains until it is "
                "stopped. Set checkpoint_interval instead"
            )
            need_an_end.append(Problem(("even_checkpoints",), message))
        if need_an_end:
            raise refuse(type(self).__name__, *need_an_end)
        return self

    @model_validator(mode="after")
    def _evenly(self) -> TrainerSettings:
        if self.even_checkpoints:
            if self.keep_checkpoints < 1:
                message = f"found {found(self.keep_checkpoints)}; even_checkpoints needs at least 1"
                raise self._refusal("keep_checkpoints", message)
            self.complete("checkpoint_interval", max(1, int(self.max_steps / self.keep_checkpoints)))
        return self
