"""Settings of RL Baselines3 Zoo (rl-zoo3), said with the keys of this product.

docs/tutorials/from-sb3.md has the same names as tables. What an entry leaves out has Stable-Baselines3's
default.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ....envs.utils.bounded_yaml import finite_number
from ...utils.errors import CommandError, nearest

Tree = dict[str, Any]

_SHARED = {"n_envs": 1, "policy": "MlpPolicy", "gamma": 0.99, "learning_rate": 3e-4, "normalize": False}
_OF_PPO = _SHARED | {
    **{"n_steps": 2048, "batch_size": 64, "n_epochs": 10, "gae_lambda": 0.95, "clip_range": 0.2},
    **{"normalize_advantage": True, "ent_coef": 0.0, "vf_coef": 0.5, "max_grad_norm": 0.5, "target_kl": None},
    **{"use_sde": False, "sde_sample_freq": -1},
}
_OF_REPLAY = _SHARED | {
    **{"buffer_size": 1_000_000, "learning_starts": 100, "batch_size": 256, "tau": 0.005, "train_freq": 1},
    "gradient_steps": 1,
}
_OF_DDPG = _OF_REPLAY | {"learning_rate": 1e-3, "noise_type": None, "noise_std": 0.0}
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "ppo": _OF_PPO,
    "ppo_lstm": _OF_PPO | {"n_steps": 128, "batch_size": 128},
    "sac": _OF_REPLAY
    | {**{"ent_coef": "auto", "target_entropy": "auto"}, **{"use_sde": False, "sde_sample_freq": -1}},
    "td3": _OF_DDPG | {"policy_delay": 2, "target_policy_noise": 0.2, "target_noise_clip": 0.5},
    "ddpg": _OF_DDPG,
    "dqn": _OF_REPLAY
    | {
        **{"learning_rate": 1e-4, "batch_size": 32, "tau": 1.0, "train_freq": 4, "max_grad_norm": 10.0},
        **{"target_update_interval": 10_000, "exploration_fraction": 0.1},
        **{"exploration_initial_eps": 1.0, "exploration_final_eps": 0.05},
    },
}
"""The keys that are said, with Stable-Baselines3's defaults, by the stem of rl-zoo3's file."""
_LAYERS = {"ppo": [64, 64], "ppo_lstm": [64, 64], "sac": [256, 256], "dqn": [64, 64]}
_OF_POLICY = {"net_arch", "activation_fn", "ortho_init", "log_std_init"}
_OF_MEMORY = {"lstm_hidden_size"}
_AS_HERE = {"enable_critic_lstm": True, "shared_lstm": False, "n_lstm_layers": 1}
"""What a policy has here in any case."""
_NO_KEY = "there is no such key here"
_REASONS = {
    "env_wrapper": "register a function that makes the wrapped environment, and name that one",
    "frame_stack": "gymnasium:ID?stack=N stacks N frames",
    "env_kwargs": "gymnasium:ID?key=value passes them",
}
_ACTIVATIONS = {"Tanh": "tanh", "ReLU": "relu", "ELU": "elu", "GELU": "gelu", "LeakyReLU": "leaky_relu"}


@dataclass(frozen=True)
class ActionFacts:
    """What the translation has to know of an environment's actions."""

    continuous: int = 0
    """Components; 0 where actions are discrete."""
    bound: float | None = None
    """The upper bound of each, where the lower one is minus that; None: they differ."""


@dataclass
class Translation:
    """A behavior's settings, and what of the entry they do not say."""

    settings: Tree
    copies: int
    left: dict[str, str] = field(default_factory=dict)
    """Reasons, by the entry's keys."""


def algorithm_of(stem: str) -> str:
    """The algorithm whose settings a file of this name has.

    Raises:
        CommandError: None that there is here.
    """
    if stem not in DEFAULTS:
        raise CommandError(
            f"--from-zoo: found a file named {stem}, expected one of {', '.join(DEFAULTS)}: rl-zoo3 names "
            "its files by the algorithm"
        )
    return stem


def entry_of(entries: object, env_id: str, file: str) -> Tree:
    """An environment's entry.

    Raises:
        CommandError: The file has none.
    """
    if not isinstance(entries, dict) or not isinstance(entries.get(env_id), dict):
        known = [str(name) for name in entries] if isinstance(entries, dict) else []
        near = nearest(env_id, known, 0.5)
        hint = f" Did you mean {near}?" if near else ""
        raise CommandError(f"{file} has no settings of {env_id}.{hint}")
    return dict(entries[env_id])


