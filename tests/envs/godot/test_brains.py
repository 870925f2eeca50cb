"""Brains in the real engine: the addon's player acts as the networks whose brains it plays."""

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="the networks are torch's")

import torch
from godot_brains import BY_STATE, CHOICES, MIXED, MOVE, SAC, actor, make_game, memory, networks, run_game
from lanista.envs.named_actions import NamedAction, actions_of
from lanista.trainers.policies.godot.export import export_godot
from lanista.trainers.policies.onnx.verify import DRAWS, check_sampled

PAGE = Path(__file__).parents[3] / "docs" / "into-godot.md"
STEPS = 6
EQUAL = 1e-5
NETWORKS = networks()


@pytest.fixture(scope="module")
def play_networks(godot_engine, project, tmp_path_factory):
    """Let networks act in one game, by pairs of a network and a case; the actions, and what was printed."""

    def played(pairs):
        folder = make_game(tmp_path_factory.mktemp("games") / "game", project)
        cases = []
        for k, (network, case) in enumerate(pairs):
            export_godot(network, folder / f"{k}.tres", behavior="Agent")
            cases.append({"brain": f"res://{k}.tres", "deterministic": True, **case})
        return run_game(godot_engine, folder, cases)

    return played


def random_observation(random, shape, deviation):
    """Numbers, or half of the time for an image its bytes, rows of pixels as an engine has them."""
    if len(shape) == 3 and random.random() < 0.5:
        return {"bytes": random.integers(0, 256, int(np.prod(shape))).tolist()}
    return random.normal(-2.0, deviation, int(np.prod(shape))).astype(np.float32).tolist()


def as_tensor(row, shape):
    """[1, *shape], of bytes [1, C, H, W] in 0 to 1."""
    if isinstance(row, list):
        return torch.tensor(row).view(1, *shape)
    channels, height, width = shape
    return torch.tensor(row["bytes"]).view(1, height, width, channels).permute(0, 3, 1, 2) / 255.0


def random_steps(network, seed=0, masked=True):
    """Observations, one of them far out, and masks that leave at least one choice of each action."""
    random = np.random.default_rng(seed)
    sizes = network.spec.action_spec.discrete_branches
    masks = [[random.random(size) < 0.4 for size in sizes] for _ in range(STEPS)]
    for branch in (branch for masks_of_step in masks for branch in masks_of_step):
        branch[random.integers(len(branch))] = False
    return [
        {
            "obs": [
                random_observation(random, spec.shape, 40.0 if index == 1 else 3.0)
                for spec in network.spec.observation_specs
            ],
            "mask": [branch.astype(int).tolist() for branch in mask] if masked else [],
            "begins": index == 4,
        }
        for index, mask in enumerate(masks)
    ]


def expected(network, steps):
    """The distribution of each step, with the memory of those before it."""
    state = torch.zeros(1, network.memory_size)
    for step in steps:
        shapes = [spec.shape for spec in network.spec.observation_specs]
        obs = network.prepare([as_tensor(row, shape) for row, shape in zip(step["obs"], shapes)])
        mask = torch.tensor([[flag == 1 for branch in step["mask"] for flag in branch]])
        if not network.memory_size:
            yield network.act(obs, mask if mask.numel() else None)
            continue
        state = torch.zeros_like(state) if step["begins"] else state
        distribution, state = network.act_with_memory(obs, state, action_mask=mask if mask.numel() else None)
        yield distribution


def as_arrays(network, decided):
    """Continuous components [A] and choices [K] of what an agent did."""
    actions = actions_of(network.spec.action_spec)
    assert list(decided) == [action.name for action in actions]
    continuous = [x for a in actions if not a.discrete for x in decided[a.name]]
    return np.array(continuous), np.array([decided[a.name] for a in actions if a.discrete], np.int64)


@pytest.fixture(scope="module")
def deterministic(play_networks):
    steps = [random_steps(network, seed) for seed, network in enumerate(NETWORKS.values())]
    pairs = [(network, {"steps": its}) for network, its in zip(NETWORKS.values(), steps)]
    results, _ = play_networks(pairs)
    return dict(zip(NETWORKS, zip(steps, results)))


