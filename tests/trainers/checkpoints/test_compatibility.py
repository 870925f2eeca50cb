"""Changed settings that no tensor's shape shows: what --resume and --initialize-from make of a checkpoint."""

import sys
import textwrap

import pytest
import torch
import yaml
from changed_runs import MEMORY, RND, SENSORS, Runs, spec_of, warnings
from crowd import Crowd, Mortals, learn_from, write_demonstration
from lanista.trainers.checkpoints.file import load_checkpoint
from lanista.trainers.checkpoints.shared_weights import save_shared
from lanista.trainers.utils.errors import CheckpointError
from specs import sensor
from trainers_and_networks import SMALL, TRAINERS

pytestmark = pytest.mark.usefixtures("one_thread")

CRITICS = [trainer for trainer in TRAINERS if trainer != "dqn"]
"""Trainers with a critic."""
TWO = {"reward_signals": {"extrinsic": {}, "curiosity": {"network_settings": SMALL}}}
GAIL = {"reward_signals": {"extrinsic": {}, "gail": {"demo_path": "a.demo", "use_actions": True}}}
MUST_EQUAL = [
    *((trainer, {}, {"network_settings.activation": "tanh"}) for trainer in TRAINERS),
    *((trainer, {}, {"network_settings.layer_norm": True}) for trainer in TRAINERS),
    *(
        (trainer, {"network_settings.critic": {}}, {"network_settings.critic.activation": "relu"})
        for trainer in CRITICS
    ),
    *(
        (
            trainer,
            {"network_settings.critic_only_observations": ["near"]},
            {"network_settings.critic_only_observations": ["far"]},
        )
        for trainer in CRITICS
    ),
    ("poca", {}, {"network_settings.critic": {"layer_norm": True}}),
    ("ppo", RND, {"reward_signals.rnd.network_settings.activation": "elu"}),
    ("sac", TWO, {"reward_signals.curiosity.network_settings.layer_norm": True}),
    (
        "coma",
        {"hyperparameters.state_observation": "near"},
        {"hyperparameters.state_observation": "far"},
    ),
    *((trainer, GAIL, {"reward_signals.gail.absorbing_states": True}) for trainer in ("ppo", "coma", "sac")),
]


@pytest.mark.slow
@pytest.mark.parametrize("trainer, before, changes", MUST_EQUAL, ids=str)
def test_with_other_functions_of_the_same_weights_no_run_goes_on(
    tmp_path, monkeypatch, caplog, trainer, before, changes
):
    monkeypatch.chdir(tmp_path)
    write_demonstration(tmp_path / "a.demo", spec_of(trainer), [6, 5])
    runs = Runs(tmp_path, trainer, before).save()
    runs.resumed({})
    runs.started({})
    assert not warnings(caplog)
    (path,) = changes
    path = path + ".layer_norm" if path.endswith("critic") else path
    saved = runs.file.read_bytes()
    with pytest.raises(CheckpointError, match=rf"cannot be resumed: {path} was .*, is .*\. Set that back"):
        runs.resumed(changes)
    with pytest.raises(CheckpointError, match="cannot be resumed"):
        runs.resumed(changes, training=False)
    assert runs.file.read_bytes() == saved
    runs.started(changes)
    told = [text for text in warnings(caplog) if "mean something else" in text]
    assert len(told) == 1 and f"with these: {path} was " in told[0] and str(runs.file) in told[0]


SWAPPED = {"reward_signals": dict(reversed(RND["reward_signals"].items()))}


@pytest.mark.parametrize("trainer", ["ppo", "poca", "coma", "sac", "dqn"])
def test_a_start_with_signals_in_another_order_is_warned_of(tmp_path, caplog, trainer):
    """Critics have a column for each, which nothing but its place names."""
    runs = Runs(tmp_path, trainer, RND).save()
    runs.started(SWAPPED)
    (told,) = warnings(caplog)
    assert "reward_signals was ['extrinsic', 'rnd'], is ['rnd', 'extrinsic']" in told


def test_probabilities_are_not_taken_for_values_without_a_word(tmp_path, caplog):
    runs = Runs(tmp_path, "coma", {}).save()
    hyper, _ = TRAINERS["dqn"]
    runs.started({"trainer_type": "dqn", "hyperparameters": hyper})
    assert "trainer_type was 'coma', is 'dqn'" in caplog.text


