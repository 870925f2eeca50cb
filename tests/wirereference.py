"""A slow and plain decoder of engines' messages, through protobuf's objects and agent by agent.

Written from the protocol's description alone: what the fast one is compared with.
"""

import numpy as np
from lanista.envs.protocol.dialect import UNITY, Dialect
from lanista.envs.protocol.engine import AgentBatch
from mlagents_envs.base_env import (
    ActionSpec,
    ActionTuple,
    BehaviorSpec,
    DecisionSteps,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
    TerminalSteps,
)

Steps = dict[str, tuple[DecisionSteps, TerminalSteps]]


class PlainDecoder:
    """Knows vector observations and uncompressed pictures, channels first."""

    def __init__(self, dialect: Dialect = UNITY) -> None:
        self.specs: dict[str, BehaviorSpec] = {}
        self._message = dialect.messages.UnityMessageProto

    def decode(self, data: bytes) -> Steps:
        output = self._message.FromString(data).unity_output
        agents = {name: list(listed.value) for name, listed in output.rl_output.agentInfos.items()}
        for brain in output.rl_initialization_output.brain_parameters:
            if agents.get(brain.brain_name):
                self.specs[brain.brain_name] = _spec(brain, agents[brain.brain_name][0])
        return {name: _steps(agents.get(name, []), spec) for name, spec in self.specs.items()}


def _spec(brain, agent) -> BehaviorSpec:
    action = brain.action_spec
    observations = [
        ObservationSpec(
            tuple(proto.shape),
            tuple(DimensionProperty(value) for value in proto.dimension_properties)
            or (DimensionProperty.UNSPECIFIED,) * len(proto.shape),
            ObservationType(proto.observation_type),
            proto.name,
        )
        for proto in agent.observations
    ]
    return BehaviorSpec(
        observations, ActionSpec(action.num_continuous_actions, tuple(action.discrete_branch_sizes))
    )


def _steps(agents, spec: BehaviorSpec) -> tuple[DecisionSteps, TerminalSteps]:
    deciding = [agent for agent in agents if not agent.done]
    done = [agent for agent in agents if agent.done]
    decisions = DecisionSteps(
        _observations(deciding, spec),
        _column(deciding, "reward", np.float32),
        _column(deciding, "id", np.int32),
        _masks(deciding, spec),
        _column(deciding, "group_id", np.int32),
        _column(deciding, "group_reward", np.float32),
    )
    terminals = TerminalSteps(
        _observations(done, spec),
        _column(done, "reward", np.float32),
        _column(done, "max_step_reached", np.bool_),
        _column(done, "id", np.int32),
        _column(done, "group_id", np.int32),
        _column(done, "group_reward", np.float32),
    )
    return decisions, terminals


def _column(agents, name: str, dtype) -> np.ndarray:
    return np.array([getattr(agent, name) for agent in agents], dtype)


def _observations(agents, spec: BehaviorSpec) -> list[np.ndarray]:
    return [
        np.array([list(agent.observations[index].float_data.data) for agent in agents], np.float32).reshape(
            (len(agents), *observation.shape)
        )
        for index, observation in enumerate(spec.observation_specs)
    ]


def _masks(agents, spec: BehaviorSpec) -> list[np.ndarray] | None:
    branches = spec.action_spec.discrete_branches
    if not branches or not agents:
        return None
    flat = np.zeros((len(agents), sum(branches)), np.bool_)
    for row, agent in enumerate(agents):
        if len(agent.action_mask) == flat.shape[1]:
            flat[row] = list(agent.action_mask)
    return np.split(flat, np.cumsum(branches)[:-1], axis=1)


