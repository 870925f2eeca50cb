"""GAIL with absorbing states (DAC): rewards of either sign, and what an episode's end is worth."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.algorithms.ppo.ppo import PPO
from lanista.trainers.algorithms.sac.sac import SAC
from lanista.trainers.buffers.rollout_buffer import RolloutBuffer
from lanista.trainers.rewards.absorbing import AbsorbingStates
from lanista.trainers.rewards.base import NetworkSignal
from lanista.trainers.rewards.dac import INDICATOR, LARGEST, logit_penalty, with_absorbing
from lanista.trainers.rewards.extrinsic import ExtrinsicReward
from lanista.trainers.rewards.factory import make_learned_rewards
from lanista.trainers.rewards.gail import GAIL, RandomDraws, Sample, twice_differentiable
from lanista.trainers.rewards.transitions import SignalSteps, Transitions
from lanista.trainers.settings.errors import TrainerConfigError
from lanista.trainers.settings.models.behavior import TrainerSettings
from lanista.trainers.settings.models.rewards import GAILSettings
from lanista.trainers.settings.options import RunOptions
from lanista.trainers.trainer.off_policy import OffPolicyTrainer
from lanista.trainers.trainer.on_policy import OnPolicyTrainer
from rollouts import demonstrations, random_rollout, reloaded
from specs import spec_of_shapes, vector_spec
from trainer_surroundings import Events, Record

CPU = torch.device("cpu")
SMALL = {"hidden_units": 16, "num_layers": 2}
SPEC = vector_spec([3], continuous=1)
KINDS = [{}, {"use_actions": True}, {"use_vail": True}, {"use_actions": True, "use_vail": True}]


@pytest.fixture
def signal_of(monkeypatch):
    """Makes the signal as a run does, from an expert's steps and keys."""

    def make(demos, spec=SPEC, network=SMALL, action_range=3.0, **keys):
        monkeypatch.setattr("lanista.trainers.rewards.factory.load_demonstrations", lambda *_: demos)
        settings = GAILSettings(demo_path="-", network_settings=network, absorbing_states=True, **keys)
        signals = make_learned_rewards(
            spec, {"gail": settings}, CPU, 0, NonFinitePolicy.STOP, action_range=action_range
        )
        return signals["gail"]

    return make


def steps_of(rollout):
    return SignalSteps.of(rollout, with_ends=True).on(CPU)


def ending(rollout, done, interrupted):
    """The rollout with these ends of its trajectories."""
    flags = np.zeros(rollout.steps, bool)
    flags[np.cumsum(rollout.lengths) - 1] = done
    return replace(rollout, done=flags, done_reached=np.array(done), interrupted_at_end=np.array(interrupted))


# What the discriminator is asked -------------------------------------------------------------------------


@pytest.mark.parametrize("keys", KINDS, ids=str)
def test_the_reward_is_the_log_of_the_odds(signal_of, keys):
    signal = signal_of(demonstrations(SPEC, [20]), **keys)
    rollout = random_rollout([6, 5], seed=1)
    obs, acted = signal.sample(Transitions.of_rollout(rollout, CPU))
    with torch.no_grad():
        d = signal.discriminator.double()(
            signal.discriminator.prepare([column.double() for column in obs]), acted.double()
        ).expert.numpy()
    signal.discriminator.float()
    rewards = signal.evaluate(rollout)
    np.testing.assert_allclose(rewards, np.log(d) - np.log(1 - d), rtol=1e-3, atol=1e-5)


def test_a_reward_is_bounded(signal_of):
    signal = signal_of(demonstrations(SPEC, [5]))
    for sign in (1.0, -1.0):
        signal.discriminator.estimate.bias.data.fill_(sign * 1000.0)
        assert signal.evaluate(random_rollout([2], seed=0)).tolist() == [sign * LARGEST] * 2
        assert signal.absorbing_reward().item() == sign * LARGEST


@pytest.mark.parametrize("keys", KINDS, ids=str)
def test_only_ends_that_are_no_interruptions_add_absorbing_rows(signal_of, keys):
    """Of an agent's five trajectories one ends, one is interrupted, three go on; of the expert's five two."""
    demos = demonstrations(SPEC, [4, 3, 5, 2, 6])
    done = demos.done.copy()
    done[[6, 11]] = False  # recorded no further
    interrupted = np.zeros(20, bool)
    interrupted[13] = True
    signal = signal_of(replace(demos, done=done, interrupted=interrupted), **keys)
    expert = signal._expert_obs[0], signal._expert_acted
    assert len(expert[0]) == len(expert[1]) == 20 + 2
    rollout = ending(
        random_rollout([3, 2, 4, 1, 2], seed=1),
        [True, True, False, False, False],
        [False, True] + [False] * 3,
    )
    policy = signal._learned_from(steps_of(rollout))
    assert len(policy.obs[0]) == 12 + 1
    for obs, acted, real in ((*expert, 20), (policy.obs[0], policy.acted, 12)):
        assert acted[:, -1].tolist() == [0.0] * real + [INDICATOR] * (len(acted) - real)
        assert not obs[real:].any() and not acted[real:, :-1].any()
    assert policy.acted.shape[1] == (2 if keys.get("use_actions") else 1)


