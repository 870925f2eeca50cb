"""`lanista init --from-zoo`: what rl-zoo3 says of an environment is said here, or named."""

import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanista.trainers.cli.init.zoo import DEFAULTS, ActionFacts, translate
from lanista.trainers.cli.init.zoo_file import zoo_configuration
from lanista.trainers.cli.main import run
from lanista.trainers.settings.errors import TrainerConfigError
from lanista.trainers.settings.options import RunOptions
from lanista.trainers.utils.errors import CommandError

pytest.importorskip("gymnasium")

PAGE = Path(__file__).parents[3] / "docs" / "tutorials" / "from-sb3.md"
CONTINUOUS, DISCRETE = ActionFacts(3, 2.0), ActionFacts()
PENDULUM = """\
shared: &shared {n_envs: 4, n_timesteps: !!float 1e5, policy: MlpPolicy}
Pendulum-v1:
  <<: *shared
  n_steps: 16
  gamma: 0.9
  env_wrapper: some.Wrapper
  policy_kwargs: "dict(log_std_init=-2, ortho_init=False, activation_fn=nn.ReLU, net_arch=[32])"
"""


def said(algorithm, actions=CONTINUOUS, **entry):
    """Hyperparameters and network of an entry."""
    settings = translate(algorithm, {"n_timesteps": 1e5, **entry}, actions).settings
    RunOptions.from_dict({"behaviors": {"Any": settings}})
    return settings["hyperparameters"] | settings["network_settings"]


@pytest.mark.parametrize(
    ("algorithm", "entry", "expected"),
    [
        ("ppo", {}, {"buffer_size": 2047, "batch_size": 64, "num_epoch": 10, "ratio": "joint"}),
        ("ppo", {}, {"hidden_units": [64, 64], "activation": "tanh", "initialization": "orthogonal"}),
        ("ppo", {"n_steps": 8, "batch_size": 256}, {"batch_size": 8, "buffer_size": 7}),
        ("ppo", {"learning_rate": "lin_3e-4"}, {"learning_rate": 3e-4, "learning_rate_schedule": "linear"}),
        ("ppo", {"clip_range": "lin_0.1"}, {"epsilon": 0.1, "epsilon_schedule": "linear", "clip_end": 0.0}),
        ("ppo", {}, {"epsilon": 0.2, "epsilon_schedule": "constant", "beta": 0.0}),
        ("ppo", {"ent_coef": 0.01}, {"beta": 0.03, "beta_schedule": "constant"}),
        ("ppo", {"normalize_advantage": False}, {"normalize_advantages": "none"}),
        ("ppo", {"target_kl": 0.04}, {"target_kl": 0.04}),
        ("ppo", {"normalize": True}, {"normalize": True, "normalize_rewards": True}),
        ("ppo", {"normalize": "{'norm_obs': False, 'norm_reward': True}"}, {"normalize": False}),
        ("ppo", {"use_sde": True}, {"state_dependent_exploration": {"resample_interval": 2048}}),
        ("ppo", {}, {"action_range": 2.0, "initial_log_std": 0.0}),
        ("ppo", {"policy_kwargs": {"net_arch": [{"pi": [8], "vf": [9]}]}}, {"critic": {"hidden_units": [9]}}),
        ("ppo", {"policy": "CnnPolicy"}, {"vis_encode_type": "nature_cnn"}),
        ("ppo_lstm", {}, {"memory": {"memory_size": 512, "sequence_length": 128}}),
        ("ppo_lstm", {"n_steps": 512}, {"memory": {"memory_size": 512, "sequence_length": 128}}),
        ("sac", {"train_freq": [4, "step"], "use_sde": True}, {"steps_per_update": 4}),
        ("sac", {}, {"init_entcoef": 1.0, "steps_per_update": 1, "random_initial_actions": True}),
        ("sac", {"ent_coef": "auto_0.1"}, {"init_entcoef": 0.1}),
        (
            "sac",
            {"ent_coef": 0.05, "target_entropy": -2},
            {"entropy_coefficient": 0.05, "target_entropy": -2},
        ),
        ("sac", {"train_freq": 8, "gradient_steps": -1, "n_envs": 2}, {"gradient_steps": 16}),
        (
            "sac",
            {"use_sde": True, "policy_kwargs": "dict(log_std_init=-3.67, net_arch=[64, 64])"},
            {"initial_log_std": -3.67, "hidden_units": [64, 64]},
        ),
        ("td3", {"noise_type": "normal", "noise_std": 0.1}, {"noise_start": 0.1, "noise_end": 0.1}),
        ("td3", {}, {"noise_start": 0.0, "policy_delay": 2, "hidden_units": [400, 300]}),
        ("ddpg", {"noise_type": "ornstein-uhlenbeck", "noise_std": 0.5}, {"noise_dt": 0.01}),
        ("dqn", {}, {"target_update_interval": 2500, "double": False}),
        (
            "dqn",
            {"train_freq": 256, "gradient_steps": 128, "target_update_interval": 10},
            {"target_update_interval": 128},
        ),
        ("dqn", {"exploration_fraction": 0.2}, {"epsilon_decay_steps": 20_000, "epsilon_end": 0.05}),
    ],
)
def test_what_an_entry_says(algorithm, entry, expected):
    found = said(algorithm, DISCRETE if algorithm == "dqn" else CONTINUOUS, **entry)
    assert {key: found.get(key) for key in expected} == expected