def translate(algorithm: str, entry: Mapping[str, Any], actions: ActionFacts) -> Translation:
    """Say an entry with this product's keys.

    Raises:
        CommandError: A value is of no form that rl-zoo3 has.
    """
    given = {**DEFAULTS[algorithm], **{str(key): value for key, value in entry.items()}}
    reader = _Reader(given, actions, algorithm)
    settings: Tree = {
        "trainer_type": "ppo" if algorithm == "ppo_lstm" else algorithm,
        "hyperparameters": reader.of_ppo() if algorithm in ("ppo", "ppo_lstm") else reader.of_replay(),
        "network_settings": reader.network(),
        "reward_signals": {"extrinsic": {"gamma": reader.number("gamma"), "strength": 1.0}},
        "max_steps": int(reader.number("n_timesteps")),
    }
    if algorithm in ("ppo", "ppo_lstm"):
        settings["time_horizon"] = reader.whole("n_steps")
    for key in given.keys() - reader.read:
        reader.left.setdefault(key, _REASONS.get(key, _NO_KEY))
    return Translation(settings, reader.whole("n_envs"), dict(sorted(reader.left.items())))


class _Reader:
    """Reads an entry, and notes which of its keys were read and which cannot be said."""

    def __init__(self, given: Mapping[str, Any], actions: ActionFacts, algorithm: str) -> None:
        self.given = given
        self.actions = actions
        self.algorithm = algorithm
        self.read: set[str] = set()
        self.left: dict[str, str] = {}
        self.policy = self._mapping("policy_kwargs")
        known = _OF_POLICY | (_OF_MEMORY if algorithm == "ppo_lstm" else set())
        for key in self.policy.keys() - known:
            if key in _AS_HERE and self.policy[key] == _AS_HERE[key]:
                continue
            self.left[f"policy_kwargs.{key}"] = _NO_KEY

    def value(self, key: str) -> Any:
        """A value, which counts as read."""
        self.read.add(key)
        return self.given.get(key)

    def number(self, key: str) -> float:
        """A finite number."""
        return _number(key, self.value(key))

    def whole(self, key: str) -> int:
        """A whole number of at least one."""
        return _whole(key, self.value(key))

    def scheduled(self, key: str) -> tuple[float, str]:
        """The first value, and how it goes on: `lin_3e-4` falls to 0 at the end."""
        value = self.value(key)
        if isinstance(value, str) and value.startswith("lin_"):
            return _number(key, value.removeprefix("lin_")), "linear"
        return self.number(key), "constant"

    def of_ppo(self) -> Tree:
        """Hyperparameters of PPO."""
        rate, rate_schedule = self.scheduled("learning_rate")
        clip, clip_schedule = self.scheduled("clip_range")
        collected = self.whole("n_steps") * self.whole("n_envs")
        hyper: Tree = {
            "batch_size": min(self.whole("batch_size"), collected),
            "buffer_size": max(collected - 1, 1),  # an update begins with more steps than that
            "learning_rate": rate,
            "learning_rate_schedule": rate_schedule,
            "beta": self.number("ent_coef") * max(self.actions.continuous, 1),
            "beta_schedule": "constant",
            "epsilon": clip,
            "epsilon_schedule": clip_schedule,
            "lambd": self.number("gae_lambda"),
            "num_epoch": self.whole("n_epochs"),
            "ratio": "joint",
            "normalize_advantages": "minibatch" if self.value("normalize_advantage") else "none",
            "value_coefficient": self.number("vf_coef"),
            "max_grad_norm": self.number("max_grad_norm"),
            "adam_epsilon": 1e-5,
        }
        if clip_schedule == "linear":
            hyper["clip_end"] = 0.0
        if self.value("target_kl") is not None:
            hyper["target_kl"] = self.number("target_kl")
        if self._normalized("norm_reward"):
            hyper["normalize_rewards"] = True
        return hyper

    def of_replay(self) -> Tree:
        """Hyperparameters of the trainers with a replay."""
        rate, schedule = self.scheduled("learning_rate")
        between = (self._train_frequency() or 1) * self.whole("n_envs")
        taken = self.value("gradient_steps")
        hyper: Tree = {
            "batch_size": self.whole("batch_size"),
            "buffer_size": self.whole("buffer_size"),
            "buffer_init_steps": int(self.number("learning_starts")),
            "learning_rate": rate,
            "learning_rate_schedule": schedule,
            "steps_per_update": between,
            "gradient_steps": between if taken == -1 else self.whole("gradient_steps"),
        }
        if hyper["buffer_init_steps"]:
            hyper["random_initial_actions"] = True
        if self._normalized("norm_reward"):
            hyper["normalize_rewards"] = True
        own: Mapping[str, Callable[[Tree], None]] = {"sac": self._sac, "dqn": self._dqn}
        own.get(self.algorithm, self._deterministic)(hyper)
        return hyper

    def _train_frequency(self) -> int | None:
        """Steps of a copy between two updates; None where updates are due after an episode."""
        frequency = self.value("train_freq")
        if isinstance(frequency, list) and len(frequency) == 2:
            if frequency[1] != "step":
                self.left["train_freq"] = "updates are due after a number of steps here: one was written"
                return None
            self.given = {**self.given, "train_freq": frequency[0]}
        return self.whole("train_freq")

    def _sac(self, hyper: Tree) -> None:
        hyper["tau"] = self.number("tau")
        coefficient = self.value("ent_coef")
        if isinstance(coefficient, str) and coefficient.startswith("auto"):
            hyper["init_entcoef"] = _number("ent_coef", coefficient.partition("_")[2] or 1.0)
        else:
            hyper["entropy_coefficient"] = self.number("ent_coef")
        if self.value("target_entropy") != "auto":
            hyper["target_entropy"] = self.number("target_entropy")

    def _deterministic(self, hyper: Tree) -> None:
        hyper["tau"] = self.number("tau")
        if self.algorithm == "td3":
            hyper["policy_delay"] = self.whole("policy_delay")
            hyper["target_noise"] = self.number("target_policy_noise")
            hyper["target_noise_clip"] = self.number("target_noise_clip")
        kind = self.value("noise_type")
        deviation = self.number("noise_std") if kind else 0.0
        self.read.add("noise_std")
        hyper |= {"noise_start": deviation, "noise_end": deviation}
        if kind == "ornstein-uhlenbeck":
            hyper |= {"noise_type": "ornstein_uhlenbeck", "noise_dt": 0.01}
        elif kind not in (None, "normal"):
            self.left["noise_type"] = "normal noise was written"

    def _dqn(self, hyper: Tree) -> None:
        steps = self.number("n_timesteps") * self.number("exploration_fraction")
        hyper |= {
            "double": False,
            "epsilon_start": self.number("exploration_initial_eps"),
            "epsilon_end": self.number("exploration_final_eps"),
            "epsilon_decay_steps": int(steps),
            "max_grad_norm": self.number("max_grad_norm"),
        }
        tau, interval = self.number("tau"), self.whole("target_update_interval")
        if tau < 1.0:
            hyper["tau"] = tau
        else:
            # There the target network changes between updates alone, never between the steps of one.
            updates = round(interval / hyper["steps_per_update"])
            hyper["target_update_interval"] = max(updates, 1) * hyper["gradient_steps"]

    def network(self) -> Tree:
        """The networks' section."""
        arch = self.policy.get("net_arch", _LAYERS.get(self.algorithm, [400, 300]))
        if isinstance(arch, list) and len(arch) == 1 and isinstance(arch[0], dict):
            arch = arch[0]
        of_policy, of_values = (arch, arch) if isinstance(arch, list) else _streams(arch)
        on_policy = self.algorithm in ("ppo", "ppo_lstm")
        activation = str(self.policy.get("activation_fn", "Tanh" if on_policy else "ReLU"))
        network: Tree = {
            "normalize": self._normalized("norm_obs"),
            "hidden_units": _widths(of_policy),
            "activation": _ACTIVATIONS.get(activation, "relu"),
        }
        if activation not in _ACTIVATIONS:
            self.left["policy_kwargs.activation_fn"] = f"{activation}: relu was written"
        if on_policy and self.policy.get("ortho_init", True):
            network["initialization"] = "orthogonal"
        if not of_policy or not of_values:
            self.left["policy_kwargs.net_arch"] = "there is one hidden layer at least: 64 units were written"
        if of_values != of_policy and on_policy:
            network["critic"] = {"hidden_units": _widths(of_values)}
        elif of_values != of_policy:
            self.left["policy_kwargs.net_arch"] = "critics have the policy's layers here"
        if "Cnn" in str(self.value("policy")):
            network["vis_encode_type"] = "nature_cnn"
        if self.algorithm == "ppo_lstm":
            size = _whole("lstm_hidden_size", self.policy.get("lstm_hidden_size", 256))
            length = min(self.whole("n_steps"), self.whole("batch_size"))
            network["memory"] = {"memory_size": 2 * size, "sequence_length": length}
            if length < self.whole("n_steps"):
                self.left["n_steps"] = f"sequences are of {length} steps, no more than a minibatch"
        self._explore(network, on_policy=on_policy)
        return network

    def _explore(self, network: Tree, *, on_policy: bool) -> None:
        by_state = bool(self.value("use_sde"))
        self.read.add("sde_sample_freq")
        if not self.actions.continuous:
            return
        if on_policy:
            network["action_range"] = self.actions.bound or 1.0
            if self.actions.bound is None:
                self.left["log_std_init"] = "deviations are in units of each action's bound, which differ"
        if by_state:
            interval = self._resample_interval(on_policy=on_policy)
            network["state_dependent_exploration"] = {"resample_interval": interval}
        if on_policy or by_state:
            usual = 0.0 if on_policy else -3.0
            network["initial_log_std"] = _number("log_std_init", self.policy.get("log_std_init", usual))

    def _resample_interval(self, *, on_policy: bool) -> int:
        """Steps after which exploration changes: those of a rollout where -1 says so."""
        if self.value("sde_sample_freq") != -1:
            return self.whole("sde_sample_freq")
        if on_policy:
            return self.whole("n_steps")
        return self._train_frequency() or self.whole("n_timesteps")  # an episode ends it in any case

    def _normalized(self, what: str) -> bool:
        """Whether VecNormalize scales observations (`norm_obs`) or rewards (`norm_reward`)."""
        value = self.value("normalize")
        if isinstance(value, str):
            value = _literal("normalize", value)
        return bool(value.get(what, True)) if isinstance(value, dict) else bool(value)

    def _mapping(self, key: str) -> Tree:
        """Keyword arguments that are written as Python: `dict(net_arch=[64], activation_fn=nn.ReLU)`."""
        value = self.value(key) or {}
        value = _literal(key, value) if isinstance(value, str) else value
        if not isinstance(value, dict):
            raise CommandError(f"--from-zoo: {key}: found {str(value)[:80]}, expected dict(...)")
        return value


