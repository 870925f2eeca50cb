"""The communicator protocol as the plug-in UnrealMLAgents 1.0 speaks it: ML-Agents' messages, renumbered.

The numbers are those of its Python package, `ueagents_envs` 1.0.0, which the tests have as their peer.
"""

from ..grpc.headers import UNREAL_PATH
from ..protocol.dialect import Dialect
from ..protocol.handshake import Capabilities


def _in_order(fields: str) -> dict[str, int]:
    return {field: number for number, field in enumerate(fields.split(), 1)}


UNREAL = Dialect(
    path=UNREAL_PATH,
    api_version="1.0.0",
    package_version="1.0.0",
    numbers={
        "AgentActionProto": _in_order("value continuous_actions discrete_actions"),
        "AgentInfoProto": _in_order(
            "reward done max_step_reached id action_mask observations group_id group_reward"
        ),
        "BrainParametersProto": _in_order("brain_name is_training action_spec"),
        "ObservationProto": _in_order("shape float_data dimension_properties name"),
        "UnityRLInputProto": _in_order("agent_actions command side_channel"),
        "UnityRLOutputProto": _in_order("agentInfos side_channel"),
        "UnityRLInitializationInputProto": _in_order("seed communication_version package_version num_areas"),
        "UnityRLInitializationOutputProto": _in_order(
            "name communication_version log_path brain_parameters package_version"
        ),
    },
    capabilities=Capabilities(
        concatenated_png_observations=False, compressed_channel_mapping=False, training_analytics=False
    ),
    # The plug-in stops reading an answer without actions, and then mixes up the agents of the later ones.
    names_behaviors_in_resets=True,
)
