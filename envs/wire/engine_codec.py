"""The engine's side, for engines that are written in Python: steps to bytes, answers to arrays."""

from collections.abc import Mapping

from mlagents_envs.base_env import BehaviorSpec

from .engine_agents import AgentBatch, AgentWriter, Observed
from .hello import Capabilities
from .messages import (
    ActionSpecProto,
    BrainParametersProto,
    UnityOutputProto,
    UnityRLInitializationOutputProto,
)
from .png_writer import FAST
from .trainer_reply import TrainerReply, decode_reply
from .versions import API_VERSION
from .write import HEADER_OK, delimited

__all__ = [
    "AgentBatch",
    "Observed",
    "StepEncoder",
    "TrainerReply",
    "decode_reply",
    "encode_hello",
    "encode_ready",
]


def encode_hello(
    name: str,
    package_version: str,
    communication_version: str = API_VERSION,
    capabilities: Capabilities | None = None,
) -> bytes:
    """The first message: the engine introduces itself."""
    proto = UnityRLInitializationOutputProto(
        name=name,
        communication_version=communication_version,
        package_version=package_version,
        capabilities=(capabilities or Capabilities()).proto(),
    )
    return HEADER_OK + delimited(2, UnityOutputProto(rl_initialization_output=proto).SerializeToString())


def encode_ready() -> bytes:
    """The second message, whose answer is the first reset: a header alone."""
    return HEADER_OK


class StepEncoder:
    """Writes the messages of steps. A behaviour is described in the first one in which it has agents."""

    def __init__(self, specs: Mapping[str, BehaviorSpec], level: int = FAST) -> None:
        """`specs`: every behaviour, by its full name, such as `Walker?team=0`; `level`: as of
        `encode_pictures`.
        """
        self._level = level
        self._specs: dict[str, BehaviorSpec] = {}
        self._described: set[str] = set()
        self._writers: dict[str, AgentWriter] = {}
        self.learn(specs)

    def learn(self, specs: Mapping[str, BehaviorSpec]) -> None:
        """Take in behaviours that are not known yet."""
        for name, spec in specs.items():
            if name not in self._specs:
                self._specs[name] = spec
                self._writers[name] = AgentWriter(name, spec, self._level)

    def encode(self, batches: Mapping[str, AgentBatch], side_channel: bytes = b"") -> bytes:
        """One step's message. Behaviours without agents may be left out.

        Raises:
            ValueError: A behaviour is not among the specs, or an array does not have its shape.
        """
        unknown = batches.keys() - self._writers.keys()
        if unknown:
            raise ValueError(
                f"No specification of behavior {min(unknown)!r}; known are {sorted(self._writers)}."
            )
        entries = [
            delimited(2, delimited(1, name.encode()) + delimited(2, self._writers[name].write(batch)))
            for name, batch in batches.items()
        ]
        if side_channel:
            entries.append(delimited(3, side_channel))
        output = delimited(1, b"".join(entries))
        new = [name for name, batch in batches.items() if len(batch.agent_id) and name not in self._described]
        if new:
            self._described.update(new)
            output += delimited(2, self._describe(new))
        return HEADER_OK + delimited(2, output)

    def _describe(self, names: list[str]) -> bytes:
        brains = []
        for name in names:
            spec = self._specs[name].action_spec
            action = ActionSpecProto(
                num_continuous_actions=spec.continuous_size,
                num_discrete_actions=len(spec.discrete_branches),
                discrete_branch_sizes=spec.discrete_branches,
            )
            brains.append(BrainParametersProto(brain_name=name, is_training=True, action_spec=action))
        return UnityRLInitializationOutputProto(brain_parameters=brains).SerializeToString()
