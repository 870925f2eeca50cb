"""Images on their way through the environments to a trainer: of one dtype, off the manager's thread."""

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from lanista.envs.errors import ObservationError
from lanista.envs.images import ImageDtypes, as_floats
from lanista.envs.manager.manager import EnvManager
from lanista.envs.manager.restarts import RestartLimits
from lanista.envs.protocol import images, messages
from lanista.envs.protocol import images as decoding
from lanista.envs.scenes.parts.sensors import image_spec
from lanista.envs.unity import UnityEnvironment
from lanista.envs.validation import NonFiniteError, NonFinitePolicy, check_finite
from mlagents_envs.base_env import (
    ActionSpec,
    BehaviorSpec,
    DecisionSteps,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
    TerminalSteps,
)
from scripted_engine import ScriptedEngine, free_port, hello
from wiremessages import agent, brain, compressed, message

NAME = "B?team=0"
SIZE = (64, 84)
NONE = DimensionProperty.NONE
TILES = ObservationSpec((4, 3), (DimensionProperty.VARIABLE_SIZE, NONE), ObservationType.DEFAULT, "tiles")
SPEC = BehaviorSpec([image_spec((3, 2, 2), "camera"), TILES], ActionSpec(1, ()))


def steps_of(camera: np.ndarray, tiles: np.ndarray | None = None) -> tuple[DecisionSteps, TerminalSteps]:
    n = len(camera)
    tiles = np.zeros((n, 4, 3), np.float32) if tiles is None else tiles
    zeros, ids = np.zeros(n, np.float32), np.arange(10, 10 + n, dtype=np.int32)
    return DecisionSteps([camera, tiles], zeros, ids, None, ids * 0, zeros), TerminalSteps.empty(SPEC)


def agreed(kinds: ImageDtypes, camera: np.ndarray, name: str = NAME) -> np.ndarray:
    return kinds.resolve(name, SPEC, steps_of(camera), "environment 1")[0].obs[0]


PIXELS = np.arange(24, dtype=np.uint8).reshape(2, 3, 2, 2) * 10


def test_the_first_environment_decides_the_dtype_of_images() -> None:
    kept = ImageDtypes()
    assert agreed(kept, PIXELS).dtype == np.uint8
    np.testing.assert_array_equal(agreed(kept, as_floats(PIXELS)), PIXELS)
    assert agreed(kept, as_floats(PIXELS), "B?team=1").dtype == np.uint8, "teams share a network"
    scaled = ImageDtypes()
    assert agreed(scaled, as_floats(PIXELS)).dtype == np.float32
    found = agreed(scaled, PIXELS)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, as_floats(PIXELS))


def test_floats_that_are_not_bytes_are_refused_where_bytes_are_kept() -> None:
    kinds = ImageDtypes()
    agreed(kinds, PIXELS)
    with pytest.raises(ObservationError, match=r"environment 1.*'B\?team=0'.*'camera'.*compression"):
        agreed(kinds, as_floats(PIXELS) + 0.001)


def test_steps_without_agents_decide_nothing() -> None:
    kinds = ImageDtypes()
    nobody = (DecisionSteps.empty(SPEC), TerminalSteps.empty(SPEC))
    kinds.resolve(NAME, SPEC, nobody, "environment 0")
    assert agreed(kinds, PIXELS).dtype == np.uint8


@pytest.mark.parametrize("sensor", ["camera", "tiles"])
@pytest.mark.parametrize("policy", NonFinitePolicy)
def test_a_nan_in_a_float_image_or_an_entity_is_dropped_zeroed_or_stops(policy, sensor: str) -> None:
    steps = steps_of(as_floats(PIXELS))
    bad = steps[0].obs[0 if sensor == "camera" else 1]
    bad[1, 2, 1] = np.nan
    if policy is NonFinitePolicy.STOP:
        named = rf"environment 3.*{sensor}.*agent 11 is nan at index \[2, 1"
        with pytest.raises(NonFiniteError, match=named):
            check_finite(steps, SPEC, "environment 3", NAME, policy)
        return
    mended, void = check_finite(steps, SPEC, "environment 3", NAME, policy)
    assert void.tolist() == ([11] if policy is NonFinitePolicy.DROP else [])
    found = mended[0].obs[0 if sensor == "camera" else 1]
    np.testing.assert_array_equal(found, np.nan_to_num(bad))