@pytest.mark.parametrize("name", NETWORKS)
def test_a_brain_does_what_its_network_does(name, deterministic):
    network, (steps, results) = NETWORKS[name], deterministic[name]
    assert len(results) == STEPS
    for distribution, decided in zip(expected(network, steps), results):
        wanted = distribution.deterministic()
        continuous, discrete = as_arrays(network, decided)
        engine = distribution.to_engine(wanted.continuous)[0].numpy()
        np.testing.assert_allclose(continuous, engine, rtol=0.0, atol=EQUAL)
        if len(discrete):
            assert (distribution.shortfall(torch.from_numpy(discrete)[None]) <= EQUAL).all()


def test_samples_follow_the_networks_distribution(play_networks):
    chosen = [
        actor((4,), MIXED, seed=1),
        actor((4,), MOVE, SAC, seed=2),
        actor((4,), CHOICES, seed=3),
        actor((4,), MIXED, SAC, seed=4, **memory("lstm", 12)),
        actor((4,), MIXED, seed=5, hidden_units=9, action_range=1.0, **BY_STATE),
        actor((4,), MOVE, SAC, seed=6, **BY_STATE),
    ]
    steps = [random_steps(network, seed, masked=seed < 2)[:1] for seed, network in enumerate(chosen)]
    for step in steps:
        step[0]["begins"] = True
    case = {"deterministic": False, "repeat": DRAWS}
    results, _ = play_networks([(network, {"steps": s, **case}) for network, s in zip(chosen, steps)])
    for network, its, drawn in zip(chosen, steps, results):
        rows = [as_arrays(network, decided) for decided in drawn]
        continuous, discrete = (np.stack(column) for column in zip(*rows))
        (distribution,) = expected(network, its)
        found = {"continuous_actions": continuous, "discrete_actions": discrete}
        check_sampled("Agent", found, distribution)


@pytest.mark.parametrize("name", ["ddpg", "dqn"])
def test_a_greedy_policy_samples_nothing(name, play_networks):
    network = NETWORKS[name]
    steps = random_steps(network)
    pairs = [(network, {"steps": steps, "deterministic": flag}) for flag in (True, False)]
    (likeliest, sampled), _ = play_networks(pairs)
    assert likeliest == sampled and likeliest[0] != likeliest[1]


def test_where_all_choices_are_forbidden_the_first_is_likeliest_and_all_are_sampled(play_networks):
    network = actor((4,), CHOICES)
    step = {"obs": [[1.0] * 4], "mask": [[1] * 6, [0, 0]]}
    once, many = {"steps": [step]}, {"steps": [step], "deterministic": False, "repeat": 500}
    (likeliest, sampled), _ = play_networks([(network, once), (network, many)])
    assert likeliest[0]["gear"] == 0
    assert {decided["gear"] for decided in sampled} == set(range(6))


def test_what_does_not_fit_is_an_error_with_a_reason(play_networks):
    network, recurrent = actor((3, 2), CHOICES), actor((3,), **memory("gru", 8))
    fits = {"obs": [[0.0] * 3, [0.0] * 2]}
    wrong = {
        "it observes 'obs0' [3], 'obs1' [2], and was given 1 arrays": {"obs": [[0.0] * 3]},
        "observation 'obs1' has 4 numbers instead of 2": {"obs": [[0.0] * 3, [0.0] * 4]},
        "the mask has 1 entries, and there are 2 discrete actions": {**fits, "mask": [[0] * 6]},
        "the mask of 'brake' has 3 entries, and the action 2 choices": {**fits, "mask": [[0] * 6, [0] * 3]},
        "gives a number that is not finite": {"obs": [[1e39] * 3, [0.0] * 2]},
    }
    raw = actor((3, 2), CHOICES, normalize=False)
    pairs = [(raw if "finite" in message else network, {"steps": [step]}) for message, step in wrong.items()]
    results, output = play_networks(
        [*pairs, (recurrent, {"steps": [{"obs": [[0.0] * 3]}], "forgetful": True})]
    )
    assert results == [[{}]] * len(results)
    for message in [*wrong, "it has a memory; give each agent one of new_memory()"]:
        assert message in output


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_a_number_that_is_not_finite_leaves_the_memory_as_it_was(kind, play_networks):
    network = actor((3,), MIXED, normalize=False, **memory(kind, 8))
    steps = random_steps(network)[:4]
    bad = {"obs": [[1e39, -1e39, 1e39]]}
    pairs = [(network, {"steps": steps}), (network, {"steps": [*steps[:2], bad, *steps[2:]]})]
    (expected_ones, found), output = play_networks(pairs)
    assert found[2] == {} and "gives a number that is not finite" in output
    assert found[:2] + found[3:] == expected_ones


