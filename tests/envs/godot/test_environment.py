"""What a game that speaks godot_rl_agents' protocol, or Lanista's, becomes: steps, episodes, actions, "
"errors."""

import base64
import json
import threading
import tracemalloc

import numpy as np
import pytest
from lanista.envs.errors import WireError
from lanista.envs.godot import messages, spaces
from lanista.envs.godot.environment import GodotEnvironment
from lanista.envs.named_actions import actions_of
from mlagents_envs.base_env import ActionTuple
from mlagents_envs.exception import (
    UnityCommunicationException,
    UnityCommunicatorStoppedException,
    UnityEnvironmentException,
    UnityException,
    UnityTimeOutException,
)
from scripted_engine import free_port
from scripted_game import ScriptedGame

BOX = {"obs": {"size": [2], "space": "box"}}
MOVE = {"move": {"size": 2, "action_type": "continuous"}}
MIXED = {
    "turn": {"size": 3, "action_type": "discrete"},
    "move": {"size": 2, "action_type": "continuous"},
    "jump": {"size": 2, "action_type": "discrete"},
}


def info(count=2, observations=BOX, actions=MOVE, **keys):
    return {
        "type": "env_info",
        "observation_space": [observations] * count,
        "action_space": [actions] * count,
        "n_agents": count,
        "agent_policy_names": ["walker"] * count,
        **keys,
    }


def step(values, rewards=None, done=None, **keys):
    count = len(values)
    return {
        "type": "step",
        "obs": [{"obs": [value, -value]} for value in values],
        "reward": rewards or [0.0] * count,
        "done": done or [False] * count,
        "info": [{}] * count,
        **keys,
    }


RESET = {"type": "reset", "obs": [], "info": []}


@pytest.fixture
def connect():
    """Makes an environment that a game of this script has called."""
    open_ones = []

    def make(script, *, stay=False, timeout=20, **options):
        port = free_port()
        games = []

        def dial():
            while True:
                try:
                    games.append(ScriptedGame(port, script, stay=stay))
                    return
                except ConnectionRefusedError:
                    continue

        thread = threading.Thread(target=dial)
        thread.start()
        try:
            env = GodotEnvironment("godot:", base_port=port, timeout_wait=timeout, **options)
        finally:
            thread.join()
        open_ones.append(env)
        return env, games[0]

    yield make
    for env in open_ones:
        if env._loaded:
            env.close(0.0)


def test_the_first_observations_are_those_after_the_old_actions_have_run_out(connect):
    env, game = connect([info(), RESET, step([1, 2], [9, 9]), step([3, 4], [0.5, 0.25])])
    env.reset()
    decisions, terminals = env.get_steps("walker?team=0")
    assert decisions.obs[0].tolist() == [[1, -1], [2, -2]] and not len(terminals)
    assert decisions.reward.tolist() == [0, 0]  # of the time before the first action
    env.set_actions("walker?team=0", ActionTuple(np.array([[0.5, -0.5], [1, 0]], np.float32)))
    env.step()
    decisions, _ = env.get_steps("walker?team=0")
    assert decisions.reward.tolist() == [0.5, 0.25]
    assert [one["type"] for one in game.received] == ["handshake", "env_info", "reset", "action", "action"]
    assert game.received[3]["action"] == [{"move": [0, 0]}] * 2
    assert game.received[4]["action"] == [{"move": [0.5, -0.5]}, {"move": [1, 0]}]


def test_an_agent_that_is_done_ends_with_what_it_saw_before_and_begins_under_another_id(connect):
    script = [info(), RESET, step([1, 2]), step([3, 4], [0, 1], [False, True]), step([5, 6], [0.5, 0.75])]
    env, _ = connect(script)
    env.reset()
    before = env.get_steps("walker?team=0")[0].agent_id
    env.step()
    decisions, terminals = env.get_steps("walker?team=0")
    assert terminals.agent_id.tolist() == [before[1]] and terminals.reward.tolist() == [1]
    assert terminals.obs[0].tolist() == [[2, -2]] and not terminals.interrupted.any()
    assert decisions.obs[0].tolist() == [[3, -3], [4, -4]] and decisions.reward.tolist() == [0, 0]
    assert decisions.agent_id[0] == before[0] and decisions.agent_id[1] not in before
    env.step()
    assert env.get_steps("walker?team=0")[0].reward.tolist() == [0.5, 0.75]