@pytest.mark.parametrize(
    "shapes", [[[2], [1, 20, 20], [3]], [[6, 4], [3]]], ids=["a vector, a picture, a vector", "entities"]
)
def test_nothing_but_the_indicator_is_read_of_the_absorbing_state(signal_of, shapes):
    spec = spec_of_shapes(shapes, continuous=1)
    signal = signal_of(demonstrations(spec, [8]), spec, {**SMALL, "normalize": True}, use_actions=True)
    network, seen = signal.discriminator, random_rollout([5], seed=3, spec=spec).obs
    acted = torch.zeros(5, 2)
    acted[:, -1] = INDICATOR
    with torch.no_grad():
        inputs = network.cleared(network.prepare([torch.from_numpy(column) for column in seen]), acted)
        found = network(inputs, acted).logit
    assert not any(rows.any() for rows in inputs)
    torch.testing.assert_close(found, signal.absorbing_reward().expand(5))
    told = signal.learn(steps_of(random_rollout([4, 4], seed=1, spec=spec)), 0)
    assert np.isfinite(list(told.values())).all()


def test_the_penalty_is_of_the_logit_by_all_that_is_read(signal_of):
    """Against numeric slopes, of normalized observations, an action and the indicator."""
    signal = signal_of(demonstrations(SPEC, [6, 4]), network={**SMALL, "normalize": True}, use_actions=True)
    network = signal.discriminator.double()
    network.estimate.weight.data *= 20.0
    samples = []
    for seed in (1, 2):
        real = Sample([torch.randn(2, 3).double() + seed], torch.tensor([[0.3, 0.0], [-0.7, 0.0]]).double())
        samples.append(with_absorbing(real, 1) if seed == 1 else with_absorbing(real.rows(slice(1)), 2))
    eps = torch.tensor([[0.2], [0.5], [0.9]], dtype=torch.float64)
    found = logit_penalty(network, *samples, RandomDraws([eps], None))
    read = []
    for sample in samples:
        prepared = network.prepare(sample.obs)[0] * (sample.acted[:, -1:] == 0)
        read.append(torch.cat((prepared, sample.acted), 1))
    at = eps * read[0] + (1 - eps) * read[1]

    def logit(rows):
        with torch.no_grad():
            return network([rows[:, :3]], rows[:, 3:]).logit

    step = 1e-6 * torch.eye(5, dtype=torch.float64)
    slopes = torch.stack([(logit(at + one) - logit(at - one)) / 2e-6 for one in step])
    lengths = ((slopes**2).sum(0) + 1e-7).sqrt()
    assert lengths.max() > 1.1
    expected = (lengths - 1).clamp(min=0) ** 2
    assert found.item() == pytest.approx(expected.mean().item(), rel=1e-4)


def test_a_thread_that_learns_does_not_end_the_choice_of_attention_of_another():
    """PyTorch's choice is one for all threads: two behaviors that learn beside the run take turns."""
    enabled = torch.backends.cuda.flash_sdp_enabled
    before, inside, leave, found = enabled(), threading.Event(), threading.Event(), []

    def first():
        with twice_differentiable():
            inside.set()
            assert leave.wait(60)

    def second():
        with twice_differentiable():
            found.append((leave.is_set(), enabled()))

    threads = [threading.Thread(target=first, daemon=True), threading.Thread(target=second, daemon=True)]
    threads[0].start()
    assert inside.wait(60)
    threads[1].start()
    threads[1].join(0.1)
    leave.set()
    for thread in threads:
        thread.join(60)
    assert found == [(True, False)] and enabled() == before


@pytest.mark.parametrize("expert_ends", [True, False])
def test_ends_are_rewarded_where_the_expert_ends_and_cost_where_it_does_not(signal_of, expert_ends):
    """Both see and do the same; only one of them ends its episodes."""
    demos = demonstrations(SPEC, [5] * 20)
    demos = replace(demos, interrupted=demos.done & (not expert_ends))
    signal = signal_of(demos, learning_rate=3e-3)
    agents = random_rollout([5] * 20, seed=0)
    agents = ending(replace(agents, obs=demos.obs), [True] * 20, [expert_ends] * 20)
    for _ in range(150):
        signal.learn(steps_of(agents), 0)
    assert signal.absorbing_reward().item() * (1 if expert_ends else -1) > 0.3
    assert np.abs(signal.evaluate(agents)).mean() < 0.2, "steps themselves cannot be distinguished"


