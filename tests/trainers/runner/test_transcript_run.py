"""A recorded session of a real Unity player through the whole trainer: its bytes are replayed.

What the trainer answers changes nothing.
"""

import base64
import io

import numpy as np
import onnxruntime
import pytest
import torch
from console_runs import learn
from lanista.envs.protocol import messages
from lanista.trainers.checkpoints.file import load_checkpoint
from PIL import Image
from scripted_engine import executable
from transcripts import FILES, decisions_of, messages_of, specs_of

pytestmark = pytest.mark.slow

YAML = """\
default_settings:
  trainer_type: ppo
  hyperparameters: {{batch_size: 16, buffer_size: 64}}
  network_settings: {{hidden_units: 16, num_layers: 1, normalize: true, vis_encode_type: match3}}
  time_horizon: 8
  summary_freq: 100
behaviors: {behaviors}
torch_settings: {{num_threads: 1}}  # other numbers round sums otherwise, and are chosen by how long they take
"""


def images_of(message):
    """The observations that are images and were sent as floats."""
    agents = [a for listed in message.unity_output.rl_output.agentInfos.values() for a in listed.value]
    seen = [observation for agent in agents for observation in agent.observations]
    return [each for each in seen if len(each.shape) == 3 and each.HasField("float_data")]


def with_images(path):
    """Whether a recorded session has images as floats."""
    return any(images_of(messages.UnityMessageProto.FromString(data)) for _, data in messages_of(path))


def sent(path, as_png):
    """What the player sent, with its images (rounded to 8 bits) as floats or as compressed by its sensor."""
    result = []
    for _, data in messages_of(path):
        message = messages.UnityMessageProto.FromString(data)
        for seen in images_of(message):
            planes = np.array(seen.float_data.data, np.float32).reshape(seen.shape)
            pixels = np.rint(planes * 255).clip(0, 255).astype(np.uint8)
            del seen.float_data.data[:]
            if as_png:
                seen.ClearField("float_data")
                seen.compression_type, seen.compressed_data = 1, png(pixels)
            else:
                seen.float_data.data.extend((pixels / np.float32(255)).ravel())
        result.append(message.SerializeToString())
    return result


def png(pixels):
    """Planes [C, height, width]: one in shades of gray, others as files of three one after another."""
    file = io.BytesIO()
    if len(pixels) == 1:
        Image.fromarray(pixels[0]).save(file, "PNG")
    for start in range(0, len(pixels) if len(pixels) > 1 else 0, 3):
        three = np.zeros((3, *pixels.shape[1:]), np.uint8)
        three[: len(pixels) - start] = pixels[start : start + 3]
        Image.fromarray(three.transpose(1, 2, 0)).save(file, "PNG")
    return file.getvalue()


def trained(folder, sent, yaml, transport):
    folder.mkdir()
    (folder / "requests").write_bytes(b"\n".join(map(base64.b64encode, sent)))
    script = f"import base64\nfor line in open({str(folder / 'requests')!r}): ask(base64.b64decode(line))"
    transport = f"env_settings.transport={transport}"
    ended = learn(folder, "--env", executable(folder, script), "--set", transport, yaml=yaml)
    assert ended.good, ended.out
    return ended


@pytest.mark.parametrize("path", [*filter(with_images, FILES)], ids=lambda path: path.name)
def test_images_as_floats_and_as_png_give_equal_weights_over_either_transport(path, tmp_path):
    steps = {name.partition("?")[0]: 0 for name in specs_of(path)}
    steps = {name: decisions_of(path, name) * 3 // 5 for name in steps}
    yaml = YAML.format(behaviors={name: {"max_steps": count} for name, count in steps.items()})
    runs = [
        trained(tmp_path / transport, sent(path, as_png), yaml, transport)
        for as_png, transport in ((False, "lean"), (True, "grpcio"))
    ]
    for behavior, specification in specs_of(path).items():
        name = behavior.partition("?")[0]
        compare(*runs, name, steps[name])
        check_interface(runs[1], name, specification)


def compare(floats, compressed, behavior, max_steps):
    """Both runs' last checkpoints are equal."""
    states = [
        load_checkpoint(*(p for p in run.files("checkpoint.pt") if p.parent.name == behavior))
        for run in (floats, compressed)
    ]
    assert states[0]["step"] == states[1]["step"] >= max_steps
    assert states[0]["Policy"].keys() == states[1]["Policy"].keys()
    for key, value in states[0]["Policy"].items():
        assert torch.equal(value, states[1]["Policy"][key]), key


def check_interface(run, behavior, specification):
    """The brain takes what the engine sends."""
    (path,) = (p for p in run.files(f"{behavior}.onnx") if p.parent.name == "r")
    inputs = {each.name: each.shape[1:] for each in onnxruntime.InferenceSession(path).get_inputs()}
    wanted = {f"obs_{k}": each["shape"] for k, each in enumerate(specification["observation_specs"])}
    if branches := specification["action_spec"]["discrete_branches"]:
        wanted["action_masks"] = [sum(branches)]
    assert inputs == wanted
