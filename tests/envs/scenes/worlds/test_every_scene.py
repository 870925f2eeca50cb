"""What holds for every scene: sensors and actions, sizes, options, seeds, and the wire."""

import dataclasses

import numpy as np
import pytest
from lanista.envs.scenes.in_process import make_in_process
from lanista.envs.scenes.registry import SCENES
from lanista.envs.scenes.world import Parameters
from lanista.envs.unity import UnityEnvironment
from mlagents_envs.base_env import ActionTuple, DimensionProperty, ObservationType
from scene_play import SIZED, play_of, random_actions

DECISION_PERIODS = {"hallway": 6, "grid": 1, "baton-pass": 1}
NONE = DimensionProperty.NONE
IMAGE = (NONE, *[DimensionProperty.TRANSLATIONAL_EQUIVARIANCE] * 2)
ORIGINALS = """
ball3d 12 2 - | 3DBall?team=0 VectorSensor_size8=8
basic 1 0 3 | Basic?team=0 Basic=20
baton-pass 8 0 5 | BatonPass?team=0 BatonPass=14
coop-push 4 0 7 | PushBlockCollab?team=0 GridSensor=6,20,20 PhysicsBodySensor:Agent=10
dungeon-escape 12 0 7 | DungeonEscape?team=0 PhysicsBodySensor:Agent=10 #3_RayPerceptionSensor=360 VectorSensor_size1=1
grid 9 0 5 | GridWorld?team=0 CameraSensor=3,64,84 VectorSensor=2
hallway 16 0 5 | Hallway?team=0 #3_RayPerceptionSensor=105 #3_VectorSensor_size1=3
sorter 8 0 3,3,3 | Sorter?team=0 BufferSensor=20,23 PhysicsBodySensor:Agent=10 #2_VectorSensor_size4=8
wall-jump 24 0 3,3,3,2 | SmallWallJump?team=0 #6_OffsetRayPerceptionSensor=210 #6_RayPerceptionSensor=210 #6_VectorSensor_size4=24 | BigWallJump?team=0 #6_OffsetRayPerceptionSensor=210 #6_RayPerceptionSensor=210 #6_VectorSensor_size4=24
food 4 3 2 | FoodCollector?team=0 GridSensor=5,40,40
pyramids 16 0 5 | Pyramids?team=0 RayPerceptionSensor=56 RayPerceptionSensor1=56 RayPerceptionSensor2=56 VectorSensor_size4=4
soccer-twos 8 0 3,3,3 | SoccerTwos?team=0 #3_BlueRayPerceptionSensor=264 #3_BlueRayPerceptionSensorReverse=72 | SoccerTwos?team=1 #3_PurpleRayPerceptionSensor=264 #3_PurpleRayPerceptionSensorReverse=72
tennis 32 3 - | Tennis?team=0 VectorSensor_size16=16 | Tennis?team=1 VectorSensor_size16=16
"""  # noqa: E501
"""Scene, areas, continuous actions, branches; behaviors with their sensors; # is `StackingSensor_size`."""


def shape(text):
    return tuple(map(int, text.split(","))) if text != "-" else ()


@pytest.mark.parametrize("name", SCENES)
def test_a_scene_looks_up_no_parameter_but_those_that_it_names(name):
    asked = set()

    class Listed(Parameters):
        def get(self, key, default):
            asked.add(key)
            return super().get(key, default)

    env = make_in_process(f"scene:{name}", 0)
    env.parameters = Listed()
    env.reset()
    for _ in range(30):
        env.step()
    assert asked <= set(env.world.parameters_read)


@pytest.mark.parametrize("row", ORIGINALS.strip().splitlines(), ids=lambda row: row.split()[0])
def test_at_full_size_sensors_and_actions_are_the_originals(row):
    scene, *behaviors = (part.split() for part in row.replace("#", "StackingSensor_size").split("|"))
    name, areas, continuous, branches = scene
    world = SCENES[name].load()()
    assert world.areas == int(areas)
    specs = world.specs()
    assert list(specs) == [behavior for behavior, *_ in behaviors]
    for behavior, *described in behaviors:
        sensors = {sensor: shape(size) for sensor, _, size in (text.partition("=") for text in described)}
        observations = specs[behavior].observation_specs
        assert {sensor.name: sensor.shape for sensor in observations} == sensors
        # Unity sends observations in the order of the sensors' names.
        assert [sensor.name for sensor in observations] == sorted(sensors)
        for sensor in observations:
            goal = (name, sensor.name) == ("grid", "VectorSensor")
            assert sensor.observation_type is (
                ObservationType.GOAL_SIGNAL if goal else ObservationType.DEFAULT
            )
            variable = (DimensionProperty.VARIABLE_SIZE, NONE)
            assert sensor.dimension_property == {1: (NONE,), 2: variable, 3: IMAGE}[len(sensor.shape)]
        assert specs[behavior].action_spec.continuous_size == int(continuous)
        assert specs[behavior].action_spec.discrete_branches == shape(branches)