MODULE = """
from torch import nn


class One(nn.Module):
    def __init__(self, spec, settings):
        super().__init__()
        self.size = 4
        self.layer = nn.Linear(spec.shape[0], 4)

    def forward(self, observation):
        return self.layer(observation)


class Other(One):
    pass
"""
GOES_ON = [
    (
        "ppo",
        {"network_settings.encoders": {"near": "nets:One"}},
        {"network_settings.encoders.near": "nets:Other"},
    ),
    ("ppo", GAIL, {"reward_signals.gail.engine_actions": True}),
    *(
        (trainer, {}, {"hyperparameters.normalize_rewards": True})
        for trainer in ("ppo", "poca", "mappo", "sac", "dqn", "ddpg", "td3")
    ),
]


@pytest.mark.parametrize("trainer, before, changes", GOES_ON, ids=str)
def test_what_may_mean_the_same_is_warned_of(tmp_path, monkeypatch, caplog, trainer, before, changes):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "nets", raising=False)
    (tmp_path / "nets.py").write_text(textwrap.dedent(MODULE))
    write_demonstration(tmp_path / "a.demo", spec_of(trainer), [6, 5])
    runs = Runs(tmp_path, trainer, before).save()
    runs.resumed({})
    caplog.clear()
    runs.resumed(changes)
    (path,) = changes
    key = path.removesuffix(".near")
    told = [text for text in warnings(caplog) if text.startswith(f"Crowd: {key} was ")]
    assert len(told) == 1
    runs.started(changes)
    assert f"mean something else with these: {key} was " in caplog.text


def test_what_is_refused_is_not_warned_of_before(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "nets", raising=False)
    (tmp_path / "nets.py").write_text(textwrap.dedent(MODULE))
    runs = Runs(tmp_path, "ppo", {"network_settings.encoders": {"near": "nets:One"}}).save()
    with pytest.raises(CheckpointError, match="encoders"):
        runs.resumed({"network_settings.encoders": {}})
    assert warnings(caplog) == []


MAY_CHANGE = [
    (
        "ppo",
        {"network_settings.state_dependent_exploration": {"resample_interval": 8}},
        {"network_settings.state_dependent_exploration.resample_interval": 2},
    ),
    ("ppo", {}, {"network_settings.deterministic": True}),
    (
        "ppo",
        {},
        {"network_settings.vis_encode_type": "resnet", "network_settings.goal_conditioning_type": "none"},
    ),
    ("poca", {}, {"network_settings.critic": {}}),
    ("poca", {"network_settings.critic": {}}, {"network_settings.critic": None}),
    ("ppo", {"network_settings.num_layers": 0}, {"network_settings.num_layers": 1}),
    ("coma", {"network_settings.memory": MEMORY}, {"network_settings.memory.sequence_length": 2}),
    ("ppo", {}, {"reward_signals": {"extrinsic": {"network_settings": {"activation": "tanh"}}}}),
    ("sac", {}, {"hyperparameters.n_step": 3, "hyperparameters.tau": 0.1}),
    ("dqn", {}, {"hyperparameters.double": False}),
    ("ddpg", {}, {"hyperparameters.noise_type": "ornstein_uhlenbeck"}),
]


@pytest.mark.parametrize("trainer, before, changes", MAY_CHANGE, ids=str)
def test_what_a_checkpoint_does_not_depend_on_may_change(tmp_path, caplog, trainer, before, changes):
    runs = Runs(tmp_path, trainer, before)
    kind = Mortals if trainer == "coma" else Crowd
    learn_from(runs.learner, kind(runs.spec).play(runs.learner, 4))
    waiting = 0 if hasattr(runs.learner.trainer, "replay") else len(runs.learner.trainer.buffer)
    runs.save()
    resumed = runs.resumed(changes)
    assert not hasattr(resumed.trainer, "buffer") or len(resumed.trainer.buffer) == waiting
    runs.started(changes)
    assert not warnings(caplog)