def _number(key: str, value: object) -> float:
    given = value
    if isinstance(value, str):  # as YAML reads 1e5
        with suppress(ValueError):
            given = float(value)
    number = finite_number(given)
    if number is None:
        raise CommandError(f"--from-zoo: {key}: found {repr(value)[:80]}, expected a number")
    return number


def _whole(key: str, value: object) -> int:
    number = _number(key, value)
    if number != int(number) or number < 1:
        raise CommandError(f"--from-zoo: {key}: found {number!r}, expected a whole number from 1")
    return int(number)


def _streams(arch: object) -> tuple[Any, Any]:
    """The layers of policy and values."""
    if not isinstance(arch, dict):
        raise CommandError(
            f"--from-zoo: net_arch: found {str(arch)[:80]}, expected widths or dict(pi=..., vf=...)"
        )
    of_policy = arch.get("pi", [])
    return of_policy, arch.get("vf", arch.get("qf", of_policy))


def _widths(layers: object) -> list[int]:
    """As `hidden_units` takes them, which is one layer at least."""
    layers = layers or [64]
    if not isinstance(layers, list) or not layers or not all(type(width) is int for width in layers):
        raise CommandError(
            f"--from-zoo: net_arch: found {str(layers)[:80]}, expected widths such as [64, 64]"
        )
    return layers


def _literal(key: str, text: str) -> Any:
    """The value of literals, `dict(...)` and names such as `nn.ReLU`; nothing is executed."""
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise CommandError(
            f"--from-zoo: {key}: found {text[:80]!r}, expected literals and dict(...)"
        ) from error


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Call):
        if getattr(node.func, "id", "") != "dict" or node.args:
            raise ValueError("a call of something else")
        return {str(word.arg): _value(word.value) for word in node.keywords}
    if isinstance(node, ast.Dict):
        keys = [_value(key) for key in node.keys if key is not None]
        return dict(zip(map(str, keys), map(_value, node.values)))
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(element) for element in node.elts]
    if isinstance(node, ast.Attribute):
        return node.attr
    return ast.literal_eval(node)
