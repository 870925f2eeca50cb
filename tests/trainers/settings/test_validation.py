"""Valid configurations that cannot be trained are refused before a run, with place and remedy."""

from dataclasses import replace

import pytest
from lanista.trainers.cli.main import run
from lanista.trainers.settings import RunOptions, TrainerConfigError
from lanista.trainers.settings.registry import trainer_types
from lanista.trainers.settings.validation import contradictions, require_support, require_trainable


def read(behavior, more=""):
    return RunOptions.from_text(f"behaviors: {{B: {behavior}}}\n{more}", "b.yaml")


# What is not supported ----------------------------------------------------------------------------------

UNSUPPORTED = {
    "network_settings.memory": "{trainer_type: td3, network_settings: {memory: {}}}",
    **{
        f"hyperparameters.n_step: found 3; with a memory ({trainer})": (
            f"{{trainer_type: {trainer}, hyperparameters: {{n_step: 3}}, network_settings: {{memory: {{}}}}}}"
        )
        for trainer in ("sac", "dqn")
    },
    **{
        f"hyperparameters.n_step: found 3; rnd ({trainer})": (
            f"{{trainer_type: {trainer}, hyperparameters: {{n_step: 3}}, reward_signals: {{rnd: {{}}}}}}"
        )
        for trainer in ("sac", "dqn", "ddpg", "td3")
    },
    **{
        f"network_settings.{place}hidden_units: found 50; .* set a multiple of 4 ({trainer})": (
            f"{{trainer_type: {trainer}, network_settings: {network}}}"
        )
        for trainer in ("poca", "mappo")
        for place, network in (("", "{hidden_units: 50}"), ("critic.", "{critic: {hidden_units: 50}}"))
    },
    r"network_settings.critic_only_observations: found \['Wind'\]; dqn has no critic beside its policy": (
        "{trainer_type: dqn, network_settings: {critic_only_observations: [Wind]}}"
    ),
    r"network_settings.critic_only_observations: found \['Wind'\]; a shared critic reads what the policy": (
        "{hyperparameters: {shared_critic: true}, trainer_type: ppo,"
        " network_settings: {critic_only_observations: [Wind]}}"
    ),
}


@pytest.mark.parametrize("path", UNSUPPORTED)
def test_what_is_not_supported_is_refused_with_its_path(path):
    options, message = read(UNSUPPORTED[path]), f"behaviors.B.{path.partition(' (')[0]}"
    with pytest.raises(TrainerConfigError, match=message):
        require_support(options)
    with pytest.raises(TrainerConfigError, match=message):
        require_trainable("B", options.behavior("B"))


@pytest.mark.parametrize(
    "behavior",
    [
        "{trainer_type: ppo, network_settings: {memory: {memory_type: gru}}}",
        *(
            f"{{trainer_type: {name}, hyperparameters: {{n_step: 3}}}}"
            for name in ("sac", "dqn", "ddpg", "td3")
        ),
        *(
            f"{{trainer_type: {name}, network_settings: {{critic_only_observations: [Wind, Map*]}}}}"
            for name in ("ppo", "poca", "coma", "sac", "ddpg", "td3")
        ),
    ],
)
def test_what_is_supported_is_accepted(behavior):
    lesson = "{curriculum: [{name: a, value: 1}]}"
    options = read(behavior, f"environment_parameters: {{g: 3, l: {lesson}}}")
    require_support(options)
    require_trainable("B", options.behavior("B"))


def test_a_file_that_defines_no_behavior_is_refused():
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
def test_a_behavior_without_a_reward_signal_is_refused(yaml, path):
    options = RunOptions.from_text(yaml, "a.yaml")
    with pytest.raises(TrainerConfigError, match=rf"a\.yaml.*: {path}: found no reward signal"):
        require_support(options)
    with pytest.raises(TrainerConfigError, match=r"behaviors\.B\.reward_signals: found no reward signal"):
        require_trainable("B", options.behavior("B"))


def test_progress_of_a_behavior_that_is_endless_by_default_is_refused():
    criteria = "completion_criteria: {measure: progress, behavior: %s, threshold: 0.1}"
    lessons = f"[{{name: a, value: 1, {criteria}}}, {{name: b, value: 2}}]"
    text = f"default_settings: {{trainer_type: ppo, max_steps: -1, {CONSTANT}}}\n"
    text += "behaviors: {Listed: {max_steps: 10}}\n"
    text += f"environment_parameters: {{m: {{curriculum: {lessons}}}}}"
    with pytest.raises(TrainerConfigError, match="found progress, the part of max_steps"):
        RunOptions.from_text(text % "Other", "b.yaml")
    RunOptions.from_text(text % "Listed", "b.yaml")


