"""Whatever door settings come in by, the same ones are refused, before the run and in the same words."""

import copy
from contextlib import suppress
from pathlib import Path

import lanista
import pytest
import yaml
from lanista import trainers
from lanista.trainers import RunOptions, TrainerConfigError, TrainerSettings
from lanista.trainers.api import _process_as_before
from lanista.trainers.callbacks.factory import make_callbacks
from lanista.trainers.callbacks.keep_best import KeepBest
from lanista.trainers.callbacks.stop_at_reward import StopAtReward
from lanista.trainers.callbacks.video import WriteVideo
from lanista.trainers.cli.main import run
from lanista.trainers.learn import run_training
from lanista.trainers.settings.models.rewards import DemonstrationsSettings
from lanista.trainers.settings.validation import require_support, require_trainable
from lanista.trainers.trainer.factory import untrainable
from lanista.trainers.utils.errors import TrainerError
from specs import vector_spec

DEMO = str(Path(__file__).parents[1] / "real" / "demos" / "ExpertBasic.demo")
MEMORY = {"memory": {"memory_size": 4, "sequence_length": 4}}
N_STEP = {"hyperparameters": {"n_step": 3}}


def settings(trainer, network=None, **more):
    """Of a training that would soon be over if it began."""
    network = {"network_settings": network} if network else {}
    return {"trainer_type": trainer, **network, "max_steps": 50, **more}


FORBIDDEN = {
    "a memory of ddpg": (settings("ddpg", MEMORY), "network_settings.memory: this version gives agents a"),
    "a memory of td3": (settings("td3", MEMORY), "network_settings.memory: this version gives agents a"),
    **{
        f"a memory and n_step of {name}": (
            settings(name, MEMORY, **N_STEP),
            "hyperparameters.n_step: found 3; with a memory what follows a step",
        )
        for name in ("sac", "dqn")
    },
    **{
        f"rnd and n_step of {name}": (
            settings(name, reward_signals={"extrinsic": {}, "rnd": {}}, **N_STEP),
            "hyperparameters.n_step: found 3; rnd evaluates each sampled step again",
        )
        for name in ("sac", "dqn", "ddpg", "td3")
    },
    "a critic of dqn": (
        settings("dqn", {"critic": {"hidden_units": 32}}),
        "network_settings.critic: this version builds a critic otherwise than the policy with",
    ),
    "a shared critic that differs": (
        settings("ppo", {"critic": {"hidden_units": 32}}, hyperparameters={"shared_critic": True}),
        "network_settings.critic: a shared critic is a part of the policy's network",
    ),
    "a critic with another normalizer": (
        settings("sac", {"critic": {"normalize": True}}),
        "network_settings.critic.normalize: found true; the critic reads",
    ),
    "a critic with a memory alone": (
        settings("ppo", {"critic": MEMORY}),
        "network_settings.critic.memory: policy and critic learn from the same sequences",
    ),
    "heads that share a width": (
        settings("poca", {"hidden_units": 10}),
        "network_settings.hidden_units: found 10; the critic attends to the members of a team",
    ),
    "heads that share the first of several widths": (
        settings("poca", {"hidden_units": [10, 8]}),
        "network_settings.hidden_units: found [10, 8]; the critic attends to the members of a team with 4 "
        "heads: let the first be a multiple of 4",
    ),
    "residual blocks of different widths": (
        settings("sac", {"hidden_units": [8, 12]}, hyperparameters={"recipe": "simba"}),
        "network_settings.hidden_units: found [8, 12]; residual blocks are all of one width: give one",
    ),
    "heads of a critic": (
        settings("mappo", {"critic": {"hidden_units": 10}}),
        "network_settings.critic.hidden_units: found 10; the critic attends to the members of a team",
    ),
    "what a critic alone reads, of dqn": (
        settings("dqn", {"critic_only_observations": ["x"]}),
        "network_settings.critic_only_observations: found ['x']; dqn has no critic beside its policy",
    ),
    "what a shared critic alone reads": (
        settings("ppo", {"critic_only_observations": ["x"]}, hyperparameters={"shared_critic": True}),
        "network_settings.critic_only_observations: found ['x']; a shared critic reads what",
    ),
    **{
        f"demonstrations of {name}": (
            settings(name, demonstrations={"demo_path": DEMO}),
            f"demonstrations: {name} learns from the steps of its newest policy alone (sac, dqn, ddpg, td3 "
            "have a replay): remove this section, or use behavioral_cloning or gail",
        )
        for name in ("ppo", "poca", "mappo", "coma")
    },
    "demonstrations in a batch of one step": (
        settings("dqn", hyperparameters={"batch_size": 1}, demonstrations={"demo_path": DEMO}),
        "hyperparameters.batch_size: found 1; a minibatch of 1 step cannot be divided between replay and",
    ),
    "demonstrations in a batch of one sequence": (
        settings("sac", MEMORY, hyperparameters={"batch_size": 7}, demonstrations={"demo_path": DEMO}),
        "hyperparameters.batch_size: found 7; a minibatch of 1 sequence cannot be divided between replay and",
    ),
    **{
        f"a share of {share}": (
            settings("sac", demonstrations={"demo_path": DEMO, "share": share}),
            f"demonstrations.share: found {share}, expected {expected}",
        )
        for share, expected in (
            (0.0, "a number above 0"),
            (1.0, "a number below 1"),
            (-0.5, "a number above 0"),
        )
    },
    "no reward signal": (
        settings("sac", reward_signals={}),
        "reward_signals: found no reward signal, so there is nothing to learn",
    ),
    "no batch": (  # what a file cannot even say
        settings("ppo", hyperparameters={"batch_size": -1}),
        "hyperparameters.batch_size: found -1, expected at least 1",
    ),
    "a schedule without an end": (
        settings("ppo", max_steps=-1),
        "hyperparameters.beta_schedule: found linear (the default), which falls until max_steps",
    ),
}
TEXT = {"env_settings": {"env_path": "scene:basic", "num_envs": 1}, "checkpoint_settings": {"run_id": "r"}}


