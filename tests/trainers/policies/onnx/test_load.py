"""`lanista.load`: policies act on arrays, from brains, checkpoints and runs' folders."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import lanista
import numpy as np
import pytest
import torch
from lanista.trainers.checkpoints.file import save_checkpoint
from lanista.trainers.checkpoints.metadata import KEY, describe_network
from lanista.trainers.networks.actor_critic import ActorCritic
from lanista.trainers.networks.multi_actor import MultiActor
from lanista.trainers.policies.onnx.export import export_brain
from lanista.trainers.policies.onnx.load import LoadError
from lanista.trainers.settings.models.networks import NetworkSettings
from mlagentscheckpoints import FOLDER
from specs import vector_spec

UNITYS = sorted((Path(__file__).parents[3] / "real" / "onnx").glob("*.onnx"))
SPECS = {
    "hybrid": vector_spec([3, 2], continuous=2, branches=(3, 2)),
    "continuous": vector_spec([4], continuous=2),
    "discrete": vector_spec([4], branches=(3,)),
}


def write(folder, spec, memory=None, name="Ball"):
    """The same network as a checkpoint and as a brain."""
    settings = NetworkSettings(hidden_units=8, memory=memory)
    network = ActorCritic(spec, settings, ["extrinsic"], generator=torch.Generator().manual_seed(1))
    torch.nn.init.normal_(network.actions.weight, generator=torch.Generator().manual_seed(2))
    network.actions.log_sigma.data.fill_(-1.0)
    described = describe_network(name, spec, settings, ["extrinsic"], False)
    folder.mkdir(parents=True, exist_ok=True)
    save_checkpoint(folder / "checkpoint.pt", {"Policy": network.state_dict(), KEY: described, "step": 5})
    export_brain(network, folder / f"{name}-5.onnx", behavior=name)
    return folder / "checkpoint.pt", folder / f"{name}-5.onnx"


@pytest.fixture(params=["pt", "onnx"])
def kind(request):
    return request.param


def loaded(kind, folder, spec, memory=None, **arguments):
    return lanista.load(write(folder, spec, memory)[kind == "onnx"], **arguments)


def obs_of(spec, *rows, seed=0):
    random = np.random.default_rng(seed)
    return [random.normal(0, 1, (*rows, *o.shape)).astype(np.float32) for o in spec.observation_specs]


# Acting -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_agents_act_alike_in_a_batch_and_alone(kind, spec, tmp_path):
    policy = loaded(kind, tmp_path, spec)
    obs = obs_of(spec, 5)
    continuous, discrete = policy.act(obs)
    actions, branches = spec.action_spec.continuous_size, spec.action_spec.discrete_branches
    assert continuous.shape == (5, actions) and continuous.dtype == np.float32
    assert discrete.shape == (5, len(branches)) and discrete.dtype == np.int32
    assert not actions or len(np.unique(continuous)) > 1
    for row in range(5):
        alone = policy.act([o[row] for o in obs])
        np.testing.assert_allclose(alone.continuous, continuous[row], atol=1e-6)
        np.testing.assert_array_equal(alone.discrete, discrete[row])


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_checkpoint_and_brain_act_alike(spec, tmp_path):
    obs = obs_of(spec, 20)
    both = [lanista.load(path).act(obs) for path in write(tmp_path, spec)]
    np.testing.assert_allclose(both[0].continuous, both[1].continuous, atol=1e-5)
    np.testing.assert_array_equal(both[0].discrete, both[1].discrete)


def test_one_observation_needs_no_list(kind, tmp_path):
    policy = loaded(kind, tmp_path, SPECS["continuous"])
    (obs,) = obs_of(SPECS["continuous"], 3)
    for given in (obs, [obs], (obs,)):
        np.testing.assert_array_equal(policy.act(given).continuous, policy.act(obs).continuous)
    np.testing.assert_array_equal(
        policy.act(list(map(float, obs[0]))).continuous, policy.act(obs[0]).continuous
    )


def test_an_empty_batch(kind, tmp_path):
    policy = loaded(kind, tmp_path, SPECS["hybrid"])
    continuous, discrete = policy.act([np.zeros((0, 3)), np.zeros((0, 2))])
    assert continuous.shape == (0, 2) and discrete.shape == (0, 2)


def test_a_policy_describes_its_inputs_and_actions(kind, tmp_path):
    policy = loaded(kind, tmp_path, SPECS["hybrid"], {"memory_size": 8})
    assert policy.observations == {0: (3,), 1: (2,)}
    assert (policy.continuous_size, policy.branches, policy.memory_size) == (2, (3, 2), 8)
    assert "observations {0: (3,), 1: (2,)}" in repr(policy)


def test_forbidden_actions_are_never_taken(kind, tmp_path):
    spec = SPECS["hybrid"]
    policy = loaded(kind, tmp_path, spec)
    obs = obs_of(spec, 50)
    free = policy.act(obs).discrete[:, 0]
    first = np.zeros((50, 3), bool)
    first[np.arange(50), free] = True
    branches = [first, np.zeros((50, 2), bool)]
    for mask in (branches, np.concatenate(branches, 1)):
        for deterministic in (True, False):
            taken = policy.act(obs, action_mask=mask, deterministic=deterministic).discrete[:, 0]
            assert (taken != free).all()
            assert deterministic or len(set(zip(free.tolist(), taken.tolist()))) == 6, "the others are drawn"
    alone = policy.act([o[0] for o in obs], action_mask=np.concatenate(branches, 1)[0])
    assert alone.discrete[0] != free[0]
    assert policy.act([o[0] for o in obs], action_mask=[b[0] for b in branches]).discrete[0] != free[0]


def test_drawn_actions_differ_and_repeat_with_a_seed(kind, tmp_path):
    spec = SPECS["hybrid"]
    paths, obs = write(tmp_path, spec), obs_of(spec, 20)
    runs = []
    for seed in (3, 3, 4):
        policy = lanista.load(paths[kind == "onnx"], seed=seed)
        runs.append([policy.act(obs, deterministic=False).continuous for _ in range(2)])
    assert len(np.unique(runs[0])) > 40, "of 20 agents with two components, at two times"
    np.testing.assert_array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])
    assert np.abs(runs[0]).max() <= 1


def test_agents_remember_until_they_are_reset(kind, tmp_path):
    spec = SPECS["continuous"]
    policy = loaded(kind, tmp_path, spec, {"memory_size": 8})
    obs = obs_of(spec, 3)
    first, second = policy.act(obs).continuous, policy.act(obs).continuous
    assert (np.abs(first - second).max(axis=1) > 1e-6).all()
    policy.reset([1])
    third = policy.act(obs).continuous
    np.testing.assert_allclose(third[1], first[1], atol=1e-6)
    assert np.abs(third[[0, 2]] - first[[0, 2]]).max() > 1e-6
    policy.reset(np.array([True, False, True]))
    np.testing.assert_allclose(policy.act(obs).continuous[[0, 2]], first[[0, 2]], atol=1e-6)
    with pytest.raises(ValueError, match=r"found 2 agents, and 3 at the last call.*reset\(\)"):
        policy.act([o[:2] for o in obs])
    policy.reset()
    np.testing.assert_allclose(policy.act([o[:2] for o in obs]).continuous, first[:2], atol=1e-6)


@pytest.mark.parametrize(
    "obs, says",
    [
        ([np.zeros(3)], r"found a list of 1 observations, expected 2: observation 0 as \(3,\) or \(n, 3\)"),
        ([np.zeros((4, 3)), np.zeros((5, 2))], r"found observation 1 with the shape \(5, 2\)"),
        ([np.zeros((4, 4)), np.zeros((4, 2))], r"found observation 0 with the shape \(4, 4\)"),
        ([np.zeros(3), np.zeros(7)], r"found observation 1 with the shape \(7,\)"),
        ([np.zeros((1, 1, 3)), np.zeros(2)], r"observation 0"),
        ([np.zeros(3), np.array([1, np.nan])], "NaN or infinite numbers in observation 1"),
    ],
)
def test_observations_of_other_shapes_are_refused(kind, obs, says, tmp_path):
    with pytest.raises(ValueError, match=says):
        loaded(kind, tmp_path, SPECS["hybrid"]).act(obs)


def test_wrong_masks_are_refused(kind, tmp_path):
    policy, obs = loaded(kind, tmp_path, SPECS["discrete"]), np.zeros((2, 4))
    with pytest.raises(ValueError, match=r"action mask of shape \(2, 4\), expected \(2, 3\)"):
        policy.act(obs, action_mask=np.zeros((2, 4)))
    with pytest.raises(ValueError, match="forbids every action"):
        policy.act(obs, action_mask=np.ones((2, 3)))


@pytest.mark.parametrize("path", UNITYS, ids=lambda path: path.stem)
def test_unitys_own_brains(path):
    policy = lanista.load(path)
    shapes = [policy.observations[i] for i in sorted(policy.observations)]
    actions = policy.act([np.zeros(shape) for shape in shapes])
    assert actions.continuous.shape == (policy.continuous_size,)
    assert actions.discrete.shape == (len(policy.branches),)
    if not policy._policy.has_deterministic:
        with pytest.raises(ValueError, match="sampled actions only"):
            policy.act([np.zeros(shape) for shape in shapes], deterministic=True)


# Finding ----------------------------------------------------------------------------------------------


def age(path, seconds):
    os.utime(path, (1e9 - seconds, 1e9 - seconds))


def test_a_run_folder_loads_its_newest_brain(tmp_path):
    run = tmp_path / "run"
    checkpoint, brain = write(run / "Ball", SPECS["continuous"])
    (run / "run_logs").mkdir()
    assert lanista.load(run).path == brain
    assert lanista.load(run / "Ball").path == brain
    newer, final = run / "Ball" / "Ball-12.onnx", run / "Ball.onnx"
    shutil.copy(brain, newer)
    shutil.copy(brain, final)
    for path, seconds in ((brain, 30), (newer, 10), (final, 10)):
        age(path, seconds)
    assert lanista.load(run).path == lanista.load(run / "Ball").path == final
    age(final, 20)  # a run that was resumed and killed
    assert lanista.load(run, behavior="Ball").path == newer
    for path in (brain, newer, final):
        path.unlink()
    assert lanista.load(run).path == checkpoint


@pytest.mark.parametrize(("ended", "found"), [(12, "Ball.onnx"), (20, "Ball.onnx"), (5, "Ball-12.onnx")])
@pytest.mark.parametrize("oldest", ["Ball.onnx", "Ball-12.onnx", "Ball-5.onnx"])
def test_the_newest_brain_of_a_copied_run_is_told_by_its_steps(tmp_path, ended, found, oldest):
    """A copy's files have the times of their copying, in any order."""
    run = tmp_path / "run"
    _, brain = write(run / "Ball", SPECS["continuous"])
    for copy in (run / "Ball" / "Ball-12.onnx", run / "Ball.onnx"):
        shutil.copy(brain, copy)
    status = {"Ball": {"final_checkpoint": {"steps": ended}}}
    (run / "run_logs").mkdir()
    (run / "run_logs" / "training_status.json").write_text(json.dumps(status))
    for path in run.rglob("*.onnx"):
        age(path, 30 if path.name == oldest else 10)
    assert lanista.load(run).path.name == found
    (run / "Ball.onnx").unlink()
    assert lanista.load(run).path.name == "Ball-12.onnx"