@pytest.mark.parametrize(
    ("algorithm", "entry", "left"),
    [
        ("ppo", {"env_wrapper": "x.Y", "frame_stack": 4}, ["env_wrapper", "frame_stack"]),
        (
            "ppo",
            {"policy_kwargs": "dict(share_features_extractor=True)"},
            ["policy_kwargs.share_features_extractor"],
        ),
        ("ppo", {"policy_kwargs": "dict(activation_fn=nn.SiLU6)"}, ["policy_kwargs.activation_fn"]),
        ("sac", {"train_freq": [1, "episode"], "use_sde": True}, ["train_freq"]),
        ("ppo_lstm", {"n_steps": 512}, ["n_steps"]),
        ("ppo_lstm", {"policy_kwargs": {"enable_critic_lstm": True, "n_lstm_layers": 1}}, []),
        ("ppo_lstm", {"policy_kwargs": {"n_lstm_layers": 2}}, ["policy_kwargs.n_lstm_layers"]),
        ("ppo", {"policy_kwargs": "dict(net_arch=[])"}, ["policy_kwargs.net_arch"]),
        ("sac", {"policy_kwargs": {"net_arch": {"pi": [8], "qf": [9]}}}, ["policy_kwargs.net_arch"]),
        ("dqn", {"replay_buffer_class": "HER"}, ["replay_buffer_class"]),
    ],
)
def test_what_cannot_be_said_is_named(algorithm, entry, left):
    assert list(translate(algorithm, {"n_timesteps": 1e5, **entry}, CONTINUOUS).left) == left


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"gamma": "much"}, "gamma: found 'much', expected a number"),
        ({"n_steps": 0.5}, "n_steps: found 0.5, expected a whole number from 1"),
        ({"learning_rate": "lin_x"}, "learning_rate: found 'x', expected a number"),
        ({"n_timesteps": None}, "n_timesteps: found None"),
        ({"policy_kwargs": "dict(a=__import__('os').system('touch x'))"}, "expected literals and dict(...)"),
        ({"policy_kwargs": "[1]"}, "policy_kwargs: found [1], expected dict(...)"),
        ({"policy_kwargs": "dict(net_arch=['a'])"}, "net_arch: found ['a'], expected widths"),
        ({"policy_kwargs": "dict(" * 500}, "policy_kwargs: found 'dict("),
    ],
)
def test_what_is_no_setting_is_refused(entry, message):
    with pytest.raises(CommandError, match=re.escape(message)):
        translate("ppo", {"n_timesteps": 1e5, **entry}, CONTINUOUS)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8) | st.integers(), inner, max_size=3)
    ),
    max_leaves=5,
)
KEYS = [
    *DEFAULTS["sac"],
    *DEFAULTS["dqn"],
    *DEFAULTS["td3"],
    *DEFAULTS["ppo"],
    "n_timesteps",
    "policy_kwargs",
    3,
]
POLICY = ["net_arch", "activation_fn", "ortho_init", "log_std_init", "lstm_hidden_size"]


@given(
    st.sampled_from(list(DEFAULTS)),
    st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4),
    st.dictionaries(st.sampled_from(POLICY), VALUES, max_size=3),
)
def test_any_other_value_is_refused_in_a_sentence(algorithm, entry, policy):
    entry = {"n_timesteps": 1e5, "policy_kwargs": policy, **entry}
    with suppress(CommandError, TrainerConfigError):
        RunOptions.from_text(zoo_configuration("A", translate(algorithm, entry, CONTINUOUS), []), "text")


def test_a_file_becomes_a_configuration(tmp_path, capsys):
    (tmp_path / "ppo.yml").write_text(PENDULUM)
    own = tmp_path / "own.yaml"
    words = [
        "init",
        "--env",
        "gymnasium:Pendulum-v1",
        "--from-zoo",
        str(tmp_path / "ppo.yml"),
        "-o",
        str(own),
    ]
    assert run(words) == 0
    printed = capsys.readouterr().out
    assert "env_wrapper: not said; register a function" in printed and "--num-areas 4" in printed
    assert "# Not said: env_wrapper" in own.read_text()
    (settings,) = RunOptions.from_file(own).behaviors.values()
    network = settings.network_settings
    assert (network.initial_log_std, network.action_range, network.hidden_units) == (-2.0, 2.0, [32])
    assert settings.hyperparameters.buffer_size == 63 and settings.time_horizon == 16


@pytest.mark.parametrize(
    ("words", "file", "message"),
    [
        (["--env", "scene:basic"], "ppo.yml", "is for Gymnasium environments"),
        (["--env", "gymnasium:Pendulum-v1"], "a2c.yml", "found a file named a2c, expected one of ppo"),
        (["--env", "gymnasium:Pendulum-v1", "--trainer", "ppo"], "ppo.yml", "leave out --trainer"),
        (["--env", "gymnasium:CartPole-v1"], "ppo.yml", "has no settings of CartPole-v1"),
    ],
)
def test_what_cannot_be_translated_is_refused(words, file, message, tmp_path, capsys):
    (tmp_path / file).write_text(PENDULUM)
    assert run(["init", "--from-zoo", str(tmp_path / file), "-o", str(tmp_path / "own.yaml"), *words]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "own.yaml").exists()


def test_the_page_has_every_key():
    page = PAGE.read_text(encoding="utf-8")
    keys = set().union(*DEFAULTS.values()) - {"policy"}
    assert [key for key in sorted(keys) if not re.search(rf"\b{key}\b", page)] == []
