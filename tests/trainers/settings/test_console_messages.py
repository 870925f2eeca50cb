"""What the console scripts say of a configuration that is wrong, or odd, leads to the one that was meant."""

import shutil
from pathlib import Path

import pytest
from console_runs import lanista

OLD = Path(__file__).parents[2] / "old_configurations"
PPO = "behaviors:\n  Ball:\n    trainer_type: ppo\n"
FILES = {
    "top": "Ball:\n  trainer_type: ppo\n",
    "a2c": "behaviors: {Ball: {trainer_type: a2c, hyperparameters: {batch_size: 32}}}\n",
    "dqn": (
        "behaviors: {Ball: {trainer_type: dqn, hyperparameters: {exploration_initial_eps: 0.4,"
        " exploration_final_eps: 0.02, exploration_schedule: linear}}}\n"
    ),
    "numbers": PPO
    + "    max_steps: 500,000\n    summary_freq: 1.000.000\n    checkpoint_interval: 500k\n"
    + '    hyperparameters: {learning_rate: "0,0003", beta: "1,500", epsilon: 20%, num_epoch: 1_0}\n'
    + "environment_parameters: {mass: '0,5'}\n",
    "many": PPO + "    max_step: 1\n    stepz: 2\n    hyperparameters: {lambda: 0.9, max_steps: 4}\n"
    "  Cube: {sequence_length: 4, gamma: 0.9}\nbatch_size: 3\nmass: {sampler_type: uniform}\n",
    "fast": PPO + "    hyperparameters: {learning_rate: 10}\n",
}


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What `lanista check` says of each file, by the file's name; one process for all."""
    folder = tmp_path_factory.mktemp("messages")
    for name, text in FILES.items():
        (folder / f"{name}.yaml").write_text(text)
    for file in OLD.glob("*.yaml"):
        shutil.copy(file, folder)
    names = sorted(path.name for path in folder.iterdir())
    shown = lanista(folder, "check", *names, status=1)
    parts = {}
    for line in shown.splitlines():
        if not line.startswith(" "):
            name = line.partition(".yaml")[0]
        parts[name] = f"{parts.get(name, '')}{line}\n"
    return parts


@pytest.mark.parametrize(
    ("file", "command"),
    [
        ("flat", "`lanista upgrade flat.yaml NEW.yaml`"),
        ("parted", "`lanista upgrade parted.yaml NEW.yaml`"),
        ("curriculum", "`lanista upgrade TRAINER.yaml --curriculum curriculum.yaml NEW.yaml`"),
        ("samplers", "`lanista upgrade TRAINER.yaml --sampler samplers.yaml NEW.yaml`"),
    ],
)
def test_a_configuration_of_the_first_versions_names_the_command_that_converts_it(said, file, command):
    assert "of ML-Agents 0.18 or earlier" in said[file] and command in said[file]
    assert "1 problem" in said[file] and "Known here" not in said[file]


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        (
            "top",
            "Ball: unknown key. It holds settings of a behavior: put it under `behaviors:`, as behaviors",
        ),
        ("a2c", "Invalid trainer type a2c was found. Known: ppo, sac, "),
        ("a2c", "Others come as plug-ins: install the package that brings it, or write one (docs/extending"),
        ("dqn", "are taken as epsilon_start: 0.4, epsilon_end: 0.02, epsilon_decay_steps: 20000."),
        ("dqn", "ok (Ball: dqn)"),
        ("numbers", "max_steps: found '500,000', expected a whole number: write 500000\n"),
        ("numbers", "summary_freq: found '1.000.000', expected a whole number: write 1000000\n"),
        ("numbers", "checkpoint_interval: found '500k', expected a whole number: write 500000\n"),
        ("numbers", "learning_rate: found '0,0003', expected a number: write 0.0003\n"),
        ("numbers", "beta: found '1,500', expected a number: write 1500 or 1.5\n"),
        ("numbers", "epsilon: found '20%', expected a number: write 0.2\n"),
        ("numbers", "mass: found '0,5', expected a number, or {sampler_type"),
        ("numbers", "yaml: 7 problems"),  # num_epoch 1_0 is a number in YAML
        ("many", "batch_size: unknown key. It belongs to behaviors.NAME.hyperparameters.batch_size, with"),
        ("many", "or for all behaviors to default_settings.hyperparameters.batch_size."),
        ("many", "mass: unknown key. It holds an environment parameter: put it under `environment_parameter"),
        ("many", "max_step: unknown key. Did you mean `max_steps`?"),
        ("many", "hyperparameters.max_steps: unknown key. It belongs to behaviors.Ball.max_steps."),
        ("many", "gamma: unknown key. It belongs to behaviors.Cube.reward_signals.extrinsic.gamma."),
        ("many", "It belongs to behaviors.Cube.network_settings.memory.sequence_length."),
        ("fast", "warning: learning_rate: found 10, which is too large as a rule"),
        ("fast", "ok (Ball: ppo)"),
    ],
)
def test_a_message_leads_to_what_was_meant(said, file, sentence):
    assert sentence in said[file]


def test_what_a_section_knows_is_listed_once(said):
    assert said["many"].count("unknown key") == 8
    for listed in (": default_settings", ": trainer_type", ": batch_size"):
        assert said["many"].count(f"Known here{listed}") == 1


def test_a_key_of_a_behavior_that_is_set_alone_names_its_path(tmp_path):
    error = lanista(tmp_path, "learn", "--preset", "ppo/basic", "--set", "max_steps=100", status=1)
    where = (
        "command line, --set max_steps=100: max_steps: unknown key. It belongs to behaviors.Basic.max_steps."
    )
    assert where in error
