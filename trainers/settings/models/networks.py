"""How a network is built."""

from __future__ import annotations

import re
from enum import Enum
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StrictInt, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticKnownError

from ..base import Flag, Integer, Number, Settings, Text, integer_of_key, own, plain, refuse, wrong
from ..errors import Problem

MOST_UNITS = 32768
MOST_LAYERS = 1000

_REFERENCE = re.compile(r"[\w.-]+(:[\w.]+)?")


class EncoderType(str, Enum):
    """The encoder of images."""

    FULLY_CONNECTED = "fully_connected"
    MATCH3 = "match3"
    SIMPLE = "simple"
    NATURE_CNN = "nature_cnn"
    RESNET = "resnet"


class ConditioningType(str, Enum):
    """How a goal signal conditions the network."""

    HYPER = "hyper"
    NONE = "none"


class MemoryType(str, Enum):
    """The kind of recurrent layer."""

    LSTM = "lstm"
    GRU = "gru"


class Activation(str, Enum):
    """The activation after each hidden layer."""

    SWISH = "swish"
    RELU = "relu"
    LEAKY_RELU = "leaky_relu"
    ELU = "elu"
    GELU = "gelu"
    TANH = "tanh"


class Initialization(str, Enum):
    """How the weights of hidden layers are initialized."""

    KAIMING_NORMAL = "kaiming_normal"
    XAVIER_UNIFORM = "xavier_uniform"
    ORTHOGONAL = "orthogonal"


def _widths(value: Any, info: ValidationInfo) -> int | list[int]:
    if not isinstance(value, list | tuple):
        return _width(value, info)
    if not 1 <= len(value) <= MOST_LAYERS:
        raise wrong(f"found {len(value)} widths, expected from 1 to {MOST_LAYERS}, one of each hidden layer")
    return [_width(one, info) for one in value]


def _width(value: Any, info: ValidationInfo) -> int:
    width = integer_of_key(value, info)
    if width < 1:
        raise PydanticKnownError("greater_than_equal", {"ge": 1})
    if width > MOST_UNITS:
        raise PydanticKnownError("less_than_equal", {"le": MOST_UNITS})
    return width


HiddenUnits = Annotated[StrictInt | list[StrictInt], BeforeValidator(_widths)]


class MemorySettings(Settings):
    """A recurrent layer between body and heads."""

    sequence_length: Integer = Field(default=64, ge=1)
    """Steps through which gradients flow back. At most batch_size."""
    memory_size: Integer = 128
    """Size of an agent's recurrent state; half of an LSTM's is its cell state. Must be even."""
    memory_type: MemoryType = own(MemoryType.LSTM)
    """lstm, or gru, whose whole state is its output: twice the width for the same memory_size."""

    @field_validator("memory_size")
    @classmethod
    def _halves(cls, value: int) -> int:
        if value <= 0 or value % 2:
            raise wrong(
                f"found {value}; the memory size of a recurrent network must be greater than 0 and divisible "
                f"by 2 (try {max(2, value + value % 2)})"
            )
        if value > MOST_UNITS:
            raise wrong(f"found {value}, expected at most {MOST_UNITS}: its weights would take gigabytes")
        return value


class StateDependentExplorationSettings(Settings):
    """Exploration that is a function of the state (gSDE)."""

    resample_interval: Integer = Field(default=8, ge=1)
    """Decisions of an agent for which its exploration is the same function of the state: 1 samples it anew
    for each, and it is sampled anew when an episode starts. 4 to 64 are common."""


