"""What agents of Lanista's addon tell in the real engine, opposite a trainer that the tests script."""

import re

import numpy as np
import pytest
from godot_trainer import actions, steps
from puppets import (
    ASK_FOR_RESET,
    BRING_ANOTHER,
    END_AND_VANISH,
    END_GROUP,
    GO_ON,
    JUMP,
    MISBEHAVE,
    PUPPETS,
    RELOAD,
    RESET_THEN_DONE,
    REWARD_GROUP,
    TEAM_0,
    TEAM_1,
    TERMINATE,
    TRUNCATE,
    VANISH,
    VANISH_AT_ONCE,
    order,
)


@pytest.mark.slow
def test_parameters_of_the_environment_are_described_when_asked_for(play):
    game = play(PUPPETS, "--action_repeat=5")
    action = [
        {"name": "at", "size": 1, "action_type": "continuous"},
        {"name": "order", "size": 14, "action_type": "discrete"},
    ]
    spec = {"observations": [{"name": "obs", "shape": [3], "type": "float"}], "actions": action}
    answer = game.start()
    assert re.fullmatch(r"Godot 4\.\d+\.\d+", answer.pop("engine"))
    assert re.fullmatch(r"\d+\.\d+\.\d+", answer.pop("addon_version"))
    assert answer == {
        "type": "env_info",
        "lanista": 1,
        "behaviors": {TEAM_0: spec, TEAM_1: spec},
        "action_repeat": 5,
    }


def test_the_first_action_answers_an_observation_of_the_new_episode(play):
    game = play(PUPPETS)
    game.start()
    polls_and_listens, ended = steps(game.reset(scale=2.5), TEAM_0)
    assert polls_and_listens.floats().tolist() == [[1, 0, 2.5], [1, 1, 2.5]] and ended.ids == []
    message = game.act({TEAM_0: actions(polls_and_listens.ids, [[0.0]] * 2, [[GO_ON]] * 2)})
    decided, _ = steps(message, TEAM_0)
    assert decided.floats()[:, 1].tolist() == [8, 9], "8 frames with the action, none before it"
    assert decided.reward == [8, 8] and decided.ids == polls_and_listens.ids


def test_a_game_that_listens_is_reset_without_a_frame(play, project):
    scene = (project / "game" / "puppets.tscn").read_text()
    (project / "game" / "listeners.tscn").write_text(scene.replace("reset_after = 100", "listens = true"))
    game = play("res://game/listeners.tscn")
    game.start()
    decided, _ = steps(game.reset(), TEAM_0)
    assert decided.floats()[:, 1].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("ordered", "truncated"),
    [(TERMINATE, 0), (TRUNCATE, 1), (RESET_THEN_DONE, 0), (JUMP, 0), (ASK_FOR_RESET, 1)],
    ids=["done", "end_episode", "needs_reset first", "jumps in the same frame", "needs_reset alone"],
)
@pytest.mark.parametrize("at", [1, 3, 8], ids=["first frame", "third frame", "last frame"])
def test_an_episode_ends_with_its_last_observation_and_reward(play, ordered, truncated, at):
    game = play(PUPPETS)
    game.start()
    first = order(game, game.reset(scale=1.0))
    polls, listens = steps(first, TEAM_0)[0].ids
    age = steps(first, TEAM_0)[0].floats()[:, 1]
    message = order(game, first, {polls: ordered, listens: ordered}, at=at)
    decided, ended = steps(message, TEAM_0)
    assert ended.ids == [polls, listens] and ended.interrupted == [truncated] * 2
    assert ended.floats().tolist() == [[1, age[0] + at, 1], [1, age[1] + at, 1]]
    assert ended.reward == [at + (100 if ordered == TERMINATE else 0)] * 2
    assert decided.reward == [0, 0] and not set(decided.ids) & set(ended.ids)
    waited = int(
        at == 8 and ordered != JUMP
    )  # for the game that polls, and places the body in the frame after
    since = [8 + waited - at - (ordered != JUMP), 8 + waited - at]
    assert decided.floats().tolist() == [[2, since[0], 1], [2, since[1], 1]]


def test_an_episode_is_truncated_after_so_many_frames(play):
    game = play(PUPPETS)
    game.start()
    message, frames, ended = game.reset(), 0, None
    while not ended or not ended.ids:
        message, frames = order(game, message), frames + 8
        ended = steps(message, TEAM_0)[1]
    assert frames == 104 and ended.interrupted == [1]
    assert ended.floats()[0, :2].tolist() == [1, 100]


def test_ids_are_never_used_twice(play):
    game = play(PUPPETS)
    game.start()
    message, seen = game.reset(), set()
    for turn in range(30):
        for key in (TEAM_0, TEAM_1):
            decided, ended = steps(message, key)
            seen |= set(ended.ids)
            assert not seen & set(decided.ids)
        if turn % 7 == 6:
            for key in (TEAM_0, TEAM_1):
                seen |= set(steps(message, key)[0].ids)
            message = game.reset()
            assert all(steps(message, key)[1].ids == [] for key in (TEAM_0, TEAM_1)), (
                "a reset has no terminal steps"
            )
        else:
            everyone = dict.fromkeys(steps(message, TEAM_0)[0].ids[turn % 2 :], TERMINATE)
            message = order(game, message, everyone, at=1 + turn % 8)
    assert len(seen) > 30