def tree(behavior):
    return {"behaviors": {"Basic": behavior}, **copy.deepcopy(TEXT)}


def written(behavior):
    Path("c.yaml").write_text(yaml.safe_dump(tree(behavior)))
    return "c.yaml"


def set_later(behavior):
    """Options whose settings were changed by assignments, which check nothing."""
    options = RunOptions.from_dict(tree({"trainer_type": behavior["trainer_type"]}))
    options.behaviors["Basic"] = behavior_of_python(behavior)
    return options


def behavior_of_python(behavior):
    own = TrainerSettings(trainer_type=behavior["trainer_type"])
    for key, value in behavior.items():
        section = getattr(own, key)
        if key == "network_settings":
            parts = own.model_validate({"trainer_type": "ppo", key: value})
            own.network_settings = parts.network_settings
        elif key == "hyperparameters":
            for name, part in value.items():
                setattr(section, name, part)
        elif key == "reward_signals":
            own.reward_signals = own.model_validate({"trainer_type": "ppo", key: value}).reward_signals
        elif key == "demonstrations":
            own.demonstrations = DemonstrationsSettings(demo_path=value["demo_path"])
            for name, part in value.items():
                setattr(own.demonstrations, name, part)
        else:
            setattr(own, key, value)
    return own


def by_yaml(behavior):
    require_support(RunOptions.from_file(written(behavior)))


def by_flags(behavior):
    sets = [word for part in tree(behavior).items() for word in ("--set", "=".join(map(str, part)))]
    require_support(trainers.parse_command_line(sets))


def by_an_unlisted_name(behavior):
    options = RunOptions.from_dict({"default_settings": behavior})
    require_trainable("Basic", options.behavior("Basic"))


def by_run_training(behavior):
    with _process_as_before():
        run_training(set_later(behavior))


def by_hand(behavior):
    make = getattr(trainers, f"{behavior['trainer_type'].upper()}Trainer")
    make("Basic?team=0", vector_spec([3], 1), behavior)


def by_hand_with_settings(behavior):
    make = getattr(trainers, f"{behavior['trainer_type'].upper()}Trainer")
    make("Basic?team=0", vector_spec([3], 1), behavior_of_python(behavior))


DOORS = {
    "a file": by_yaml,
    "flags": by_flags,
    "a name that is not listed": by_an_unlisted_name,
    "lanista.train with a mapping": lambda behavior: lanista.train(tree(behavior)),
    "lanista.train with options": lambda behavior: lanista.train(set_later(behavior)),
    "run_training": by_run_training,
    "a trainer by hand": by_hand,
    "a trainer by hand with settings": by_hand_with_settings,
}


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", FORBIDDEN)
def test_every_door_refuses_what_cannot_be_trained(case, door):
    behavior, sentence = FORBIDDEN[case]
    with pytest.raises(TrainerConfigError) as caught:
        DOORS[door](behavior)
    assert any(sentence in str(problem) for problem in caught.value.problems), str(caught.value)
    assert not Path("results").exists()


