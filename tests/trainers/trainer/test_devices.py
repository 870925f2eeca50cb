"""Every tensor lies on the device that was asked for; a checkpoint of any device is read anywhere."""

import pytest
import torch
from lanista.trainers.checkpoints.file import load_checkpoint
from lanista.trainers.trainer.on_policy import OnPolicyTrainer

YAML = """\
behaviors:
  Tiny:
    trainer_type: {trainer}
    hyperparameters: {{batch_size: 16, buffer_size: 64}}
    network_settings: {{normalize: true, hidden_units: 8, num_layers: 1{memory}}}
    max_steps: 200
    time_horizon: 8
    summary_freq: 100
"""
LSTM = ", memory: {memory_size: 4, sequence_length: 8}"


@pytest.mark.parametrize(
    "trainer, memory", [("ppo", ""), ("ppo", LSTM), ("poca", LSTM), ("mappo", LSTM), ("coma", "")]
)
def test_learning_makes_no_tensor_without_naming_its_device(runs, monkeypatch, capsys, trainer, memory):
    """Tensors without a device go where their numbers are lost: on machines with two GPUs, to a wrong one."""
    runs.rules |= {"groups": trainer != "ppo", "cont": 0, "disc": [3]}

    def elsewhere(real):
        def call(*arguments):
            with torch.device("meta"):
                return real(*arguments)

        return call

    for name in ("process", "_update"):
        monkeypatch.setattr(OnPolicyTrainer, name, elsewhere(getattr(OnPolicyTrainer, name)))
    runs.configure(YAML.format(trainer=trainer, memory=memory))
    assert runs("c.yaml", "--run-id", "r", "--torch-device", "cpu") == 0, capsys.readouterr().err


@pytest.mark.parametrize("device", ["cuda:0", "cuda:3", "mps"])
def test_a_checkpoint_of_a_gpu_is_read_where_there_is_none(tmp_path, monkeypatch, device):
    weights = torch.arange(6.0).reshape(2, 3)
    monkeypatch.setattr(torch.serialization, "location_tag", lambda storage: device)
    torch.save({"Policy": {"weight": weights}}, tmp_path / "a.pt")
    monkeypatch.undo()
    assert device.encode() in (tmp_path / "a.pt").read_bytes(), "the file says where its tensors were"
    loaded = load_checkpoint(tmp_path / "a.pt")["Policy"]["weight"]
    assert loaded.device.type == "cpu" and torch.equal(loaded, weights)
