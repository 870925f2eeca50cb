"""The settings of environments and engines reach them."""

import json
import struct
from pathlib import Path
from uuid import UUID

import pytest
from console_runs import learn
from lanista.envs.manager.restarts import RestartLimits
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.runner import environments
from lanista.trainers.runner.environments import make_env_manager
from lanista.trainers.settings.models.run import EngineSettings, EnvironmentSettings
from lanista.trainers.settings.options import RunOptions
from scripted_engine import executable, hello

pytestmark = pytest.mark.slow

KINDS = ["SCREEN_RESOLUTION", "QUALITY_LEVEL", "TIME_SCALE", "TARGET_FRAME_RATE", "CAPTURE_FRAME_RATE"]
"""The messages of the engine configuration, by number."""

RECORDER = """\
import json
from lanista.envs.protocol import messages

heard = []
def tell(request):
    said = messages.UnityMessageProto.FromString(exchange(request)).unity_input
    begin = said.rl_initialization_input
    heard.append([begin.seed, begin.num_areas, said.rl_input.side_channel.hex()])

for request in (message({hello!r}), message(None), *[message(observation(1, 2))] * 3):
    tell(request)
with open("heard.json", "w") as file:
    json.dump([sys.argv[1:], heard], file)
exchange(message(None, 400))
"""


def engine_configuration(side_channel):
    """The engine configuration that an engine receives, by kind of message."""
    told = {}
    while side_channel:
        length = struct.unpack_from("<i", side_channel, 16)[0]
        channel, body = UUID(bytes_le=side_channel[:16]), side_channel[20 : 20 + length]
        side_channel = side_channel[20 + length :]
        if channel == UUID("e951342c-4f7e-11ea-b238-784f4387d1f7"):
            kind = KINDS[struct.unpack_from("<i", body)[0]]
            form = "<f" if kind == "TIME_SCALE" else f"<{(length - 4) // 4}i"
            told[kind] = struct.unpack_from(form, body, 4)
    return told


def test_an_engine_receives_every_setting(tmp_path):
    game = executable(tmp_path, RECORDER.format(hello=hello()))
    window = ["--width", "101", "--height", "57", "--quality-level", "3"]
    time = ["--time-scale", "7.5", "--target-frame-rate", "33", "--capture-frame-rate", "44"]
    others = ["--no-graphics", "--num-areas", "3", "--seed", "12"]
    own = ["--env-args", "--level", "2", "--seed", "9"]
    ended = learn(tmp_path, "--env", game, *window, *time, *others, *own)
    assert "max_lifetime_restarts" in ended.error, "the engine ends as soon as it has heard all"
    arguments, heard = json.loads((tmp_path / "heard.json").read_text())
    assert arguments[-4:] == ["--level", "2", "--seed", "9"], "the rest of the line is the engine's"
    assert "-nographics" in arguments and "-batchmode" in arguments
    assert heard[0][:2] == [12, 3]
    assert engine_configuration(bytes.fromhex("".join(channel for _, _, channel in heard))) == {
        "SCREEN_RESOLUTION": (101, 57),
        "QUALITY_LEVEL": (3,),
        "TIME_SCALE": (7.5,),
        "TARGET_FRAME_RATE": (33,),
        "CAPTURE_FRAME_RATE": (44,),
    }


ENVIRONMENT = {
    "env_path": "Game",
    "env_args": ["--level", "2"],
    "base_port": 6000,
    "num_envs": 3,
    "num_areas": 4,
    "timeout_wait": 17,
    "seed": 5,
    "max_lifetime_restarts": 6,
    "restarts_rate_limit_n": 7,
    "restarts_rate_limit_period_s": 8,
    "non_finite": "zero",
    "listen": "10.0.0.1",
    "allow": ["10.0.0.0/8"],
}
ATTACHING = {"token_file", "tls_cert", "tls_key"}
"""For engines that connect by themselves; tested by test_attach.py."""
CLUSTER = {"ray", "ray_cpus", "ray_listen", "ray_wait"}
"""For engines on a Ray cluster; tested by test_ray.py."""
HOSTING = {"env_workers"}
"""For environments in Python; tested by test_hosted_run.py."""
PRINTED = {"engine_errors"}
"""For what engines print; tested by test_engine_errors.py."""
ENGINE = {
    "width": 101,
    "height": 57,
    "quality_level": 3,
    "time_scale": 7.5,
    "target_frame_rate": 33,
    "capture_frame_rate": 44,
    "no_graphics": True,
    "no_graphics_monitor": True,
}


@pytest.fixture
def made(monkeypatch):
    """The arguments of the manager and of the last environment."""
    made = {}

    class Manager:
        def __init__(self, make_env, num_envs, limits, **options):
            make_env(num_envs - 1)
            made["manager"] = {"num_envs": num_envs, "limits": limits, **options}

    monkeypatch.setattr(environments, "EnvManager", Manager)
    monkeypatch.setattr(environments, "open_environment", lambda options: made.update(environment=options))
    return made


def test_every_setting_reaches_the_manager_or_the_environment(made):
    known = ENVIRONMENT.keys() | ATTACHING | CLUSTER | HOSTING | PRINTED | {"transport"}
    assert known == EnvironmentSettings.model_fields.keys(), "a new key is to be looked for here"
    assert ENGINE.keys() == EngineSettings.model_fields.keys()
    options = RunOptions.from_dict({"env_settings": ENVIRONMENT, "engine_settings": ENGINE})
    make_env_manager(options, 5, Path("logs"))
    manager, env = made["manager"], made["environment"]
    assert (manager["num_envs"], manager["limits"]) == (3, RestartLimits(6, 7, 8))
    assert manager["non_finite"] is NonFinitePolicy.ZERO and not manager["editor"] and not manager["ordered"]
    assert (env.path, env.worker_id, env.base_port, env.seed) == ("Game", 2, 6000, 7)
    assert (env.num_areas, env.timeout_wait, env.listen) == (4, 17, "10.0.0.1")
    assert env.allow == ("10.0.0.0/8",)
    assert env.additional_args == ("--level", "2") and env.log_folder == Path("logs")
    assert env.no_graphics and env.no_graphics_monitor
    assert env.configuration == (101, 57, 3, 7.5, 33, 44)


def test_without_env_path_the_run_waits_for_the_editor_at_its_port(made):
    options = RunOptions.from_dict({"env_settings": {"base_port": 6000}})
    make_env_manager(options, 5, Path("logs"))
    assert made["manager"]["editor"] and made["environment"].path is None
    assert made["environment"].base_port is None, "base_port is not the Editor's"
