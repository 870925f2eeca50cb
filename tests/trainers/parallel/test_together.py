"""Two processes that learn together come to the weights and the statistics that one comes to alone."""

import numpy as np
import pytest
from learner_teams import numbers

LSTM = ", memory: {memory_size: 4, sequence_length: 5}"
ON_POLICY = "batch_size: 31, buffer_size: 120, num_epoch: 2, learning_rate: 0.003"
SIGNALS = """\
    reward_signals:
      extrinsic: {}
      rnd: {strength: 0.1, network_settings: {hidden_units: 8, num_layers: 1, normalize: true}}
      curiosity: {strength: 0.1, network_settings: {hidden_units: 8, num_layers: 1}}
      gail: {demo_path: DEMO, use_actions: true, use_vail: true, network_settings: {hidden_units: 8}}
    behavioral_cloning: {demo_path: DEMO, steps: 2000, num_epoch: 1, samples_per_update: 32}
"""
OFF_POLICY = "batch_size: 31, buffer_size: 400, buffer_init_steps: 100, steps_per_update: 10"
RICH = "n_step: 2, prioritized_replay: true, normalize_rewards: true"
CHOICES = {"groups": True, "cont": 0, "disc": (3,), "max_len": 13}
CASES = {
    "ppo": ("ppo", ON_POLICY, "", {}),
    "ppo by derivatives": ("ppo", f"{ON_POLICY}, clip_value_loss: true", "", {"disc": (3,)}),
    "ppo with a memory": ("ppo", ON_POLICY, LSTM, {"disc": (3,), "max_len": 13}),
    "poca": ("poca", ON_POLICY, "", {"groups": True}),
    "poca with a memory": ("poca", ON_POLICY, LSTM, {"groups": True, "disc": (3,), "max_len": 13}),
    "coma": ("coma", f"{ON_POLICY}, max_num_agents: 4", "", CHOICES),
    "coma with a memory": ("coma", f"{ON_POLICY}, max_num_agents: 4", LSTM, CHOICES),
    "coma as published": ("coma", f"{ON_POLICY}, max_num_agents: 4, clip: false", "", CHOICES),
    "sac": ("sac", OFF_POLICY, "", {"disc": (3,)}),
    "sac with a memory": ("sac", f"{OFF_POLICY}, burn_in_ratio: 0.4", LSTM, {"max_len": 13}),
    "sac with signals": ("sac", OFF_POLICY, "", {}, SIGNALS),
    "dqn": ("dqn", f"{OFF_POLICY}, {RICH}", "", {"cont": 0, "disc": (3,)}),
    "dqn with a memory": ("dqn", OFF_POLICY, LSTM, {"cont": 0, "disc": (3,), "max_len": 13}),
    "ddpg": ("ddpg", f"{OFF_POLICY}, {RICH}", "", {}),
    "td3": ("td3", OFF_POLICY, "", {}),
    "ppo with signals": ("ppo", ON_POLICY, "", {}, SIGNALS),
}
"""By name: trainer, hyperparameters, memory, what is different in the game, and further settings."""


@pytest.mark.parametrize("case", CASES)
def test_they_learn_what_one_learns(team, record, case):
    recording = record(*CASES[case])
    alone, leading = recording.trainer(), recording.leading(team)
    untaught = numbers(alone.state_dict())
    recording.feed(alone)
    recording.feed(leading)
    one, two = (numbers(trainer.state_dict()) for trainer in (alone, leading))
    assert one.keys() == two.keys()
    for path, expected in one.items():
        np.testing.assert_allclose(two[path], expected, rtol=1e-5, atol=2e-6, err_msg=path)
    moved = [path for path in one if "Policy" in path and not np.array_equal(one[path], untaught[path])]
    assert len(moved) > 5, moved
    told, also = alone.stats.calls, leading.stats.calls
    assert [call[::2] for call in told] == [call[::2] for call in also]
    assert sum(call[0].startswith("Losses/") for call in told) >= 6
    np.testing.assert_allclose([call[1] for call in also], [call[1] for call in told], rtol=1e-5, atol=1e-6)


def test_twice_the_same_bits_come_out(team, record):
    recording = record(*CASES["ppo with a memory"])
    trainers = [recording.leading(team), recording.leading(team)]
    for trainer in trainers:
        recording.feed(trainer)
    one, two = (numbers(trainer.state_dict()) for trainer in trainers)
    assert all(np.array_equal(one[path], two[path]) for path in one) and len(one) > 20
