"""Faults of games with Lanista's addon, in the real engine: each is named, with its file and line."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import lanista
import pytest
from console_runs import learn, ppo_yaml
from godot_engine import imported_project
from lanista.envs.errors import RefusedByAddonError
from lanista.envs.godot.environment import GodotEnvironment
from mlagents_envs.exception import UnityException, UnityTimeOutException

ADDON = Path(lanista.__file__).parent / "envs" / "godot" / "addon"
STEPS = 60
WAIT_SECONDS = 8
"""More than the 2 s after which the addon tells that the game stands still."""


@dataclass
class Played:
    """What was told of a game's session."""

    error: UnityException | None
    log: str
    statistics: dict
    printed: list[str]
    """What the user was told of the game's output while it was played."""

    @property
    def told(self) -> str:
        """The error and the game's log."""
        return f"{self.error}\n{self.log}"


@pytest.fixture(scope="module")
def faults(godot_engine):
    """The project of tests/godot/faults_project with the addon."""
    return imported_project(godot_engine, "faults_project", {"addons/lanista": ADDON})


@pytest.fixture
def play(faults, tmp_path, caplog):
    """Play a scene for some steps, its agents standing still; what was told."""

    def play(fault, scene="stage", **options):
        error, statistics = None, {}
        try:
            env = GodotEnvironment(
                f"godot:{faults}?scene=res://{scene}.tscn&fault={fault}",
                no_graphics=True,
                timeout_wait=WAIT_SECONDS,
                log_folder=tmp_path,
                **options,
            )
            try:
                env.reset()
                for _ in range(STEPS):
                    env.step()
                    for key, values in env.statistics().items():
                        statistics.setdefault(key, []).extend(value for value, _ in values)
            finally:
                env.close()
        except UnityException as found:
            error = found
        told = [text for text in caplog.messages if re.match(r"environment 0 \(Godot\) has printed a", text)]
        return Played(error, (tmp_path / "Player-0.log").read_text(), statistics, told)

    return play


@pytest.mark.parametrize(
    ("fault", "sentence", "place"),
    [
        (
            "vector",
            "get_obs() of /root/Stage/Walker0 gives under 'obs' a Vector2 in the list",
            "vector.gd:4",
        ),
        ("text", "gives under 'obs' a String in the list (near). Expected: 2 numbers", "text.gd:4"),
        ("longer", "gives under 'obs' 3 numbers. Expected: 2 numbers", "longer.gd:4"),
        (
            "observation_error",
            "/root/Stage/Walker0 observes nothing: get_obs_space() gives {  }. Is there a script error",
            "observation_error.gd:4",
        ),
        ("no_actions", "has no actions: get_action_space() is empty", "no_actions.gd:4"),
        ("wrong_action_type", 'Allowed: {"size": n, "action_type": "continuous"', "wrong_action_type.gd:4"),
        ("no_size", 'says of \'move\' { "sise": 1, "action_type": "continuous" }. Allowed:', "no_size.gd:4"),
        (
            "no_dictionary",
            "get_obs() of /root/Stage/Walker0 gives [0.0, 1.0]. Expected: a Dictionary such as",
            "no_dictionary.gd:4",
        ),
        ("mask_of_nothing", "get_disabled_actions() of /root/Stage/Walker0 leaves no choice of", "g.gd:12"),
        (
            "other_observations",
            "/root/Stage/Walker1 and /root/Stage/Director/Other follow the behavior shared_policy?team=0 and",
            "longer_from_the_start.gd:4",
        ),
        (
            "team_in_name",
            "policy_name of /root/Stage/Walker0 is 'walker?team=1', and teams are told by team_id. Set "
            "policy_name to 'walker', and the team as team_id",
            "team_in_name.gd",
        ),
        ("no_name", "policy_name of /root/Stage/Walker0 is empty", "no_name.gd"),
    ],
)
def test_what_an_agent_must_not_give_is_told_first_and_is_not_retried(play, fault, sentence, place):
    """The sentence is the error's first line: nobody has to find it in a backtrace."""
    played = play(fault)
    first = str(played.error).splitlines()[0]
    assert isinstance(played.error, RefusedByAddonError), played.told
    assert first.startswith("environment 0: Lanista's addon has ended the game: ")
    assert sentence in first and first.endswith(f"{place})."), first
    assert first.count(place) == 1 and "before it called the trainer" not in played.told, played.told
    assert "SCRIPT ERROR" not in played.log or fault == "observation_error", played.log
    assert "Nil" not in played.told, "the addon does not go on with what it has refused"


