"""Learning from demonstrations alone: every trainer, resumes, what is held out, and what starts from it."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from crowd import NAME, make_learner, write_demonstration
from lanista.trainers.algorithms.imitation.behavioral_cloning import (
    ACCURACY,
    ACTION_ERROR,
    LOSS,
    ClonedPolicy,
    agreement,
)
from lanista.trainers.algorithms.imitation.implicit_q_learning import EFFECTIVE_SHARE, Q_LOSS, VALUE_LOSS
from lanista.trainers.buffers.demonstrations import held_out, load_demonstrations, of_episodes
from lanista.trainers.checkpoints.status import TrainingStatus
from lanista.trainers.networks.actor import Actor
from lanista.trainers.networks.observation_kinds import UnsupportedObservationError
from lanista.trainers.settings.models.networks import MemorySettings, NetworkSettings
from lanista.trainers.settings.options import RunOptions
from lanista.trainers.stats.display import make_display
from lanista.trainers.tools.clone.run import CloningRun
from lanista.trainers.trainer.context import RunContext
from lanista.trainers.utils.errors import CheckpointError
from mlagents_envs.base_env import ActionSpec, BehaviorSpec
from reliability.resume import differences, numbers
from rollouts import demonstrations, reloaded
from specs import sensor, spec_of_shapes, vector_spec
from trainers_and_networks import CELLS, behavior_of

pytestmark = pytest.mark.usefixtures("one_thread")


def cloning_run(folder, demos, behavior, steps=12, name=NAME, method="bc", **context):
    """A run of `lanista clone` in `folder`, up to its first gradient step."""
    clone = {"demos": ["-"], "gradient_steps": steps, "held_out": 0.3, "method": method}
    behavior = {**behavior, "clone": clone}
    run = RunContext(
        folder=folder,
        seed=3,
        status=TrainingStatus(folder / "status.json"),
        writers=[],
        display=make_display("test", plain=True),
        **context,
    )
    settings = RunOptions.from_dict({"behaviors": {name: behavior}}).behavior(name)
    return CloningRun(name, demos, settings, run)


def rewarded(demos):
    """The same with rewards at random, of the agent and of its group."""
    rewards = np.random.default_rng(0).normal(size=(2, len(demos))).astype(np.float32)
    return replace(demos, reward=rewards[0], group_reward=rewards[1])


WITH_VALUES = [cell for cell in CELLS if cell.values[0] != "dqn" and cell.values[1] != "memory"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "trainer, network, method",
    [
        *(pytest.param(*cell.values, "bc", id=cell.id) for cell in CELLS),
        *(pytest.param(*cell.values, "iql", id=f"{cell.id}-iql") for cell in WITH_VALUES),
    ],
)
def test_every_trainers_policy_is_cloned_and_resumes_bit_for_bit(tmp_path, trainer, network, method):
    spec, behavior = behavior_of(trainer, network)
    demos = load_demonstrations(write_demonstration(tmp_path / "expert.demo", spec, [9, 14, 6, 8]), spec)
    demos = rewarded(demos) if method == "iql" else demos
    behavior = {**behavior, "behavioral_cloning": {"demo_path": "-", "batch_size": 8}}
    one, other = (cloning_run(tmp_path / name, demos, behavior, method=method) for name in ("one", "other"))
    updates = []
    one.on_update = updates.append
    before = {key: value.clone() for key, value in one.trainer.algorithm.policy.state_dict().items()}
    while one.trainer.step < 5:
        one.trainer.advance()
    other.trainer.load_state_dict(reloaded(one.trainer.state_dict()))
    for run in (one, other):
        while run.trainer.should_still_train:
            run.trainer.advance()
    ends = [run.trainer.state_dict() for run in (one, other)]
    assert ends[0]["step"] == 12 and numbers(ends[0]) > 100
    assert not differences(*ends)
    after = one.trainer.algorithm.policy.state_dict()
    moved = [key for key in before if not torch.equal(before[key], after[key])]
    assert any("normalizer" in key for key in moved) and any("weight" in key for key in moved)
    expected = {LOSS, VALUE_LOSS, Q_LOSS, EFFECTIVE_SHARE} if method == "iql" else {LOSS}
    assert len(updates) > 1 and all(set(metrics) == expected for metrics in updates)
    assert all(math.isfinite(value) for metrics in updates for value in metrics.values())


SENSES = {"eyes": (1, 20, 20), "hidden enemies": (4, 3), "own": (2,)}


@pytest.mark.parametrize(
    "trainer, network",
    [
        ("ppo", {"critic": {"hidden_units": 4, "num_layers": 2}, "critic_only_observations": ["hidden*"]}),
        ("sac", {"critic_only_observations": ["hidden*"]}),
        ("coma", {"critic": {"hidden_units": 4}}),
    ],
)
def test_values_have_the_critics_network_and_see_what_it_sees(tmp_path, trainer, network):
    spec = BehaviorSpec([sensor(shape, name) for name, shape in SENSES.items()], ActionSpec(0, (3,)))
    demos = rewarded(demonstrations(spec, [5, 6, 7]))
    small = {"hidden_units": 8, "num_layers": 1, "normalize": True}
    behavior = {"trainer_type": trainer, "network_settings": {**small, **network}}
    run = cloning_run(tmp_path, demos, behavior, steps=2, method="iql")
    values = run.trainer.imitation.values
    assert values.value.body.hidden == network.get("critic", {}).get("hidden_units", 8)
    rows = torch.arange(4)
    obs = [column[:4].clone() for column in run.trainer.imitation.demonstration.obs]
    values.step(rows, run.trainer.imitation.policy.prepare(obs), run.trainer.imitation.policy.prepare(obs), 0)
    assert any(p.grad.any() for p in values.value.encoder.parameters())
    run.learn()


def test_values_that_would_need_a_state_which_policies_do_not_read_are_refused(tmp_path):
    spec = spec_of_shapes([(3,), (1, 20, 20)], branches=(3,))
    demos = rewarded(demonstrations(spec, [5, 6]))
    behavior = {"trainer_type": "coma", "hyperparameters": {"state_observation": "obs1"}}
    behavior["network_settings"] = {"hidden_units": 8, "num_layers": 1}
    refused = "iql learns the values of all observations, and the policies do not read obs1 .*method: bc"
    with pytest.raises(UnsupportedObservationError, match=refused):
        cloning_run(tmp_path, demos, behavior, method="iql")


@pytest.mark.parametrize("method", ["bc", "iql"])
def test_cloning_makes_no_tensor_without_naming_its_device(tmp_path, method):
    """See test_devices.py: tensors on no device in particular would be on a wrong one where there are two."""
    spec, behavior = behavior_of("ppo", "pictures")
    run = cloning_run(tmp_path, rewarded(demonstrations(spec, [5, 6, 7])), behavior, steps=3, method=method)
    with torch.device("meta"):
        run.learn()
    assert run.trainer.step == 3


def test_offline_learning_resumes_with_the_same_rewards_alone(tmp_path):
    spec, behavior = behavior_of("ppo", "vectors")
    demos = rewarded(demonstrations(spec, [9, 14, 6, 8]))
    cloning_run(tmp_path / "run", demos, behavior, method="iql").learn()
    other = replace(demos, reward=demos.reward + np.float32(0.5))
    with pytest.raises(CheckpointError, match="The demonstrations are not those"):
        cloning_run(tmp_path / "run", other, behavior, method="iql", resume=True)
    with pytest.raises(CheckpointError, match="The demonstrations are not those"):
        cloning_run(tmp_path / "run", demos, behavior, method="bc", resume=True)
    longer = cloning_run(tmp_path / "run", demos, behavior, steps=20, method="iql", resume=True)
    longer.learn()
    assert longer.trainer.step == 20


def test_what_is_held_out_is_not_learned_from():
    demos = demonstrations(vector_spec([2], continuous=1), [3, 4, 5, 6, 7, 8, 9, 10, 11, 12])
    learned, measured = held_out(demos, 0.3, seed=1)
    assert len(measured.lengths) == 3 and len(learned) + len(measured) == len(demos)
    rows = {tuple(row) for row in learned.obs[0]}
    assert not rows & {tuple(row) for row in measured.obs[0]}
    again, other = held_out(demos, 0.3, seed=1)[1], held_out(demos, 0.3, seed=2)[1]
    assert np.array_equal(again.lengths, measured.lengths)
    assert not np.array_equal(other.lengths, measured.lengths)


@pytest.mark.parametrize(
    "episodes, share, held", [(1, 0.5, None), (2, 0.9, 1), (10, 0.0, None), (10, 0.01, 1), (10, 0.25, 2)]
)
def test_at_least_one_episode_is_held_out_and_one_is_learned_from(episodes, share, held):
    demos = demonstrations(vector_spec([2], continuous=1), [4] * episodes)
    learned, measured = held_out(demos, share, seed=0)
    assert held == (None if measured is None else len(measured.lengths))
    assert len(learned.lengths) == episodes - (held or 0)


@pytest.mark.parametrize("memory", [False, True])
def test_agreement_is_that_of_the_policys_best_actions(memory, monkeypatch):
    """Against one step after the other, each with the state that the step before it left."""
    monkeypatch.setattr("lanista.trainers.algorithms.imitation.behavioral_cloning.CHUNK", 3)
    spec = vector_spec([2], continuous=2, branches=(3,))
    demos = demonstrations(spec, [5, 2, 7])
    demos.discrete[:, 0] = np.random.default_rng(0).integers(0, 3, len(demos))
    torch.manual_seed(0)
    kind = MemorySettings(memory_size=4, sequence_length=2) if memory else None
    policy = ClonedPolicy(Actor(spec, NetworkSettings(hidden_units=8, memory=kind)), None)
    squares, equal = [], []
    with torch.no_grad():
        for episode in range(3):
            one = of_episodes(demos, [episode])
            states = torch.zeros(1, 4) if memory else None
            for step in range(len(one)):
                seen = policy.prepare([torch.from_numpy(one.obs[0][step : step + 1])])
                acted, states = policy(seen, None, states, 1, torch.Generator())
                best = acted.deterministic()
                sent = (best.continuous.clamp(-3, 3) / 3).numpy()
                squares.append((sent - one.continuous[step]) ** 2)
                equal.append(int(best.discrete) == one.discrete[step, 0])
    found = agreement(policy, demos, torch.device("cpu"))
    assert found[ACTION_ERROR] == pytest.approx(np.mean(squares), rel=1e-5)
    assert found[ACCURACY] == pytest.approx(np.mean(equal))


def test_a_clone_predicts_what_it_was_not_shown(tmp_path):
    """As the engine receives it, with PPO too: no file of ML-Agents asks for a clone alone."""
    spec = vector_spec([2], continuous=1, branches=(2,))

    def acted(obs):
        return 0.8 * np.tanh(obs[:, :1]), (obs[:, 1:] > 0).astype(np.int32)

    demos = demonstrations(spec, [40] * 10, acted=acted)
    behavior = {"hyperparameters": {"batch_size": 64, "learning_rate": 0.003}, "trainer_type": "ppo"}
    run = cloning_run(tmp_path, demos, behavior, steps=400)
    while run.trainer.should_still_train:
        run.trainer.advance()
    found = agreement(run.trainer.imitation.policy, run.trainer.held_out, torch.device("cpu"))
    assert found[ACTION_ERROR] < 0.01 and found[ACCURACY] > 0.9


@pytest.fixture
def cloned(tmp_path):
    """A finished run of `lanista clone`, its demonstrations and its behavior's settings."""
    spec, behavior = behavior_of("ppo", "vectors")
    demos = load_demonstrations(write_demonstration(tmp_path / "expert.demo", spec, [9, 14, 6, 8]), spec)
    run = cloning_run(tmp_path / "cloned", demos, behavior)
    run.learn()
    return run, demos, behavior