def test_renamed_sensors_are_told_by_their_places(tmp_path, caplog):
    runs = Runs(tmp_path, "sac", {"network_settings.critic_only_observations": ["near"]}).save()
    runs.spec = spec_of("sac", [sensor((3,), "eyes"), *SENSORS[1:]])
    runs.resumed({"network_settings.critic_only_observations": ["e*"]})
    assert not warnings(caplog)


# Steps that wait for an update ------------------------------------------------------------------------------

GAMMA, STRENGTH = ({"reward_signals": {"extrinsic": {key: 0.5}}} for key in ("gamma", "strength"))
LENGTH = "network_settings.memory.sequence_length"
DROPPED = [
    *((trainer, {LENGTH: length}) for trainer in ("ppo", "poca", "mappo") for length in (1, 3, 8)),
    *((trainer, change) for trainer in ("ppo", "poca", "coma") for change in (GAMMA, STRENGTH)),
    *((trainer, {"hyperparameters.lambd": 0.5}) for trainer in ("ppo", "mappo", "coma")),
    ("coma", {"hyperparameters.reward": "sum"}),
]


def waiting_run(folder, trainer, ticks=9, **more):
    """A run with a memory and some steps that wait, of a signal with a network of its own too."""
    before = {"network_settings.memory": MEMORY, "hyperparameters.buffer_size": 60, **more}
    runs = Runs(folder, trainer, before)
    learn_from(runs.learner, Mortals(runs.spec, length=7).play(runs.learner, ticks))
    steps = runs.learner.trainer.buffer.columns()
    real = getattr(steps, "real", None)
    return runs.save(), len(steps) if real is None else int(real.sum())


@pytest.mark.slow
@pytest.mark.parametrize("trainer, changes", DROPPED, ids=str)
def test_waiting_steps_that_do_not_fit_are_dropped_with_one_line(tmp_path, caplog, trainer, changes):
    runs, waiting = waiting_run(tmp_path, trainer)
    resumed = runs.resumed(changes)
    (told,) = warnings(caplog)
    assert waiting > 10
    assert told.startswith(f"Crowd: {waiting} steps that waited for the next update are dropped: ")
    assert told.count(" was ") == 1
    assert len(resumed.trainer.buffer) == 0
    before = resumed.algorithm.network.state_dict()
    before = {name: tensor.clone() for name, tensor in before.items()}
    learn_from(resumed, Mortals(runs.spec, length=7, seed=2).play(resumed, 40))
    after = resumed.algorithm.network.state_dict()
    assert any(not torch.equal(before[name], after[name]) for name in before), "it updates"
    caplog.clear()
    resumed.finish()
    runs.resumed(changes)
    assert not warnings(caplog), "it is told once"


def test_steps_of_a_learned_signal_are_dropped_with_those_of_the_policy(tmp_path):
    runs, _ = waiting_run(tmp_path, "ppo", **RND)
    assert len(runs.resumed({}).trainer.signal_trainer.buffer) > 10
    assert len(runs.resumed({LENGTH: 8}).trainer.signal_trainer.buffer) == 0


@pytest.mark.parametrize("trainer", ["ppo", "poca", "mappo"])
def test_waiting_steps_with_rewards_in_other_units_are_dropped(tmp_path, caplog, trainer):
    runs, waiting = waiting_run(tmp_path, trainer)
    assert len(runs.resumed({"hyperparameters.normalize_rewards": True}).trainer.buffer) == 0
    assert f"{waiting} steps that waited for the next update are dropped" in "\n".join(warnings(caplog))


def test_without_waiting_steps_nothing_is_told_nor_without_training(tmp_path, caplog):
    runs = Runs(tmp_path / "new", "ppo", {"network_settings.memory": MEMORY}).save()
    runs.resumed({LENGTH: 8})
    runs, _ = waiting_run(tmp_path, "ppo")
    runs.resumed({LENGTH: 8}, training=False)
    assert not warnings(caplog)


@pytest.mark.parametrize("trainer", ["ppo", "poca", "mappo"])
def test_steps_that_an_earlier_release_has_mixed_are_dropped(tmp_path, caplog, trainer):
    """It saved steps of both lengths in one buffer, with the newer length."""
    runs, waiting = waiting_run(tmp_path, trainer)

    def mix(state):
        for part in (state["brain"]["network"], state["brain"]):
            part.pop("settings", None)
        state["brain"]["network"]["memory"]["sequence_length"] = 8

    runs.rewrite(mix)
    assert len(runs.resumed({LENGTH: 8}).trainer.buffer) == 0
    (told,) = warnings(caplog)
    assert told == (
        f"Crowd: {waiting} steps that waited for the next update are dropped: they are not in sequences of "
        f"8 steps ({LENGTH})."
    )


