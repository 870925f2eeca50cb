"""Random combinations of settings: the draw, and the environment and the configuration of each."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lanista.trainers.settings.yaml_source import under
from random_env import OBSERVATIONS, Rules

STEPS = 160
"""Trainer steps of a run; it is resumed for half as many."""
CANDIDATES = 12
"""Draws of which the one with the rarest pairs is taken."""

FEATURES: dict[str, Sequence[str]] = {
    "trainer": ("ppo", "poca", "mappo", "coma", "sac", "simba", "dqn", "ddpg", "td3"),
    "observations": ("vector", "goal", "image", "entities", "several"),
    "actions": ("continuous", "discrete", "branches", "hybrid", "masked"),
    "memory": ("none", "lstm", "gru"),
    "signals": ("extrinsic", "curiosity", "rnd", "curiosity alone", "gail", "gail absorbing"),
    "agents": ("alone", "groups", "pauses"),
    "teams": ("one", "two", "self_play"),
    "behaviors": ("one", "two"),
    "replay": ("plain", "n_step", "prioritized", "saved", "n_step, prioritized"),
    "demonstrations": ("none", "some"),
    "threaded": ("no", "yes"),
    "environments": ("one", "two", "wire", "ranks"),
    "network": ("plain", "normalize", "layer_norm", "tanh", "widths"),
    "schedule": ("linear", "constant"),
    "objective": (
        "plain",
        "joint, minibatch",
        "target_kl",
        "adaptive_kl",
        "action_range",
        "held entropy",
        "gsde",
        "rewards",
    ),
    "tests": ("none", "tests", "keep_best", "tests, keep_best"),
    "callbacks": ("none", "keep_best", "stop_at_reward"),
    "checkpoints": ("plain", "even", "all"),
    "resumed with": (
        "nothing",
        "learning_rate",
        "batch_size",
        "time_horizon",
        "gamma",
        "strength",
        "test_episodes",
    ),
}
"""The values of each feature; one of each is a combination."""
ON_POLICY = {"ppo", "poca", "mappo", "coma"}
GAUSSIAN = {"ppo", "poca", "mappo"}
TEAM = {"poca", "mappo", "coma"}

DEMONSTRATION = "expert.demo"
"""Where the demonstration of a combination is, in the current folder."""

Combination = dict[str, str]


def repeatable(one: Combination) -> bool:
    """Whether a run repeats bit for bit: not where a thread learns beside the acting (docs/threaded.md)."""
    return one["threaded"] == "no" or one["trainer"] in ("ppo", "poca", "mappo")


def refusal(one: Combination) -> str:
    """Why the settings cannot be trained, in the words of the first problem; empty if they can."""
    from lanista.trainers.settings import RunOptions, TrainerConfigError
    from lanista.trainers.settings.validation import require_support

    config = configuration(one, 0)
    config["env_settings"]["env_path"] = "scene:basic"
    try:
        require_support(RunOptions.from_dict(config))
    except TrainerConfigError as error:
        return error.problems[0].message
    return ""


def possible(drawn: Mapping[str, str]) -> bool:
    """Whether the draw says something: values that cannot matter for its trainer are left out."""
    trainer = drawn["trainer"]
    if trainer in ON_POLICY and (drawn["replay"] != "plain" or drawn["demonstrations"] != "none"):
        return False
    if drawn["agents"] != "groups" and trainer in TEAM:
        return False
    of_objective = {"plain": True, "rewards": trainer != "coma"}
    of_objective["held entropy"] = trainer in ("sac", "simba")
    of_objective["gsde"] = trainer in (*GAUSSIAN, "sac", "simba")
    if not of_objective.get(drawn["objective"], trainer in GAUSSIAN):
        return False
    continuous = drawn["actions"] in ("continuous", "hybrid")
    if drawn["objective"] in ("action_range", "gsde") and not continuous:
        return False
    discrete = drawn["actions"] != "continuous"
    return not (trainer in ("coma", "dqn") and continuous) and not (trainer in ("ddpg", "td3") and discrete)


def pairs_of(drawn: Mapping[str, str]) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    """Every pair of values of a combination."""
    return itertools.combinations(sorted(drawn.items()), 2)


def draw(count: int, seed: int, refused: Counter[str] | None = None) -> list[Combination]:
    """The first `count` combinations of a seed; `refused` counts why draws cannot be trained."""
    generator, met = random.Random(seed), Counter[Any]()
    found: list[Combination] = []
    while len(found) < count:
        candidates: list[Combination] = []
        while len(candidates) < CANDIDATES:
            one = {name: generator.choice(values) for name, values in FEATURES.items()}
            if not possible(one):
                continue
            if reason := refusal(one):
                if refused is not None:
                    refused[reason] += 1
                continue
            candidates.append(one)
        best = max(candidates, key=lambda one: sum(1.0 / (1 + met[pair]) ** 2 for pair in pairs_of(one)))
        met.update(pairs_of(best))
        found.append(best)
    return found


# The configuration --------------------------------------------------------------------------------------


def rules_of(one: Combination) -> Rules:
    """The environment of a combination."""
    kinds = tuple(OBSERVATIONS) if one["observations"] == "several" else (one["observations"],)
    if one["observations"] == "goal":
        kinds = ("vector", "goal")
    continuous, branches = {
        "continuous": (2, ()),
        "discrete": (0, (3,)),
        "branches": (0, (2, 3)),
        "hybrid": (1, (3,)),
        "masked": (0, (3, 2)),
    }[one["actions"]]
    teams = ("A?team=0",) if one["teams"] == "one" else ("A?team=0", "A?team=1")
    return Rules(
        observations=kinds,
        continuous=continuous,
        branches=branches,
        masked=one["actions"] == "masked",
        groups=one["agents"] == "groups",
        pauses=one["agents"] == "pauses",
        behaviors=(*teams, "B?team=0") if one["behaviors"] == "two" else teams,
    )


def settings_of(one: Combination) -> dict[str, Any]:
    """The behavior's settings."""
    trainer = "sac" if one["trainer"] == "simba" else one["trainer"]
    hyper: dict[str, Any] = {"batch_size": 16, "learning_rate_schedule": one["schedule"]}
    if trainer in ON_POLICY:
        hyper |= {"buffer_size": 48, "num_epoch": 2}
        hyper |= {"critic_epochs": 1} if trainer == "coma" else {}
    else:
        hyper |= {"buffer_size": 500, "buffer_init_steps": 24, "steps_per_update": 6}
        hyper |= {"n_step": 3} if "n_step" in one["replay"] else {}
        hyper |= {"prioritized_replay": True} if "prioritized" in one["replay"] else {}
        hyper |= {"save_replay_buffer": True} if one["replay"] == "saved" else {}
        hyper |= {"recipe": "simba"} if one["trainer"] == "simba" else {}
    hyper |= {
        "joint, minibatch": {"ratio": "joint", "normalize_advantages": "minibatch", "value_coefficient": 1.0},
        "target_kl": {"target_kl": 1e-4},
        "adaptive_kl": {"learning_rate_schedule": "adaptive_kl"},
        "rewards": {"normalize_rewards": True},
        "held entropy": {"entropy_coefficient": 0.1, "target_entropy": -1.0},
    }.get(one["objective"], {})
    normalize = one["network"] == "normalize" or one["trainer"] == "simba"
    network: dict[str, Any] = {"hidden_units": 8, "num_layers": 1, "normalize": normalize}
    if one["objective"] == "action_range":
        network |= {"action_range": 1.0, "initial_log_std": -0.5}
    if one["objective"] == "gsde":
        network |= {"state_dependent_exploration": {"resample_interval": 3}, "initial_log_std": -1.0}
    network |= {"layer_norm": {"layer_norm": True}, "tanh": {"activation": "tanh"}}.get(one["network"], {})
    if one["network"] == "widths":
        network = under(network, {"hidden_units": [8, 12]})
    if one["trainer"] == "simba":  # residual networks have no layer whose weights a goal could make
        network["goal_conditioning_type"] = "none"
    if one["memory"] != "none":
        network["memory"] = {"memory_size": 4, "sequence_length": 4, "memory_type": one["memory"]}
    small = {"network_settings": {"hidden_units": 8}}
    signals: dict[str, Any] = {} if one["signals"] == "curiosity alone" else {"extrinsic": {"gamma": 0.9}}
    if one["signals"] != "extrinsic":
        signals[one["signals"].partition(" ")[0]] = {"strength": 0.1, **small}
    if "gail" in signals:
        absorbing = one["signals"] == "gail absorbing"
        signals["gail"] |= {"demo_path": DEMONSTRATION, "absorbing_states": absorbing}
    settings: dict[str, Any] = {
        "trainer_type": trainer,
        "hyperparameters": hyper,
        "network_settings": network,
        "reward_signals": signals,
        "max_steps": STEPS,
        "time_horizon": 8,
        "summary_freq": 40,
        "checkpoint_interval": 80,
        "threaded": one["threaded"] == "yes",
    }
    if one["demonstrations"] == "some":
        settings["demonstrations"] = {"demo_path": DEMONSTRATION, "share": 0.3}
    if one["teams"] == "self_play":
        settings["self_play"] = {"save_steps": 40, "team_change": 80, "swap_steps": 20, "window": 3}
    if "tests" in one["tests"]:
        settings |= {"test_frequency": 80, "test_episodes": 2}
    if "keep_best" in one["tests"]:
        settings["keep_best"] = 2
    return (
        settings
        | {
            "plain": {},
            "even": {"even_checkpoints": True, "keep_checkpoints": 3},
            "all": {"keep_checkpoints": 0},
        }[one["checkpoints"]]
    )


