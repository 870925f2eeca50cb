"""Settings with which networks have other weights, or no effect any more: refused or told by key."""

import re

import pytest
from changed_runs import MEMORY, RND, SENSORS, Runs, spec_of, warnings
from crowd import write_demonstration
from lanista.trainers.settings.options import RunOptions
from lanista.trainers.utils.errors import CheckpointError
from mlagents_envs.base_env import ActionSpec, BehaviorSpec, ObservationType
from specs import sensor
from torch import nn
from trainers_and_networks import TRAINERS

pytestmark = pytest.mark.usefixtures("one_thread")

TEAM = {"hyperparameters.max_num_agents": 4}
GOAL = [*SENSORS, sensor((2,), "goal", ObservationType.GOAL_SIGNAL)]
EYE = [*SENSORS, sensor((1, 40, 40), "eye")]
DEMO = {"reward_signals": {"extrinsic": {}, "gail": {"demo_path": "a.demo"}}}
BY_STATE = {"network_settings.state_dependent_exploration": {"resample_interval": 8}}
SHAPED = [
    *(
        ("ppo", SENSORS, {}, {f"network_settings.{key}": value})
        for key, value in (("hidden_units", 9), ("num_layers", 2), ("normalize", True), ("residual", True))
    ),
    ("ppo", EYE, {}, {"network_settings.vis_encode_type": "nature_cnn"}),
    ("ppo", GOAL, {}, {"network_settings.goal_conditioning_type": "none"}),
    ("ppo", SENSORS, {}, {"network_settings.memory": MEMORY}),
    ("ppo", SENSORS, {"network_settings.memory": MEMORY}, {"network_settings.memory": None}),
    ("ppo", SENSORS, {"network_settings.memory": MEMORY}, {"network_settings.memory.memory_size": 8}),
    ("ppo", SENSORS, {"network_settings.memory": MEMORY}, {"network_settings.memory.memory_type": "gru"}),
    ("ppo", SENSORS, {}, {"network_settings.state_dependent_exploration": {"resample_interval": 8}}),
    ("ppo", SENSORS, BY_STATE, {"network_settings.state_dependent_exploration": None}),
    ("sac", SENSORS, {}, {"network_settings.state_dependent_exploration": {"resample_interval": 8}}),
    ("ppo", SENSORS, {}, {"hyperparameters.shared_critic": True}),
    ("poca", SENSORS, {"network_settings.critic": {}}, {"network_settings.critic.hidden_units": 12}),
    ("ppo", SENSORS, {}, {"network_settings.critic": {}}),
    ("ppo", SENSORS, {"network_settings.critic": {}}, {"network_settings.critic": None}),
    ("ppo", SENSORS, RND, {"reward_signals.rnd.network_settings.hidden_units": 9}),
    ("ppo", SENSORS, DEMO, {"reward_signals.gail.use_actions": True}),
    ("ppo", SENSORS, DEMO, {"reward_signals.gail.use_vail": True}),
    ("sac", SENSORS, {}, {"hyperparameters.recipe": "simba"}),
    ("dqn", SENSORS, {}, {"hyperparameters.dueling": True}),
    ("dqn", SENSORS, {"hyperparameters.dueling": True}, {"hyperparameters.dueling": False}),
    ("coma", SENSORS, TEAM, {"hyperparameters.max_num_agents": 5}),
    ("coma", SENSORS, TEAM, {"hyperparameters.share_parameters": False}),
    ("coma", SENSORS, TEAM, {"hyperparameters.index_on_actor": True}),
]


@pytest.mark.parametrize(
    "trainer, sensors, before, changes", SHAPED, ids=[f"{case[0]}-{case[-1]}" for case in SHAPED]
)
def test_other_networks_are_refused_by_key_before_any_tensor_is_loaded(
    tmp_path, monkeypatch, caplog, trainer, sensors, before, changes
):
    monkeypatch.chdir(tmp_path)
    write_demonstration(tmp_path / "a.demo", spec_of(trainer, sensors), [6, 5])
    runs = Runs(tmp_path, trainer, before, sensors).save()
    ((path, value),) = changes.items()
    loaded = []
    with monkeypatch.context() as patched:
        patched.setattr(nn.Module, "load_state_dict", lambda *_: loaded.append(1))
        with pytest.raises(CheckpointError) as error:
            runs.resumed(changes)
    said = str(error.value)
    assert said.startswith(f"Crowd: the saved run cannot be resumed: {path} was ")
    assert said.count(" was ") == 1 and "size mismatch" not in said and "state_dict" not in said
    assert f"is {value!r}. Set that back" in said or isinstance(value, dict) or value is None
    assert not loaded
    try:
        runs.started(changes)
        said = warnings(caplog)[0]
        assert "the rest starts with random weights: " in said
    except CheckpointError as nothing_fits:
        said = str(nothing_fits)
    assert f". Since then {path} was " in said


OTHER_AGENTS = [
    ([sensor((3,), "near"), sensor((1,), "own"), sensor((3,), "far")], (1, (3, 2)), "observed .*, now near"),
    (SENSORS, (1, (2, 3)), r"their actions \(continuous \+ branches\) were 1 \+ \[3, 2\], are 1 \+ \[2, 3\]"),
]


@pytest.mark.parametrize("sensors, actions, says", OTHER_AGENTS, ids=["observations", "actions"])
def test_agents_that_observe_or_do_otherwise_are_told_though_all_shapes_fit(
    tmp_path, caplog, sensors, actions, says
):
    """Vectors are joined, and so are the logits of branches."""
    runs = Runs(tmp_path, "ppo", {}).save()
    runs.spec = BehaviorSpec(sensors, ActionSpec(*actions))
    with pytest.raises(CheckpointError, match=f"cannot be resumed: .*{says}"):
        runs.resumed({})
    runs.started({})
    assert re.search(f"mean something else with these: .*{says}", caplog.text)


UNUSED = [
    ("sac", {}, {"hyperparameters.init_entcoef": 0.1}, True),
    ("ppo", {}, {"network_settings.initialization": "orthogonal"}, False),
    ("ppo", {"self_play": {}}, {"self_play.initial_elo": 100.0}, False),
]


@pytest.mark.parametrize("trainer, before, changes, at_start", UNUSED, ids=str)
def test_what_has_no_effect_any_more_is_said(tmp_path, caplog, trainer, before, changes, at_start):
    runs = Runs(tmp_path, trainer, before).save()
    runs.resumed(changes)
    (told,) = warnings(caplog)
    (path,) = changes
    assert told.startswith(f"Crowd: {path} was ") and ": it has no effect, since " in told
    caplog.clear()
    runs.started(changes)
    assert len(warnings(caplog)) == at_start


@pytest.mark.parametrize("before, after", [({}, {"self_play": {}}), ({"self_play": {}}, {"self_play": None})])
def test_a_run_that_begins_or_ends_self_play_is_told_what_is_lost(tmp_path, caplog, before, after):
    Runs(tmp_path, "ppo", before).save().resumed(after)
    (told,) = warnings(caplog)
    assert told.endswith(": opponents and rating are not carried over.")


@pytest.mark.parametrize("trainer", TRAINERS)
def test_defaults_that_are_spelled_out_are_no_change(tmp_path, caplog, trainer):
    runs = Runs(tmp_path, trainer, {}).save()
    settings = RunOptions.from_dict({"behaviors": {"Crowd": runs.yaml}}).behavior("Crowd")
    runs.yaml = settings.model_dump(mode="json", exclude={"framework", "clone", "self_play"})
    runs.resumed({})
    runs.started({})
    assert not warnings(caplog)
