"""A recorded session of a real Unity player through the whole trainer: its bytes are replayed.

It has every kind of sensor, two teams, and hybrid actions with masks. What the trainer answers moves nobody.
"""

import base64
import gzip
import io
import json
import os
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from console_runs import Ended, learn
from lanista.envs.protocol import messages
from lanista.trainers.checkpoints.manager import load_checkpoint
from PIL import Image
from scripted_engine import executable

FOLDER = Path(os.environ.get("LANISTA_TRANSCRIPTS") or Path(__file__).parents[1] / "real" / "transcripts")
YAML = """\
behaviors:
  Hybrid:
    trainer_type: ppo
    hyperparameters: {batch_size: 16, buffer_size: 64}
    network_settings: {hidden_units: 16, num_layers: 1, normalize: true, vis_encode_type: match3}
    max_steps: 200
    time_horizon: 8
    summary_freq: 100
torch_settings: {num_threads: 1}  # other numbers round sums otherwise, and are chosen by how long they take
"""


def requests() -> list[bytes]:
    """What the player sent, in order."""
    with gzip.open(FOLDER / "hybrid_float.jsonl.gz", "rt", encoding="utf-8") as file:
        lines = map(json.loads, file)
        return [
            base64.b64decode(line["b64"])
            for line in lines
            if line["kind"] == "rpc" and line["dir"] == "engine->trainer"
        ]


def with_png(data: bytes) -> bytes:
    """The message as the player writes it where its image sensor's compression is set to PNG."""
    message = messages.UnityMessageProto.FromString(data)
    for listed in message.unity_output.rl_output.agentInfos.values():
        for agent in listed.value:
            for seen in agent.observations:
                if len(seen.shape) == 3:
                    planes = np.array(seen.float_data.data, np.float32).reshape(seen.shape)
                    pixels = np.rint(planes * 255).astype(np.uint8).transpose(1, 2, 0)
                    file = io.BytesIO()
                    Image.fromarray(pixels).save(file, "PNG")
                    seen.ClearField("float_data")
                    seen.compression_type, seen.compressed_data = 1, file.getvalue()
    return message.SerializeToString()


def trained(folder: Path, sent: list[bytes]) -> Ended:
    folder.mkdir()
    (folder / "requests").write_bytes(b"\n".join(map(base64.b64encode, sent)))
    script = f"import base64\nfor line in open({str(folder / 'requests')!r}): ask(base64.b64decode(line))"
    ended = learn(folder, "--env", executable(folder, script), yaml=YAML)
    assert ended.good, ended.out
    return ended


@pytest.mark.skipif(os.name != "posix", reason="the replaying engine is a script with a first line")
def test_an_image_as_floats_and_as_png_teach_the_same(tmp_path: Path) -> None:
    sent = requests()
    runs = [trained(tmp_path / name, each) for name, each in (("f", sent), ("p", [*map(with_png, sent)]))]
    states = [load_checkpoint(*run.files("checkpoint.pt")) for run in runs]
    assert states[0]["step"] == states[1]["step"] >= 200
    assert states[0]["Policy"].keys() == states[1]["Policy"].keys()
    for key, value in states[0]["Policy"].items():
        assert torch.equal(value, states[1]["Policy"][key]), key
    (path,) = (p for p in runs[1].files("Hybrid.onnx") if p.parent.name == "r")
    inputs = {each.name: each.shape[1:] for each in onnxruntime.InferenceSession(path).get_inputs()}
    assert inputs == {
        "obs_0": [6, 5], "obs_1": [3], "obs_2": [3, 12, 20], "obs_3": [15], "obs_4": [12], "action_masks": [5]
    }  # fmt: skip
