"""ONNX files for the plugin godot_rl_agents: fed and read as its scripts do, they act as the networks."""

import math

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from godot_brains import CHOICES, MIXED, MOVE, SAC, actor, memory, networks
from lanista.envs.named_actions import actions_of
from lanista.trainers.checkpoints.file import save_checkpoint
from lanista.trainers.checkpoints.metadata import describe_network
from lanista.trainers.cli.main import run
from lanista.trainers.networks.actor import Actor
from lanista.trainers.policies.godot.godot_rl import build_godot_rl, export_godot_rl, verify_godot_rl
from lanista.trainers.policies.onnx.graph import BrainVerificationError
from lanista.trainers.settings.models.networks import NetworkSettings
from mlagents_envs.base_env import BehaviorSpec
from policysteps import change, random_obs
from specs import sensor, spec_of_shapes

NETWORKS = {
    name: network
    for name, network in networks().items()
    if not network.memory_size and all(len(spec.shape) == 1 for spec in network.spec.observation_specs)
}
NETWORKS["entities"] = Actor(
    spec_of_shapes([(4,), (5, 3)], continuous=2, branches=(3,)), NetworkSettings(hidden_units=8)
).requires_grad_(False)


class Plugin:
    """What ONNXInference.cs and sync.gd do with a file, in the terms of onnxruntime."""

    def __init__(self, path, actions):
        self.session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        (self.size,) = [o.shape[1] for o in self.session.get_outputs() if o.name == "output"]
        continuous = [a.size for a in actions if not a.discrete]
        self.actions = actions
        self.means_only = len(continuous) == len(actions) and sum(continuous) == self.size

    def act(self, obs, random=None):
        """One agent's observations by name, flat; samples choices if given a random generator."""
        fed = {"state_ins": np.array([1], np.float32)}
        fed |= {name: np.array(row, np.float32).reshape(1, len(row)) for name, row in obs.items()}
        output, state = self.session.run(["output", "state_outs"], fed)
        assert output.shape == (1, self.size) and state.shape == (1,)
        index, result = 0, {}
        for action in self.actions:
            taken = output[0, index : index + action.size]
            if action.discrete:
                weights = np.exp(taken - taken.max())
                result[action.name] = int(taken.argmax())
                if random is not None:
                    result[action.name] = int((weights.cumsum() > random.random() * weights.sum()).argmax())
            else:
                result[action.name] = taken.clip(-1.0, 1.0)
            index += action.size * (1 if action.discrete or self.means_only else 2)
        assert index == self.size
        return result


def exported(network, folder):
    export_godot_rl(network, folder / "a.onnx", behavior="Agent", step=3)
    return Plugin(folder / "a.onnx", actions_of(network.spec.action_spec))


def named(network, obs, row):
    return {spec.name: rows[row].ravel() for spec, rows in zip(network.spec.observation_specs, obs)}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_plugin_does_what_the_network_does(name, tmp_path):
    network = NETWORKS[name]
    plugin = exported(network, tmp_path)
    obs = random_obs([spec.shape for spec in network.spec.observation_specs], 20)
    distribution = network.act(network.prepare([torch.from_numpy(rows * 3 - 2) for rows in obs]))
    wanted = distribution.deterministic()
    engine = distribution.to_engine(wanted.continuous).numpy()
    for row in range(20):
        decided = plugin.act(named(network, [rows * 3 - 2 for rows in obs], row))
        continuous = [x for a in plugin.actions if not a.discrete for x in decided[a.name]]
        np.testing.assert_allclose(continuous, engine[row], rtol=0.0, atol=1e-5)
        choices = [decided[a.name] for a in plugin.actions if a.discrete]
        if choices:
            chosen = torch.tensor([choices] * 20)
            assert (distribution.shortfall(chosen)[row] <= 1e-5).all()