@pytest.mark.parametrize("seed", range(3))
def test_whatever_happens_each_episode_has_one_id_and_one_end(play, seed):
    """Agents end, leave, come, share groups and change scenes at random."""
    random = np.random.default_rng(seed)
    game = play(PUPPETS)
    game.start()
    message, waiting, newest = game.reset(), set(), 0
    for _ in range(150):
        decided, ended = [], []
        for key in message["behaviors"]:
            decisions, ends = steps(message, key)
            decided += decisions.ids
            ended += ends.ids
        assert len(set(decided)) == len(decided) and len(set(ended)) == len(ended)
        assert set(ended) == waiting - set(decided), "who waited decides again or has ended, never both"
        begun = set(decided) - waiting
        assert all(k > newest for k in begun)
        newest, waiting = max(begun, default=newest), set(decided)
        if random.random() < 0.05:
            message, waiting = game.reset(), set()
            continue
        orders = {k: int(random.integers(MISBEHAVE)) for k in decided if random.random() < 0.3}
        orders[decided[0]] = GO_ON if random.random() < 0.9 else RELOAD  # so that somebody stays
        message = order(game, message, orders, at=int(random.integers(1, 9)))
    assert newest > 50


@pytest.mark.parametrize(
    ("ordered", "truncated", "age"),
    [(VANISH, 1, 3), (END_AND_VANISH, 0, 3), (VANISH_AT_ONCE, 1, 0)],
    ids=["queue_free", "end_episode, queue_free", "free outside of a physics frame"],
)
def test_an_agent_that_leaves_ends_and_does_not_begin_again(play, ordered, truncated, age):
    game = play(PUPPETS)
    game.start()
    message = game.reset(scale=1.0)
    rival = steps(message, TEAM_1)[0]
    start = rival.floats()[0, 1]
    message = order(game, message, {rival.ids[0]: ordered})
    decided, ended = steps(message, TEAM_1)
    assert decided.ids == [] and ended.ids == rival.ids and ended.interrupted == [truncated]
    assert ended.floats().tolist() == [[1, start + age, 1]]
    assert TEAM_1 not in order(game, message)["behaviors"]


def test_an_agent_that_comes_announces_its_behavior_and_decides(play):
    game = play(PUPPETS)
    game.start()
    message = game.reset()
    listens = steps(message, TEAM_0)[0].ids[1]
    message = order(game, message, {listens: BRING_ANOTHER})
    (name, spec), *others = message["new_behaviors"].items()
    assert (
        name == "newcomer?team=0" and [a["name"] for a in spec["actions"]] == ["at", "order"] and not others
    )
    newcomer = steps(message, name)[0]
    assert newcomer.ids == [4] and newcomer.reward == [0] and newcomer.group == [1]
    assert "new_behaviors" not in order(game, message)


def test_members_of_a_group_share_its_rewards_and_its_end(play):
    game = play(PUPPETS)
    game.start()
    message = game.reset()
    polls, listens = steps(message, TEAM_0)[0].ids
    message = order(game, message, {polls: REWARD_GROUP})
    decided, _ = steps(message, TEAM_0)
    assert decided.group == [1, 1] and decided.group_reward == [5, 5] and decided.reward == [8, 8]
    assert steps(message, TEAM_1)[0].group == [0]
    message = order(game, message, {polls: VANISH, listens: REWARD_GROUP}, at=2)
    decided, ended = steps(message, TEAM_0)
    assert decided.ids == [listens] and decided.group_reward == [5], (
        "and the one that leaves has its own part"
    )
    assert ended.ids == [polls] and ended.group == [1]
    message = order(game, message, {listens: END_GROUP})
    _, ended = steps(message, TEAM_0)
    assert ended.ids == [listens] and ended.group_reward == [7] and ended.interrupted == [0]


def test_impossible_choices_are_masked(play):
    game = play(PUPPETS)
    game.start()
    message = game.reset()
    assert steps(message, TEAM_0)[0].mask == []
    polls, _ = steps(message, TEAM_0)[0].ids
    message = order(game, message, {polls: TERMINATE})
    assert steps(message, TEAM_0)[0].mask == [[[1, *[0] * 12, 1], [0] * 14]]


def test_parameters_arrive_before_the_bodies_are_placed(play):
    game = play(PUPPETS)
    game.start()
    assert steps(game.reset(), TEAM_0)[0].floats()[:, 2].tolist() == [-1, -1], "the game's own default"
    message = game.reset(scale=0.5, other=3.0)
    assert steps(message, TEAM_0)[0].floats()[:, 2].tolist() == [0.5, 0.5]
    decided = steps(message, TEAM_0)[0]
    message = game.act({TEAM_0: actions(decided.ids, [[0.0]] * 2, [[GO_ON]] * 2)}, scale=0.75)
    assert steps(message, TEAM_0)[0].floats()[:, 2].tolist() == [0.75, 0.75]
    assert steps(game.reset(), TEAM_0)[0].floats()[:, 2].tolist() == [0.75, 0.75], (
        "a value holds until the next one"
    )


