"""Sessions of Lanista's addon in the real engine: both dialects, large messages, ends and errors."""

import socket
import subprocess

import pytest
from godot_trainer import actions, steps
from puppets import (
    BRING_ANOTHER,
    GO_ON,
    MISBEHAVE,
    PUPPETS,
    TEAM_0,
    TEAM_1,
    TERMINATE,
    TRUNCATE,
    VANISH,
    order,
)

CHASE = "res://game/chase.tscn"


def test_a_message_larger_than_any_buffer_arrives_whole(play, project):
    big = (project / "game" / "painter.gd").read_text().replace("SIDE := 40", "SIDE := 600")
    (project / "game" / "big_painter.gd").write_text(big)
    scene = (project / "game" / "painters.tscn").read_text().replace("painter.gd", "big_painter.gd")
    (project / "game" / "big_painters.tscn").write_text(scene)
    game = play("res://game/big_painters.tscn")
    game.start()
    game.send({"type": "reset", "padding": "é" * 3_000_000})  # and one to the game
    decided, _ = steps(game.receive(), "painter?team=0")
    picture = decided.pixels((3, 598, 600), 3)
    assert picture.shape == (4, 598, 600, 3) and (picture[..., 2] == 200).all()


def test_the_trainer_of_godot_rl_agents_is_answered_in_its_own_words(play):
    game = play(PUPPETS)
    action = {
        "at": {"size": 1, "action_type": "continuous"},
        "order": {"size": 14, "action_type": "discrete"},
    }
    assert game.start(lanista=False) == {
        "type": "env_info",
        "observation_space": [{"obs": {"size": [3], "space": "box"}}] * 3,
        "action_space": [action] * 3,
        "n_agents": 3,
        "agent_policy_names": ["puppet"] * 3,
    }
    reset = game.ask({"type": "reset"})
    assert reset == {
        "type": "reset",
        "obs": [{"obs": [1, 0, -1]}, {"obs": [1, 1, -1]}, {"obs": [1, 1, -1]}],
        "info": [{"resets": 1}] * 3,
    }
    ordered = [{"at": [3 / 16], "order": k} for k in (TERMINATE, TRUNCATE, GO_ON)]
    step = game.ask({"type": "action", "action": ordered})
    assert step == {
        "type": "step",
        "obs": [{"obs": [2, 4, -1]}, {"obs": [2, 5, -1]}, {"obs": [1, 9, -1]}],
        "reward": [103, 3, 8],
        "done": [True, True, False],
        "info": [
            {"resets": 2, "TimeLimit.truncated": False, "terminal_observation": {"obs": [1, 3, -1]}},
            {"resets": 2, "TimeLimit.truncated": True, "terminal_observation": {"obs": [1, 4, -1]}},
            {"resets": 1},
        ],
    }
    assert game.ask({"type": "action", "action": ordered[2:]})["done"] == [False] * 3, (
        "fewer actions than agents"
    )


def test_pictures_go_to_the_trainer_of_godot_rl_agents_in_hex(play):
    game = play("res://game/painters.tscn")
    game.start(lanista=False)
    observed = game.ask({"type": "reset"})["obs"][0]
    assert len(bytes.fromhex(observed["camera_2d"])) == 38 * 40 * 3 and observed["gray_2d"] == "00000000004d"
    assert observed["gear"] == 2 and observed["table"] == [[1, 2, 3], [4, 5, 6]]


def test_methods_of_agents_are_called(play):
    game = play(CHASE)
    game.start(lanista=False)
    assert game.ask({"type": "call", "method": "hello"})["returns"] == ["hello from Agent"] * 4
    assert game.ask({"type": "call", "method": "sing"})["returns"] == [None] * 4
    game.send({"type": "close"})
    status, printed = game.ended()
    assert status == 0 and "the trainer calls sing(), which /root/Root/Chaser0/Agent does not have" in printed


def test_a_faster_game_has_the_same_frames(play):
    game = play(PUPPETS, "--speedup=6")
    game.start()
    message = game.reset()
    for turn in range(1, 4):
        message = order(game, message)
        assert steps(message, TEAM_0)[0].floats()[:, 1].tolist() == [8 * turn, 8 * turn + 1]


