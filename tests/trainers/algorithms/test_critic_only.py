"""Every trainer with observations that its critic alone reads: it learns, resumes and exports."""

from __future__ import annotations

import math

import numpy as np
import onnxruntime
import pytest
import torch
from crowd import Crowd, learn_from, make_learner, write_demonstration
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.networks.multi_actor import exported_networks
from lanista.trainers.policies.onnx.export import export_brain
from lanista.trainers.settings.models.behavior import TrainerSettings
from lanista.trainers.trainer.factory import make_algorithm
from mlagents_envs.base_env import BehaviorSpec
from reliability.resume import differences, numbers
from rollouts import make_rollout, reloaded
from specs import sensor, spec_of_shapes
from trainers_and_networks import TRAINERS as ALL

SAC, ACTIONS = ALL["sac"]
TRAINERS = {
    **{trainer: settings for trainer, settings in ALL.items() if trainer != "dqn"},  # it has no critic
    "sac simba": ({**SAC, "recipe": "simba"}, ACTIONS),
}
"""By trainer_type, with a recipe: hyperparameters, and the continuous and discrete actions that it learns."""
SENSORS = {
    "vectors": [sensor((1,), "hidden wind"), sensor((3,), "eyes"), sensor((2,), "hidden map")],
    "senses": [sensor((1, 20, 20), "eyes"), sensor((4, 3), "hidden enemies"), sensor((2,), "own")],
}
MEMORY = {"memory_size": 4, "sequence_length": 4}
ROWS = (".buffer.numbers", ".buffer.mates", ".buffer.other_numbers")
"""Numbers by which the rows of a process are told apart."""
CELLS = [
    pytest.param(trainer, sensors, memory, id=f"{trainer}-{sensors}{'-memory' if memory else ''}")
    for trainer in TRAINERS
    for sensors, memory in (("vectors", None), ("senses", None), ("vectors", MEMORY))
    if memory is None or trainer not in ("sac simba", "ddpg", "td3")
]


def behavior_of(trainer, sensors, memory=None, **network):
    hyper, (continuous, branches) = TRAINERS[trainer]
    actions = spec_of_shapes([], continuous=continuous, branches=branches).action_spec
    small = {"hidden_units": 8, "num_layers": 1, "normalize": True, "memory": memory}
    kind = {**small, "critic_only_observations": ["hidden*"], **network}
    yaml = {"hyperparameters": hyper, "network_settings": kind, "time_horizon": 5}
    yaml["trainer_type"] = trainer.partition(" ")[0]
    return BehaviorSpec(SENSORS[sensors], actions), yaml


def weights(algorithm):
    return {
        f"{entry}.{name}": p.clone()
        for entry, module in algorithm.modules().items()
        for name, p in module.named_parameters()
    }


