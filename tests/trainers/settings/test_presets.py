"""What is said where a scene, a preset or an environment stands in place of a configuration file."""

import shlex

import pytest
from lanista.envs.scenes.registry import SCENES
from lanista.trainers.cli.main import run as lanista
from lanista.trainers.settings.command_line import parse_command_line
from lanista.trainers.settings.errors import TrainerConfigError
from lanista.trainers.settings.presets import Preset, scene_preset
from lanista.trainers.settings.yaml_source import preset_names
from lanista.trainers.utils.text import typed


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Outside of any clone, where no configuration lies."""
    monkeypatch.chdir(tmp_path)


def refusal(*arguments):
    with pytest.raises(TrainerConfigError) as error:
        parse_command_line(arguments)
    return str(error.value)


def line(message):
    """The command that a message tells to type."""
    return "lanista-learn" + message.partition("lanista-learn")[2]


def understood(command):
    """The settings that a command means."""
    program, *arguments = shlex.split(command)
    assert program == "lanista-learn"
    return parse_command_line(arguments)


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_says_which_environment_it_is_for(name):
    preset = Preset.read(name)
    env = understood(preset.command()).env_settings
    assert env.env_path == preset.env and env.num_areas == (preset.areas or 1)


@pytest.mark.parametrize("scene", SCENES)
def test_every_scene_has_a_preset_to_begin_with(scene):
    preset = scene_preset(scene)
    assert preset.env.partition("?")[0] == f"scene:{scene}"
    assert understood(preset.command()).behaviors


def test_the_list_of_scenes_has_the_command_of_each(capsys):
    assert lanista(["scenes"]) == 0
    listed = capsys.readouterr().out.splitlines()
    for name in SCENES:
        at = next(k for k, text in enumerate(listed) if text.startswith(f"scene:{name}: "))
        assert understood(listed[at + 1].strip()).env_settings.env_path.startswith(f"scene:{name}")


@pytest.mark.parametrize(
    ("word", "env"),
    [
        ("ball3d", "scene:ball3d"),
        ("scene:ball3d", "scene:ball3d"),
        ("hallway", "scene:hallway?size=small"),
        ("scene:hallway", "scene:hallway"),
        ("scene:hallway?size=small", "scene:hallway?size=small"),
    ],
)
def test_a_scene_names_the_line_to_type(word, env):
    told = refusal(word)
    assert f"{word} is a scene, and a configuration is needed too" in told
    assert understood(line(told)).env_settings.env_path == env


@pytest.mark.parametrize("word", ["config/ppo/ball3d.yaml", "ppo/ball3d", "..\\config\\ppo\\ball3d.yaml"])
def test_the_path_of_a_preset_names_the_line_with_all_that_was_typed(word):
    told = refusal(word, "--env", "scene:ball3d?areas=4", "--run-id", "mine", "--seed", "3")
    assert "comes with Lanista" in told
    options = understood(line(told))
    assert options.env_settings.env_path == "scene:ball3d?areas=4" and options.env_settings.seed == 3
    assert options.checkpoint_settings.run_id == "mine" and "3DBall" in options.behaviors


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("scene:bal3d", "There is no scene bal3d. Did you mean ball3d?"),
        ("bal3d", "There is no file bal3d. Did you mean ball3d?"),
        ("config/ppo/bal3d.yaml", "Did you mean: lanista-learn --preset ppo/ball3d"),
        ("gymnasium:CartPole-v1", "lanista init --env gymnasium:CartPole-v1 writes one"),
        ("Builds/My Ball.x86_64", f"lanista init --env {typed(['Builds/My Ball.x86_64'])} writes one"),
        ("nothing.yaml", "Config file could not be found"),
    ],
)
def test_other_words_in_place_of_a_configuration(word, told):
    assert told in refusal(word)


def test_a_build_that_is_there_is_not_read_as_a_configuration(tmp_path):
    (tmp_path / "Game.x86_64").write_bytes(b"\x7fELF\xff")
    assert "lanista init --env Game.x86_64 writes one" in refusal("Game.x86_64")


@pytest.mark.parametrize("word", ["scene:ball3d", "gymnasium:CartPole-v1", "Game.x86_64"])
def test_an_environment_beside_a_configuration_needs_its_flag(word, tmp_path):
    (tmp_path / "mine.yaml").write_text("behaviors: {A: {}}")
    told = refusal("mine.yaml", word, "--seed", "3")
    assert f"{word} is an environment." in told
    options = understood(line(told))
    assert (options.env_settings.env_path, options.env_settings.seed) == (word, 3)
    assert list(options.behaviors) == ["A"]


def test_a_file_of_a_scenes_name_is_read(tmp_path):
    (tmp_path / "ball3d").write_text("behaviors: {A: {}}")
    assert list(parse_command_line(["ball3d"]).behaviors) == ["A"]


@pytest.mark.parametrize(
    ("name", "near"),
    [("ppo/bal3d", "ppo/ball3d"), ("ball3d", "or ppo/ball3d or"), ("scene:ball3d", "or ppo/ball3d or")],
)
def test_an_unknown_preset_names_the_nearest(name, near):
    told = refusal("--preset", name)
    assert "Did you mean" in told and near in told and "coop-push" not in told


def test_the_path_of_a_preset_is_its_name_too():
    assert "3DBall" in parse_command_line(["--preset", "config/ppo/ball3d.yaml"]).behaviors
