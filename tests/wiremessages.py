"""Messages of engines, written with protobuf's own objects."""

import io
from typing import Any

import numpy as np
import pytest
from lanista.envs.protocol import messages
from lanista.envs.protocol.decoder import Decoder
from lanista.envs.protocol.dialect import UNITY, UNREAL
from PIL import Image

DIALECTS = pytest.mark.parametrize("dialect", [UNITY, UNREAL], ids=["Unity", "Unreal"])
NAME = "B?team=0"
IMAGE = (3, 4, 6)


def brain(name: str = NAME, continuous: int = 1, branches: tuple[int, ...] = ()) -> Any:
    return messages.BrainParametersProto(
        brain_name=name,
        action_spec=messages.ActionSpecProto(
            num_continuous_actions=continuous,
            num_discrete_actions=len(branches),
            discrete_branch_sizes=branches,
        ),
    )


def vector(*values: float, name: str = "v") -> Any:
    return messages.ObservationProto(
        shape=[len(values)],
        name=name,
        dimension_properties=[1],
        float_data=messages.ObservationProto.FloatData(data=values),
    )


def picture(shape: tuple[int, ...], values: np.ndarray, properties: tuple[int, ...] = ()) -> Any:
    return messages.ObservationProto(
        shape=shape,
        dimension_properties=properties,
        float_data=messages.ObservationProto.FloatData(data=values.ravel().tolist()),
    )


def png_file(pixels: np.ndarray) -> bytes:
    """A PNG file of pixels [height, width] or [height, width, 3 or 4]."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def png(shape: tuple[int, ...], pixels: np.ndarray, properties: tuple[int, ...] = ()) -> Any:
    return compressed(shape, [pixels], properties=properties)


def compressed(
    shape: tuple[int, ...],
    files: list[np.ndarray],
    mapping: tuple[int, ...] = (),
    properties: tuple[int, ...] = (),
    name: str = "camera",
) -> Any:
    """A picture of several PNG files."""
    return messages.ObservationProto(
        shape=shape,
        dimension_properties=properties,
        compression_type=1,
        compressed_data=b"".join(map(png_file, files)),
        compressed_channel_mapping=mapping,
        name=name,
    )


def agent(*observations: Any, **fields: Any) -> Any:
    return messages.AgentInfoProto(observations=observations, **fields)


def message(*agents: Any, name: str = NAME, brains: tuple[Any, ...] = ()) -> bytes:
    output = messages.UnityOutputProto()
    output.rl_initialization_output.brain_parameters.extend(brains)
    output.rl_output.agentInfos[name].value.extend(agents)
    return messages.UnityMessageProto(
        header=messages.HeaderProto(status=200), unity_output=output
    ).SerializeToString()


def decisions(decoder: Decoder, data: bytes, name: str = NAME) -> Any:
    steps = decoder.decode(data).steps
    assert steps is not None
    return steps[name][0]


def message_with_images() -> bytes:
    """A message with compressed images, of a behavior `B`."""
    agents = []
    for row in range(3):
        pixels = np.full((5, 7, 3), 40 * row, np.uint8)
        agents.append(agent(compressed((4, 5, 7), [pixels] * 2, (0, 1, 2, 3, 3, -1)), id=row))
    return message(*agents, name="B", brains=(brain("B"),))
