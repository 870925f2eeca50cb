"""`lanista check --explain`: the remarks about a configuration, and no others."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from lanista.trainers.cli.check import check
from lanista.trainers.settings import mlagents_differences as meaning
from lanista.trainers.settings.errors import TrainerConfigError
from lanista.trainers.settings.mlagents_differences import explain
from lanista.trainers.settings.options import RunOptions
from lanista.trainers.settings.yaml_source import read_text

ALWAYS = {"behaviors.Ball.threaded", "behaviors.Ball.hyperparameters.clip_value_loss", "env_settings.seed"}
"""The remarks about a PPO behavior without any keys."""
PLAIN = "behaviors: {Ball: {trainer_type: ppo}}\n"


def differences(text):
    source = read_text(text, "ball.yaml")
    try:
        options = RunOptions.from_source(source)
    except TrainerConfigError:
        options = None
    return explain(source, options)


def said(text):
    """The messages by path, without those that are always there."""
    return {d.key: d.message for d in differences(text) if d.key not in ALWAYS}


def ball(**keys):
    return yaml.safe_dump({"behaviors": {"Ball": {"trainer_type": "ppo"} | keys}})


def test_a_plain_file_has_few_remarks():
    found = differences(PLAIN)
    assert {d.key for d in found} == ALWAYS
    assert [d.place for d in found] == ["ball.yaml, line 1", "ball.yaml, line 1", "ball.yaml"]


def test_a_complete_file_has_no_other_remarks():
    text = ball(threaded=False, hyperparameters={"clip_value_loss": True}) + "env_settings: {seed: 3}\n"
    assert [d.key for d in differences(text)] == ["behaviors.Ball.hyperparameters.clip_value_loss"]
    assert "Lanista's own key: ML-Agents refuses it" in differences(text)[0].message


GAIL = {"gail": {"demo_path": "d.demo", "use_actions": True}}
CRITERIA = "environment_parameters: {m: {curriculum: [{name: a, completion_criteria: {x: 1}}]}}"
INTERVALS = "{sampler_type: multirangeuniform, sampler_parameters: {intervals: [[0, 1], [2, 3, 4]]}}"
UNIFORM = "{sampler_type: uniform, sampler_parameters: {}}"

OF_A_BEHAVIOR = {
    "widths": ({"network_settings": {"hidden_units": [8, 4]}}, "network_settings.hidden_units", "own form"),
    "whole number": (
        {"hyperparameters": {"buffer_size": "1e4"}},
        "hyperparameters.buffer_size",
        "text to YAML",
    ),
    "quoted flag": ({"even_checkpoints": "false"}, "even_checkpoints", "as true; here it is false"),
    "odd flag": ({"even_checkpoints": 2}, "even_checkpoints", "takes 2 for true; here it is"),
    "empty flag": ({"even_checkpoints": ""}, "even_checkpoints", "as false; here"),
    "unknown key": (
        {"network_settings": {"vis_encoder_type": "simple"}},
        *("network_settings.vis_encoder_type", "passes over this key in silence"),
    ),
    "unknown key of a memory": (
        {"network_settings": {"memory": {"size": 4}}},
        *("network_settings.memory.size", "passes over"),
    ),
    "unknown key of a signal's network": (
        {"reward_signals": {"curiosity": {"network_settings": {"units": 4}}}},
        *("reward_signals.curiosity.network_settings.units", "passes over"),
    ),
    "unknown key of self-play": ({"self_play": {"windows": 4}}, "self_play.windows", "passes over"),
    "a trainer of ours": ({"trainer_type": "coma"}, "trainer_type", "no trainer coma"),
    "epsilon": ({"hyperparameters": {"epsilon": 0.05}}, "hyperparameters.epsilon", "rises to 0.1"),
    "beta": ({"hyperparameters": {"beta": 1e-6}}, "hyperparameters.beta", "rises to 1e-05"),
    "rate": (
        {"hyperparameters": {"learning_rate": 1e-11}},
        *("hyperparameters.learning_rate", "rises to 1e-10"),
    ),
    "adaptive rate": (
        {"hyperparameters": {"learning_rate_schedule": "adaptive_kl"}},
        *("hyperparameters.learning_rate_schedule", "own value: ML-Agents refuses it"),
    ),
    "sac's brains": ({"trainer_type": "sac"}, "trainer_type", "squashed mean"),
    "sac's coefficients": (
        {"trainer_type": "sac"},
        *("hyperparameters.init_entcoef", "begins with this one again"),
    ),
    "sac's memory": (
        {"trainer_type": "sac", "network_settings": {"memory": {}}},
        *("network_settings.memory", "steps that fill up a sequence are not learned from"),
    ),
    "memory": ({"network_settings": {"memory": {}}}, "network_settings.memory", "goes from agent to agent"),
    "team": (
        {"trainer_type": "poca", "reward_signals": {"extrinsic": {}, "rnd": {}}},
        *("reward_signals.rnd", "unexpected results"),
    ),
    "interrupted episodes": (
        {"trainer_type": "sac"},
        *("hyperparameters.interrupted_value", "own_observation does as ML-Agents"),
    ),
    "full replay": ({"trainer_type": "sac"}, "hyperparameters.buffer_size", "drops a fifth"),
    "first deaths": ({"trainer_type": "poca"}, "hyperparameters", "for the end of the group"),
    "clipped baselines": (
        {"trainer_type": "poca"},
        *("hyperparameters.baseline_clip", "in units of the reward"),
    ),
    "cloned actions": (
        {"behavioral_cloning": {"demo_path": "d.demo"}},
        *("behavioral_cloning.engine_actions", "three times too small"),
    ),
    "actions before the discriminator": (
        {"reward_signals": GAIL},
        *("reward_signals.gail.engine_actions", "three times as large"),
    ),
    "endless": (
        {"max_steps": -1, "hyperparameters": {"learning_rate_schedule": "constant"}},
        *("max_steps", "learns nothing"),
    ),
    "self-play": ({"self_play": {}}, "self_play.swap_steps", "so 2000"),
    "init_path": ({"init_path": "old/Ball"}, "init_path", "takes no folder"),
}
OF_THE_RUN = {
    CRITERIA: ("environment_parameters.m.curriculum.0.completion_criteria.x", "passes over"),
    "default_settings: {trainer_type: poca}\nenvironment_parameters: {m: {curriculum: [{name: a, value: 1, "
    "completion_criteria: {behavior: Team}}, {name: b, value: 2}]}}": (
        *("environment_parameters.m.curriculum.0.completion_criteria", "what groups earn where groups earn"),
    ),
    "torch_settings: {gpu: 1}": ("torch_settings.gpu", "passes over"),
    "torch_settings: {num_threads: 1}": ("torch_settings.num_threads", "ML-Agents passes over it"),
    f"environment_parameters: {{m: {INTERVALS}}}": (
        *("environment_parameters.m.sampler_parameters.intervals.1", "takes [2, 3] and drops the rest"),
    ),
    "env_settings: {env_path: x, num_envs: 2}": ("env_settings.num_envs", "alone"),
    "torch_settings: {device: 'cuda:1'}": ("torch_settings.device", "all are on cuda:1"),
    "checkpoint_settings: {force: true}": ("checkpoint_settings.force", "set aside"),
    "checkpoint_settings: {inference: true}": ("checkpoint_settings.inference", "no checkpoint"),
    "environment_parameters: {Ball: 3}": ("environment_parameters.Ball", "same name"),
    f"environment_parameters: {{a: 1, m: {UNIFORM}}}": ("environment_parameters.m", "the run's + 1"),
}
DEFAULTS = "default_settings: {trainer_type: ppo}\n"
OF_DEFAULTS = [
    (
        f"{DEFAULTS}behaviors: {{Ball: {{trainer_type: poca}}}}",
        "behaviors.Ball.trainer_type",
        "refuses poca below",
    ),
    (DEFAULTS, "default_settings", "--deterministic"),
    (
        "default_settings: {trainer_type: ppo, hyperparameters: {epsilon: 0.05}}",
        *("default_settings.hyperparameters.epsilon", "rises to 0.1"),
    ),
]


@pytest.mark.parametrize("case", OF_A_BEHAVIOR)
def test_a_difference_in_a_behavior_is_explained(case):
    keys, path, words = OF_A_BEHAVIOR[case]
    assert words in said(ball(**keys))[f"behaviors.Ball.{path}"]


@pytest.mark.parametrize(
    "text, path, words", [*((PLAIN + text, *told) for text, told in OF_THE_RUN.items()), *OF_DEFAULTS]
)
def test_a_difference_elsewhere_is_explained(text, path, words):
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
def test_nothing_is_said_where_nothing_differs(text):
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
def test_files_of_other_shapes_raise_nothing(text):
    differences(text)


def test_remarks_come_in_the_order_of_the_file():
    text = "env_settings: {seed: -1}\n" + ball(threaded=True)
    assert [d.key for d in differences(text)] == [
        "env_settings.seed",
        "behaviors.Ball.hyperparameters.clip_value_loss",
        "behaviors.Ball.threaded",
    ]


def test_floors_are_those_of_training():
    pytest.importorskip("torch", reason="what is compared trains")
    from lanista.trainers.algorithms.common import optim as schedules

    assert meaning.FLOORS == {
        "learning_rate": schedules.LEARNING_RATE_FLOOR,
        "beta": schedules.BETA_FLOOR,
    }


def test_check_explains_on_request(tmp_path):
    path = tmp_path / "ball.yaml"
    path.write_text(PLAIN)
    assert not [line for line in check([str(path)]).lines() if "ML-Agents" in line]
    found = [line for line in check([str(path)], explained=True).lines() if "ML-Agents: " in line]
    assert len(found) == len(ALWAYS)
    assert any(
        line.startswith(f"  ML-Agents: {path}, line 1: behaviors.Ball.threaded: not given") for line in found
    )


@pytest.mark.slow
def test_the_command_explains_and_needs_no_torch():
    code = (
        "import sys; from lanista.trainers.cli.main import run; "
        "status = run(['check', '--explain', '--preset', 'ppo/ball3d']); "
        "assert 'torch' not in sys.modules; sys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "clip_value_loss" in done.stdout


@pytest.mark.slow
def test_every_preset_is_explained():
    presets = list((Path(__file__).parents[3] / "config").glob("*/*.yaml"))
    assert presets and not [path for path in presets if not differences(path.read_text())]