def configuration(one: Combination, seed: int) -> dict[str, Any]:
    """The whole configuration."""
    found: dict[str, Any] = {
        "default_settings": settings_of(one),
        "env_settings": {"seed": seed, "num_envs": 2 if one["environments"] in ("two", "ranks") else 1},
        "checkpoint_settings": {"results_dir": "runs"},
        "torch_settings": {"num_threads": 1, "learners": 2 if one["environments"] == "ranks" else 1},
        "quiet": True,
    }
    if one["callbacks"] != "none":
        stop = {"stop_at_reward": {"reward": 1000.0, "episodes": 10}}
        found["callbacks"] = [stop if one["callbacks"] == "stop_at_reward" else "keep_best"]
    return found


def changes(one: Combination) -> dict[str, Any]:
    """What is different when the run is resumed."""
    at = "default_settings."
    changed = {
        "nothing": {},
        "learning_rate": {at + "hyperparameters.learning_rate": 1e-3},
        "batch_size": {at + "hyperparameters.batch_size": 8},
        "time_horizon": {at + "time_horizon": 5},
        "gamma": {at + "reward_signals.extrinsic.gamma": 0.8},
        "strength": {at + "reward_signals.extrinsic.strength": 2.0},
        "test_episodes": {at + "test_episodes": 3},
    }[one["resumed with"]]
    if one["signals"] == "curiosity alone" and one["resumed with"] in ("gamma", "strength"):
        changed = {at + f"reward_signals.curiosity.{one['resumed with']}": 0.8}
    return {**changed, at + "max_steps": STEPS * 3 // 2}