def test_modes_without_a_trainer(godot_engine, project):
    """The game itself decides, and no trainer is looked for."""
    scene = (
        (project / "game" / "puppets.tscn")
        .read_text()
        .replace('[node name="Team"', 'control_mode = 0\n\n[node name="Team"')
    )
    (project / "game" / "modes.tscn").write_text(scene)
    command = [godot_engine, "--headless", "--path", project, "res://game/modes.tscn", "--fixed-fps", "60"]
    command += ["--port=1", "--quit-after", "200"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "ERROR" not in done.stderr, done.stderr


def test_a_speed_of_nothing_is_refused(godot_engine, project):
    command = [godot_engine, "--headless", "--path", project, CHASE, "--speedup=fast", "--fixed-fps", "60"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "--speedup=fast is no positive number" in done.stderr


@pytest.mark.parametrize("lanista", [False, True])
def test_the_game_ends_with_the_trainer(play, lanista):
    closed, gone, killed = play(CHASE), play(CHASE), play(CHASE)
    for game in (closed, gone, killed):
        game.start(lanista)
        game.reset()
    closed.send({"type": "close"})
    gone.socket.close()
    killed.socket.sendall(b"\x10\x00")  # in the midst of a message
    killed.socket.close()
    for game in (closed, gone, killed):
        status, printed = game.ended()
        assert status == 0 and "ERROR" not in printed


def test_another_host_can_be_dialed(godot_engine, project):
    with socket.create_server(("127.0.0.2", 0)) as listener:
        listener.settimeout(120)
        port = listener.getsockname()[1]
        command = [godot_engine, "--headless", "--path", project, CHASE, "--host=127.0.0.2", f"--port={port}"]
        game = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        listener.accept()[0].close()
        assert game.wait(120) == 0


@pytest.mark.slow
def test_a_game_that_finds_no_trainer_says_so(godot_engine, project):
    """Started by a trainer, which gives the port, it ends; started by hand it is played by hand."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    scene = (project / "game" / "chase.tscn").read_text()
    (project / "game" / "alone.tscn").write_text(f"{scene}port = {port}\n")
    command = [godot_engine, "--headless", "--path", project, "res://game/alone.tscn", "--fixed-fps", "60"]
    done = subprocess.run([*command, f"--port={port}"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and f"no trainer listens on 127.0.0.1:{port}" in done.stderr
    done = subprocess.run([*command, "--quit-after", "20"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert f"no trainer listens on 127.0.0.1:{port}, so the game itself decides" in done.stderr


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ({"type": "dance"}, "a message of the type dance, which this addon does not know"),
        (
            {"type": "action", "behaviors": {"nobody?team=0": actions([1])}},
            "the behavior nobody?team=0, which no agent has",
        ),
        (
            {"type": "action", "behaviors": {TEAM_1: actions([9], [[0.0]], [[0]])}},
            "the agent 9 of puppet?team=1, which does not",
        ),
        (
            {"type": "action", "behaviors": {TEAM_1: actions([3], [[0.0]])}},
            "1 numbers and 0 choices for 1 agents of puppet?team=1",
        ),
        ([1], "the trainer's message is no JSON object: [1]"),
    ],
    ids=["type", "behavior", "agent", "columns", "no object"],
)
def test_what_a_trainer_must_not_say_ends_the_game(play, message, told):
    game = play(PUPPETS)
    game.start()
    game.reset()
    game.send(message)
    status, printed = game.ended()
    assert status == 1 and told in printed


@pytest.mark.parametrize(
    ("mischief", "told"),
    [
        ("", "get_obs() of /root/Root/Rival gives under 'obs' 2 numbers. Expected: 3 numbers"),
        (
            "nothing",
            "get_obs() of /root/Root/Rival gives under 'obs' nothing: is there a script error above?",
        ),
        (
            "script error",
            "SCRIPT ERROR: Invalid access to property or key 'position' on a base object of type 'Nil'",
        ),
    ],
)
def test_wrong_observations_end_the_game_with_the_name_of_the_node(play, project, mischief, told):
    scene = (project / "game" / "puppets.tscn").read_text()
    (project / "game" / "mischief.tscn").write_text(
        scene.replace("team_id = 1", f'team_id = 1\nmischief = "{mischief}"')
    )
    game = play("res://game/mischief.tscn")
    game.start()
    message = game.reset()
    with pytest.raises(EOFError) as ended:
        order(game, message, {steps(message, TEAM_1)[0].ids[0]: MISBEHAVE})
    assert told in str(ended.value) and "get_obs() of /root/Root/Rival" in str(ended.value)
    assert game.ended()[0] == 1


@pytest.mark.parametrize(
    ("script", "found", "written", "told"),
    [
        (
            "painter.gd",
            '{"size": 3, "action_type": "discrete"}',
            '{"size": 3, "action_type": "digital"}',
            "says of 'color'",
        ),
        (
            "painter.gd",
            '{"size": [5], "space": "box"}',
            '{"size": 5, "space": "box"}',
            "get_obs_space() of /root/Root/Painter0",
        ),
        ("painter.gd", "[3, SIDE - 2, SIDE]", "[2, SIDE - 2, SIDE]", "has 2 channels"),
        ("painter.gd", "[3, SIDE - 2, SIDE]", "[3, SIDE, SIDE]", "under 'camera_2d' a picture of 40 x 38"),
        ("painter.gd", '{"color": [1]}', '{"color": [3]}', "names the choice 3 of 'color', which has 3"),
        ("painter.gd", '{"color": [1]}', '{"colour": [1]}', "names 'colour', which is no discrete action"),
        ("painter.gd", '{"color": [1]}', '{"lift": [0, 1]}', "leaves no choice of 'lift'"),
        (
            "painter.gd",
            "func get_obs_space():",
            "func get_obs_space():\n\treturn 1\n\n\nfunc other():",
            "gives 1",
        ),
        (
            "painter.gd",
            '"heard": heard',
            '"heard": [1, 2, 3, 4, Vector2(1, 2)]',
            "a Vector2 in the list ((1.0, 2.0))",
        ),
        ("painter.gd", "[[1.0, 2.0, 3.0],", "[[1.0, null, 3.0],", "a Nil in the list (<null>)"),
        ("painter.gd", '"gear": 2', '"gear": 4', "Expected: one of 4 choices"),
        ("painter.gd", '"size": [5]', '"size": [5 + get_index()]', "and differ"),
    ],
)
def test_wrong_spaces_and_masks_end_the_game_with_a_sentence(play, project, script, found, written, told):
    text = (project / "game" / script).read_text()
    assert found in text
    (project / "game" / "wrong.gd").write_text(text.replace(found, written))
    scene = (project / "game" / "painters.tscn").read_text().replace(script, "wrong.gd")
    (project / "game" / "wrong.tscn").write_text(scene)
    game = play("res://game/wrong.tscn")
    with pytest.raises(EOFError) as ended:
        game.start()
        game.reset()
    assert told in str(ended.value) and "/root/Root/Painter" in str(ended.value)
    assert game.ended()[0] == 1


def test_agents_of_godot_rl_agents_and_a_second_sync_are_told(play, project):
    """Left over in a scene, they would be waited for in vain."""
    scene = (project / "game" / "puppets.tscn").read_text()
    scene += '[node name="Other" type="Node" parent="."]\nscript = ExtResource("2")\n'
    scene += '[node name="Left" type="Node2D" parent="." groups=["AGENT"]]\n'
    (project / "game" / "left_over.tscn").write_text(scene)
    game = play("res://game/left_over.tscn")
    game.start()
    ages = steps(order(game, game.reset()), TEAM_0)[0].floats()[:, 1]
    assert ages.tolist() == [8, 9], "one of the two counts"
    game.send({"type": "close"})
    status, printed = game.ended()
    assert (
        status == 0
        and "/root/Root/Other does nothing, since the scene has /root/Root/Sync already" in printed
    )
    assert "/root/Root/Left is no agent of this addon: let its script extend LanistaAgent2D" in printed


@pytest.mark.parametrize(
    ("ordered", "told"),
    [
        (VANISH, "/root/Root/Rival has left the scene"),
        (BRING_ANOTHER, "/root/Root/Newcomer came after the start"),
    ],
)
def test_the_trainer_of_godot_rl_agents_is_not_given_agents_that_come_or_go(play, ordered, told):
    game = play(PUPPETS)
    game.start(lanista=False)
    game.ask({"type": "reset"})
    orders = [{"at": [3 / 16], "order": k} for k in (GO_ON, GO_ON, ordered)]
    with pytest.raises(EOFError, match=told):
        game.ask({"type": "action", "action": orders})
    assert game.ended()[0] == 1