def engine_message(
    batches: dict[str, AgentBatch],
    specs: dict[str, BehaviorSpec],
    new: bool,
    side_channel: bytes = b"",
    dialect: Dialect = UNITY,
) -> bytes:
    """A step's message as engines write it: protobuf leaves out whatever is zero. With the specs if new."""
    messages = dialect.messages
    output = messages.UnityOutputProto()
    output.rl_output.side_channel = side_channel
    for name, spec in specs.items() if new else ():
        action = messages.ActionSpecProto(
            num_continuous_actions=spec.action_spec.continuous_size,
            num_discrete_actions=len(spec.action_spec.discrete_branches),
            discrete_branch_sizes=spec.action_spec.discrete_branches,
        )
        output.rl_initialization_output.brain_parameters.append(
            messages.BrainParametersProto(brain_name=name, is_training=True, action_spec=action)
        )
    for name, batch in batches.items():
        listed = output.rl_output.agentInfos[name].value
        for row in range(len(batch.agent_id)):
            listed.append(_agent(batch, row, specs[name], dialect))
    return messages.UnityMessageProto(
        header=messages.HeaderProto(status=200), unity_output=output
    ).SerializeToString()


def _agent(batch: AgentBatch, row: int, spec: BehaviorSpec, dialect: Dialect):
    observations = [
        dialect.make(
            "ObservationProto",
            shape=observation.shape,
            dimension_properties=[int(value) for value in observation.dimension_property],
            observation_type=observation.observation_type.value,
            name=observation.name,
            float_data={"data": values[row].ravel().tolist()},
        )
        for observation, values in zip(spec.observation_specs, batch.obs)
    ]
    return dialect.messages.AgentInfoProto(
        reward=float(batch.reward[row]),
        done=bool(batch.done[row]),
        max_step_reached=bool(batch.interrupted[row]),
        id=int(batch.agent_id[row]),
        group_id=int(batch.group_id[row]),
        group_reward=float(batch.group_reward[row]),
        action_mask=[] if batch.action_mask is None else batch.action_mask[row].tolist(),
        observations=observations,
    )


def trainer_message(
    actions: dict[str, ActionTuple], deprecated: bool, side_channel=b"", dialect: Dialect = UNITY
) -> bytes:
    """The answer to a step, as ML-Agents writes it."""
    rl_input = dialect.make("UnityRLInputProto", side_channel=side_channel)
    for name, action in actions.items():
        for continuous, discrete in zip(action.continuous.tolist(), action.discrete.tolist()):
            rl_input.agent_actions[name].value.append(
                dialect.make(
                    "AgentActionProto",
                    vector_actions_deprecated=[*continuous, *map(float, discrete)] if deprecated else [],
                    continuous_actions=continuous,
                    discrete_actions=discrete,
                )
            )
    return dialect.messages.UnityMessageProto(
        header={"status": 200}, unity_input={"rl_input": rl_input}
    ).SerializeToString()


def assert_same(found: tuple, expected: tuple) -> None:
    """That two pairs of DecisionSteps and TerminalSteps are equal to the bit, types and shapes too."""
    for kind, one, other in (("decisions", found[0], expected[0]), ("terminals", found[1], expected[1])):
        for name in ("reward", "agent_id", "group_id", "group_reward"):
            _same(f"{kind}.{name}", getattr(one, name), getattr(other, name))
        assert len(one.obs) == len(other.obs)
        for index, (values, others) in enumerate(zip(one.obs, other.obs)):
            _same(f"{kind}.obs[{index}]", values, others)
    _same("interrupted", found[1].interrupted, expected[1].interrupted)
    masks, others = found[0].action_mask, expected[0].action_mask
    assert (masks is None) == (others is None)
    for branch, (mask, other) in enumerate(zip(masks or [], others or [])):
        _same(f"action_mask[{branch}]", mask, other)


def _same(where: str, found: np.ndarray, expected: np.ndarray) -> None:
    same = (
        found.dtype == expected.dtype
        and found.shape == expected.shape
        and np.ascontiguousarray(found).tobytes() == np.ascontiguousarray(expected).tobytes()
    )
    if not same:
        raise AssertionError(f"{where}: {found!r} is not {expected!r}")