def test_a_saved_replay_is_dropped_where_its_rewards_were_of_another_strength(tmp_path, caplog):
    more = {"hyperparameters.normalize_rewards": True, **RND}
    runs = Runs(tmp_path, "sac", more)
    learn_from(runs.learner, Crowd(runs.spec).play(runs.learner, 12))
    held = len(runs.learner.trainer.replay)
    runs.save()
    rnd = {"reward_signals.rnd.strength": 0.5, "reward_signals.rnd.gamma": 0.9}
    for unchanged in ({}, rnd, {"reward_signals.extrinsic": {"gamma": 0.9}}):
        same = runs.resumed(unchanged).trainer
        assert len(same.replay) == held and same.reward_scale.steps
    assert not warnings(caplog)
    resumed = runs.resumed({"reward_signals.extrinsic": {"strength": 0.5}}).trainer
    (told,) = warnings(caplog)
    assert told.startswith("Replay buffer was unable to load, starting from scratch. Crowd: ")
    assert told.endswith(
        f": reward_signals.extrinsic.strength was 1.0, is 0.5. Its {held} steps are dropped."
    )
    assert resumed.replay is None and int(resumed.reward_scale.steps) == 0


# What a checkpoint records ----------------------------------------------------------------------------------


def test_runs_of_earlier_releases_are_held_to_what_they_record(tmp_path, caplog):
    """Of the networks of signals and of returns nothing was recorded; configuration.yaml has them."""
    runs, waiting = waiting_run(tmp_path, "ppo", **RND)
    runs.rewrite(lambda state: state["brain"].pop("settings"))
    signal = {"reward_signals.rnd.network_settings.activation": "tanh", "hyperparameters.lambd": 0.5}
    assert len(runs.resumed(signal).trainer.buffer) >= waiting
    assert not warnings(caplog)
    (tmp_path / "old" / "configuration.yaml").write_text(yaml.safe_dump({"behaviors": {"Crowd": runs.yaml}}))
    assert len(runs.resumed({}).trainer.buffer) >= waiting
    with pytest.raises(CheckpointError, match=r"rnd\.network_settings\.activation was 'swish', is 'tanh'"):
        runs.resumed(signal)
    assert not len(runs.resumed({"hyperparameters.lambd": 0.5}).trainer.buffer)
    (tmp_path / "old" / "configuration.yaml").unlink()
    caplog.clear()
    with pytest.raises(CheckpointError, match=r"network_settings\.activation was 'swish', is 'tanh'"):
        runs.resumed({"network_settings.activation": "tanh"})
    assert not len(runs.resumed({LENGTH: 8}).trainer.buffer)
    runs.rewrite(lambda state: state.pop("brain"))
    runs.resumed({"network_settings.activation": "tanh"})


@pytest.mark.parametrize(
    "key, value", [("observations", 3), ("settings", {"network_settings.layer_norm": torch.ones(2)})]
)
def test_a_description_that_is_none_is_refused(tmp_path, key, value):
    runs = Runs(tmp_path, "ppo", {}).save()
    runs.rewrite(lambda state: state["brain"].update({key: value}))
    with pytest.raises(CheckpointError, match=r"Crowd: the saved run cannot be resumed: the description"):
        runs.resumed({})


def test_a_start_from_one_file_is_warned_of_too(tmp_path, caplog):
    runs = Runs(tmp_path, "ppo", {}).save()
    files = [runs.file]
    if pytest.importorskip("safetensors"):
        save_shared(tmp_path / "shared.safetensors", load_checkpoint(runs.file))
        files.append(tmp_path / "shared.safetensors")
    for file in files:
        caplog.clear()
        runs.started({"network_settings.activation": "tanh"}, start=file)
        assert f"the weights of {file} fit" in caplog.text
        runs.started({"network_settings.activation": "tanh", "init_path": str(file)}, start=tmp_path)
        assert caplog.text.count("mean something else") == 2
