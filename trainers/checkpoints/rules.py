"""What becomes of a checkpoint where a setting of its behavior has changed: one table of all settings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

TRAINER_TYPE = "trainer_type"
SIGNALS = "reward_signals"
NETWORK = "network_settings"
CRITIC = f"{NETWORK}.critic"
SEQUENCE_LENGTH = f"{NETWORK}.memory.sequence_length"
CRITIC_ONLY = "critic_only_observations"
STATE = "hyperparameters.state_observation"
RECIPE = "hyperparameters.recipe"


class Resumed(Enum):
    """What --resume does where a setting is another one than the checkpoint was saved with."""

    REFUSED = auto()
    """The run does not start: the weights would compute something else."""
    SHAPED = auto()
    """The run does not start if the networks have other weights with the setting."""
    WARNED = auto()
    """The run goes on, with a warning."""
    UNUSED = auto()
    """The run goes on, with a warning that the setting has no effect any more."""
    ROLLOUT_DROPPED = auto()
    """The run goes on without the steps that waited for the next update, which were computed otherwise."""
    STEPS_DROPPED = auto()
    """The run goes on without these steps, and without a saved replay."""
    REPLAY_SHAPED = auto()
    """The run goes on, without a saved replay if that has another layout, which the replay's file tells."""
    ALLOWED = auto()
    """The run goes on: the checkpoint does not depend on the setting."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What becomes of a checkpoint where one setting has changed."""

    resumed: Resumed
    why: str
    """The reason, which warnings give."""
    warned_at_start: bool = False
    """Whether a run that only starts from the weights (--initialize-from, init_path) warns of the change."""

    @property
    def recorded(self) -> bool:
        """Whether checkpoints record the setting."""
        return self.resumed not in (Resumed.ALLOWED, Resumed.REPLAY_SHAPED)


def _allowed(why: str) -> Rule:
    return Rule(Resumed.ALLOWED, why)


FUNCTION = Rule(Resumed.REFUSED, "the same weights would compute something else", True)
SHAPE = Rule(Resumed.SHAPED, "the networks may have other weights with it")
CUSTOM = Rule(Resumed.WARNED, "the saved weights are read by it as they are", True)
OF_PLUGIN = Rule(Resumed.WARNED, "it is a plug-in's, which alone knows what depends on it")
_TRAINER = Rule(Resumed.REFUSED, "each trainer has networks and states of its own", True)
_COLUMNS = Rule(Resumed.REFUSED, "critics and buffers have a column for each, in this order", True)
UNITS = Rule(Resumed.WARNED, "the values learned so far are in other units, until they have adapted", True)
_DISCRIMINATOR = Rule(Resumed.WARNED, "its discriminator has compared other actions so far", True)
_POOL = Rule(Resumed.WARNED, "opponents and rating are not carried over")
_WEIGHTS = Rule(Resumed.UNUSED, "it has no effect, since all weights are the checkpoint's")
_ENTROPY = Rule(Resumed.UNUSED, "it has no effect, since the entropy coefficient is the checkpoint's", True)
_RATING = Rule(Resumed.UNUSED, "it has no effect, since the ratings are the checkpoint's")
_RETURNS = Rule(Resumed.ROLLOUT_DROPPED, "the returns of waiting steps were computed with it")
_SEQUENCES = Rule(Resumed.ROLLOUT_DROPPED, "waiting steps are in sequences of that length")
_REWARDS = Rule(Resumed.STEPS_DROPPED, "the saved rewards are multiplied by it")
_LAYOUT = Rule(Resumed.REPLAY_SHAPED, "steps lie in a saved replay as it says")
_LATER = _allowed("only later updates depend on it")
_ACTS = _allowed("it says how agents act from now on")
_DUE = _allowed("it says when something is due from now on")
_FILES = _allowed("it says what is written from now on")
_CLONE = _allowed("lanista clone compares what it has learned from itself")


def _rules(place: str, *rules: tuple[Rule, str]) -> dict[str, Rule]:
    """The rules of keys below `place`; keys are separated by spaces."""
    return {f"{place}{key}": rule for rule, keys in rules for key in keys.split()}


def _of_network(place: str) -> dict[str, Rule]:
    return _rules(
        f"{place}.",
        (FUNCTION, f"activation layer_norm action_range {CRITIC_ONLY}"),
        (SHAPE, "normalize hidden_units num_layers vis_encode_type goal_conditioning_type residual"),
        (SHAPE, "memory memory.memory_size memory.memory_type"),
        (SHAPE, "state_dependent_exploration state_dependent_exploration.resample_interval"),
        (_SEQUENCES, "memory.sequence_length"),
        (CUSTOM, "encoders body"),
        (_WEIGHTS, "initialization initial_log_std"),
        (_ACTS, "deterministic"),
        (_allowed("its keys are compared; without it they are the policy's"), "critic"),
    )