@pytest.mark.parametrize(
    ("fault", "sentence", "place"),
    [
        ("action_error", "Invalid access to property or key 'mov'", "action_error.gd:5"),
        ("reward_error", "Invalid access to property or key 'bonus'", "reward_error.gd:5"),
        ("reset_error", "Invalid access to property or key 'start'", "reset_error.gd:5"),
        ("observation_error", "Invalid access to property or key 'goal'", "observation_error.gd:5"),
        ("mask_error", "Invalid access to property or key 'wall'", "mask_error.gd:13"),
        ("process_error", 'Node not found: "Legs"', "process_error.gd:6"),
    ],
)
def test_an_error_of_a_script_is_told_and_only_that(play, fault, sentence, place):
    """None of the addon's own scripts fails because one of the game does."""
    played = play(fault)
    log = played.log
    first = next((text for text in played.printed if sentence in text), "")
    assert f"(res://faults/{place})." in first, (played.printed, log)
    wrong = [line for line in log.splitlines() if line.startswith("SCRIPT ERROR") and sentence not in line]
    assert not wrong or fault == "process_error", wrong


@pytest.mark.parametrize(
    ("fault", "sentences"),
    [
        (
            "places_itself",
            [
                "needs_reset of /root/Stage/Walker0 stayed set for 8 physics frames",
                "(res://faults/places_itself.gd)",
            ],
        ),
        (
            "not_awaited",
            ["res://faults/not_awaited.gd:5 calls place_body() without `await` for reset_requested"],
        ),
        (
            "environment_never_resets",
            ["what environment_reset of /root/Stage/Sync calls has not returned for 600 physics frames"],
        ),
        ("not_awaited_deep", ["not_awaited_deep.gd:14 calls fall_asleep() without `await`"]),
        (
            "never_returns",
            ["what reset_requested of /root/Stage/Walker0 calls has not returned for 600 physics frames"],
        ),
        (
            "group_reward_too_late",
            ["add_reward(1.0) of /root/Stage/Director/Team is lost, since the group has no"],
        ),
        (
            "no_set_action",
            ["/root/Stage/Walker0 does not override set_action() (res://faults/no_set_action.gd)"],
        ),
        (
            "text_as_reward",
            [
                "get_reward() of /root/Stage/Walker0 gives good, which counts as 0. Expected: a number "
                "(res://faults/text_as_reward.gd:4)"
            ],
        ),
        (
            "takes_an_argument",
            [
                "place_at() is connected to reset_requested, which gives no arguments, and needs 1: it is "
                "not called (res://faults/takes_an_argument.gd:8)"
            ],
        ),
        ("not_finite", ["the statistic 'Speed' is inf"]),
    ],
)
def test_what_a_game_can_go_on_with_is_warned_of(play, fault, sentences):
    played = play(fault)
    assert played.error is None, played.told
    assert [played.log.count(sentence) for sentence in sentences] == [1] * len(sentences), played.log
    told = "\n".join(played.printed)
    assert all(sentence in told for sentence in sentences), told


@pytest.mark.parametrize(
    "fault",
    [
        "state",
        "ends_where_it_is_asked",
        "awaits",
        "awaits_in_environment_reset",
        "resets_by_signal",
        "places_itself_and_tells",
        "longer_from_the_start",
    ],
)
def test_a_game_without_a_fault_is_told_nothing(play, fault):
    """A script may have a `state` of its own, await, or place bodies when the environment is reset."""
    played = play(fault)
    assert played.error is None and "Lanista" not in played.log and "ERROR" not in played.log, played.told
    assert not played.printed


