"""What Godot's games have recorded becomes demonstrations, and bad files become sentences."""

import json

import numpy as np
import pytest
from godot_trainer import encode
from hypothesis import given
from hypothesis import strategies as st
from lanista.envs.demonstrations.demonstration import read_demonstration
from lanista.envs.errors import DemonstrationError
from lanista.envs.godot.demonstrations import read_recording
from lanista.envs.named_actions import NamedAction
from lanista.trainers.cli.main import run

MOVE, JUMP, TURN = (
    NamedAction("move", 2, "continuous"),
    NamedAction("jump", 2, "discrete"),
    NamedAction("turn", 3, "discrete"),
)
HEADER = {"type": "demonstrations", "lanista": 1, "addon_version": "1.0.0", "action_repeat": 8}
SPEC = {
    "observations": [{"name": "obs", "shape": [2], "type": "float"}],
    "actions": [
        {"name": "move", "size": 1, "action_type": "continuous"},
        {"name": "turn", "size": 3, "action_type": "discrete"},
    ],
}
KEY = "walker?team=0"


def episode(number=1, count=3, **changes):
    """A line of the addon: an episode of so many decisions. `changes`: of its decision, terminal, actions."""
    ids, obs = [number] * count, np.arange(2 * count).reshape(count, 2) + number
    parts = {
        "decision": {
            "ids": encode(ids, "<i4"),
            "reward": encode(np.arange(count), "<f4"),
            "obs": [encode(obs, "<f4")],
            "mask": [encode([[0, 1, 0]] * count, "u1")],
        },
        "terminal": {
            "ids": encode([number], "<i4"),
            "reward": encode([9.0], "<f4"),
            "obs": [encode([[5.0, 6.0]], "<f4")],
            "interrupted": encode([1], "u1"),
        },
        "actions": {
            "ids": encode(ids, "<i4"),
            "continuous": encode(np.linspace(-1, 1, count), "<f4"),
            "discrete": encode([2] * count, "<i4"),
        },
    }
    for part, new in changes.items():
        parts[part] = {**parts[part], **new}
    actions = parts.pop("actions")
    return {"type": "episode", "behaviors": {KEY: parts}, "actions": {KEY: actions}}


def described(line):
    return {**line, "new_behaviors": {KEY: SPEC}}


def written(path, *lines, end="\n"):
    path.write_text("\n".join(map(json.dumps, lines)) + end)
    return path


def convert(path, *arguments):
    return run(["demo", "convert", str(path), "-o", str(path.parent / "out"), *arguments])


def test_a_line_of_the_addon_is_an_episode_with_all_it_says(tmp_path):
    path = written(tmp_path / "a.jsonl", HEADER, described(episode(1)), episode(2, 1))
    assert convert(path) == 0
    demo = read_demonstration(tmp_path / "out" / "walker.demo")
    assert demo.behavior == KEY and demo.done.tolist() == [False, False, False, True, False, True]
    assert demo.obs[0].tolist() == [[1, 2], [3, 4], [5, 6], [5, 6], [2, 3], [5, 6]]
    assert demo.reward.tolist() == [0, 1, 2, 9, 0, 9] and demo.interrupted.sum() == 2
    assert demo.continuous[:3, 0].tolist() == [-1, 0, 1] and demo.discrete[:3, 0].tolist() == [2, 2, 2]
    assert demo.action_mask[:3].tolist() == [[False, True, False]] * 3 and not demo.action_mask[3].any()


def test_an_episode_that_was_taken_back_is_left_out(tmp_path):
    lines = [HEADER, described(episode(1)), episode(2), {"type": "remove_last"}, episode(3)]
    found = read_recording(written(tmp_path / "a.jsonl", *lines), "x", [])
    assert [int(each.decisions.agent_id[0]) for each in found.episodes] == [1, 3]


def test_a_killed_game_leaves_what_it_had_finished(tmp_path, capsys):
    path = written(tmp_path / "a.jsonl", HEADER, described(episode(1)), episode(2), end="")
    path.write_bytes(path.read_bytes()[:-20])
    assert convert(path) == 1
    assert f"{path}: line 3 is cut" in capsys.readouterr().err
    assert convert(path, "--partial") == 0
    assert f"{path}: line 3 is cut, so an episode is missing." in capsys.readouterr().out
    assert len(read_demonstration(tmp_path / "out" / "walker.demo")) == 4