def test_of_a_run_that_went_back_to_an_older_checkpoint_the_brain_written_last_is_taken(tmp_path):
    run = tmp_path / "run"
    _, brain = write(run / "Ball", SPECS["continuous"])
    for copy in (run / "Ball" / "Ball-50.onnx", run / "Ball" / "Ball-25.onnx", run / "Ball.onnx"):
        shutil.copy(brain, copy)
    listed = [{"steps": step, "creation_time": when} for step, when in ((5, 1.0), (50, 2.0), (25, 3.0))]
    status = {"Ball": {"checkpoints": listed, "final_checkpoint": listed[-1]}}
    (run / "run_logs").mkdir()
    (run / "run_logs" / "training_status.json").write_text(json.dumps(status))
    assert lanista.load(run).path.name == "Ball.onnx"
    (run / "Ball.onnx").unlink()
    assert lanista.load(run).path.name == "Ball-25.onnx"


@pytest.mark.parametrize(
    "status", ["", "[" * 9999, "[]", '{"Ball": []}', '{"Ball": {"final_checkpoint": 1}}']
)
def test_without_a_readable_status_the_brain_that_was_written_last_is_taken(tmp_path, status):
    run = tmp_path / "run"
    _, brain = write(run / "Ball", SPECS["continuous"])
    shutil.copy(brain, run / "Ball.onnx")
    (run / "run_logs").mkdir()
    (run / "run_logs" / "training_status.json").write_text(status)
    for first, last in ((brain, run / "Ball.onnx"), (run / "Ball.onnx", brain)):
        age(first, 30)
        age(last, 10)
        assert lanista.load(run).path == last