@pytest.mark.parametrize(
    ("network", "wrong"),
    [
        ("layer_norm: true, critic: {residual: true}", "critic.layer_norm: found true"),
        (
            "num_layers: 1000, hidden_units: 8, critic: {hidden_units: 20000}",
            "critic.hidden_units: found 20000",
        ),
    ],
)
def test_what_a_critic_takes_over_from_the_policy_must_fit_it(network, wrong):
    with pytest.raises(TrainerConfigError, match=rf"network_settings\.{wrong}"):
        read(f"{{network_settings: {{{network}}}}}")


def test_default_settings_may_lack_a_reward_signal_that_every_behavior_has():
    require_support(read("{reward_signals: {extrinsic: {}}}", "default_settings: {reward_signals: {}}"))


# Training without an end --------------------------------------------------------------------------------

CONSTANT = "hyperparameters: {learning_rate_schedule: constant}"


def test_constant_schedules_need_no_end():
    assert read(f"{{trainer_type: ppo, max_steps: -1, {CONSTANT}}}").behaviors["B"].endless
    assert not read("{max_steps: 0}").behaviors["B"].endless


@pytest.mark.parametrize("trainer", trainer_types)
def test_linear_schedules_without_an_end_are_refused_by_name(trainer):
    schedules = [key for key in trainer_types[trainer].settings.model_fields if key.endswith("_schedule")]
    for key in schedules:
        hyper = {**dict.fromkeys(schedules, "constant"), key: "linear"}
        data = {"trainer_type": trainer, "max_steps": -1, "hyperparameters": hyper}
        with pytest.raises(TrainerConfigError) as caught:
            RunOptions.from_dict({"behaviors": {"B": data}})
        (problem,) = caught.value.problems
        assert problem.key == f"behaviors.B.hyperparameters.{key}"
        assert f"Set {key}: constant" in problem.message


def test_schedules_that_are_linear_by_default_are_named_as_such():
    with pytest.raises(TrainerConfigError, match=r"found linear \(the default\)") as caught:
        read("{max_steps: -1}")
    found = [problem.key.rpartition(".")[2] for problem in caught.value.problems]
    assert found == ["learning_rate_schedule", "beta_schedule", "epsilon_schedule"]


@pytest.mark.parametrize(
    ("behavior", "message"),
    [
        (
            f"{{trainer_type: ppo, max_steps: -1, even_checkpoints: true, {CONSTANT}}}",
            r"even_checkpoints: .*Set checkpoint_interval instead",
        ),
        ("{max_steps: -2}", "expected at least -1"),
        ("{max_steps: -1000}", "expected at least -1"),
    ],
)
def test_what_an_endless_training_cannot_have_is_refused(behavior, message):
    with pytest.raises(TrainerConfigError, match=message):
        read(behavior)


# Lessons ------------------------------------------------------------------------------------------------

LESSONS = """\
environment_parameters:
  wall:
    curriculum:
      - name: low
        value: 1
        completion_criteria: {%s}
      - {name: high, value: 2}
"""


@pytest.mark.parametrize(
    ("criteria", "key", "message"),
    [
        ("behavior: Bb, threshold: 1", "behavior", "found Bb, which is no behavior of this file"),
        ("behavior: Jumpr, threshold: 1", "behavior", "Did you mean Jumper"),
        ("behavior: 'B?team=0'", "behavior", "teams are measured together: write B"),
        ("behavior: B, measure: progress, threshold: 1", "threshold", "must be above it"),
        ("behavior: B, measure: Elo, threshold: 1300", "measure", "no section self_play"),
    ],
)
def test_a_lesson_that_would_never_end_is_refused(criteria, key, message):
    path = rf"environment_parameters\.wall\.curriculum\.0\.completion_criteria\.{key}"
    options = read("{trainer_type: ppo}, Jumper: {}", LESSONS % criteria)
    with pytest.raises(TrainerConfigError, match=rf"b\.yaml, line 7: {path}: .*{message}"):
        require_support(options)


@pytest.mark.parametrize(
    ("behavior", "criteria", "more"),
    [
        ("{}", "behavior: B", ""),
        ("{}", "behavior: B, measure: progress, threshold: 0.99", ""),
        ("{}", "behavior: Another", "default_settings: {trainer_type: ppo}\n"),
        ("{trainer_type: ppo, self_play: {}}", "behavior: B, measure: Elo, threshold: 1300", ""),
    ],
)
def test_a_lesson_that_can_end_is_accepted(behavior, criteria, more):
    assert not contradictions(read(behavior, more + LESSONS % criteria))


def test_a_curriculum_without_a_lesson_is_refused():
    options = read("{trainer_type: ppo}", "environment_parameters: {p: {curriculum: []}}")
    with pytest.raises(TrainerConfigError, match=r"environment_parameters\.p\.curriculum: it has no lesson"):
        require_support(options)