@pytest.mark.parametrize("name", SIZED)
def test_the_small_size_has_sensors_of_its_own_named_by_their_sizes(name):
    for spec in SCENES[name].load()(size="small").specs().values():
        for sensor in spec.observation_specs:
            prefix, _, size = sensor.name.partition("VectorSensor_size")
            assert not size or prefix or sensor.shape == (int(size),)


def agents(play, ended):
    """The ids of the agents whose episodes ended, or of those that request a decision: each is there once."""
    ids = np.concatenate([batch.agent_id[batch.done == ended] for batch in play.batches.values()])
    assert ended or len(set(ids.tolist())) == len(ids)
    return set(ids.tolist())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("ball3d", {}),
        *((name, {"size": size, "max_steps": 100}) for name in SIZED for size in ("full", "small")),
    ],
)
def test_the_seed_decides_everything(name, options):
    def run(seed):
        play, random = play_of(SCENES[name].load())(areas=4, seed=seed, **options), np.random.default_rng(5)
        seen, living = [], agents(play, ended=False)
        for _ in range(60):
            play.act_randomly(random)
            assert agents(play, ended=True) <= living
            living = agents(play, ended=False)
            for batch in play.batches.values():
                assert all(np.isfinite(obs).all() for obs in batch.obs)
                assert not np.diff(batch.done.astype(int)).max(initial=0) > 0, "those that ended come first"
                seen += [np.ravel(obs) for obs in batch.obs] + [batch.reward, batch.agent_id]
        return np.concatenate(seen)

    first, other = run(3), run(4)
    np.testing.assert_array_equal(run(3), first)
    assert other.shape != first.shape or np.any(other != first)


@pytest.mark.parametrize("name", SIZED)
def test_the_limit_of_steps_interrupts_every_episode(name):
    play = play_of(SCENES[name].load())(areas=2, max_steps=4 * DECISION_PERIODS.get(name, 5))
    for decision in range(1, 5):
        play.act()
        done = np.concatenate([batch.done for batch in play.batches.values()])
        interrupted = np.concatenate([batch.interrupted for batch in play.batches.values()])
        np.testing.assert_array_equal(interrupted, done)
        # At the end every agent is in the batch twice: its next episode has started.
        assert done.sum() == (len(done) / 2 if decision == 4 else 0)