@pytest.mark.parametrize("fault", ["awaits", "awaits_in_environment_reset"])
def test_agents_whose_bodies_are_being_placed_are_asked_nothing(play, fault):
    placed = play(fault).statistics["Placed"]
    assert len(placed) > STEPS and set(placed) == {1.0}


def test_a_script_may_end_its_episode_where_it_is_asked(play):
    """In get_obs() and in get_reward() by turns, without being asked for a decision twice."""
    assert max(play("ends_where_it_is_asked").statistics["Ends"]) > 10


@pytest.mark.parametrize("fault", ["places_itself", "places_itself_and_tells"])
def test_a_game_that_places_bodies_itself_keeps_its_action_repeat(play, fault):
    """An agent that never says that its body is placed is waited for once."""
    frames = play(fault).statistics["Frames"]
    assert len(frames) > STEPS and frames.count(8) >= len(frames) - 2, frames


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("paused", "the scene tree is paused (get_tree().paused)"),
        ("switched_off", "its process_mode, or that of a node above it, is Disabled"),
    ],
)
def test_a_game_that_stands_still_is_named_in_the_time_out(play, fault, why):
    error = play(fault).error
    assert isinstance(error, UnityTimeOutException)
    assert f"/root/Stage/Sync has stood still for 2 s, since {why}: no agent decides" in str(error)


@pytest.mark.parametrize(
    ("scene", "sentences"),
    [
        (
            "no_sync",
            ["/root/Stage/Walker0 has no LanistaSync in its scene, so that no trainer and no brain decides"],
        ),
        (
            "broken",
            ["Parse Error", "res://broken.gd:5", "the scene has no LanistaAgent2D or LanistaAgent3D so far"],
        ),
    ],
)
def test_a_scene_that_cannot_be_trained_is_named(play, scene, sentences):
    told = play("", scene).told
    assert all(sentence in told for sentence in sentences), told


def test_a_refused_game_ends_the_run_with_its_sentence(faults, tmp_path):
    """It would be refused again, so that it is not restarted; what was learned is saved."""
    yaml = ppo_yaml(
        "shared_policy", {"batch_size": 32, "buffer_size": 1024}, {"hidden_units": 8}, max_steps=100_000
    )
    game = f"godot:{faults}?scene=res://stage.tscn&fault=other_observations"
    run = learn(tmp_path, "--env", game, "--no-graphics", yaml=yaml)
    assert run.status == 1 and "Restarting" not in run.out
    assert run.error.startswith("environment 0: Lanista's addon has ended the game: /root/Stage/Walker1 and")
    assert list(run.folder.rglob("*.onnx"))


def test_the_editor_names_what_a_scene_lacks(godot_engine, faults):
    """A scene with agents alone may be part of another one, unless it is the project's main scene."""
    scenes = [f"res://{name}.tscn" for name in ("no_sync", "stage", "unfinished")]
    command = [godot_engine, "--headless", "--path", faults, "-s", "res://check.gd", "--", *scenes]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if ".tscn: " in line]
    assert [line.partition(".tscn: ")[0] for line in lines] == ["no_sync", "stage", *["unfinished"] * 3]
    assert "The scene has agents, and no LanistaSync" in lines[0]
    assert "no LanistaAgent2D or LanistaAgent3D. Add one" in lines[1]
    assert lines[2].endswith(
        'Bare lacks a get_action_space() of its own: extend its script (node\'s menu, "Extend Script...").'
    )
    assert 'Walker0 has the policy_name "walker?team=1"' in lines[3]
    assert "Walker1 (and 1 more) lacks a brain to act on" in lines[4]
    assert "ERROR" not in done.stderr, done.stderr


def test_the_plugin_can_be_enabled(godot_engine, faults, tmp_path):
    project = tmp_path / "project"
    shutil.copytree(faults, project)
    with (project / "project.godot").open("a") as settings:
        settings.write('\n[editor_plugins]\nenabled=PackedStringArray("res://addons/lanista/plugin.cfg")\n')
    command = [godot_engine, "--headless", "--editor", "--path", project, "--quit-after", "20"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not re.search("SCRIPT ERROR|lanista", done.stderr), done.stderr