def test_training_starts_from_a_clone(tmp_path, cloned):
    run, demos, behavior = cloned
    learner = make_learner(tmp_path / "new", demos.spec, behavior, initialize_from=tmp_path / "cloned")
    theirs, ours = (one.state_dict() for one in (run.trainer.algorithm.policy, learner.algorithm.policy))
    assert not differences(theirs, ours) and learner.trainer.step == 0
    again = cloning_run(tmp_path / "again", demos, behavior, initialize_from=tmp_path / "cloned")
    assert not differences(theirs, again.trainer.algorithm.policy.state_dict())


def test_training_does_not_resume_a_clone_nor_the_reverse(tmp_path, cloned):
    _, demos, behavior = cloned
    with pytest.raises(CheckpointError, match=r"cloned was made by lanista clone, and lanista-learn cannot"):
        make_learner(tmp_path / "cloned", demos.spec, behavior, resume=True)
    make_learner(tmp_path / "learned", demos.spec, behavior).finish()
    with pytest.raises(
        CheckpointError, match=r"learned was made by lanista-learn, .* --initialize-from learned"
    ):
        cloning_run(tmp_path / "learned", demos, behavior, resume=True)


def test_a_clone_goes_on_with_its_own_demonstrations_alone(tmp_path, cloned, caplog):
    _, demos, behavior = cloned
    other = of_episodes(demos, [0, 1, 2])
    with pytest.raises(CheckpointError, match="The demonstrations are not those"):
        cloning_run(tmp_path / "cloned", other, behavior, resume=True)
    cloning_run(tmp_path / "cloned", demos, behavior, resume=True)
    assert "has reached clone.gradient_steps (12): nothing is left to train" in caplog.text
    assert ".clone.gradient_steps=" in caplog.text
    longer = cloning_run(tmp_path / "cloned", demos, behavior, steps=20, resume=True)
    longer.learn()
    assert longer.trainer.step == 20


def test_a_gradient_that_is_not_finite_ends_the_run_and_spoils_nothing(tmp_path, cloned):
    _, demos, behavior = cloned
    run = cloning_run(tmp_path / "new", demos, behavior)
    run.trainer.advance()
    run.trainer.imitation.demonstration.obs[0][:] = math.nan
    with pytest.raises(FloatingPointError, match="behavioral cloning"):
        run.learn()
    saved = cloning_run(tmp_path / "new", demos, behavior, resume=True)
    assert 0 < saved.trainer.step < 12