@pytest.mark.parametrize("name", SIZED)
def test_options_that_make_no_world_are_refused_by_their_names(name):
    world = SCENES[name].load()
    period = DECISION_PERIODS.get(name, 5)
    refused = {"size 'smal'. Did you mean 'small'": {"size": "smal"}, "areas is 0": {"areas": 0}}
    if period > 1:
        refused[f"max-steps is {period - 1}; it must be at least {period}, the"] = {"max_steps": period - 1}
    for field in dataclasses.fields(world.options_type):
        flag = field.name.replace("_", "-")
        if isinstance(field.default, float):
            refused[f"{flag} is nan; it must be more than 0, and finite"] = {field.name: float("nan")}
            refused[f"{flag} is inf"] = {field.name: float("inf")}
        if not isinstance(field.default, str) and not field.metadata["may_be_zero"]:
            refused[f"{flag} is -3"] = {field.name: -3}
        if field.name == "senses":
            choices = ", ".join(sorted(field.metadata["choices"]))
            refused[f"{name} has no senses 'eyes'; it has {choices}"] = {"senses": "eyes"}
    for message, options in refused.items():
        with pytest.raises(ValueError, match=message.replace("?", r"\?").replace(".", r"\.")):
            world(**options)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("coop-push", {"small_blocks": 0, "large_blocks": 0, "very_large_blocks": 0}, "no blocks"),
        ("coop-push", {"ground": 5.0}, "ground of 5.0 m with a goal of 4.3 m has no room for blocks of 3 m"),
        ("dungeon-escape", {"columns": 5}, "5 columns"),
        ("dungeon-escape", {"dragon_slow": 9.0}, "9.0 to 7.0 m/s"),
        ("dungeon-escape", {"ground": 7.9, "columns": 0}, "a ground of 7.9 m has no room .* at least 8 m"),
        ("dungeon-escape", {"ground": 10.0}, "10 m has no room for 3 agents, 4 columns.* at least 11 m"),
        ("dungeon-escape", {"size": "small", "agents": 9}, "has no room for 9 agents.* at least 11 m"),
        ("food", {"ground": 3.0}, "3 m of ground have no room for 5 agents"),
        ("grid", {"cells": 1}, "make no world"),
        ("grid", {"height": 90}, "would cut the grid off"),
        ("hallway", {"width": 4.0}, "no agent can pass"),
        ("hallway", {"length": 10.0}, "no wider than it is long"),
        ("pyramids", {"rooms": 2}, "2 x 2 rooms are fewer than the 9"),
        ("pyramids", {"room": 5.0, "door": 2.0}, "a room of 5 m with doorways of 2 m"),
        ("pyramids", {"door": 0.9}, "doorways more than 1 m"),
        ("pyramids", {"clear": 13.0}, "clear must be at most half"),
        ("soccer-twos", {"goal": 1.0}, "goals wider than the ball"),
        ("soccer-twos", {"width": 40.0}, "must be longer than it is wide"),
        ("soccer-twos", {"width": 8.5}, "narrower than the pitch"),
        ("soccer-twos", {"width": 4.0, "goal": 2.0}, "at least 4.48 m wide"),
        ("sorter", {"tiles": 21}, "tiles is 21; it must be at most 20"),
        ("sorter", {"places": 8}, "tiles is 20; it must be at most 8"),
        ("sorter", {"numbers": 5}, "tiles is 20; it must be at most 5"),
        ("sorter", {"radius": 10.0}, "radius of 10 m has no room for 20 places for tiles 3.5 m wide"),
        ("tennis", {"length": 2.0}, "at least 2.8 m long"),
        ("tennis", {"net": 5.0}, "the net not higher than the rackets reach"),
        ("wall-jump", {"platform": 9.0}, "platform of 9 m has no room for a block and a goal of 4 m"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(name, options, message):
    with pytest.raises(ValueError, match=message):
        SCENES[name].load()(**options)


@pytest.mark.parametrize("name", SIZED)
def test_options_given_as_zero_are_as_the_size_says(name):
    options = SCENES[name].load().options_type
    small = options.read({"size": "small"})
    unset = {}
    for field in dataclasses.fields(options):
        if field.name not in ("areas", "size"):
            unset[field.name] = -1 if field.metadata["may_be_zero"] else type(field.default)()
    assert options.read({"size": "small", **unset}) == small
    assert options.read({"size": "small", "max_steps": 77}) == dataclasses.replace(small, max_steps=77)


@pytest.mark.parametrize(
    ("name", "options", "agents"),
    [
        ("soccer-twos", ["--areas", "2", "--max-steps", "100"], [4, 4]),
        ("soccer-twos", ["--areas", "3", "--size", "small"], [6, 6]),
        ("pyramids", ["--areas", "3", "--max-steps", "100"], [3]),
        ("pyramids", ["--areas", "3", "--size", "small", "--max-steps", "100"], [3]),
        ("tennis", ["--areas", "4"], [4, 4]),
        ("grid", ["--areas", "3"], [3]),
    ],
)
def test_random_play_is_the_same_over_the_wire(name, options, agents):
    random = np.random.default_rng(0)
    here = make_in_process(f"scene:{name}", seed=7, arguments=options)
    there = UnityEnvironment(f"scene:{name}", seed=7, additional_args=options)
    ends = 0
    try:
        here.reset()
        there.reset()
        names = list(here.behavior_specs)
        assert list(there.behavior_specs) == names
        for behavior in names:
            assert there.behavior_specs[behavior] == here.behavior_specs[behavior]
        for _ in range(60):
            for behavior, expected in zip(names, agents):
                ours, theirs = here.get_steps(behavior), there.get_steps(behavior)
                assert len(theirs[0]) == expected
                ends += len(theirs[1])
                for mine, other in zip(ours, theirs):
                    fields = ["reward", "agent_id", "group_id", "group_reward"]
                    pairs = [(getattr(mine, field), getattr(other, field)) for field in fields]
                    masks = [getattr(steps, "action_mask", None) or [] for steps in (mine, other)]
                    for seen, received in [*pairs, *zip(mine.obs, other.obs), *zip(*masks)]:
                        assert seen.dtype == received.dtype
                        np.testing.assert_array_equal(seen, received)
                action = ActionTuple(*random_actions(here.behavior_specs[behavior], expected, random))
                here.set_actions(behavior, action)
                there.set_actions(behavior, action)
            here.step()
            there.step()
    finally:
        there.close()
    assert ends or "small" in options