LONG = encode([2] * 4, "<i4")
NAN = encode([[1.0, np.nan]] * 3, "<f4")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (episode(decision={"obs": []}), "line 3: behavior 'walker?team=0', decision: obs has 0 columns"),
        (episode(decision={"obs": [NAN]}), "observation 'obs' 0 has a number that is not finite"),
        (episode(decision={"reward": encode([np.inf] * 3, "<f4")}), "reward 0 has a number that is not"),
        (episode(decision={"ids": encode([1, 1, 2], "<i4")}), "it has the ids [1, 2]; expected one id"),
        (episode(actions={"ids": LONG}), "actions: continuous has 12 bytes; expected 4 for each of 4 agents"),
        (
            episode(actions={"ids": LONG, "continuous": LONG, "discrete": LONG}),
            "it has 3 observations, 4 actions and 1 ends",
        ),
        (episode(actions={"discrete": None}), "actions: discrete is missing"),
        (episode(actions={"discrete": encode([0, 3, 0], "<i4")}), "branch 0 of action 1 is 3; expected a"),
        (episode(actions={"continuous": encode([0, 0, np.nan], "<f4")}), "action 2 has a number that is not"),
        ({**episode(), "actions": {}}, "actions is missing, not an object"),
        ({**episode(), "actions": 3}, "actions is missing, not an object"),
        ({**episode(), "behaviors": {}}, "line 3: it has 0 behaviors; expected one"),
        ({**episode(), "behaviors": {"runner?team=0": {}}}, "'runner?team=0' was never described"),
        ({**episode(), "new_behaviors": {KEY: {**SPEC, "actions": []}}}, "it has no actions"),
        ({"type": "step"}, "line 3: its type is 'step'; expected 'episode'"),
        (HEADER, "line 3: its type is 'demonstrations'; expected 'episode'"),
        ([1], "line 3: its type is [1]; expected 'episode'"),
    ],
)
def test_what_is_wrong_in_a_line_is_named(tmp_path, line, told):
    path = written(tmp_path / "a.jsonl", HEADER, described(episode(1)), line)
    with pytest.raises(DemonstrationError) as error:
        read_recording(path, "x", [])
    assert told in str(error.value) and str(path) in str(error.value)


def test_another_file_of_lines_is_refused(tmp_path):
    for lines, told in (
        ([described(episode())], "line 1: its type is 'episode'; expected 'demonstrations'"),
        ([{"type": "remove_last"}], "line 1: its type is 'remove_last'"),
        ([HEADER], "it has no finished episode"),
        ([{**HEADER, "lanista": 2}], "version 2"),
    ):
        with pytest.raises(DemonstrationError, match=told.replace("?", r"\?")):
            read_recording(written(tmp_path / "a.jsonl", *lines), "x", [])


def trajectories(path, *found):
    path.write_text(json.dumps(found))
    return path


WALK = [[[0, 1.5], [2, 3], [4, 5]], [[0.5, -1, 0], [1, 1, 2]]]


def test_trajectories_of_godot_rl_agents_become_a_demonstration(tmp_path, capsys):
    path = trajectories(tmp_path / "a.json", WALK, [[[7, 8]], []], [[[7, 8], [9, 9]], [[0, 0, 1]]])
    options = ["--actions", "move:continuous:2", "turn:discrete:3", "--behavior", "walker"]
    assert convert(path, *options) == 0
    assert "episode 1 ended before its first action" in capsys.readouterr().out
    demo = read_demonstration(tmp_path / "out" / "walker.demo")
    assert demo.obs[0].tolist() == [[0, 1.5], [2, 3], [4, 5], [7, 8], [9, 9]]
    assert demo.done.tolist() == [False, False, True, False, True] and not demo.interrupted.any()
    assert demo.continuous[[0, 1, 3]].tolist() == [[0.5, -1], [1, 1], [0, 0]]
    assert demo.discrete[[0, 1, 3], 0].tolist() == [0, 2, 1] and not demo.reward.any()