def test_an_end_that_the_expert_avoids_costs_more_than_any_step(signal_of):
    """Also where the steps before it are far from the expert's: else agents would seek the end."""
    demos = demonstrations(SPEC, [5] * 20)
    demos = replace(demos, interrupted=demos.done)
    signal = signal_of(demos, network={**SMALL, "normalize": True}, learning_rate=3e-3)
    agents = random_rollout([5] * 20, seed=0)
    far = [column + np.float32(30.0) for column in demos.obs]
    agents = ending(replace(agents, obs=far), [True] * 20, [False] * 20)
    signal.update_normalizer(agents)
    for _ in range(300):
        signal.learn(steps_of(agents), 0)
    rewards = signal.evaluate(agents)
    assert rewards.max() < -1.0, "the steps are not the expert's"
    assert signal.absorbing_reward().item() < rewards.min()


# What an end is worth -------------------------------------------------------------------------------------


class Given(NetworkSignal):
    """Rewards of 0.3 for each step, and of 0.7 in the absorbing state."""

    absorbing_states, ignores_done, needs_next_obs = True, False, False

    def __init__(self):
        self.networks = {}

    def update_normalizer(self, rollout):
        pass

    def rewards(self, steps):
        return torch.full((len(steps),), 0.3)

    def evaluate(self, rollout):
        return np.full(rollout.steps, 0.3, np.float32)

    def absorbing_reward(self):
        return torch.tensor(0.7)

    def learn(self, steps, policy_step):
        return {}


GAMMA, STRENGTH = 0.8, 0.5
SIGNALS = {"extrinsic": {"gamma": 0.9}, "gail": {"gamma": GAMMA, "strength": STRENGTH, "demo_path": "-"}}


def trainer_of(kind, algorithm, trainer_type, **hyper):
    settings = TrainerSettings.model_validate(
        {
            "trainer_type": trainer_type,
            "hyperparameters": hyper,
            "network_settings": {"hidden_units": 8, "num_layers": 1},
            "reward_signals": SIGNALS,
        }
    )
    made = algorithm(SPEC, settings, CPU, 0, NonFinitePolicy.STOP)
    providers = {"extrinsic": ExtrinsicReward(), "gail": Given()}
    more = [SPEC] if kind is OffPolicyTrainer else []
    return kind(settings, made, providers, Record(), Events(), *more)


def summed(length, *, for_ever):
    """The returns of `length` steps, and of 2,000 in the absorbing state, added up one by one."""
    rewards = [STRENGTH * 0.3] * length + [STRENGTH * 0.7 if for_ever else 0.0] * 2000
    found = 0.0
    returns = []
    for reward in reversed(rewards):
        found = reward + GAMMA * found
        returns.append(found)
    return returns[::-1][:length]


def test_returns_are_those_of_an_agent_that_stays_in_the_absorbing_state():
    trainer = trainer_of(OnPolicyTrainer, PPO, "ppo", lambd=1.0)
    rollout = random_rollout([4, 3], seed=0)
    trainer.process(rollout)
    returns = trainer.buffer.columns().returns
    expected = summed(4, for_ever=True) + summed(3, for_ever=True)
    np.testing.assert_allclose(returns[:, 1], expected, rtol=1e-5)
    plain = trainer_of(OnPolicyTrainer, PPO, "ppo", lambd=1.0)
    plain.absorbing = AbsorbingStates({}, {})
    plain.process(rollout)
    np.testing.assert_array_equal(returns[:, 0], plain.buffer.columns().returns[:, 0])
    ended_for_good = summed(4, for_ever=False) + summed(3, for_ever=False)
    np.testing.assert_allclose(plain.buffer.columns().returns[:, 1], ended_for_good, rtol=1e-5)


@pytest.mark.parametrize("done, interrupted", [(True, True), (False, False)])
def test_after_an_interruption_the_value_is_estimated_as_before(done, interrupted):
    rollout = ending(random_rollout([4], seed=0), [done], [interrupted])
    found = []
    for absorbing in (True, False):
        trainer = trainer_of(OnPolicyTrainer, PPO, "ppo")
        if not absorbing:
            trainer.absorbing = AbsorbingStates({}, {})
        trainer.process(rollout)
        found.append(trainer.buffer.columns().returns)
    np.testing.assert_array_equal(*found)