def test_files_of_another_kind_or_version_are_refused(godot_engine, project, tmp_path):
    folder = make_game(tmp_path / "game", project)
    export_godot(actor(), folder / "good.tres", behavior="Agent")
    text = (folder / "good.tres").read_text()
    changes = {
        "its format is version 2, and this addon": (
            "format_version = 1",
            "format_version = 2",
        ),
        "it has layers that this addon does not know: fold": ('"layer": "normalize"', '"layer": "fold"'),
        "too few": ('"outputs": 32', '"outputs": 36'),
        "too many": ('"outputs": 32', '"outputs": 28'),
    }
    cases = [{"brain": "res://good.tres", "steps": [], "deterministic": True}]
    for k, (old, new) in enumerate(changes.values()):
        assert old in text
        (folder / f"{k}.tres").write_text(text.replace(old, new, 1))
        cases.append({"brain": f"res://{k}.tres"})
    (folder / "other.tres").write_text('[gd_resource type="Gradient" format=3]\n[resource]\n')
    cases.append({"brain": "res://other.tres"})
    results, output = run_game(godot_engine, folder, cases)
    assert results == [[], *[None] * 5]
    for message in [*changes, "res://other.tres is not a brain"]:
        assert message in output


def test_the_script_in_the_documentation_is_one(godot_engine, project, tmp_path):
    folder = make_game(tmp_path / "game", project)
    (script,) = re.findall(r"^```gdscript\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    (folder / "agent.gd").write_text(script, encoding="utf-8")
    command = [godot_engine, "--headless", "--path", folder, "--check-only", "--script", "agent.gd"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and "ERROR" not in done.stderr, done.stderr


PAINTER = (
    NamedAction("color", 3, "discrete"),
    NamedAction("stroke", 2, "continuous"),
    NamedAction("lift", 2, "discrete"),
    NamedAction("pressure", 1, "continuous"),
)
PAINT = """extends SceneTree

var painter: Node = load("res://game/painter.gd").new()


func _initialize() -> void:
	var sync := LanistaSync.new()
	sync.control_mode = LanistaSync.ControlModes.INFERENCE
	sync.brain = load("res://painter.tres")
	root.add_child(painter)
	root.add_child(sync)


func _physics_process(_delta: float) -> bool:
	if Engine.get_physics_frames() < 4:
		return false
	print("heard ", JSON.stringify(painter.heard, "", false, true))
	return true
"""


def test_an_agent_of_the_addon_acts_on_its_picture(godot_engine, project, tmp_path):
    """The picture that tests/godot/lanista_project/game/painter.gd makes, with an alpha channel."""
    folder = make_game(tmp_path / "game", project)
    network = actor([(3, 38, 40), 5], PAINTER, hidden_units=16)
    names = zip(network.spec.observation_specs, ("camera_2d", "heard"))
    specs = [spec._replace(name=name) for spec, name in names]
    network.spec = network.spec._replace(observation_specs=specs)
    export_godot(network, folder / "painter.tres", behavior="painter")
    (folder / "paint.gd").write_text(PAINT)
    command = [godot_engine, "--headless", "--path", folder, "--fixed-fps", "60", "-s", "paint.gd"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "ERROR" not in done.stderr, done.stderr
    heard = json.loads(done.stdout.rpartition("heard ")[2])
    x, y = np.meshgrid(np.arange(40), np.arange(38))
    picture = torch.tensor(np.stack([x, y, np.full_like(x, 200)])[None] / 255.0, dtype=torch.float32)
    forbidden = torch.tensor([[False, True, False, False, False]])
    distribution = network.act(network.prepare([picture, torch.zeros(1, 5)]), forbidden)
    wanted = distribution.deterministic()
    color, *stroke, lift, pressure = heard
    assert [color, lift] == wanted.discrete[0].tolist()
    engine = distribution.to_engine(wanted.continuous)[0].numpy()
    np.testing.assert_allclose([*stroke, pressure], engine, rtol=0.0, atol=EQUAL)
