"""What this version cannot do is refused before a run, not passed over in it."""

import pytest
from lanista.trainers.settings import RunOptions, TrainerConfigError
from lanista.trainers.settings.validation import require_support, require_trainable

ASKS = {
    "network_settings.memory": "{trainer_type: td3, network_settings: {memory: {}}}",
    "hyperparameters.n_step": (
        "{trainer_type: dqn, hyperparameters: {n_step: 3}, network_settings: {memory: {}}}"
    ),
}


@pytest.mark.parametrize("path", ASKS)
def test_refused_with_its_path(path: str) -> None:
    options = RunOptions.from_text(f"behaviors: {{B: {ASKS[path]}}}")
    with pytest.raises(TrainerConfigError, match=f"behaviors.B.{path}: "):
        require_support(options)
    with pytest.raises(TrainerConfigError, match=f"behaviors.B.{path}: "):
        require_trainable("B", options.behavior("B"))


@pytest.mark.parametrize("trainer", ["sac", "dqn", "ddpg", "td3"])
def test_signals_that_learn_are_asked_about_single_steps(trainer: str) -> None:
    yaml = f"{{trainer_type: {trainer}, hyperparameters: {{n_step: 3}}, reward_signals: {{SIGNALS}}}}"
    plain, curious = (
        RunOptions.from_text(f"behaviors: {{B: {yaml}}}".replace("SIGNALS", signals)).behavior("B")
        for signals in ("extrinsic: {}", "extrinsic: {}, rnd: {}")
    )
    require_trainable("B", plain)
    with pytest.raises(TrainerConfigError, match=r"behaviors\.B\.hyperparameters\.n_step: found 3; rnd"):
        require_trainable("B", curious)


def test_ppo_with_parameters_is_supported() -> None:
    lesson = "{curriculum: [{name: a, value: 1}]}"
    parameters = f"environment_parameters: {{g: 3, l: {lesson}}}"
    memory = "network_settings: {memory: {memory_type: gru}}"
    require_support(RunOptions.from_text(f"behaviors: {{B: {{trainer_type: ppo, {memory}}}}}\n" + parameters))


def test_a_file_that_tells_of_no_behavior_is_refused_before_the_engine_starts() -> None:
    with pytest.raises(TrainerConfigError, match=r"a\.yaml: it defines no behavior"):
        require_support(RunOptions.from_text("env_settings: {seed: 1}", "a.yaml"))
    require_support(RunOptions.from_text("default_settings: {trainer_type: ppo}", "a.yaml"))


@pytest.mark.parametrize(
    ("yaml", "path"),
    [
        ("behaviors: {B: {reward_signals: {}}}", "behaviors.B.reward_signals"),
        ("default_settings: {reward_signals: {}}", "default_settings.reward_signals"),
        ("default_settings: {reward_signals: {}}\nbehaviors: {B: {}}", "behaviors.B.reward_signals"),
    ],
)
def test_a_behavior_that_nothing_rewards_is_refused_before_the_engine_starts(yaml: str, path: str) -> None:
    options = RunOptions.from_text(yaml, "a.yaml")
    with pytest.raises(TrainerConfigError, match=rf"a\.yaml.*: {path}: found no reward signal"):
        require_support(options)
    with pytest.raises(TrainerConfigError, match=r"behaviors\.B\.reward_signals: found no reward signal"):
        require_trainable("B", options.behavior("B"))


def test_a_default_without_rewards_is_no_fault_where_a_behavior_has_them() -> None:
    behavior = "behaviors: {B: {reward_signals: {extrinsic: {}}}}"
    require_support(RunOptions.from_text(f"default_settings: {{reward_signals: {{}}}}\n{behavior}"))