def test_progress_is_no_measure_of_what_has_no_end():
    progress = LESSONS % "behavior: B, measure: progress, threshold: 0.5"
    endless = "{trainer_type: sac, max_steps: -1}"
    with pytest.raises(TrainerConfigError, match=r"b\.yaml, line 7: .*measure: found progress"):
        read(endless, progress)
    read(endless, progress.replace("progress", "reward"))
    read("{trainer_type: sac}", progress)
    default = f"default_settings: {{trainer_type: ppo, max_steps: -1, {CONSTANT}}}\n"
    other = default + progress.replace("behavior: B", "behavior: Other")
    with pytest.raises(TrainerConfigError, match=r"criteria\.measure: found progress, .*max_steps -1"):
        require_support(read("{trainer_type: ppo, max_steps: 5}", other))


def test_lanista_check_reports_a_lesson_that_would_never_end(tmp_path, capsys):
    file = tmp_path / "c.yaml"
    file.write_text("behaviors: {B: {trainer_type: ppo}}\n" + LESSONS % "behavior: Jumpr")
    assert run(["check", str(file)]) == 1
    assert "found Jumpr, which is no behavior" in capsys.readouterr().out


# Several learners --------------------------------------------------------------------------------------

MEMORY = {"network_settings": {"memory": {"sequence_length": 16}}}
REFUSED = {
    "more than a minibatch has": (33, {}, {}, r"found 33, and a minibatch of the behavior Ball has 32 steps"),
    "more than it has sequences": (3, MEMORY, {}, r"has 2 whole sequences of 16 steps \(batch_size 32\)"),
    "one GPU": (2, {}, {"device": "cuda:1"}, r"found 2, and device .* 'cuda:1'.*give cuda or cpu"),
    "no GPU": (2, {}, {"device": "mps"}, r"'mps'.*give cuda or cpu"),
}


def shared(learners, behavior, torch, **env):
    hyper = {"batch_size": 32, "buffer_size": 64}
    return RunOptions.from_dict(
        {
            "behaviors": {"Ball": {"trainer_type": "ppo", "hyperparameters": hyper, **behavior}},
            "torch_settings": {"learners": learners, **torch},
            "env_settings": {"env_path": "scene:basic", "num_envs": 64, **env},
        }
    )


@pytest.mark.parametrize("case", REFUSED)
def test_behaviors_and_devices_that_learners_cannot_share_are_refused(case):
    learners, behavior, torch, message = REFUSED[case]
    with pytest.raises(TrainerConfigError, match=r"torch_settings.learners: " + ".*" + message):
        require_support(shared(learners, behavior, torch))


ENVIRONMENTS = {
    "the Editor": ({"env_path": None, "num_envs": 1}, "there is one editor: name a build or a scene"),
    "engines that connect": ({"env_path": None, "listen": "localhost:6005"}, "all come to one: set 1"),
    "a cluster": ({"ray": "local"}, r"a Ray cluster \(--ray\) all belong to one: set 1"),
    "too few": ({"num_envs": 3}, r"there are 3 \(--num-envs\): raise --num-envs to 4 or more"),
    "too few workers": (
        {"env_path": "gymnasium:CartPole-v1", "num_envs": 1, "env_workers": 2},
        r"there are 2 \(--env-workers\): raise --env-workers to 4 or more",
    ),
}


@pytest.mark.parametrize("case", ENVIRONMENTS)
def test_environments_that_cannot_be_divided_are_refused(case):
    env, message = ENVIRONMENTS[case]
    with pytest.raises(TrainerConfigError, match=f"learners: found 4, and each learner has .*{message}"):
        require_support(shared(4, {}, {}, **env))
    require_support(shared(1, {}, {}, **env))


def test_a_behavior_that_appears_later_is_checked_too():
    whole = shared(40, {}, {})
    with pytest.raises(
        TrainerConfigError, match="found 40, and a minibatch of the behavior Ball has 32 steps"
    ):
        require_trainable("Ball", whole.behaviors["Ball"], whole.torch_settings.learners)


@pytest.mark.parametrize("learners", [0, -2, 65, "many"])
def test_an_impossible_number_of_learners_is_refused(learners):
    with pytest.raises(TrainerConfigError, match=r"torch_settings\.learners: found"):
        shared(learners, {}, {})


def test_as_many_learners_as_a_minibatch_has_rows_are_accepted():
    require_support(shared(32, {}, {"device": "cpu"}))
    require_support(shared(2, MEMORY, {}))
    require_support(shared(2, {}, {"device": "cuda"}))


def test_a_trainer_that_learns_in_one_process_is_named(monkeypatch):
    """Such as those of plug-ins, which do not declare that they can."""
    monkeypatch.setitem(trainer_types, "ppo", replace(trainer_types["ppo"], learners=False))
    with pytest.raises(TrainerConfigError, match=r"found 2, .* Ball has trainer_type: ppo, which .*sac"):
        require_support(shared(2, {}, {}))
    require_support(shared(1, {}, {}))
