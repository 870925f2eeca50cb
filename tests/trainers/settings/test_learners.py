"""Learners that cannot work together are refused at the start, naming what they were given."""

from dataclasses import replace

import pytest
from lanista.trainers.settings.errors import TrainerConfigError
from lanista.trainers.settings.options import RunOptions
from lanista.trainers.settings.registry import trainer_types
from lanista.trainers.settings.validation import require_support, require_trainable

MEMORY = {"network_settings": {"memory": {"sequence_length": 16}}}
REFUSED = {
    "more than a minibatch has": (33, {}, {}, r"found 33, and a minibatch of the behavior Ball has 32 steps"),
    "more than it has sequences": (3, MEMORY, {}, r"has 2 whole sequences of 16 steps \(batch_size 32\)"),
    "one GPU": (2, {}, {"device": "cuda:1"}, r"found 2, and device .* 'cuda:1'.*give cuda or cpu"),
    "no GPU": (2, {}, {"device": "mps"}, r"'mps'.*give cuda or cpu"),
}


def options(learners, behavior, torch, **env):
    hyper = {"batch_size": 32, "buffer_size": 64}
    return RunOptions.from_dict(
        {
            "behaviors": {"Ball": {"trainer_type": "ppo", "hyperparameters": hyper, **behavior}},
            "torch_settings": {"learners": learners, **torch},
            "env_settings": {"env_path": "scene:basic", "num_envs": 64, **env},
        }
    )


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_shared_is_named(case):
    learners, behavior, torch, message = REFUSED[case]
    with pytest.raises(TrainerConfigError, match=r"torch_settings.learners: " + ".*" + message):
        require_support(options(learners, behavior, torch))


ENVIRONMENTS = {
    "the Editor": ({"env_path": None, "num_envs": 1}, "there is one Editor: name a build or a scene"),
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
        require_support(options(4, {}, {}, **env))
    require_support(options(1, {}, {}, **env))


def test_a_behavior_that_appears_later_is_looked_at_too():
    whole = options(40, {}, {})
    with pytest.raises(
        TrainerConfigError, match="found 40, and a minibatch of the behavior Ball has 32 steps"
    ):
        require_trainable("Ball", whole.behaviors["Ball"], whole.torch_settings.learners)


@pytest.mark.parametrize("learners", [0, -2, 65, "many"])
def test_no_number_of_processes_is_refused(learners):
    with pytest.raises(TrainerConfigError, match=r"torch_settings\.learners: found"):
        options(learners, {}, {})


def test_as_many_as_there_are_rows_are_taken():
    require_support(options(32, {}, {"device": "cpu"}))
    require_support(options(2, MEMORY, {}))
    require_support(options(2, {}, {"device": "cuda"}))


def test_a_trainer_that_cannot_share_is_named(monkeypatch):
    """As those of plug-ins, which do not say that they can."""
    monkeypatch.setitem(trainer_types, "ppo", replace(trainer_types["ppo"], learners=False))
    with pytest.raises(TrainerConfigError, match=r"found 2, .* Ball has trainer_type: ppo, which .*sac"):
        require_support(options(2, {}, {}))
    require_support(options(1, {}, {}))