def test_sampled_choices_follow_the_network_and_those_of_a_greedy_one_are_its_best(tmp_path):
    random, draws = np.random.default_rng(0), 2000
    for name in ("discrete", "dqn"):
        network = NETWORKS[name]
        plugin = exported(network, tmp_path)
        obs = random_obs([spec.shape for spec in network.spec.observation_specs], 1)
        distribution = network.act(network.prepare(list(map(torch.from_numpy, obs))))
        drawn = [plugin.act(named(network, obs, 0), random) for _ in range(draws)]
        for branch, action in enumerate(CHOICES):
            shares = np.bincount([one[action.name] for one in drawn], minlength=action.size) / draws
            distance = np.abs(shares - distribution.probabilities[0, branch, : action.size].numpy()).max()
            assert distance <= (0.0 if name == "dqn" else 4.0 * math.sqrt(0.25 / draws))


@pytest.mark.parametrize(
    ("actions", "head", "width"),
    [(MOVE, None, 2), (CHOICES, None, 8), (MIXED, None, 2 * 4 + 7), (MIXED, SAC, 2 * 4 + 7)],
)
def test_the_interface_is_the_plugins(actions, head, width):
    model = build_godot_rl(actor((3, 2), actions, head), behavior="Agent", step=3)
    inputs = {
        v.name: [d.dim_value or d.dim_param for d in v.type.tensor_type.shape.dim] for v in model.graph.input
    }
    outputs = {
        v.name: [d.dim_value or d.dim_param for d in v.type.tensor_type.shape.dim] for v in model.graph.output
    }
    assert inputs == {"obs0": ["batch", 3], "obs1": ["batch", 2], "state_ins": ["batch"]}
    assert outputs == {"output": ["batch", width], "state_outs": ["batch"]}
    assert model.opset_import[0].version <= 19 and model.ir_version <= 9, "what its ONNX runtime 1.15.1 reads"
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    assert metadata["behavior"] == "Agent" and actions[0].name in metadata["actions"]


def test_a_file_that_acts_otherwise_is_not_written():
    network = actor((3,), MIXED)
    for name in ("normalizer.0.mean", "body.0.weight", "actions.bias", "actions.log_sigma"):
        model = build_godot_rl(network, behavior="Agent")
        change(model, name, lambda stored: stored + 1.0)
        with pytest.raises(BrainVerificationError, match="'Agent' and the network differ"):
            verify_godot_rl(model, network)


def of_sensors(*sensors):
    spec = BehaviorSpec(list(sensors), actor().spec.action_spec)
    return Actor(spec, NetworkSettings(hidden_units=8))


@pytest.mark.parametrize(
    ("network", "reason"),
    [
        (actor(**memory("lstm", 8)), "it has a memory, and the plugin keeps no recurrent state"),
        (of_sensors(sensor((3, 20, 20), "camera_2d")), "observation 'camera_2d' is an image"),
        (of_sensors(sensor((3,), "a"), sensor((2,), "a")), "two observations are called 'a'"),
        (of_sensors(sensor((3,), "output")), "an observation is called 'output'"),
    ],
    ids=["memory", "image", "names", "reserved"],
)
def test_what_the_plugin_cannot_feed_is_named(network, reason, tmp_path):
    with pytest.raises(BrainVerificationError, match=f"the plugin godot_rl_agents: {reason}"):
        export_godot_rl(network, tmp_path / "a.onnx", behavior="Agent")
    assert list(tmp_path.iterdir()) == []


def test_the_command_writes_a_file_beside_lanistas_own(tmp_path, capsys):
    network, settings = actor(), NetworkSettings(hidden_units=32, num_layers=2, normalize=True)
    brain = describe_network("Agent", network.spec, settings, [], None)
    save_checkpoint(tmp_path / "a.pt", {"Policy": network.state_dict(), "step": 3, "brain": brain})
    assert run(["export", str(tmp_path / "a.pt"), "--godot-rl"]) == 0
    assert "a-godot-rl.onnx (Agent, step 3), verified against its network." in capsys.readouterr().out
    onnx.checker.check_model(onnx.load(tmp_path / "a-godot-rl.onnx"))
    with pytest.raises(SystemExit, match="2"):
        run(["export", str(tmp_path / "a.pt"), "--godot-rl", "--godot"])