def test_a_time_limit_and_the_last_observation_are_taken_from_info(connect):
    told = [{"terminal_observation": {"obs": [8, 9]}}, {"TimeLimit.truncated": True}]
    env, _ = connect([info(), RESET, step([1, 2]), step([3, 4], done=[True, True], info=told)])
    env.reset()
    env.step()
    _, terminals = env.get_steps("walker?team=0")
    assert terminals.interrupted.tolist() == [False, True]
    assert terminals.obs[0].tolist() == [[8, 9], [2, -2]]


def test_actions_of_every_kind_go_by_their_names(connect):
    env, game = connect([info(1, actions=MIXED), RESET, step([1]), step([2])])
    env.reset()
    spec = env.behavior_specs["walker?team=0"].action_spec
    assert (spec.continuous_size, spec.discrete_branches) == (2, (3, 2))
    assert [action.name for action in actions_of(spec)] == ["turn", "move", "jump"]
    env.set_actions(
        "walker?team=0", ActionTuple(np.array([[0.5, 1]], np.float32), np.array([[2, 1]], np.int32))
    )
    env.step()
    assert game.received[-1]["action"] == [{"turn": 2, "move": [0.5, 1], "jump": 1}]


def test_policy_names_are_behaviors_and_may_name_teams(connect):
    names = ["red?team=1", "red?team=0", "blue", "red?team=1"]
    env, game = connect([info(4, agent_policy_names=names), RESET, step([1, 2, 3, 4]), step([1, 2, 3, 4])])
    env.reset()
    assert list(env.behavior_specs) == ["red?team=1", "red?team=0", "blue?team=0"]
    assert env.get_steps("red?team=1")[0].obs[0].tolist() == [[1, -1], [4, -4]]
    env.set_actions("red?team=1", ActionTuple(np.array([[1, 1], [2, 2]], np.float32)))
    env.step()
    assert [one["move"] for one in game.received[-1]["action"]] == [[1, 1], [0, 0], [0, 0], [2, 2]]


def test_old_plugins_describe_all_agents_at_once(connect):
    old = {"type": "env_info", "observation_space": BOX, "action_space": MOVE, "n_agents": 2}
    without_info = step([1, 2])
    del without_info["info"]
    env, _ = connect([old, RESET, without_info])
    env.reset()
    assert list(env.behavior_specs) == ["shared_policy?team=0"]
    assert len(env.get_steps("shared_policy?team=0")[0]) == 2


def test_a_discrete_observation_becomes_a_one_of_its_choices(connect):
    space = {"obs": {"size": [2], "space": "box"}, "floor": {"size": 4, "space": "discrete"}}
    first = step([1])
    first["obs"][0]["floor"] = 2
    env, _ = connect([info(1, space), RESET, first])
    env.reset()
    assert env.get_steps("walker?team=0")[0].obs[1].tolist() == [[0, 0, 1, 0]]