def test_a_game_may_bring_other_agents_when_it_is_reset(play):
    game = play("res://game/manager.tscn")
    game.start()
    assert steps(game.reset(), TEAM_0)[0].ids == [1]
    decided, ended = steps(game.reset(agents=3.0), TEAM_0)
    assert len(decided.ids) == 3 and min(decided.ids) > 1 and not ended.ids
    decided, ended = steps(order(game, game.reset(agents=2.0)), TEAM_0)
    assert len(decided.ids) == 2 and not ended.ids


def test_statistics_are_sent_once(play):
    game = play(PUPPETS)
    game.start()
    message = game.reset()
    rival = steps(message, TEAM_1)[0]
    message = order(game, message, {rival.ids[0]: JUMP})
    assert message["statistics"] == [["Puppet/Age", rival.floats()[0, 1] + 3, 2]]
    assert "statistics" not in order(game, message)


def test_mixed_actions_tables_choices_and_pictures(play):
    game = play("res://game/painters.tscn")
    spec = game.start()["behaviors"]["painter?team=0"]
    assert [(o["name"], o["shape"], o["type"]) for o in spec["observations"]] == [
        ("heard", [5], "float"),
        ("gear", [4], "float"),
        ("table", [2, 3], "float"),
        ("camera_2d", [3, 38, 40], "image"),
        ("gray_2d", [1, 2, 3], "image"),
        ("hex_2d", [3, 1, 2], "image"),
    ]
    ids = steps(game.reset(), "painter?team=0")[0].ids
    numbers = np.arange(12).reshape(4, 3) / 16
    choices = np.array([[0, 1], [2, 0], [0, 0], [2, 1]])
    decided, _ = steps(game.act({"painter?team=0": actions(ids, numbers, choices)}), "painter?team=0")
    heard = np.column_stack([choices[:, 0], numbers[:, :2], choices[:, 1], numbers[:, 2]])
    np.testing.assert_array_equal(decided.floats(0), heard)
    assert decided.floats(1).tolist() == [[0, 0, 1, 0]] * 4
    assert decided.floats(2).tolist() == [[1, 2, 3, 4, 5, 6]] * 4
    columns, rows = np.meshgrid(np.arange(40), np.arange(38))
    np.testing.assert_array_equal(
        decided.pixels((3, 38, 40), 3),
        np.broadcast_to(np.dstack([columns, rows, np.full((38, 40), 200)]), (4, 38, 40, 3)),
    )
    assert decided.pixels((1, 2, 3), 4)[0].ravel().tolist() == [0, 0, 0, 0, 0, 77]
    assert decided.pixels((3, 1, 2), 5)[0].ravel().tolist() == [1, 2, 3, 4, 5, 6]
    assert decided.mask == [[[0, 1, 0]] * 4, [[0, 0]] * 4]


def test_the_last_picture_is_kept_though_the_game_draws_into_it_again(play, project):
    text = (project / "game" / "painter.gd").read_text()
    drawn = "Image.create(SIDE, SIDE - 2, false, Image.FORMAT_RGBA8)"
    text = text.replace(f"var image := {drawn}", "var image := canvas").replace(
        "200", "Engine.get_physics_frames() % 256"
    )
    text = text.replace("## What set_action", f"var canvas := {drawn}\n## What set_action")
    (project / "game" / "redrawer.gd").write_text(text)
    scene = (project / "game" / "painters.tscn").read_text().replace("painter.gd", "redrawer.gd")
    scene = scene.replace('policy_name = "painter"', 'policy_name = "painter"\nreset_after = 3')
    (project / "game" / "redrawers.tscn").write_text(scene)
    game = play("res://game/redrawers.tscn")
    game.start()
    message = game.reset()
    for _ in range(2):
        ids = steps(message, "painter?team=0")[0].ids
        message = game.act({"painter?team=0": actions(ids, np.zeros((4, 3)), np.zeros((4, 2)))})
    decided, ended = steps(message, "painter?team=0")
    last, first = (int(seen.pixels((3, 38, 40), 3)[0, 0, 0, 2]) for seen in (ended, decided))
    assert first - last == 2, "a game that has never answered needs_reset is not waited for"


def test_a_game_that_changes_its_scene_keeps_its_trainer(play):
    game = play(PUPPETS)
    game.start()
    message = game.reset(scale=4.0)
    rival = steps(message, TEAM_1)[0].ids[0]
    message = order(game, message, {rival: RELOAD})
    for key, agents in ((TEAM_0, [1, 2]), (TEAM_1, [3])):
        _, ended = steps(message, key)
        assert sorted(ended.ids) == agents and ended.interrupted == [1] * len(agents)
    decided = steps(message, TEAM_0)[0]
    assert decided.ids == [4, 5] and decided.floats()[:, 2].tolist() == [4, 4], "parameters stay"
    assert steps(order(game, message), TEAM_0)[0].ids == [4, 5]