def test_bytes_stay_bytes_where_another_observation_is_mended() -> None:
    tiles = np.zeros((2, 4, 3), np.float32)
    tiles[0, 0, 0] = np.inf
    mended, _ = check_finite(steps_of(PIXELS, tiles), SPEC, "environment 0", NAME, NonFinitePolicy.ZERO)
    assert mended[0].obs[0].dtype == np.uint8
    assert np.isfinite(mended[0].obs[1]).all()


def output(*agents: Any, first: bool = False) -> bytes:
    data = message(*agents, brains=(brain(),) * first)
    return messages.UnityMessageProto.FromString(data).unity_output.SerializeToString()


def camera(value: int) -> Any:
    return compressed((3, *SIZE), [np.full((*SIZE, 3), value, np.uint8)], properties=(1, 2, 2))


@pytest.fixture
def meet() -> Iterator[Any]:
    """Started managers of scripted engines, one for each list of outputs."""
    managers = []

    def meet(*scripts: list[bytes], **options: Any) -> EnvManager:
        ports = [free_port() for _ in scripts]
        engines = [ScriptedEngine(port, [hello(), *script]) for port, script in zip(ports, scripts)]

        def make(index: int) -> UnityEnvironment:
            assert engines[index].is_alive()
            options = {"non_finite": None, "images": "uint8", "engine_name": f"environment {index}"}
            return UnityEnvironment(base_port=ports[index], timeout_wait=20, **options)

        manager = EnvManager(make, len(scripts), **options)
        managers.append(manager)
        manager.start()
        return manager

    yield meet
    for manager in managers:
        manager.close(at_once=True)


def test_a_manager_continues_with_others_while_images_are_decoded(meet: Any, monkeypatch) -> None:
    """Environment 0 has two agents' images, which threads decode; environment 1 answers meanwhile."""
    monkeypatch.setattr(decoding, "_threads", lambda: 2)
    go_on, read, main = threading.Event(), images.read_png, threading.get_ident()
    go_on.set()

    def slow(png: bytes) -> np.ndarray:
        if png_of_step in png:
            assert threading.get_ident() != main
            assert go_on.wait(20)
        return read(png)

    png_of_step = camera(9).compressed_data
    monkeypatch.setattr(images, "read_png", slow)
    cameras = [agent(camera(value)) for value in (7, 9)]
    pairs = [[one, agent(one.observations[0], id=1)] for one in cameras]
    small = [agent(camera(k)) for k in range(4)]
    manager = meet(
        [output(*pair, first=i == 0) for i, pair in enumerate(pairs)],
        [output(one, first=i == 0) for i, one in enumerate(small)],
    )
    for step in manager.reset():
        assert step.steps[NAME][0].obs[0].dtype == np.uint8
        manager.send(step.env, {})
    go_on.clear()
    for expected in range(1, 4):
        (step,) = manager.wait(20)
        assert step.env == 1
        assert (step.steps[NAME][0].obs[0] == expected).all()
        if expected < 3:
            manager.send(1, {})
    go_on.set()
    (step,) = manager.wait(20)
    assert step.env == 0
    assert step.steps[NAME][0].obs[0].shape == (2, 3, *SIZE)
    assert (step.steps[NAME][0].obs[0] == 9).all()


def test_a_damaged_image_is_a_failure_of_its_environment(meet: Any) -> None:
    broken = camera(3)
    broken.compressed_data = broken.compressed_data[:80]
    pair = [agent(camera(1)), agent(camera(2), id=1)]
    manager = meet([output(*pair, first=True), output(pair[0], agent(broken, id=5))], limits=RestartLimits(0))
    (step,) = manager.reset()
    manager.send(step.env, {})
    with pytest.raises(Exception, match=r"environment 0.*'B\?team=0'.*'camera'.*agent 5.*cannot be decoded"):
        manager.wait(20)