@pytest.mark.slow
@pytest.mark.parametrize("trainer, sensors, memory", CELLS)
def test_it_learns_and_resumes_and_exports(tmp_path, trainer, sensors, memory):
    spec, behavior = behavior_of(trainer, sensors, memory)
    one, crowd = make_learner(tmp_path / "one", spec, behavior), Crowd(spec)
    before = weights(one.algorithm)
    for _ in range(2):
        learn_from(one, crowd.play(one, 7))
    after = weights(one.algorithm)
    learning = {name for name in before if name.endswith("weight") and not name.startswith("Target")}
    assert not [name for name in learning if torch.equal(before[name], after[name])], "all layers learn"

    (tmp_path / "beside").mkdir()
    one.trainer.save_beside(tmp_path / "beside")
    other = make_learner(tmp_path / "other", spec, behavior)
    other.trainer.load_state_dict(reloaded(one.trainer.state_dict()))
    other.trainer.load_beside(tmp_path / "beside")
    collected = crowd.play(one, 7)
    for learner in (one, other):
        learn_from(learner, collected)
    ends = [learner.trainer.state_dict() for learner in (one, other)]
    assert numbers(ends[0]) > 100
    assert not [text for text in differences(*ends) if not text.startswith(ROWS)]

    (network, *_) = exported_networks(one.algorithm.network).values()
    export_brain(network, tmp_path / "b.onnx", behavior="B")
    session = onnxruntime.InferenceSession(str(tmp_path / "b.onnx"), providers=["CPUExecutionProvider"])
    inputs = {value.name: [4, *value.shape[1:]] for value in session.get_inputs()}
    assert {f"obs_{i}" for i in range(3)} <= inputs.keys()
    names = [value.name for value in session.get_outputs() if value.name.startswith("deterministic_")]
    random = np.random.default_rng(0)
    feeds = {name: random.random(shape).astype(np.float32) for name, shape in inputs.items()}
    expected = session.run(names, feeds)
    for index, one_spec in enumerate(spec.observation_specs):
        if one_spec.name.startswith("hidden"):
            feeds[f"obs_{index}"] = feeds[f"obs_{index}"] * np.nan
    for wanted, found in zip(expected, session.run(names, feeds), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("trainer", ["ppo", "poca", "mappo", "coma", "sac"])
def test_a_critic_of_another_size_reads_them_too(tmp_path, trainer):
    spec, behavior = behavior_of(trainer, "vectors", critic={"hidden_units": 12})
    learner = make_learner(tmp_path, spec, behavior)
    before = weights(learner.algorithm)
    for _ in range(2):
        learn_from(learner, Crowd(spec).play(learner, 7))
    assert any(not torch.equal(value, before[name]) for name, value in weights(learner.algorithm).items())


@pytest.mark.parametrize("trainer", ["ppo", "sac"])
def test_signals_and_cloning_go_along(tmp_path, trainer):
    """Signals read all observations; the cloned policy reads what it acts by."""
    spec, behavior = behavior_of(trainer, "vectors")
    demo, small = write_demonstration(tmp_path / "expert.demo", spec, [6, 5, 7]), {"hidden_units": 8}
    signals = {"extrinsic": {}, "rnd": {"network_settings": small}, "curiosity": {"network_settings": small}}
    behavior["reward_signals"] = {**signals, "gail": {"demo_path": str(demo), "network_settings": small}}
    behavior["behavioral_cloning"] = {"demo_path": str(demo), "num_epoch": 1}
    learner = make_learner(tmp_path, spec, behavior)
    for _ in range(2):
        learn_from(learner, Crowd(spec).play(learner, 7))
    assert learner.trainer.learned["rnd"].predictor.encoder.size == 6
    losses = learner.reporter._chunks["Losses/Pretraining Loss"]
    assert losses and all(math.isfinite(loss) and loss > 0 for loss in losses)


def test_another_run_s_policy_is_taken_over_where_it_reads_the_same(tmp_path):
    spec, behavior = behavior_of("poca", "vectors")
    first, second = (make_learner(tmp_path / name, spec, behavior) for name in ("one", "two"))
    learn_from(first, Crowd(spec).play(first, 7))
    assert second.trainer.load_matching(first.trainer.state_dict()) == []
    spec, behavior = behavior_of("poca", "vectors", critic_only_observations=[])
    seeing = make_learner(tmp_path / "three", spec, behavior)
    misfits = seeing.trainer.load_matching(first.trainer.state_dict())
    assert "Policy.body.layers.0 (of shape [1, 3, 8] there, [1, 6, 8] here)" in misfits


LENGTH, EPISODES = 5, 40


def lucky_episodes(random):
    """Whatever agents do, each step of an episode earns what the sensor `luck` says."""
    luck = np.repeat(random.normal(size=EPISODES), LENGTH).astype(np.float32)
    ends = np.ones(EPISODES, bool)
    return make_rollout(
        [LENGTH] * EPISODES,
        [random.normal(size=(len(luck), 2)).astype(np.float32), luck[:, None]],
        continuous=random.normal(size=(len(luck), 1)).astype(np.float32),
        reward=luck,
        done=np.arange(len(luck)) % LENGTH == LENGTH - 1,
        done_reached=ends,
        all_group_dones=ends,
    )


@pytest.mark.slow
@pytest.mark.parametrize("trainer", ["ppo", "poca"])
def test_a_critic_explains_what_it_alone_sees(trainer):
    spec = BehaviorSpec(
        [sensor((2,), "eyes"), sensor((1,), "luck")], spec_of_shapes([], continuous=1).action_spec
    )
    config = TrainerSettings.model_validate(
        {
            "trainer_type": trainer,
            "hyperparameters": {"batch_size": 40, "buffer_size": 200, "learning_rate": 3e-3},
            "network_settings": {"hidden_units": 16, "critic_only_observations": ["luck"]},
        }
    )
    algorithm = make_algorithm(spec, config, torch.device("cpu"), 0, NonFinitePolicy.STOP)
    random = np.random.default_rng(0)

    def unexplained():
        """The share of the returns' variance that the critic leaves; episodes that it has not seen."""
        rollout = lucky_episodes(random)
        evaluated = algorithm.evaluate(rollout, {"extrinsic": rollout.reward}, {"extrinsic": False})
        left = LENGTH - np.arange(len(rollout.reward)) % LENGTH
        returns = rollout.reward * (1 - 0.99**left) / (1 - 0.99)
        algorithm.update(evaluated.steps, 0)
        return np.var(returns - evaluated.estimates["Value Estimate"][:, 0]) / np.var(returns)

    first, *_, last = [unexplained() for _ in range(30)]
    assert first > 0.9 and last < 0.4