TABLE: dict[str, Rule] = {
    **_rules(
        "",
        (_TRAINER, TRAINER_TYPE),
        (_COLUMNS, SIGNALS),
        (_POOL, "self_play"),
        (_LAYOUT, "time_horizon"),
        (_DUE, "checkpoint_interval even_checkpoints max_steps stop_at_reward summary_freq"),
        (_DUE, "test_frequency test_episodes test_max_decisions test_video"),
        (_FILES, "keep_checkpoints keep_best worker_statistics"),
        (_LATER, "threaded behavioral_cloning demonstrations"),
        (_CLONE, "clone"),
        (_allowed("a resumed run goes on with its own weights"), "init_path"),
        (_allowed("it is ignored"), "framework"),
    ),
    **_of_network(NETWORK),
    CRITIC: SHAPE,
    **_of_network(CRITIC),
    **_of_network(f"{SIGNALS}.*.{NETWORK}"),
    **_rules(
        f"{SIGNALS}.*.",
        (_RETURNS, "gamma"),
        (_REWARDS, "strength"),
        (SHAPE, "use_actions use_vail"),
        (FUNCTION, "absorbing_states"),
        (_DISCRIMINATOR, "engine_actions"),
        (_LATER, "learning_rate demo_path partial_demos"),
        (_allowed("it stands for network_settings.hidden_units"), "encoding_size"),
    ),
    **_rules(
        "hyperparameters.",
        (FUNCTION, "state_observation"),
        (SHAPE, "recipe shared_critic dueling max_num_agents share_parameters index_on_actor"),
        (UNITS, "normalize_rewards"),
        (_ENTROPY, "init_entcoef"),
        (_RETURNS, "lambd reward"),
        (_LAYOUT, "buffer_size frame_stack prioritized_replay"),
        (_LATER, "batch_size num_epoch learning_rate learning_rate_schedule critic_learning_rate"),
        (_LATER, "max_grad_norm beta beta_schedule epsilon epsilon_schedule clip_end normalize_padding"),
        (_LATER, "adam_epsilon value_coefficient normalize_advantages ratio target_kl"),
        (_LATER, "entropy_coefficient target_entropy"),
        (_LATER, "clip clip_value_loss baseline_clip critic_epochs target_update_interval tau double"),
        (_LATER, "steps_per_update reward_signal_steps_per_update gradient_steps n_step burn_in_ratio"),
        (_LATER, "prioritized_alpha prioritized_beta policy_delay target_noise target_noise_clip"),
        (_ACTS, "epsilon_start epsilon_end epsilon_decay_steps random_initial_actions"),
        (_ACTS, "noise_type noise_start noise_end noise_decay_steps noise_theta noise_dt"),
        (_DUE, "buffer_init_steps"),
        (_FILES, "save_replay_buffer"),
        (_allowed("the values learned so far are converted"), "normalize_values"),
        (_allowed("steps in a saved replay bootstrap as before"), "interrupted_value"),
    ),
    **_rules(
        "self_play.",
        (_RATING, "initial_elo"),
        (_DUE, "save_steps team_change swap_steps"),
        (_ACTS, "play_against_latest_model_ratio opponent_sampling"),
        (_LATER, "learn_from_both_sides"),
        (_allowed("a smaller one keeps the youngest opponents"), "window"),
    ),
    **_rules(
        "behavioral_cloning.",
        (_LATER, "demo_path steps strength samples_per_update num_epoch batch_size engine_actions"),
        (_LATER, "partial_demos"),
    ),
    **_rules("demonstrations.", (_LATER, "demo_path share partial_demos")),
    **_rules(
        "clone.",
        (_CLONE, "demos method iql iql.expectile iql.inverse_temperature iql.tau gradient_steps held_out"),
    ),
}
"""The rules by the settings' paths within a behavior; `*` is the name of any reward signal."""


def rule_of(path: str) -> Rule:
    """The rule of the setting at `path`; `OF_PLUGIN` if no model of Lanista's has such a setting."""
    if path not in TABLE and path.startswith(f"{SIGNALS}."):
        path = f"{SIGNALS}.*.{path.removeprefix(f'{SIGNALS}.').partition('.')[2]}"
    return TABLE.get(path, OF_PLUGIN)