def test_a_choice_of_two_beside_continuous_actions_is_read_as_godot_rl_reads_it(tmp_path):
    path = trajectories(tmp_path / "a.json", [[[0], [0], [0]], [[0.5, 0, -1.0], [0, 0, 0.25]]])
    found = read_recording(path, "x", [MOVE, JUMP])
    assert found.episodes[0].actions.discrete.tolist() == [[0], [1]]
    path = trajectories(tmp_path / "b.json", [[[0], [0]], [[-1]]])
    with pytest.raises(DemonstrationError, match="'jump' of action 0 is -1; expected a whole number from 0"):
        read_recording(path, "x", [JUMP])


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ([[WALK[0], WALK[1][:1]]], "episode 0 has 3 observations and 1 actions; expected one observation"),
        ([[WALK[0]]], "expected [observations, actions]"),
        ([{"obs": []}], "episode 0 is {'obs': []}; expected [observations, actions]"),
        ([[3, [1]]], "episode 0 is [3, [1]]; expected [observations, actions]"),
        ([WALK, [[[0, 1], [2]], [[0, 0, 0]]]], "episode 1, observation 1 has 1 numbers; expected 2"),
        ([[[[0, 1], [2, 3]], [[0, 0]]]], "episode 0, action 0 has 2 numbers; expected 3"),
        ([[[[0, 1], None], [[0, 0, 0]]]], "episode 0, observation 1 is missing; expected a list of numbers"),
        ([[[[0, "1"], [0, 1]], [[0, 0, 0]]]], "observation 0 is [0, '1']; expected a list of numbers"),
        ([[[[0, [1]], [0, 1]], [[0, 0, 0]]]], "observation 0 is [0, [1]]; expected a list of numbers"),
        ([[[[0, 10**400], [0, 1]], [[0, 0, 0]]]], "observation 0 is [0, 1000"),
        ([[[[0, 1], [0, float("inf")]], [[0, 0, 0]]]], "observation 1 has a number that is not finite"),
        ([[[[0, 1], [0, 1]], [[0, 0, 3]]]], "'turn' of action 0 is 3; expected a whole number from 0 to 2"),
        ([[[[0, 1], [0, 1]], [[0, 0, 0.5]]]], "'turn' of action 0 is 0.5; expected a whole number"),
        ([[[[], []], [[0, 0, 0]]]], "episode 0, observation 0 has 0 numbers"),
        ([], "it has no finished episode"),
        (3, "it is 3; expected a list of trajectories"),
    ],
)
def test_what_is_wrong_in_a_trajectory_is_named(tmp_path, found, told):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(found))
    with pytest.raises(DemonstrationError) as error:
        read_recording(path, "x", [MOVE, TURN])
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "it is no JSON"),
        (json.dumps([WALK]).encode()[:-9], "Was it cut?"),
        (b"[" * 100_000, "it is nested too deeply to be a demonstration"),
        (b"[[[" + b"[" * 200 + b"]" * 200 + b", 1], [[0, 0, 0]]]]", "observation 0 is [[["),
        (b"\xff\xfe[]", "it is no JSON"),
        (b'{"type":"demonstrations","lanista":1,\n', "line 1 is no JSON"),
    ],
)
def test_what_is_no_recording_is_told_in_a_line(tmp_path, capsys, data, told):
    (tmp_path / "a.json").write_bytes(data)
    assert convert(tmp_path / "a.json", "--actions", "move:continuous:2", "turn:discrete:3") == 1
    error = capsys.readouterr().err
    assert told in error and error.count("\n") == 1 and str(tmp_path / "a.json") in error
    assert not (tmp_path / "out").exists()


def test_the_command_says_what_it_needs(tmp_path, capsys):
    path = trajectories(tmp_path / "a.json", WALK)
    assert convert(path) == 1
    assert "--actions move:continuous:2 jump:discrete:2" in capsys.readouterr().err
    assert run(["demo", "convert", str(path), "-o", str(tmp_path / "a.demo")]) == 1
    assert "expected a folder" in capsys.readouterr().err
    assert run(["demo", "convert", str(tmp_path / "none.json"), "-o", str(tmp_path)]) == 1
    assert "none.json: it cannot be read: No such file" in capsys.readouterr().err
    for wrong in ("move", "move:continuous:0", "move:box:2", ":discrete:3", "a:b"):
        with pytest.raises(SystemExit):
            convert(path, "--actions", wrong)
        assert f"'{wrong}' is not NAME:TYPE:SIZE" in capsys.readouterr().err
    other = trajectories(tmp_path / "b.json", [[[0], [0]], [[0, 0, 0]]])
    options = ["--actions", "move:continuous:2", "turn:discrete:3"]
    assert run(["demo", "convert", str(path), str(other), "-o", str(tmp_path / "out"), *options]) == 1
    assert "has other observations or actions in" in capsys.readouterr().err


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@given(values, st.data())
def test_whatever_a_file_has_is_read_or_named(tmp_path_factory, value, data):
    """One value of a good file is replaced: at most a DemonstrationError."""
    path = tmp_path_factory.getbasetemp() / "replaced"
    lines = [HEADER, described(episode(1)), episode(2)]
    trajectory = data.draw(st.booleans())
    root = [json.loads(json.dumps(WALK))] if trajectory else json.loads(json.dumps(lines))
    at = root
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(at[key], (dict, list)) or not at[key] or data.draw(st.booleans()):
            break
        at = at[key]
    at[key] = value
    path.write_text(json.dumps(root) if trajectory else "\n".join(map(json.dumps, root)) + "\n")
    try:
        found = read_recording(path, "x", [MOVE, TURN])
    except DemonstrationError:
        return
    assert found.episodes
