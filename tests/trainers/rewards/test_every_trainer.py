"""Every trainer with every signal and teacher, with vectors, a memory and pictures: updates and a resume."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from crowd import Crowd, Mortals, learn_from, make_learner, write_demonstration
from lanista.envs.demonstrations.format import outline
from lanista.envs.errors import DemonstrationError
from lanista.trainers.buffers.demonstrations import load_demonstrations
from lanista.trainers.buffers.replay.sampler import ReplaySampler
from lanista.trainers.settings.options import RunOptions
from lanista.trainers.trainer.factory import untrainable
from reliability.resume import differences, numbers
from rollouts import reloaded
from specs import spec_of_shapes
from trainers_and_networks import CELLS, ON_POLICY, SMALL, behavior_of

SIGNALS = {
    "rnd": ({}, {"Losses/RND Loss"}),
    "curiosity": ({}, {"Losses/Curiosity Forward Loss", "Losses/Curiosity Inverse Loss"}),
    "gail": (
        {"use_actions": True, "use_vail": True},
        {"Losses/GAIL Loss", "Losses/GAIL KL Loss", "Policy/GAIL Beta", "Policy/GAIL Expert Estimate"},
    ),
}
ABSORBING = "gail with absorbing states"
CHOICES = {**SIGNALS, ABSORBING: ({"use_actions": True, "absorbing_states": True}, {"Losses/GAIL Loss"})}


REPLAYS = ("sac", "dqn", "ddpg", "td3")
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]


def told(learner):
    """Statistics since the last summary, each as a list."""
    chunks = learner.reporter._chunks
    return {key: [float(x) for x in values if not hasattr(x, "shape")] for key, values in chunks.items()}


def go_on_after_a_resume(tmp_path, spec, behavior, kind=Crowd, ticks=7):
    """Two updates, a resume, and another one: of both the run that stopped and the one that did not."""
    one = make_learner(tmp_path / "one", spec, behavior)
    crowd = kind(spec)
    for _ in range(2):
        learn_from(one, crowd.play(one, ticks))
    state = reloaded(one.trainer.state_dict())
    (tmp_path / "beside").mkdir()
    one.trainer.save_beside(tmp_path / "beside")
    before = told(one)
    other = make_learner(tmp_path / "other", spec, behavior)
    other.trainer.load_state_dict(state)
    other.trainer.load_beside(tmp_path / "beside")
    collected = crowd.play(one, ticks)
    for learner in (one, other):
        learn_from(learner, collected)
    ends = [learner.trainer.state_dict() for learner in (one, other)]
    assert numbers(ends[0]) > 100
    assert not [text for text in differences(*ends) if not text.startswith(ROWS)]
    return one, before


ROWS = (".buffer.numbers", ".buffer.mates", ".buffer.other_numbers")
"""Numbers by which the rows of a process are told apart."""


@pytest.mark.parametrize("trainer, network", CELLS)
@pytest.mark.parametrize("choice", CHOICES)
def test_signals(tmp_path, trainer, network, choice):
    spec, behavior = behavior_of(trainer, network)
    own, figures = CHOICES[choice]
    signal = choice.partition(" ")[0]
    if signal == "gail":
        own = {**own, "demo_path": str(write_demonstration(tmp_path / "expert.demo", spec, [6, 5, 7]))}
    own = {**own, "strength": 0.1, "gamma": 0.9, "network_settings": {**SMALL, "normalize": True}}
    behavior["reward_signals"] = {"extrinsic": {}, signal: own}
    learner, before = go_on_after_a_resume(tmp_path, spec, behavior)
    for key in figures:
        assert before[key] and all(map(math.isfinite, before[key])), key
    assert f"Policy/{signal.capitalize()} Reward" in before
    values = "Value" if trainer in ("sac", "dqn", "ddpg", "td3") else "Value Estimate"
    assert f"Policy/{signal.capitalize()} {values}" in learner.reporter._chunks
    assert learner.trainer.learned[signal].optimizer.adam.steps > 2
    assert bool(learner.trainer.absorbing) is (choice == ABSORBING)


@pytest.mark.parametrize("absorbing", [False, True])
@pytest.mark.parametrize("network", ["vectors", "memory"])
@pytest.mark.parametrize("trainer", ["poca", "mappo", "coma"])
def test_signals_of_teams_whose_members_die_and_decide_at_different_times(
    tmp_path, trainer, network, absorbing
):
    spec, behavior = behavior_of(trainer, network)
    demo = str(write_demonstration(tmp_path / "expert.demo", spec, [6, 5, 7]))
    small = {"network_settings": SMALL}
    gail = {"demo_path": demo, **SIGNALS["gail"][0], "absorbing_states": absorbing, **small}
    behavior["reward_signals"] = {"extrinsic": {}, "rnd": small, "curiosity": small, "gail": gail}
    learner, before = go_on_after_a_resume(tmp_path, spec, behavior, Mortals, 20)
    for name, (_, figures) in SIGNALS.items():
        assert all(before[key] and all(map(math.isfinite, before[key])) for key in figures)
        assert learner.trainer.learned[name].optimizer.adam.steps > 2
        assert f"Policy/{name.capitalize()} Value Estimate" in learner.reporter._chunks


@pytest.mark.parametrize("trainer, network", CELLS)
def test_cloning(tmp_path, trainer, network):
    spec, behavior = behavior_of(trainer, network)
    demo = write_demonstration(tmp_path / "expert.demo", spec, [6, 5, 7])
    behavior["behavioral_cloning"] = {
        "demo_path": str(demo),
        "num_epoch": 1,
        "steps": 1000,
    }
    learner, before = go_on_after_a_resume(tmp_path, spec, behavior)
    losses = before["Losses/Pretraining Loss"]
    assert losses and all(math.isfinite(loss) and loss > 0 for loss in losses)
    cloning = learner.trainer.cloning
    assert cloning.optimizer.adam.steps > 2 and cloning.rate < cloning.schedule.initial
    assert cloning.as_engine is (trainer not in ("ppo", "poca", "sac"))


@pytest.mark.parametrize("rewards", [False, True])
@pytest.mark.parametrize("trainer, network", [cell for cell in CELLS if cell.values[0] in REPLAYS])
def test_demonstrations_in_the_replay(tmp_path, monkeypatch, trainer, network, rewards):
    spec, behavior = behavior_of(trainer, network)
    demo = write_demonstration(tmp_path / "expert.demo", spec, [6, 5, 7], seed=5, rewarded=True)
    behavior["demonstrations"] = {"demo_path": str(demo), "share": 0.5}
    behavior["hyperparameters"] = {**behavior["hyperparameters"], "normalize_rewards": rewards}
    behavior["reward_signals"] = {"extrinsic": {"strength": 2.0}, "rnd": {"network_settings": SMALL}}
    seen = []
    sample = ReplaySampler.batch

    def sampling(self, replay, batch_size, *rest):
        batch = sample(self, replay, batch_size, *rest)
        if len(rest) == 3:  # not to train a signal, which learns from the replay alone
            seen.append((batch, batch.rewards.clone(), rest[1]))
        return batch

    monkeypatch.setattr(ReplaySampler, "batch", sampling)
    _, before = go_on_after_a_resume(tmp_path, spec, behavior)
    demos = load_demonstrations(demo)
    vectors = next(k for k, obs in enumerate(demos.obs) if obs.ndim == 2)
    for batch, drawn, scale in seen:
        assert len(batch) == 8 and (scale is not None) is rewards
        real = np.ones(8, bool) if batch.real is None else batch.real.numpy()
        alike = (batch.obs[vectors].numpy()[:, None] == demos.obs[vectors]).all(2)
        assert alike.any(1)[4:][real[4:]].all() and not alike[:4].any(), "the second half is demonstrated"
        earned = demos.rewards[alike[4:].argmax(1)] * np.float32(2.0) / (1.0 if scale is None else scale[0])
        np.testing.assert_allclose(drawn[4:, 0][real[4:]], earned[real[4:]], rtol=1e-6)
    assert len(seen) >= 4
    assert all(map(math.isfinite, [x for key in before if key.startswith("Losses") for x in before[key]]))


def test_demonstrations_that_tell_no_value_are_refused(tmp_path):
    spec, behavior = behavior_of("sac", "vectors")
    whole = write_demonstration(tmp_path / "expert.demo", spec, [6, 5, 7], rewarded=True)
    behavior["demonstrations"] = {"demo_path": str(whole)}
    make_learner(tmp_path / "whole", spec, behavior)
    data = whole.read_bytes()
    cut = tmp_path / "cut.demo"
    cut.write_bytes(data[: int(outline(data).starts[4]) - 1])
    behavior["demonstrations"] = {"demo_path": str(cut), "partial_demos": True}
    with pytest.raises(DemonstrationError, match=r"cut\.demo: none of its episodes was recorded to its end"):
        make_learner(tmp_path / "cut", spec, behavior)
    assert "none of its episodes" in str(
        untrainable(spec, RunOptions.from_dict({"behaviors": {"A": behavior}}).behavior("A"))
    )
    behavior["demonstrations"] = {"demo_path": str(whole)}
    behavior["reward_signals"] = {"extrinsic": {"strength": 1e36}}
    with pytest.raises(
        DemonstrationError,
        match=r"expert\.demo: a reward in it, times its strength, is .*e\+3\d; more than 1e\+34",
    ):
        make_learner(tmp_path / "large", spec, behavior)


def test_demonstrations_in_which_nothing_is_earned_are_warned_of(tmp_path, caplog):
    spec, behavior = behavior_of("sac", "vectors")
    demo = write_demonstration(tmp_path / "expert.demo", spec, [6, 5, 7])
    behavior["demonstrations"] = {"demo_path": str(demo)}
    make_learner(tmp_path / "run", spec, behavior)
    assert f"all rewards in {demo} are 0" in caplog.text
    caplog.clear()
    behavior["reward_signals"] = {"rnd": {"network_settings": SMALL}}
    make_learner(tmp_path / "other", spec, behavior)
    assert "all rewards" not in caplog.text, "nothing of the environment's is to be learned"


@pytest.mark.parametrize("keys", [{"share_parameters": False}, {"index_on_actor": True}])
@pytest.mark.parametrize("network", ["vectors", "memory"])
def test_cloning_of_actors_that_differ_by_slot(tmp_path, keys, network):
    spec, behavior = behavior_of("coma", network)
    behavior["hyperparameters"] = {**ON_POLICY, "max_num_agents": 2, **keys}
    demo = write_demonstration(tmp_path / "expert.demo", spec, [6, 5, 7])
    behavior["behavioral_cloning"] = {"demo_path": str(demo)}
    learner, before = go_on_after_a_resume(tmp_path, spec, behavior)
    assert before["Losses/Pretraining Loss"]
    moved = learner.trainer.cloning.optimizer.adam.mean != 0
    assert moved.float().mean() > 0.8, "every place learns"


def test_all_signals_and_a_teacher_together_are_saved_and_resumed(tmp_path):
    spec, behavior = behavior_of("poca", "pictures")
    demo = str(write_demonstration(tmp_path / "expert.demo", spec, [6, 5, 7]))
    small = {"network_settings": SMALL}
    behavior["reward_signals"] = {
        "gail": {"demo_path": demo, **small},
        "extrinsic": {},
        "rnd": small,
        "curiosity": small,
    }
    behavior["behavioral_cloning"] = {"demo_path": demo, "samples_per_update": 8}
    learner, _ = go_on_after_a_resume(tmp_path, spec, behavior)
    assert list(learner.trainer.providers) == ["gail", "extrinsic", "rnd", "curiosity"]
    assert learner.algorithm.signals == list(learner.trainer.providers)


@pytest.mark.parametrize("trainer", ["ppo", "sac"])
def test_demonstrations_of_another_behavior_are_refused_with_the_difference(tmp_path, trainer):
    spec, behavior = behavior_of(trainer, "vectors")
    other = spec_of_shapes([[4]], continuous=1, branches=(3, 2))
    demo = str(write_demonstration(tmp_path / "expert.demo", other, [6]))
    wrong = r"expert\.demo: The shape \(4,\) for observation 0 \('obs0'\) .* \(3,\)"
    for section in (
        {"behavioral_cloning": {"demo_path": demo}},
        *([{"demonstrations": {"demo_path": demo}}] if trainer == "sac" else []),
        {"reward_signals": {"extrinsic": {}, "gail": {"demo_path": demo}}},
    ):
        with pytest.raises(DemonstrationError, match=wrong):
            make_learner(tmp_path, spec, {**behavior, **section})


def test_a_run_may_start_with_the_signals_of_another(tmp_path):
    spec, behavior = behavior_of("ppo", "vectors")
    behavior["reward_signals"] = {"extrinsic": {}, "rnd": {"network_settings": SMALL}}
    one, other = (make_learner(tmp_path / name, spec, behavior) for name in ("one", "other"))
    one.trainer.learned["rnd"].predictor.body.layers[0].bias.data.fill_(3.0)
    assert other.trainer.load_matching(one.trainer.state_dict()) == []
    found, given = (learner.trainer.learned["rnd"].predictor.state_dict() for learner in (other, one))
    assert all(torch.equal(found[name], value) for name, value in given.items())
    behavior["reward_signals"]["rnd"] = {"network_settings": {**SMALL, "hidden_units": 4}}
    third = make_learner(tmp_path / "third", spec, behavior)
    (misfit, *_) = third.trainer.load_matching(one.trainer.state_dict())
    assert misfit == "signal:rnd.predictor.body.layers.0 (of shape [1, 3, 8] there, [1, 3, 4] here)"
    behavior["reward_signals"]["rnd"] = {"network_settings": SMALL}
    plain = {key: value for key, value in one.trainer.state_dict().items() if key != "signal:rnd"}
    fourth = make_learner(tmp_path / "fourth", spec, behavior)
    assert fourth.trainer.load_matching(plain)[0] == "signal:rnd.predictor (not in the file)"