@pytest.mark.parametrize("channels", [3, 4])
def test_pictures_are_rows_of_pixels_without_their_opacity(connect, channels):
    space = {"camera_2d": {"size": [3, 2, 5], "space": "box"}}
    pixels = np.arange(2 * 5 * channels, dtype=np.uint8).reshape(2, 5, channels)
    first = {**step([1]), "obs": [{"camera_2d": pixels.tobytes().hex()}]}
    env, _ = connect([info(1, space), RESET, first], images="uint8")
    env.reset()
    found = env.get_steps("walker?team=0")[0].obs[0]
    assert found.dtype == np.uint8 and found.shape == (1, 3, 2, 5)
    assert np.array_equal(found[0], pixels[..., :3].transpose(2, 0, 1))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"n_agents": 0}, "no agents to train"),
        ({"n_agents": 3}, "observation_space has 2 entries for 3 agents"),
        ({"observation_space": [BOX, {}]}, "agent 1: it has no observation space"),
        ({"observation_space": [BOX, None]}, "agent 1: it has no observation space"),
        (
            {"observation_space": [BOX, {"obs": {"size": [3], "space": "box"}}]},
            "agents 0 and 1 have one policy",
        ),
        ({"action_space": [MOVE, {}]}, "agent 1: it has no action space"),
        ({"action_space": [{"a": {"size": 1, "action_type": "odd"}}] * 2}, "action_type is 'odd'"),
        ({"action_space": [{"a": {"size": 0, "action_type": "discrete"}}] * 2}, "a size of 0 is impossible"),
        ({"observation_space": [{"obs": {"size": [2.5], "space": "box"}}] * 2}, "not a whole number"),
        ({"observation_space": [{"obs": {"size": [2], "space": "torus"}}] * 2}, "space is 'torus'"),
        (
            {"observation_space": [{"o": {"size": 3_000_000, "space": "discrete"}}] * 2},
            "3,000,000 choices, each of which becomes a number, are too many",
        ),
        (
            {"n_agents": 2000, "observation_space": {"o": {"size": 60_000, "space": "discrete"}}}
            | {"action_space": MOVE, "agent_policy_names": "a"},
            "60,000 choices are too many",
        ),
        (
            {"observation_space": {f"o{k}": {"size": 1, "space": "box"} for k in range(4097)}},
            "4,097 observations; expected at most 4,096",
        ),
        ({"observation_space": {"o\ud800": {"size": 2, "space": "box"}}}, "name 'o.ud800' holds half"),
        ({"action_space": {"a\udfff": MOVE["move"]}}, "name 'a.udfff' holds half"),
        ({"agent_policy_names": ["a", "b\udc00"]}, "policy name 'b.udc00' holds half"),
        ({"agent_policy_names": ["a", ""]}, "the policy name is ''"),
        ({"agent_policy_names": ["a", "b?team=x"]}, "which is not a whole number"),
        ({"type": "step"}, "began with a message of the type 'step'"),
        ({"lanista": 99}, "version 99 of its protocol.*lanista godot install"),
    ],
)
def test_what_a_game_says_of_its_agents_is_refused_by_name(connect, changed, message):
    with pytest.raises(WireError, match=f"environment 0.*{message}"):
        connect([json.dumps({**info(), **changed}).encode()])


def test_a_space_that_all_agents_share_is_read_once(monkeypatch):
    """Many agents and many sensors are announced in few bytes."""
    read = []
    real = spaces._sensors_by_name
    monkeypatch.setattr(spaces, "_sensors_by_name", lambda *given: read.append(1) or real(*given))
    shared = {"n_agents": 3000, "observation_space": BOX, "action_space": MOVE}
    (behavior,) = spaces.behaviors_of_agents(shared, "environment 0")
    assert len(behavior.agents) == 3000 and len(read) == 2


def test_a_choice_takes_memory_for_itself_alone(connect):
    """And not for all pairs of choices, which were 14 GiB."""
    size = 60_000
    space = {"o": {"size": size, "space": "discrete"}}
    env, _ = connect([info(1, space), RESET, {**step([1]), "obs": [{"o": size - 1}]}])
    tracemalloc.start()
    env.reset()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    (found,) = env.get_steps("walker?team=0")[0].obs[0]
    assert peak < 100 * size and np.flatnonzero(found).tolist() == [size - 1]


def spoiled(**changes):
    return {**step([1, 2]), **changes}


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (spoiled(obs=[{"obs": [1, 2]}]), "obs has 1 entries for the 2 agents"),
        (spoiled(obs=[{"obs": [1, 2]}] * 3), "obs has 3 entries for the 2 agents"),
        (spoiled(obs=None), "obs is missing"),
        (spoiled(obs=[{"obs": [1, 2]}, None]), "agent 1: its observations are missing"),
        (spoiled(obs=[{"obs": [1, 2]}, {"obz": [1]}]), "agent 1: its observations are 'obz'; expected 'obs'"),
        (spoiled(obs=[{"obs": [1, 2]}, {"obs": None}]), "agent 1: observation 'obs' is null"),
        (spoiled(obs=[{"obs": [1, 2]}, {"obs": [1, 2, 3]}]), "3 numbers, and 2 were announced"),
        (spoiled(obs=[{"obs": ["(1.0, 2.0)", 2]}] * 2), "'\\(1.0, 2.0\\)' is no number; write a vector's"),
        (spoiled(obs=[{"obs": {"x": 1}}] * 2), "observation 'obs' is"),
        (spoiled(reward=[1.0]), "reward has 1 entries"),
        (spoiled(reward=[1.0, "x"]), "the reward of agent 1 is 'x'"),
        (spoiled(done=[False, None]), "done of agent 1 is missing"),
        (spoiled(done="no"), "done is 'no'"),
        (spoiled(type="call"), "a message of the type 'call'"),
        (spoiled(type=None), "a message of the type missing"),
        (b"{", "is no JSON"),
        (b"[" * 3000, "is no JSON|does not speak"),
        (b'{"a":' * 3000, "is no JSON"),
        (b"{\xff}", "is no JSON"),
        (b"[]", "does not speak the protocol"),
    ],
)
def test_a_step_that_is_not_what_was_announced_is_refused_by_name(connect, second, message):
    env, _ = connect([info(), RESET, step([1, 2]), second])
    env.reset()
    with pytest.raises(UnityCommunicationException, match=f"environment 0.*({message})"):
        env.step()


