"""`lanista check --explain`: what is said about a configuration, and that nothing else is."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from lanista.trainers.algorithms.common import optim as schedules
from lanista.trainers.cli.check import check
from lanista.trainers.cli.migrate import differences as meaning
from lanista.trainers.cli.migrate.differences import explain
from lanista.trainers.settings.errors import TrainerConfigError
from lanista.trainers.settings.options import RunOptions
from lanista.trainers.settings.yaml_source import read_text

ALWAYS = {
    "behaviors.Ball.threaded",
    "behaviors.Ball.hyperparameters.clip_value_loss",
    "env_settings.seed",
}
"""What there is to say about a PPO behavior of which nothing is written."""
PLAIN = "behaviors: {Ball: {trainer_type: ppo}}\n"


def differences(text):
    source = read_text(text, "ball.yaml")
    try:
        options = RunOptions.from_source(source)
    except TrainerConfigError:
        options = None
    return explain(source, options)


def said(text):
    """By path, without what is always said."""
    return {d.path: d.message for d in differences(text) if d.path not in ALWAYS}


def ball(**keys):
    return yaml.safe_dump({"behaviors": {"Ball": {"trainer_type": "ppo"} | keys}})


def test_a_plain_file_hears_little():
    found = differences(PLAIN)
    assert {d.path for d in found} == ALWAYS
    assert [d.place for d in found] == ["ball.yaml, line 1", "ball.yaml, line 1", "ball.yaml"]


def test_a_file_that_says_it_all_hears_nothing():
    text = ball(threaded=False, hyperparameters={"clip_value_loss": True}) + "env_settings: {seed: 3}\n"
    assert [d.path for d in differences(text)] == ["behaviors.Ball.hyperparameters.clip_value_loss"]
    assert "Lanista's own key: ML-Agents refuses it" in differences(text)[0].message


WRITTEN = {
    "whole number": (
        ball(hyperparameters={"buffer_size": "1e4"}),
        "behaviors.Ball.hyperparameters.buffer_size",
        "text to YAML",
    ),
    "quoted flag": (
        ball(even_checkpoints="false"),
        "behaviors.Ball.even_checkpoints",
        "as true; here it is false",
    ),
    "odd flag": (ball(even_checkpoints=2), "behaviors.Ball.even_checkpoints", "takes 2 for true; here it is"),
    "empty flag": (
        ball(even_checkpoints=""),
        "behaviors.Ball.even_checkpoints",
        "as false; here",
    ),
    "unknown key": (
        ball(network_settings={"vis_encoder_type": "simple"}),
        "behaviors.Ball.network_settings.vis_encoder_type",
        "passes over this key in silence",
    ),
    "unknown key of a memory": (
        ball(network_settings={"memory": {"size": 4}}),
        "behaviors.Ball.network_settings.memory.size",
        "passes over",
    ),
    "unknown key of a signal's network": (
        ball(reward_signals={"curiosity": {"network_settings": {"units": 4}}}),
        "behaviors.Ball.reward_signals.curiosity.network_settings.units",
        "passes over",
    ),
    "unknown key of self-play": (
        ball(self_play={"windows": 4}),
        "behaviors.Ball.self_play.windows",
        "passes over",
    ),
    "unknown key of criteria": (
        PLAIN + "environment_parameters: {m: {curriculum: [{name: a, completion_criteria: {x: 1}}]}}",
        "environment_parameters.m.curriculum.0.completion_criteria.x",
        "passes over",
    ),
    "unknown key of torch": (PLAIN + "torch_settings: {gpu: 1}", "torch_settings.gpu", "passes over"),
    "own key where all is passed over": (
        PLAIN + "torch_settings: {num_threads: 1}",
        "torch_settings.num_threads",
        "ML-Agents passes over it",
    ),
    "long interval": (
        PLAIN + "environment_parameters: {m: {sampler_type: multirangeuniform, sampler_parameters: "
        "{intervals: [[0, 1], [2, 3, 4]]}}}",
        "environment_parameters.m.sampler_parameters.intervals.1",
        "takes [2, 3] and drops the rest",
    ),
    "another trainer": (
        "default_settings: {trainer_type: ppo}\nbehaviors: {Ball: {trainer_type: poca}}",
        "behaviors.Ball.trainer_type",
        "refuses poca below default settings of ppo",
    ),
    "a trainer of ours": (
        "behaviors: {Ball: {trainer_type: coma}}",
        "behaviors.Ball.trainer_type",
        "no trainer coma",
    ),
}


@pytest.mark.parametrize("text, path, words", WRITTEN.values(), ids=WRITTEN)
def test_what_is_read_otherwise(text, path, words):
    assert words in said(text)[path]


MEANT = {
    "epsilon": (
        ball(hyperparameters={"epsilon": 0.05}),
        "behaviors.Ball.hyperparameters.epsilon",
        "rises to 0.1",
    ),
    "beta": (ball(hyperparameters={"beta": 1e-6}), "behaviors.Ball.hyperparameters.beta", "rises to 1e-05"),
    "rate": (
        ball(hyperparameters={"learning_rate": 1e-11}),
        "behaviors.Ball.hyperparameters.learning_rate",
        "rises to 1e-10",
    ),
    "epsilon of default settings": (
        "default_settings: {trainer_type: ppo, hyperparameters: {epsilon: 0.05}}",
        "default_settings.hyperparameters.epsilon",
        "rises to 0.1",
    ),
    "sac's brains": (ball(trainer_type="sac"), "behaviors.Ball.trainer_type", "squashed mean"),
    "sac's coefficients": (
        ball(trainer_type="sac"),
        "behaviors.Ball.hyperparameters.init_entcoef",
        "begins with this one again",
    ),
    "sac's memory": (
        ball(trainer_type="sac", network_settings={"memory": {}}),
        "behaviors.Ball.network_settings.memory",
        "steps that fill up a sequence are not learned from",
    ),
    "memory": (
        ball(network_settings={"memory": {}}),
        "behaviors.Ball.network_settings.memory",
        "goes from agent to agent",
    ),
    "team": (
        "behaviors: {Ball: {trainer_type: poca, reward_signals: {extrinsic: {}, rnd: {}}}}",
        "behaviors.Ball.reward_signals.rnd",
        "unexpected results",
    ),
    "cloned actions": (
        ball(behavioral_cloning={"demo_path": "d.demo"}),
        "behaviors.Ball.behavioral_cloning.engine_actions",
        "three times too small",
    ),
    "actions before the discriminator": (
        ball(reward_signals={"gail": {"demo_path": "d.demo", "use_actions": True}}),
        "behaviors.Ball.reward_signals.gail.engine_actions",
        "three times as large",
    ),
    "endless": (
        ball(max_steps=-1, hyperparameters={"learning_rate_schedule": "constant"}),
        "behaviors.Ball.max_steps",
        "learns nothing",
    ),
    "self-play": (ball(self_play={}), "behaviors.Ball.self_play.swap_steps", "so 2000"),
    "init_path": (ball(init_path="old/Ball"), "behaviors.Ball.init_path", "takes no folder"),
    "unlisted": ("default_settings: {trainer_type: ppo}", "default_settings", "--deterministic"),
    "environments": (PLAIN + "env_settings: {env_path: x, num_envs: 2}", "env_settings.num_envs", "alone"),
    "device": (PLAIN + "torch_settings: {device: 'cuda:1'}", "torch_settings.device", "all are on cuda:1"),
    "force": (PLAIN + "checkpoint_settings: {force: true}", "checkpoint_settings.force", "set aside"),
    "inference": (
        PLAIN + "checkpoint_settings: {inference: true}",
        "checkpoint_settings.inference",
        "no checkpoint",
    ),
    "namesake": (PLAIN + "environment_parameters: {Ball: 3}", "environment_parameters.Ball", "same name"),
    "seed of a sampler": (
        PLAIN + "environment_parameters: {a: 1, m: {sampler_type: uniform, sampler_parameters: {}}}",
        "environment_parameters.m",
        "the run's + 1",
    ),
}


@pytest.mark.parametrize("text, path, words", MEANT.values(), ids=MEANT)
def test_what_is_carried_out_otherwise(text, path, words):
    assert words in said(text)[path]


SILENT = {
    "a constant epsilon": ball(hyperparameters={"epsilon": 0.05, "epsilon_schedule": "constant"}),
    "an epsilon at the floor": ball(hyperparameters={"epsilon": 0.1, "beta": 1e-5}),
    "numbers": ball(max_steps="1e6", hyperparameters={"buffer_size": "10240", "learning_rate": "3e-4"}),
    "flags": ball(network_settings={"normalize": "true"}, even_checkpoints=False),
    "poca below ppo's keys": "default_settings: {trainer_type: poca}\nbehaviors: {Ball: {trainer_type: ppo}}",
    "one environment": PLAIN + "env_settings: {env_path: x, num_envs: 1}",
    "the first device": PLAIN + "torch_settings: {device: 'cuda:0'}",
    "a sampler with a seed": PLAIN
    + "environment_parameters: {m: {sampler_type: uniform, sampler_parameters: {seed: 4}}}",
    "keys that both refuse": PLAIN + "env_settings: {nonsense: 1}",
}


@pytest.mark.parametrize("text", SILENT.values(), ids=SILENT)
def test_what_is_the_same_is_passed_over(text):
    assert not set(said(text)) - {"default_settings"}


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "behaviors:",
        "behaviors: [1]",
        "behaviors: {A: 3}",
        "default_settings: 1",
        "environment_parameters: 1",
    ],
)
def test_files_of_other_shapes_are_survived(text):
    differences(text)


def test_in_the_order_of_the_file():
    text = "env_settings: {seed: -1}\n" + ball(threaded=True)
    assert [d.path for d in differences(text)] == [
        "env_settings.seed",
        "behaviors.Ball.hyperparameters.clip_value_loss",
        "behaviors.Ball.threaded",
    ]


def test_floors_are_those_of_training():
    assert meaning.FLOORS == {
        "learning_rate": schedules.LEARNING_RATE_FLOOR,
        "epsilon": schedules.EPSILON_FLOOR,
        "beta": schedules.BETA_FLOOR,
    }


def test_check_says_it_when_asked(tmp_path):
    path = tmp_path / "ball.yaml"
    path.write_text(PLAIN)
    assert not [line for line in check([str(path)]).lines() if "ML-Agents" in line]
    found = [line for line in check([str(path)], explained=True).lines() if "ML-Agents: " in line]
    assert len(found) == len(ALWAYS)
    assert any(
        line.startswith(f"  ML-Agents: {path}, line 1: behaviors.Ball.threaded: not given") for line in found
    )


def test_the_command_explains_and_needs_no_torch():
    code = (
        "import sys; from lanista.trainers.cli.main import run; "
        "status = run(['check', '--explain', '--preset', 'ppo/ball3d']); "
        "assert 'torch' not in sys.modules; sys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "clip_value_loss" in done.stdout


def test_every_configuration_that_comes_along_is_explained():
    for path in (Path(__file__).parents[4] / "config").glob("*/*.yaml"):
        assert differences(path.read_text()), path