def test_an_end_is_in_the_deviation_of_returns_and_is_not_clipped():
    """Rewards of a single step are clipped to ten deviations; an end is the sum of many."""
    trainer = trainer_of(OnPolicyTrainer, PPO, "ppo", lambd=1.0, normalize_rewards=True)
    after = STRENGTH * 0.7 * GAMMA / (1 - GAMMA)
    rollout = random_rollout([1] * 8, seed=0)
    scale = trainer.reward_scale
    trainer.process(rollout)
    assert scale.mean[1].item() == pytest.approx((0.3 * STRENGTH + after) / STRENGTH)
    deviation = 1e-3
    scale.deviation = lambda: np.array([1.0, deviation], np.float32)
    trainer.buffer.clear()
    trainer.process(rollout)
    expected = min(10.0, STRENGTH * 0.3 / deviation) + after / deviation
    np.testing.assert_allclose(trainer.buffer.columns().returns[:, 1], expected, rtol=1e-5)


@pytest.mark.parametrize("normalize", [False, True])
def test_batches_of_a_replay_have_ends_of_the_same_worth(normalize):
    trainer = trainer_of(
        OffPolicyTrainer, SAC, "sac", batch_size=64, buffer_size=100, normalize_rewards=normalize
    )
    rollout = ending(random_rollout([4, 3, 2], seed=0), [True, True, False], [False, True, False])
    trainer.process(rollout)
    batch = trainer._batch(trainer.replay)
    scale = float(trainer.reward_scale.deviation()[1]) if normalize else 1.0
    ended = batch.ended.numpy()
    assert 0 < ended.sum() < 64 and (batch.discounts[:, 1].numpy()[ended] == 0).all()
    after = 0.7 * GAMMA / (1 - GAMMA)
    expected = STRENGTH * (0.3 + ended * after) / scale
    np.testing.assert_allclose(batch.rewards[:, 1].numpy(), expected, rtol=1e-5)
    if normalize:
        returns = [0.3, 0.54, 0.732, 0.8856 + after, 0.3, 0.54, 0.732, 0.3, 0.54]
        assert scale == pytest.approx(np.std(returns), rel=1e-4)


def test_what_is_reported_of_an_episode_are_the_rewards_of_its_steps():
    trainer = trainer_of(OnPolicyTrainer, PPO, "ppo")
    trainer.process(random_rollout([4], seed=0))
    (earned,) = [value for key, value, _ in trainer.stats.calls if key == "Policy/Gail Reward"]
    assert earned == pytest.approx(4 * STRENGTH * 0.3)


# Beside the rest ------------------------------------------------------------------------------------------


def test_waiting_steps_and_random_numbers_are_resumed(signal_of):
    rollout = random_rollout([4, 3], seed=2)
    buffer, other = RolloutBuffer(SignalSteps), RolloutBuffer(SignalSteps)
    buffer.append(SignalSteps.of(rollout, with_ends=True))
    other.load_state_dict(reloaded(buffer.state_dict()))
    signals = [signal_of(demonstrations(SPEC, [9, 8]), use_vail=True) for _ in range(2)]
    signals[0].learn(buffer.columns().on(CPU), 0)
    signals[1].load_state_dict(reloaded(signals[0].state_dict()))
    metrics = [signal.learn(one.columns().on(CPU), 1) for signal, one in zip(signals, (buffer, other))]
    assert metrics[0] == metrics[1]
    rewards = [signal.evaluate(rollout) for signal in signals]
    np.testing.assert_array_equal(*rewards)
    assert signals[0].absorbing_reward() == signals[1].absorbing_reward()


def test_without_the_key_nothing_of_it_is_computed_or_saved(monkeypatch):
    demos = demonstrations(SPEC, [9])
    monkeypatch.setattr("lanista.trainers.rewards.factory.load_demonstrations", lambda *_: demos)
    settings = GAILSettings(demo_path="-", network_settings=SMALL)
    signal = make_learned_rewards(SPEC, {"gail": settings}, CPU, 0, NonFinitePolicy.STOP, action_range=3.0)[
        "gail"
    ]
    assert type(signal) is GAIL and not AbsorbingStates.of({"gail": signal}, {"gail": settings})
    buffer = RolloutBuffer(SignalSteps)
    buffer.append(SignalSteps.of(random_rollout([3], seed=0)))
    assert "terminated" not in buffer.state_dict()


def test_rewards_without_an_end_need_a_discount():
    gail = {"demo_path": "a.demo", "absorbing_states": True, "gamma": 1.0}
    with pytest.raises(TrainerConfigError) as caught:
        RunOptions.from_dict({"behaviors": {"B": {"reward_signals": {"gail": gail}}}})
    assert "behaviors.B.reward_signals.gail.gamma: found 1 with absorbing_states: true" in str(caught.value)
    RunOptions.from_dict({"behaviors": {"B": {"reward_signals": {"gail": {**gail, "gamma": 0.999}}}}})