def test_the_working_directory_is_a_folder_like_any_other(tmp_path, monkeypatch):
    _, brain = write(tmp_path / "run" / "Ball", SPECS["continuous"])
    (tmp_path / "run" / "Ball" / "inner").mkdir()
    for inside, given in ((brain.parent, "."), (brain.parent / "inner", "..")):
        monkeypatch.chdir(inside)
        assert lanista.load(given).path.samefile(brain)


def test_one_of_several_behaviors_must_be_chosen(tmp_path):
    for name in ("Ball", "Goal [2]"):
        write(tmp_path / name, SPECS["continuous"], name=name)
    with pytest.raises(LoadError, match=r"behaviors Ball, Goal \[2\]: choose one with behavior='Ball'"):
        lanista.load(tmp_path)
    with pytest.raises(LoadError, match="holds no behavior 'Bell'"):
        lanista.load(tmp_path, behavior="Bell")
    assert lanista.load(tmp_path, behavior="Goal [2]").path.name == "Goal [2]-5.onnx"
    with pytest.raises(LoadError, match=r"folder of the behavior Goal \[2\]: found behavior='Ball'"):
        lanista.load(tmp_path / "Goal [2]", behavior="Ball")


def test_policies_of_slots(tmp_path):
    spec, settings = SPECS["discrete"], NetworkSettings(hidden_units=8)
    actors = MultiActor(spec, settings, 2, shared=False)
    described = describe_network("Ball", spec, settings, ["extrinsic"], None, actors.arguments)
    save_checkpoint(tmp_path / "checkpoint.pt", {"Policy": actors.state_dict(), KEY: described})
    with pytest.raises(LoadError, match="place=0 to 1"):
        lanista.load(tmp_path / "checkpoint.pt")
    obs = np.random.default_rng(0).normal(0, 3, (200, 4))
    both = [lanista.load(tmp_path / "checkpoint.pt", place=k).act(obs).discrete for k in (0, 1)]
    assert not np.array_equal(*both)