class NetworkSettings(Settings):
    """The network of a policy, a critic or a reward signal."""

    normalize: Flag = False
    """Scale vector observations by their running mean and variance. Good for physics, bad for one-hot."""
    hidden_units: HiddenUnits = 128
    """Width of the hidden layers. One layer of the greatest has 4 GiB of weights. A list, such as [400, 300],
    has the width of each layer; images are encoded in the first, and team critics attend in it."""
    num_layers: Integer = Field(default=2, ge=0, le=MOST_LAYERS)
    """Number of hidden layers (0 is read as 1); not beside a list of hidden_units."""
    vis_encode_type: EncoderType = EncoderType.SIMPLE
    """Encoder of images: simple has 2 convolutions, nature_cnn 3, resnet most; match3 is for tiny grids."""
    memory: MemorySettings | None = None
    """Gives agents a recurrent memory. {} for defaults, null for none."""
    goal_conditioning_type: ConditioningType = ConditioningType.HYPER
    """hyper: goal signals generate weights of the policy; none: they are ordinary observations."""
    deterministic: Flag = False
    """Take the most likely action instead of sampling one."""
    initial_log_std: Number = own(0.0, ge=-20, le=2)
    """Logarithm of the standard deviation of continuous actions before anything is learned, in units of which
    action_range are the engine's 1. For ppo, poca and mappo; -0.5 to -2 explore less. With
    state_dependent_exploration, and then for sac too, that of what each feature of the policy's last layer
    adds to an action: -2 to -4."""
    action_range: Number = own(3.0, ge=0.01, le=100)
    """Continuous actions are clipped to this size and divided by it for the engine: 3 as in ML-Agents, where
    the engine's actions vary by a third at first; 1 as in most other libraries. For ppo, poca and mappo."""
    state_dependent_exploration: StateDependentExplorationSettings | None = own(None)
    """Explore by a function of the state that stays for some decisions (gSDE), so that actions do not
    tremble, instead of by noise of each decision. For ppo, poca, mappo and sac with continuous actions. {}
    for defaults, null for none."""
    activation: Activation = own(Activation.SWISH)
    """The activation after each hidden layer."""
    initialization: Initialization = own(Initialization.KAIMING_NORMAL)
    """How the weights of hidden layers are initialized, and those of image encoders, which with
    kaiming_normal start as ML-Agents' do: their features then differ little from image to image. orthogonal
    has the gains of Stable-Baselines3: in ppo, poca, mappo and coma, heads start orthogonal too."""
    layer_norm: Flag = own(False)
    """Layer normalization: scale each hidden layer's output to mean 0 and variance 1, before the
    activation."""
    residual: Flag = own(False)
    """num_layers residual blocks with layer normalization (SimBa) instead of plain layers: each adds to its
    input what two layers, of 4 x hidden_units and hidden_units, make of it. Not with layer_norm."""
    encoders: dict[str, str] = own({})
    """Encoders of your own: a sensor's name, and the class (package.module:Class) that encodes it."""
    body: str | None = own(None)
    """A network of your own (package.module:Class) instead of encoders and hidden layers."""
    critic_only_observations: list[Text] = own([])
    """Sensors that the critic reads and the policy does not, by their names; a star at the end of a name
    stands for its rest."""
    critic: NetworkSettings | None = own(None)
    """Keys in which the critic's network differs; those not given here are as above. null: in none."""

    @field_validator("body")
    @classmethod
    def _is_reference(cls, value: str | None) -> str | None:
        if value is not None and not _REFERENCE.fullmatch(value):
            raise wrong(
                f"found {value!r}, expected a class, such as my_networks:MyBody (package.module:Class), or "
                "the name of an entry point of the group lanista.networks"
            )
        return value

    @field_validator("encoders")
    @classmethod
    def _are_references(cls, value: dict[str, str]) -> dict[str, str]:
        for reference in value.values():
            cls._is_reference(reference)
        return value

    @property
    def layer_sizes(self) -> tuple[int, ...]:
        """The width of each hidden layer; ML-Agents builds one layer even if num_layers is 0."""
        if isinstance(self.hidden_units, list):
            return tuple(self.hidden_units)
        return (self.hidden_units,) * max(self.num_layers, 1)

    def _contradictions(self) -> list[Problem]:
        """What cannot be, whether it was written or follows from another network."""
        problems: list[Problem] = []
        if isinstance(self.hidden_units, list):
            if "num_layers" in self.model_fields_set:
                message = (
                    f"found {self.num_layers}, and hidden_units {self.hidden_units} has the width of each "
                    "layer: remove this key, or give hidden_units one number"
                )
                problems.append(Problem(("num_layers",), message))
            self.complete("num_layers", len(self.hidden_units))
        weights = sum(size**2 for size in self.layer_sizes)
        if self.num_layers > 1 and weights > MOST_UNITS**2:
            message = (
                f"found {self.hidden_units}, which with num_layers {self.num_layers} makes {weights} "
                f"weights, expected at most {MOST_UNITS**2} (4 GiB): use fewer or narrower layers"
            )
            problems.append(Problem(("hidden_units",), message))
        if self.residual and self.layer_norm:
            message = (
                "found true, and residual blocks normalize their layers already: set one of them to false"
            )
            problems.append(Problem(("layer_norm",), message))
        return problems

    @model_validator(mode="after")
    def _contradicts_nothing(self) -> NetworkSettings:
        problems = self._contradictions()
        if problems:
            raise refuse(type(self).__name__, *problems)
        return self

    @model_validator(mode="after")
    def _critic_like_this(self) -> NetworkSettings:
        """Fill in what the critic does not say."""
        if self.critic is None:
            return self
        if self.critic.critic is not None:
            message = "a critic has no critic: remove this key"
            raise refuse(type(self).__name__, Problem(("critic", "critic"), message))
        key = "critic_only_observations"
        if key in self.critic.model_fields_set and getattr(self.critic, key) != getattr(self, key):
            message = "it says what the policy does not read: move this key from critic to network_settings"
            raise refuse(type(self).__name__, Problem(("critic", key), message))
        for key in self.model_fields_set - self.critic.model_fields_set - {"critic"}:
            self.critic.complete(key, getattr(self, key))
        problems = [problem.within(("critic",)) for problem in self.critic._contradictions()]
        if problems:
            raise refuse(type(self).__name__, *problems)
        return self

    def as_dict(self) -> dict[str, Any]:
        """Plain values; all of a critic's network, whose missing keys would be read as the policy's."""
        written = super().as_dict()
        if self.critic is not None:
            keys = (key for key in self.critic.written() if key != "critic")
            written["critic"] = without_implied_layers(
                {key: plain(getattr(self.critic, key)) for key in keys}
            )
        return without_implied_layers(written)


def without_implied_layers(network: dict[str, Any]) -> dict[str, Any]:
    """A network's plain values without the number of layers where a list of widths has it."""
    if isinstance(network["hidden_units"], list):
        del network["num_layers"]
    return network