def test_a_message_of_more_values_than_steps_have_is_not_parsed(monkeypatch):
    monkeypatch.setattr(messages.json, "loads", lambda data: pytest.fail("it is parsed"))
    data = b'{"type":"step","a":[' + b"[]," * (messages._MOST_VALUES // 2) + b"[]]}"
    with pytest.raises(WireError, match=r"game: a message of .* bytes has 8,388,61. values; .* 8,388,608"):
        messages.parse_message(data, "game")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "is null. A camera has no picture where the game has no display"),
        ("00ff", "2 bytes, and 3 x 2 x 5 were announced"),
        ("xyz", "non-hexadecimal"),
        ([1, 2], "2 numbers, and 30 were announced"),
    ],
)
def test_a_picture_that_is_none_is_refused_by_name(connect, value, message):
    space = {"camera_2d": {"size": [3, 2, 5], "space": "box"}}
    env, _ = connect([info(1, space), RESET, {**step([1]), "obs": [{"camera_2d": value}]}])
    with pytest.raises(WireError, match=f"agent 0: observation 'camera_2d'.*{message}"):
        env.reset()


def test_a_game_that_leaves_ends_the_session(connect):
    env, _ = connect([info(), RESET, step([1, 2])])
    env.reset()
    with pytest.raises(UnityCommunicatorStoppedException, match="environment 0"):
        env.step()


def test_a_game_that_falls_silent_is_late_and_says_how_far_it_came(connect):
    env, _ = connect([info()], stay=True, timeout=0.5)
    for call in (env.reset, env.step, env.reset):
        with pytest.raises(UnityTimeOutException, match="described its agents, but did not answer a reset"):
            call()


def test_nobody_calls():
    with pytest.raises(UnityTimeOutException, match="only from a scene with a Sync node"):
        GodotEnvironment("godot:", base_port=free_port(), timeout_wait=0.3)


def test_the_plugin_of_others_takes_no_environment_parameters(connect):
    env, _ = connect([info()], stay=True)
    env.set_parameters({})
    with pytest.raises(UnityEnvironmentException, match=r"takes no environment parameters.*mass.*addon"):
        env.set_parameters({"mass": 1.0})


# Lanista's addon ---------------------------------------------------------------------------------------


def b64(values, dtype):
    return base64.b64encode(np.asarray(values, dtype).tobytes()).decode()


def column_info(**keys):
    spec = {
        "observations": [
            {"name": "obs", "shape": [2], "type": "float"},
            {"name": "eye", "shape": [3, 1, 2], "type": "image"},
        ],
        "actions": [
            {"name": "move", "size": 2, "action_type": "continuous"},
            {"name": "jump", "size": 3, "action_type": "discrete"},
        ],
    }
    return {"type": "env_info", "lanista": 1, "addon_version": "x", "behaviors": {"cat?team=1": spec}, **keys}


def steps(ids, reward=0.0, **more):
    count = len(ids)
    return {
        "ids": b64(ids, "<i4"),
        "reward": b64([reward] * count, "<f4"),
        "obs": [b64(np.arange(2 * count), "<f4"), b64(np.arange(6 * count), "u1")],
        **more,
    }


def told(kind, decision=None, terminal=None, **keys):
    parts = {"decision": decision, "terminal": terminal}
    return {"type": kind, "behaviors": {"cat?team=1": {k: v for k, v in parts.items() if v}}, **keys}