def sweep(behavior):
    pytest.importorskip("optuna")
    rate = "behaviors.Basic.hyperparameters.learning_rate"
    own = {"config": written(behavior), "results_dir": "swept", "trials": 1}
    Path("s.yaml").write_text(yaml.safe_dump({**own, "parameters": {rate: {"values": [1e-4, 1e-3]}}}))
    return ["sweep", "s.yaml"]


COMMANDS = {
    "check": lambda behavior: ["check", written(behavior)],
    "experiment": lambda behavior: ["experiment", written(behavior)],
    "sweep": sweep,
    "clone": lambda behavior: ["clone", DEMO, "--behavior", "Basic", "--config", written(behavior)],
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("case", FORBIDDEN)
def test_every_command_refuses_what_cannot_be_trained(case, command, capsys):
    behavior, sentence = FORBIDDEN[case]
    assert run(COMMANDS[command](behavior)) != 0
    said = " ".join("".join(capsys.readouterr()).split())
    assert " ".join(sentence.split()) in said
    assert not Path("results").exists() and not Path("swept").exists()


@pytest.mark.parametrize("case", FORBIDDEN)
def test_an_engine_that_connects_is_told_the_same(case):
    """Which has a behavior that no other has shown."""
    behavior, sentence = FORBIDDEN[case]
    with suppress(TrainerConfigError):  # of what cannot even be read
        own = RunOptions.from_dict(tree(behavior)).behaviors["Basic"]
        assert sentence in str(untrainable(vector_spec([3], 1), own))


def test_a_trainer_by_hand_takes_settings_of_its_own_kind_and_no_self_play():
    spec = vector_spec([3], 1)
    with pytest.raises(TrainerConfigError, match=r"Basic\.self_play: opponents .* in a run alone"):
        trainers.PPOTrainer("Basic?team=0", spec, {"self_play": {}})
    trainers.PPOTrainer("Basic?team=0", spec, {"self_play": {}}, training=False)  # as --inference
    for given in ({"trainer_type": "ppo"}, TrainerSettings()):
        with pytest.raises(TrainerConfigError, match=r"trainer_type: found 'ppo'; SACTrainer takes .* sac"):
            trainers.SACTrainer("Basic?team=0", spec, given)


def test_a_trainer_by_hand_says_what_has_no_effect(caplog):
    own = {"threaded": True, "test_frequency": 100, "network_settings": {"hidden_units": 8}}
    trainers.PPOTrainer("Basic?team=0", vector_spec([3], 1), own)
    for key in ("threaded", "test_frequency"):
        assert f"Basic: {key} is for runs of lanista-learn; here it has no effect" in caplog.text


IDLE = {
    "a behavior that is none": (KeepBest(behavior="Basik"), "behavior: found Basik, .* Did you mean Basic"),
    "a reward of none": (StopAtReward(1, behavior="Basik"), "behavior: found Basik, which is no behavior of"),
    "a score without tests": (StopAtReward(1, evaluation=True), "StopAtReward waits for evaluations, and"),
    "a film without tests": (
        WriteVideo(),
        "WriteVideo waits for evaluations, and there are none: set test_f",
    ),
}


@pytest.mark.parametrize("case", IDLE)
def test_a_callback_that_would_wait_for_ever_is_refused_named_or_made(case):
    callback, message = IDLE[case]
    kind = {KeepBest: "keep_best", StopAtReward: "stop_at_reward", WriteVideo: "write_video"}[type(callback)]
    keys = {"behavior", "reward", "evaluation"} & vars(callback).keys()
    arguments = {key: getattr(callback, key) for key in keys}
    named = {"callbacks": [{kind: arguments}]}
    with pytest.raises(TrainerConfigError, match=r"callbacks\.0: " + message):
        lanista.train(tree(settings("ppo")) | named)
    with pytest.raises(TrainerConfigError, match=r"callbacks\.0: " + message):
        require_support(RunOptions.from_text(yaml.safe_dump(tree(settings("ppo")) | named), "c.yaml"))
    with pytest.raises(TrainerError, match=message):
        lanista.train(tree(settings("ppo")), callbacks=[callback])
    own = type("Own", (type(callback),), {})(**arguments)
    assert make_callbacks(RunOptions.from_text(yaml.safe_dump(tree(settings("ppo"))), "c.yaml"), [own])
    tested = RunOptions.from_dict(
        {"behaviors": {"Basic": {"test_frequency": 5}, "Basik": {"test_frequency": 5}}, **named}
    )
    assert make_callbacks(tested)
