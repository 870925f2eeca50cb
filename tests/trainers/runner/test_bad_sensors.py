"""A faulty sensor of an engine ends the run with one message, and the weights are saved."""

import re

import numpy as np
import pytest
from console_runs import learn, weights_are_finite
from lanista.envs.protocol import messages
from lanista.trainers.checkpoints.file import load_checkpoint
from scripted_engine import executable
from wiremessages import agent, brain, compressed, message

pytestmark = pytest.mark.slow

NAME = "Ball?team=0"
STEPS = 120
SIZE = (20, 20)
YAML = """\
behaviors:
  Ball:
    trainer_type: ppo
    hyperparameters: {batch_size: 16, buffer_size: 64, num_epoch: 1}
    network_settings: {hidden_units: 8, num_layers: 1, vis_encode_type: %s}
    max_steps: 400
    time_horizon: 16
"""
WHERE = r"environment 0.*'Ball\?team=0'.*"


def camera(channels=3, cut=None):
    """As many PNG files as it takes; `cut` leaves so many bytes of them."""
    pixels = np.random.default_rng(0).integers(0, 256, (*SIZE, 3), dtype=np.uint8)
    seen = compressed((channels, *SIZE), [pixels] * -(-channels // 3), properties=(1, 2, 2))
    seen.compressed_data = seen.compressed_data[:cut]
    return seen


def tiles(number=0.5):
    """Three entities of two numbers."""
    data = [1.0, 0.2, 1.0, number, 0.0, 0.0]
    floats = messages.ObservationProto.FloatData(data=data)
    return messages.ObservationProto(
        shape=[3, 2], dimension_properties=[4, 1], name="tiles", float_data=floats
    )


def told(*observations, first=False):
    """What the engine's one agent sees."""
    brains = (brain(NAME, continuous=2, branches=(3,)),) if first else ()
    return message(agent(*observations, id=1, reward=0.1), name=NAME, brains=brains)


def run(folder, *wrong, encoder="simple"):
    """A run in which an agent's observations are valid for a while, and then faulty."""
    first, then, last = told(camera(), tiles(), first=True), told(camera(), tiles()), told(*wrong)
    script = (
        f"greet(); ask({first!r}); [ask({then!r}) for _ in range({STEPS})]; ask({last!r}); time.sleep(600)"
    )
    return learn(folder, "--env", executable(folder, script), yaml=YAML % encoder)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ((camera(cut=500), tiles()), r"'camera'.*agent 1.*PNG cannot be decoded"),
        ((camera(channels=4), tiles()), r"'camera'.*agent 1 does not fit.*\(3, 20, 20\).*\(4, 20, 20\)"),
        ((camera(), tiles(float("nan"))), r"'tiles' of agent 1 is nan at index \[1, 1\]"),
    ],
    ids=["a corrupt PNG", "another number of channels", "NaN in one entity"],
)
def test_a_faulty_sensor_is_named_and_the_weights_are_saved(tmp_path, wrong, says):
    ended = run(tmp_path, *wrong)
    assert re.search(WHERE + says, ended.error)
    files = ended.files("*.pt")
    assert weights_are_finite(files) and ended.files("Ball.onnx")
    assert max(load_checkpoint(path)["step"] for path in files) >= STEPS - 16


def test_an_image_below_the_minimum_size_is_refused_before_training(tmp_path):
    ended = run(tmp_path, encoder="nature_cnn")
    assert re.search(
        r"behavior Ball: .*'camera' is an image of 20x20.*nature_cnn.*36x36.*simple", ended.error
    )
    assert not ended.files("*.onnx")
