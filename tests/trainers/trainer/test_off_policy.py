"""What an off-policy trainer makes of trajectories, when it updates, and what it tells."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from goldendata import array, cases
from lanista.agent_processor.trajectory import AgentKey, EpisodesForgotten
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.algorithms.common.optim import UpdateThreads
from lanista.trainers.algorithms.sac.sac import SAC
from lanista.trainers.buffers.replay import memory_limit as memory
from lanista.trainers.rewards.extrinsic import ExtrinsicReward
from lanista.trainers.settings.models.behavior import TrainerSettings
from lanista.trainers.trainer.off_policy import BURST, OffPolicyTrainer
from lanista.trainers.utils.errors import TrainerError
from referencenets import spec_of_shapes, vector_spec
from rollouts import make_rollout
from trainer_surroundings import Events, Record, given_signals


class LearnedReward:
    """A signal that learns itself, and says 1 more each time."""

    ignores_done = True
    needs_next_obs = True

    def __init__(self):
        self.learnt = 0
        self.observed = 0

    def update_normalizer(self, rollout):
        self.observed += rollout.steps

    def evaluate(self, rollout):
        return np.zeros(rollout.steps, np.float32)

    def rewards(self, steps):
        return torch.full((len(steps),), float(self.learnt))

    def learn(self, steps, policy_step):
        self.learnt += 1
        return {"Losses/Curiosity Forward Loss": float(self.learnt)}

    def initialize_from(self, state):
        return []

    def state_dict(self):
        return {"learnt": self.learnt}

    def load_state_dict(self, state):
        self.learnt = state["learnt"]


class Queue:
    def __init__(self, items):
        self.items = items

    def drain(self):
        items, self.items = self.items, []
        return items


class FakeTrajectory:
    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length


def spec_of(size=3):
    return vector_spec([size], continuous=1)


def rollout_of(lengths, obs=None, rewards=None, next_obs=None, done=None, interrupted=None, agents=None):
    """A Rollout of trajectories of these lengths; what is not given is drawn, or zeros."""
    n = sum(lengths)
    random = np.random.default_rng(n)
    obs = obs or [random.normal(size=(n, 3)).astype(np.float32)]
    return make_rollout(
        lengths,
        obs,
        continuous=random.uniform(-0.9, 0.9, (n, 1)).astype(np.float32),
        reward=rewards,
        next_obs=next_obs or [np.zeros((len(lengths), 3), np.float32)],
        done_reached=done,
        interrupted_at_end=interrupted,
        agents=agents,
    )


def settings(**keys):
    network = {"hidden_units": 8, "num_layers": 1}
    return TrainerSettings.model_validate({"trainer_type": "sac", "network_settings": network, **keys})


def trainer_of(
    events=None, providers=None, size=3, returns_kept=1, training=True, update_threads=None, **keys
):
    config = settings(**keys)
    algorithm = SAC(spec_of(size), config, torch.device("cpu"), 0, NonFinitePolicy.STOP)
    return OffPolicyTrainer(
        config,
        algorithm,
        providers or {"extrinsic": ExtrinsicReward()},
        Record(),
        events or Events(),
        spec_of(size),
        name="B",
        training=training,
        returns_kept=returns_kept,
        update_threads=update_threads,
    )


@pytest.fixture
def gathers(monkeypatch):
    """Trajectories stand for themselves; their lengths are all that matters here."""
    monkeypatch.setattr(
        "lanista.trainers.trainer.trainer.build_rollout",
        lambda trajectories, with_mates=True: rollout_of([len(t) for t in trajectories]),
    )


def feed(trainer, *lengths):
    trainer.queues = [Queue([FakeTrajectory(n) for n in lengths])]
    return trainer.advance()


# As the reference does it --------------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("returns", "sac_process"))
def test_trajectories_are_stored_and_told_of_as_the_reference_does(case):
    given = case["inputs"]
    signals, providers = given_signals(given["signals"])
    spec = spec_of_shapes([np.shape(o) for o in given["trajectories"][0]["next_obs"]], continuous=1)
    # ML-Agents' own way of bootstrapping what was interrupted is a key; without interruptions both agree.
    interrupted = any(trajectory["interrupted"] for trajectory in given["trajectories"])
    hyper = {"interrupted_value": "own_observation"} if interrupted else {}
    config = settings(reward_signals=signals, max_steps=10**6, summary_freq=10**6, hyperparameters=hyper)
    algorithm = SAC(spec, config, torch.device("cpu"), 0, NonFinitePolicy.STOP)
    record = Record()
    trainer = OffPolicyTrainer(
        config,
        algorithm,
        providers,
        record,
        Events(),
        spec,
        returns_kept=given["reward_buffer_capacity"],
    )
    for trajectory, expected in zip(given["trajectories"], case["expected"]["trajectories"], strict=True):
        record.calls.clear()
        values = np.stack([array(trajectory["critic_values"][s]) for s in signals], axis=1)
        algorithm.estimates = lambda rollout, v=values: {"Value": v}
        for name, provider in providers.items():
            provider.given = array(trajectory["signal_rewards_unscaled"][name])
        env, _, agent = trajectory["agent_id"].removeprefix("agent_").partition("-")
        one = rollout_of(
            [len(trajectory["rewards"])],
            [array(rows) for rows in zip(*trajectory["obs"])],
            array(trajectory["rewards"]),
            [array(row)[None] for row in trajectory["next_obs"]],
            [trajectory["done_reached"]],
            [trajectory["interrupted"]],
            [AgentKey(int(env), int(agent))],
        )
        trainer.schedule.count(one.steps)
        trainer.stats.set_stat("Step", float(trainer.step))
        trainer.process(one)
        check(trainer, record, one.steps, expected)


def check(trainer, record, steps, expected):
    replay = trainer.replay
    places = np.arange(replay.head - steps, replay.head)
    assert replay.columns.ended[places].tolist() == expected["done_stored"]
    following = replay.columns.following[places].astype(np.int64)
    for column, wanted in zip(replay.observations, zip(*expected["next_obs_stored"]), strict=True):
        np.testing.assert_allclose(column.pairs(places, following)[1], array(wanted), rtol=1e-6)
    assert trainer.step == expected["step"]
    assert [[c[0], c[2]] for c in record.calls] == [[c[0], c[2]] for c in expected["stats_reported"]]
    close = {"rtol": 1e-4, "atol": 1e-5}
    np.testing.assert_allclose(
        [c[1] for c in record.calls], [c[1] for c in expected["stats_reported"]], **close
    )
    np.testing.assert_allclose(list(trainer.episodes.recent_returns), expected["reward_buffer"], **close)
    for key, sums in expected["collected_rewards"].items():
        column = trainer.episodes.names.index(key)
        # Agents whose episode has ended have no entry here (pitfalls B1: theirs grow for ever).
        living = {k: v for k, v in sums.items() if isinstance(v, float)}
        got = {str(agent): total[column] for agent, total in trainer.episodes.sums.items()}
        assert set(got) == set(living)
        for agent, total in living.items():
            assert got[agent] == pytest.approx(total, rel=1e-4, abs=1e-5)


LOOPS = cases("sac", "update_loop", where=lambda case: case["inputs"]["trainer"] == "sac")


@pytest.mark.parametrize("case", LOOPS)
def test_updates_are_made_when_the_reference_makes_them(case, gathers, monkeypatch):
    given = case["inputs"]
    keys = (
        "buffer_init_steps",
        "steps_per_update",
        "reward_signal_steps_per_update",
        "batch_size",
        "buffer_size",
    )
    learned = LearnedReward()
    trainer = trainer_of(
        providers={"extrinsic": learned}, hyperparameters={key: given[key] for key in keys}, max_steps=10**6
    )
    made = []
    update = trainer.algorithm.update
    monkeypatch.setattr(trainer.algorithm, "update", lambda *args: made.append(1) or update(*args))
    if given["resumed_at_step"]:
        state = {**trainer.state_dict(), "step": given["resumed_at_step"]}
        del state["updates"]  # ML-Agents saves no count
        trainer.load_state_dict(state)

    def counters():
        return {
            "step": trainer.step,
            "updates_counter": trainer.updates.updates,
            "reward_updates_counter": trainer.signal_updates.updates,
        }

    first, *others = case["expected"]["initially_then_after_each_advance"]
    assert counters() == first
    fed = 0
    for lengths, expected in zip(given["trajectory_lengths_per_advance"], others, strict=True):
        fed += sum(lengths)
        before, of_signals = len(made), learned.learnt
        feed(trainer, *lengths)
        found = {
            "buffer": 0 if trainer.replay is None else len(trainer.replay),
            "updates": len(made) - before,
            "reward_signal_updates": learned.learnt - of_signals,
        }
        # ML-Agents drops a full buffer to 80 % of its size; ours is a ring.
        assert {**counters(), **found} == {**expected, "buffer": min(fed, given["buffer_size"])}


# The rest -------------------------------------------------------------------------------------------------


HYPER = {"batch_size": 8, "buffer_size": 100, "steps_per_update": 2.0}


def test_gradient_steps_are_made_one_after_another_each_on_a_batch_of_its_own(gathers, monkeypatch):
    trainer = trainer_of(hyperparameters={**HYPER, "gradient_steps": 3})
    batches = []
    update = trainer.algorithm.update
    monkeypatch.setattr(
        trainer.algorithm,
        "update",
        lambda batch, *rest: batches.append(batch.obs[0].clone()) or update(batch, *rest),
    )
    feed(trainer, 12)
    assert len(batches) == 3 * 5
    assert not any(torch.equal(batches[0], other) for other in batches[1:])


def test_a_threaded_trainer_looks_for_new_steps_between_bursts_of_updates(gathers):
    trainer = trainer_of(hyperparameters={**HYPER, "steps_per_update": 0.5}, threaded=True)
    assert feed(trainer, 60)
    made = [trainer.updates.updates - 1]
    while trainer.advance():
        made.append(trainer.updates.updates - 1)
    assert made == [BURST, 2 * BURST, 3 * BURST, 119]
    assert len([call for call in trainer.events.calls if call[0] == "updated"]) == 4


@pytest.mark.parametrize(
    ("batch_size", "given", "most"),
    [
        (64, UpdateThreads(4), 1),
        (64, UpdateThreads(4, fixed=True), 4),  # the user says so
        (64, None, 1),
        (10_000_000, UpdateThreads(4), 4),  # larger products
    ],
)
def test_small_gradient_steps_take_one_thread(batch_size, given, most):
    hyper = {"batch_size": batch_size, "buffer_size": 2 * batch_size}
    trainer = trainer_of(hyperparameters=hyper, update_threads=given)
    assert trainer.update_threads == most


def test_what_updates_tell_is_averaged_and_handed_on(gathers):
    trainer = trainer_of(hyperparameters=HYPER)
    feed(trainer, 20)
    ((_, figures),) = trainer.events.calls
    told = [value for key, value, _ in trainer.stats.calls if key == "Losses/Value Loss"]
    assert len(told) == 9
    assert figures["Losses/Value Loss"] == pytest.approx(np.mean(told))


def test_signals_that_learn_are_asked_anew_for_every_batch(gathers, monkeypatch):
    learned = LearnedReward()
    trainer = trainer_of(
        providers={"extrinsic": learned},
        hyperparameters={**HYPER, "reward_signal_steps_per_update": 5},
        reward_signals={"extrinsic": {"strength": 0.5}},
    )
    rewards = []
    update = trainer.algorithm.update
    monkeypatch.setattr(
        trainer.algorithm,
        "update",
        lambda batch, *rest: rewards.append(batch.rewards.clone()) or update(batch, *rest),
    )
    feed(trainer, 20)
    assert learned.learnt == 3 and learned.observed == 20
    feed(trainer, 1, 1)
    assert [float(of_batch.mean()) for of_batch in rewards] == [0.0] * 9 + [1.5]


def test_priorities_are_corrected_in_full_at_max_steps(gathers):
    hyper = {**HYPER, "prioritized_replay": True, "prioritized_beta": 0.4}
    trainer = trainer_of(hyperparameters=hyper, max_steps=200)
    betas = []
    for step in (0, 100, 200, 300):
        trainer.schedule.step = step
        betas.append(trainer._beta())
    assert betas == pytest.approx([0.4, 0.7, 1.0, 1.0])


def test_rewards_are_scaled_by_what_has_been_earned(monkeypatch):
    trainer = trainer_of(hyperparameters={**HYPER, "normalize_rewards": True})
    rewards = np.random.default_rng(0).normal(size=40).astype(np.float32) * 100
    trainer.process(rollout_of([40], rewards=rewards))
    deviation = trainer.reward_scale.deviation()
    assert deviation[0] > 50
    scaled = trainer._batch(trainer.replay).rewards.numpy()
    kept = set((rewards / deviation).tolist())
    assert all(float(reward) in kept for reward in scaled.ravel())


def test_a_trajectory_with_a_reward_too_large_is_left_out():
    trainer = trainer_of(hyperparameters=HYPER)
    trainer.non_finite = NonFinitePolicy.DROP
    rewards = np.zeros(12, np.float32)
    rewards[2] = 1e35
    trainer.process(rollout_of([5, 7], rewards=rewards))
    assert len(trainer.replay) == 7


def test_nothing_is_kept_when_nothing_is_learnt():
    trainer = trainer_of(hyperparameters=HYPER, training=False)
    trainer.process(rollout_of([12], rewards=np.ones(12, np.float32), done=[True]))
    assert trainer.replay is None
    assert ["Environment/Cumulative Reward", 12.0, "HISTOGRAM"] in trainer.stats.calls


def test_forgotten_episodes_are_forgotten_everywhere(gathers):
    trainer = trainer_of(hyperparameters={**HYPER, "normalize_rewards": True})
    trainer.queues = [Queue([FakeTrajectory(5), EpisodesForgotten(0), FakeTrajectory(5)])]
    trainer.advance()
    assert trainer.reward_scale.count == 10 and len(trainer.episodes.sums) == 1


@pytest.mark.parametrize("saved", [False, True])
def test_where_engines_start_afresh_the_replay_is_what_a_resumed_run_has(gathers, saved):
    """And nothing is learnt before agents have acted again, as they have in a resumed run."""
    events = Events(drop_after_checkpoint=True)
    hyper = {**HYPER, "save_replay_buffer": saved}
    trainer = trainer_of(events, hyperparameters=hyper, checkpoint_interval=30)
    feed(trainer, 20)
    made = trainer.updates.updates
    feed(trainer, 5, 8, 20)
    assert trainer.step == 25 and trainer.updates.updates == made
    assert (0 if trainer.replay is None else len(trainer.replay)) == (25 if saved else 0)
    feed(trainer, 8)
    assert trainer.step == 33 and trainer.updates.updates > made


def test_all_but_the_replay_is_in_the_state(gathers):
    hyper = {**HYPER, "normalize_rewards": True, "save_replay_buffer": True}
    one = trainer_of(hyperparameters=hyper, checkpoint_interval=10**6)
    feed(one, 20)
    feed(one, 9, 3)
    state = one.state_dict()
    other = trainer_of(hyperparameters=hyper)
    other.load_state_dict(state)
    assert other.step == 32 and other.updates == one.updates and other.signal_updates == one.signal_updates
    assert torch.equal(other.sampler.generator.get_state(), one.sampler.generator.get_state())
    assert other.reward_scale.state_dict() == one.reward_scale.state_dict()


@pytest.mark.parametrize(
    ("paced", "expected"),
    [
        ({"steps_per_update": 0.5}, 48),
        ({"steps_per_update": 8.0}, 3),
        ({"buffer_init_steps": 12}, 6),
        ({"buffer_init_steps": 100}, 1),
        ({"gradient_steps": 2}, 12),
    ],
)
def test_a_run_that_goes_on_at_another_pace_owes_no_updates_and_waits_for_none(gathers, paced, expected):
    """By the old count they would be made up for at once, or none be made until it is reached."""
    one = trainer_of(hyperparameters=HYPER)
    feed(one, 20)
    feed(one, 4)
    assert one.updates.updates == 12
    other = trainer_of(hyperparameters={**HYPER, **paced})
    other.load_state_dict(one.state_dict())
    assert other.updates.updates == expected


def test_signals_keep_a_pace_of_their_own(gathers):
    one = trainer_of(hyperparameters={**HYPER, "reward_signal_steps_per_update": 4.0})
    feed(one, 20)
    feed(one, 4)
    assert (one.updates.updates, one.signal_updates.updates) == (12, 6)
    other = trainer_of(hyperparameters={**HYPER, "reward_signal_steps_per_update": 1.0})
    other.load_state_dict(one.state_dict())
    assert (other.updates.updates, other.signal_updates.updates) == (12, 24)


def test_with_the_saved_replay_a_run_goes_on_to_the_last_bit(gathers, tmp_path):
    hyper = {**HYPER, "prioritized_replay": True, "n_step": 3, "save_replay_buffer": True}
    one, other = trainer_of(hyperparameters=hyper), trainer_of(hyperparameters=hyper)
    feed(one, 20)
    one.save_beside(tmp_path)
    other.load_state_dict(one.state_dict())
    other.load_beside(tmp_path)
    for trainer in (one, other):
        feed(trainer, 9, 3)
        feed(trainer, 90)
    for a, b in zip(one.algorithm.network.parameters(), other.algorithm.network.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_replay_that_does_not_fit_is_refused_before_anything_is_collected(monkeypatch):
    monkeypatch.setattr(memory, "_limits", lambda: iter([(10_000, "the machine")]))
    with pytest.raises(
        TrainerError, match=r"The behavior B: its replay of 5,000 steps .* the machine leaves 10 kB"
    ):
        trainer_of(hyperparameters={"buffer_size": 5000})


@pytest.mark.parametrize(("frames", "said"), [(4, True), (1, False)])
def test_a_frame_stack_that_no_picture_is_is_told(caplog, frames, said):
    """Else everything would be kept whole, and nobody knew why it takes so much memory."""
    trainer_of(hyperparameters={"frame_stack": frames})
    assert ("B: frame_stack is 4, and no observation is a picture" in caplog.text) == said


@pytest.mark.parametrize(("left", "fits"), [(100_000, True), (60_000, False)])
def test_a_saved_replay_of_pictures_as_numbers_that_will_not_fit_is_refused_too(
    gathers, monkeypatch, tmp_path, left, fits
):
    """Full it takes four times what was said at the start, of pictures as bytes."""
    hyper = {**HYPER, "buffer_size": 5000, "save_replay_buffer": True}
    one, other = trainer_of(hyperparameters=hyper), trainer_of(hyperparameters=hyper)
    feed(one, 2500)
    one.save_beside(tmp_path)
    other.layout = replace(other.layout, dtypes=(np.dtype(np.uint8),))
    assert one.layout.nbytes() // 2 in range(60_001, 100_000)
    monkeypatch.setattr(memory, "_limits", lambda: iter([(left, "the machine")]))
    if fits:
        other.load_beside(tmp_path)
        assert len(other.replay) == 2500
    else:
        with pytest.raises(TrainerError, match=r"The behavior B: its replay of 5,000 steps .* leaves 60 kB"):
            other.load_beside(tmp_path)


def test_steps_of_an_update_wait_no_longer_than_a_part_of_a_batch():
    assert trainer_of(hyperparameters={"batch_size": 256}).advance_interval == 32
    assert trainer_of(hyperparameters={"batch_size": 256}, summary_freq=160).advance_interval == 10