def test_a_checkpoint_of_mlagents_names_its_brain(tmp_path):
    shutil.copy(FOLDER / "ball3d" / "checkpoint.pt", tmp_path)
    with pytest.raises(LoadError, match=r"a checkpoint of ML-Agents.*Load its brain, the \.onnx"):
        lanista.load(tmp_path / "checkpoint.pt")
    (tmp_path / "3DBall-800.onnx").touch()
    with pytest.raises(LoadError, match=r"3DBall-800\.onnx"):
        lanista.load(tmp_path / "checkpoint.pt")


def test_files_and_folders_without_a_policy_are_refused(tmp_path):
    with pytest.raises(LoadError, match="there is no such file"):
        lanista.load(tmp_path / "absent.onnx")
    with pytest.raises(LoadError, match="holds no policy"):
        lanista.load(tmp_path)
    for name, says in (
        ("x.onnx", r"it is cut off, or it is no ONNX file at all; copy it again, .*`lanista export`\)\.$"),
        ("x.pt", "cannot be used"),
        ("x.txt", "neither"),
    ):
        (tmp_path / name).write_text("nothing")
        with pytest.raises(LoadError, match=says):
            lanista.load(tmp_path / name)


def test_a_brain_needs_no_torch_and_the_package_nothing(tmp_path):
    brain = write(tmp_path, SPECS["continuous"])[1]
    code = (
        "import sys, lanista\n"
        "assert 'numpy' not in sys.modules, 'the package loads numpy'\n"
        f"print(lanista.load({str(brain)!r}).act([0.0] * 4).continuous.shape)\n"
        "assert not {'torch', 'pydantic'} & set(sys.modules), 'a brain loads torch'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "(2,)\n", done.stderr
