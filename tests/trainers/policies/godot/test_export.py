"""Brains for GDScript: what is written, verified and refused; tests/envs/godot plays them."""

import numpy as np
import pytest
import torch
from godot_brains import CHOICES, MIXED, SAC, actor, memory, networks
from hypothesis import given
from hypothesis import strategies as st
from lanista.trainers.checkpoints.file import save_checkpoint
from lanista.trainers.checkpoints.metadata import describe_network
from lanista.trainers.cli.main import run
from lanista.trainers.networks.actor import Actor
from lanista.trainers.networks.custom import CustomNetwork
from lanista.trainers.networks.modules.heads import HeadConfig
from lanista.trainers.networks.multi_actor import MultiActor
from lanista.trainers.policies.godot.export import export_godot, verify
from lanista.trainers.policies.godot.program import GodotBrain, build_program
from lanista.trainers.policies.onnx.graph import BrainVerificationError
from lanista.trainers.settings.models.networks import NetworkSettings
from specs import spec_of_shapes, vector_spec

NETWORKS = networks()


class Total(CustomNetwork):
    """An encoder, or a body, of a user."""

    def __init__(self, specs, settings):
        super().__init__()
        self.size = 1

    def forward(self, observations):
        rows = observations if torch.is_tensor(observations) else observations[0]
        return rows.flatten(1).sum(1, keepdim=True)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_kind_of_network_is_written_and_verified(name, tmp_path):
    export_godot(NETWORKS[name], tmp_path / "a.tres", behavior="Agent", step=7)
    brain = GodotBrain.from_text((tmp_path / "a.tres").read_text(encoding="utf-8"))
    assert (brain.behavior, brain.step, brain.format_version) == ("Agent", 7, 1)
    assert [o["shape"] for o in brain.observations] == [list(s.shape) for s in NETWORKS[name].spec[0]]


@pytest.mark.parametrize(
    "network",
    [
        actor((3, 2), MIXED),
        actor((3,), MIXED, SAC),
        actor((3,), CHOICES, HeadConfig(values=2)),
        actor((3,), layer_norm=True),
        actor((3,), residual=True),
        actor((3,), **memory("lstm", 8)),
        actor((3,), **memory("gru", 8)),
        NETWORKS["image and vectors"],
    ],
    ids=["dense", "sac", "dqn", "layer norm", "residual", "lstm", "gru", "image"],
)
def test_a_damaged_weight_is_found_before_the_file_is_written(network):
    """Each array of weights is changed in turn, whichever layer it belongs to."""
    brain = build_program(network, behavior="Agent", step=0)
    for k in np.linspace(0, len(brain.weights) - 1, 40).astype(int):
        weights = brain.weights.copy()
        weights[k] += 1.0
        with pytest.raises(BrainVerificationError, match="'Agent' and the network differ"):
            verify(GodotBrain(**{**vars(brain), "weights": weights}).to_text(), network)


def test_weights_that_are_not_finite_are_refused_and_the_old_file_stays(tmp_path):
    path, network = tmp_path / "a.tres", actor()
    export_godot(network, path, behavior="Agent")
    before = path.read_bytes()
    network.actions.weight[0, 0] = float("nan")
    with pytest.raises(BrainVerificationError, match="'Agent' has weights that are not finite"):
        export_godot(network, path, behavior="Agent")
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def built(shapes, goals=(), **options):
    return Actor(spec_of_shapes(shapes, goals, 2), NetworkSettings(hidden_units=8, **options))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (
            lambda: built([(4,), (3, 20, 20)], vis_encode_type="resnet"),
            "observation 'obs1' is read by a resnet",
        ),
        (lambda: built([(5, 3), (4,)]), "observation 'obs0' is a set of entities, read by attention"),
        (lambda: built([(4,), (2,)], (False, True)), "goal_conditioning_type: none"),
        (
            lambda: built([(4,)], encoders={"obs0": f"{__name__}:Total"}),
            f"read by {__name__}:Total",
        ),
        (lambda: built([(4,)], body=f"{__name__}:Total"), f"network_settings.body is {__name__}:Total"),
    ],
    ids=["image", "entities", "goal", "encoder", "body"],
)
def test_what_the_player_does_not_know_is_named(make, reason, tmp_path):
    with pytest.raises(BrainVerificationError, match="'Agent' cannot be played in GDScript") as error:
        export_godot(make(), tmp_path / "a.tres", behavior="Agent")
    assert reason in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_a_goal_without_a_hypernetwork_is_played(tmp_path):
    network = built([(4,), (2,)], (False, True), goal_conditioning_type="none")
    export_godot(network, tmp_path / "a.tres", behavior="Agent")


@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.text(max_size=5),
    st.binary(max_size=64),
)
def test_any_name_and_weight_is_read_as_it_was_written(behavior, name, data):
    weights = np.frombuffer(data[: len(data) // 4 * 4], "<f4")
    named = [{"name": name, "shape": [2]}]
    brain = GodotBrain(behavior, 3, named, [], [], [], {"sigma": "none"}, weights)
    text = brain.to_text()
    again = GodotBrain.from_text(text)
    assert again.to_text() == text
    assert (again.behavior, again.observations) == (behavior, named)
    assert again.weights.tobytes() == weights.tobytes()


def checkpoint(path, spec, network, settings, **described):
    brain = describe_network("Agent", spec, settings, [], None, **described)
    save_checkpoint(path, {"Policy": network.state_dict(), "step": 1234, "brain": brain})


def test_the_command_writes_a_checkpoints_brain(tmp_path, capsys):
    network = actor(actions=MIXED)
    settings = NetworkSettings(hidden_units=32, num_layers=2, normalize=True)
    checkpoint(tmp_path / "Agent-1234.pt", network.spec, network, settings)
    assert run(["export", str(tmp_path / "Agent-1234.pt"), "--godot"]) == 0
    text = (tmp_path / "Agent-1234.tres").read_text(encoding="utf-8")
    assert text == build_program(network, behavior="Agent", step=1234).to_text()
    assert "Agent-1234.tres (Agent, step 1234), verified against its network." in capsys.readouterr().out


def test_actors_that_differ_by_slot_are_files_of_their_own(tmp_path):
    settings = NetworkSettings(hidden_units=8, num_layers=1)
    spec = vector_spec([3], 0, [2])
    network = MultiActor(spec, settings, 2, shared=False)
    checkpoint(tmp_path / "a.pt", spec, network, settings, actors={"places": 2, "shared": False})
    assert run(["export", str(tmp_path / "a.pt"), str(tmp_path / "b.tres"), "--godot"]) == 0
    assert sorted(p.name for p in tmp_path.glob("*.tres")) == ["b-place0.tres", "b-place1.tres"]


def test_the_command_says_what_cannot_be_played(tmp_path, capsys):
    network = built([(5, 3)])
    checkpoint(tmp_path / "a.pt", network.spec, network, NetworkSettings(hidden_units=8))
    assert run(["export", str(tmp_path / "a.pt"), "--godot"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("lanista export: error: The network of 'Agent' cannot be played in GDScript")
    assert len(said.splitlines()) == 1
