"""The plugin godot_rl_agents itself, in the real engine, reads files of `--godot-rl` as they are meant."""

import json
import shutil
import subprocess

import numpy as np
import pytest

pytest.importorskip("torch", reason="the networks are torch's")

import onnxruntime
import torch
from godot_brains import CHOICES, MIXED, MOVE, SAC, actor
from godot_engine import imported_project
from lanista.trainers.policies.godot.godot_rl import build_godot_rl

NETWORKS = [actor((4, 2), MOVE), actor((4, 2), CHOICES), actor((4, 2), MIXED), actor((4, 2), MIXED, SAC)]
ROWS = 10
READ = """extends SceneTree


func _init() -> void:
	var sync = load("res://addons/godot_rl_agents/sync.gd").new()
	var results := []
	for case in JSON.parse_string(FileAccess.get_file_as_string("res://outputs.json")):
		results.append(sync._extract_action_dict(case["output"], case["space"], case["means_only"]))
	print("read ", JSON.stringify(results, "", false, true))
	sync.free()
	quit()
"""


def outputs(network, obs):
    """`output` for each row, given as ONNXInference.cs gives it: one agent at a time, flat, and a dummy."""
    model = build_godot_rl(network, behavior="Agent")
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for row in range(ROWS):
        fed = {f"obs{k}": rows[row : row + 1].numpy() for k, rows in enumerate(obs)}
        fed["state_ins"] = np.ones(1, np.float32)
        yield session.run(["output", "state_outs"], fed)[0][0].tolist()


def test_the_plugin_reads_what_the_network_does(godot_engine, tmp_path):
    random = torch.Generator().manual_seed(0)
    obs = [torch.randn(ROWS, size, generator=random) for size in (4, 2)]
    cases = []
    for network in NETWORKS:
        actions = network.spec.action_spec.actions
        space = {a.name: {"size": a.size, "action_type": a.action_type} for a in actions}
        for output in outputs(network, obs):
            # As ONNX_wrapper.gd decides it.
            means_only = not any(a.discrete for a in actions) and len(output) == sum(a.size for a in actions)
            cases.append({"output": output, "space": space, "means_only": means_only})
    folder = tmp_path / "game"
    shutil.copytree(imported_project(godot_engine, "upstream_project"), folder)
    (folder / "outputs.json").write_text(json.dumps(cases))
    (folder / "read.gd").write_text(READ)
    command = [godot_engine, "--headless", "--path", folder, "-s", "read.gd"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "read " in done.stdout, done.stdout + done.stderr
    results = iter(json.loads(done.stdout.rpartition("read ")[2]))
    for network in NETWORKS:
        distribution = network.act(network.prepare(obs))
        wanted = distribution.deterministic()
        engine = distribution.to_engine(wanted.continuous).numpy()
        for row in range(ROWS):
            decided, actions = next(results), network.spec.action_spec.actions
            continuous = [x for a in actions if not a.discrete for x in decided[a.name]]
            np.testing.assert_allclose(continuous, engine[row], rtol=0.0, atol=1e-5)
            assert [decided[a.name] for a in actions if a.discrete] == wanted.discrete[row].tolist()