def test_columns_become_steps_and_actions_columns(connect):
    masks = [b64([[1, 0, 0], [0, 0, 1]], "u1")]
    second = told(
        "step", steps([3, 8], 0.5, mask=masks, group=b64([5, 0], "<i4")), steps([4], 2.0), statistics=[]
    )
    second["behaviors"]["cat?team=1"]["terminal"]["interrupted"] = b64([1], "u1")
    env, game = connect([column_info(), told("reset", steps([3, 4])), second, told("step")], images="uint8")
    env.reset()
    decisions, _ = env.get_steps("cat?team=1")
    assert decisions.agent_id.tolist() == [3, 4] and decisions.obs[0].tolist() == [[0, 1], [2, 3]]
    assert decisions.obs[1][0].tolist() == [[[0, 3]], [[1, 4]], [[2, 5]]]  # rows of pixels, channels first
    assert all(column.flags.writeable for column in [*decisions.obs, decisions.reward])  # as torch wants it
    action = ActionTuple(np.array([[0.1, 0.2], [0.3, 0.4]], np.float32), np.array([[1], [2]], np.int32))
    env.set_actions("cat?team=1", action)
    env.step()
    sent = game.received[-1]["behaviors"]["cat?team=1"]
    assert np.frombuffer(base64.b64decode(sent["ids"]), "<i4").tolist() == [3, 4]
    assert (
        np.frombuffer(base64.b64decode(sent["continuous"]), "<f4").tolist()
        == action.continuous.ravel().tolist()
    )
    assert np.frombuffer(base64.b64decode(sent["discrete"]), "<i4").tolist() == [1, 2]
    decisions, terminals = env.get_steps("cat?team=1")
    assert decisions.agent_id.tolist() == [3, 8] and decisions.group_id.tolist() == [5, 0]
    assert decisions.action_mask[0].tolist() == [[True, False, False], [False, False, True]]
    assert terminals.agent_id.tolist() == [4] and terminals.interrupted.tolist() == [True]
    assert terminals.reward.tolist() == [2]
    env.step()
    assert [len(one) for one in env.get_steps("cat?team=1")] == [0, 0]


def test_behaviors_may_appear_and_statistics_are_passed_on(connect):
    new = {"dog?team=0": column_info()["behaviors"]["cat?team=1"]}
    first = told("reset", steps([1]), new_behaviors=new, statistics=[["score", 1.5, 0], ["score", 2, 2]])
    env, _ = connect([column_info(), first], stay=True)
    env.reset()
    assert list(env.behavior_specs) == ["cat?team=1", "dog?team=0"]
    assert {key: [value for value, _ in values] for key, values in env.statistics().items()} == {
        "score": [1.5, 2]
    }
    assert not env.statistics()


def test_parameters_are_sent_once_and_distributions_with_every_episode(connect):
    from lanista.trainers.settings.models.environment_parameters import UniformSettings

    script = [column_info(), told("reset", steps([1])), *[told("step", steps([1]), steps([2]))] * 3]
    env, game = connect(script)
    sampler = UniformSettings(min_value=1.0, max_value=2.0)
    sampler = sampler.model_copy(update={"seed": 3})
    env.set_parameters({"mass": 2.5, "wind": sampler})
    env.reset()
    env.step()
    env.step()
    sent = [one.get("parameters", {}) for one in game.received[2:]]
    assert sent[0]["mass"] == 2.5 and 1 <= sent[0]["wind"] <= 2
    assert sent[1] == {}  # no episode has ended yet
    assert list(sent[2]) == ["wind"] and sent[2]["wind"] != sent[0]["wind"]


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (told("step", {**steps([1]), "ids": "%%"}), "behavior 'cat\\?team=1', decision: ids"),
        (told("step", {**steps([1]), "obs": []}), "obs has 0 columns; expected 2"),
        (
            told("step", {**steps([1, 2]), "reward": b64([1], "<f4")}),
            "reward has 4 bytes; expected 4 for each of 2",
        ),
        (
            told("step", {**steps([1]), "obs": [b64([1], "<f4"), b64([0] * 6, "u1")]}),
            "observation 'obs' has 4 bytes",
        ),
        (told("step", {**steps([1]), "mask": []}), "mask has 0 columns; expected 1"),
        (told("step", steps([1]), statistics=[["a", "b", 9]]), "statistics are"),
        ({"type": "step", "behaviors": {"bird?team=0": {}}}, "'bird\\?team=0' was never described"),
        ({"type": "step", "behaviors": []}, "behaviors is \\[\\]"),
        ({"type": "odd"}, "type 'odd'; expected 'step' or 'reset'"),
    ],
)
def test_columns_that_do_not_fit_are_refused_by_name(connect, second, message):
    env, _ = connect([column_info(), told("reset", steps([1])), second])
    env.reset()
    with pytest.raises(UnityException, match=f"environment 0.*{message}"):
        env.step()
