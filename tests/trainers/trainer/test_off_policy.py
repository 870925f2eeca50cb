"""What an off-policy trainer stores, when it updates, and what it reports."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from goldendata import array, cases
from lanista.agent_processor.trajectory import EpisodesDropped
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.algorithms.fast.threads import UpdateThreads
from lanista.trainers.algorithms.sac.sac import SAC
from lanista.trainers.buffers.replay import memory_limit as memory
from lanista.trainers.networks.fast.onednn import MIN_PRODUCTS, keeps_float32, uses_onednn
from lanista.trainers.rewards.extrinsic import ExtrinsicReward
from lanista.trainers.settings.models.behavior import TrainerSettings
from lanista.trainers.trainer.off_policy import BURST, OffPolicyTrainer
from lanista.trainers.utils.errors import TrainerError
from specs import spec_of_shapes, vector_spec
from stub_rollouts import check_golden, feed, process_golden, rollout_of
from trainer_surroundings import Events, Record, given_signals

SPEC = vector_spec([3], continuous=1)
HYPER = {"batch_size": 8, "buffer_size": 100, "steps_per_update": 2.0}


class LearnedReward:
    """A signal that learns itself: its rewards are the number of its updates."""

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


def settings(**keys):
    # Which images of any size can be read with.
    network = {"hidden_units": 8, "num_layers": 1, "vis_encode_type": "fully_connected"}
    return TrainerSettings.model_validate({"trainer_type": "sac", "network_settings": network, **keys})


def trainer_of(events=None, providers=None, spec=SPEC, hyper=None, training=True, given=None, **keys):
    """A trainer with these hyperparameters and keys; `given`: more arguments of its own."""
    if hyper is not None:
        keys["hyperparameters"] = hyper
    config = settings(**keys)
    algorithm = SAC(spec, config, torch.device("cpu"), 0, NonFinitePolicy.STOP)
    providers = providers or {"extrinsic": ExtrinsicReward()}
    return OffPolicyTrainer(
        *(config, algorithm, providers, Record(), events or Events(), spec),
        name="B",
        training=training,
        **(given or {}),
    )


@pytest.mark.parametrize("case", cases("returns", "sac_process"))
def test_trajectories_are_stored_and_reported_as_by_the_reference(case):
    given = case["inputs"]
    signals, providers = given_signals(given["signals"])
    # ML-Agents' way of bootstrapping interrupted episodes is a setting of its own.
    interrupted = any(trajectory["interrupted"] for trajectory in given["trajectories"])
    trainer = trainer_of(
        providers=providers,
        spec=spec_of_shapes([np.shape(o) for o in given["trajectories"][0]["next_obs"]], continuous=1),
        given={"returns_kept": given["reward_buffer_capacity"]},
        hyper={"interrupted_value": "own_observation"} if interrupted else {},
        reward_signals=signals,
        max_steps=10**6,
        summary_freq=10**6,
    )
    for trajectory, expected in zip(given["trajectories"], case["expected"]["trajectories"], strict=True):
        values = np.stack([array(trajectory["critic_values"][s]) for s in signals], axis=1)
        trainer.algorithm.estimates = lambda rollout, v=values: {"Value": v}
        obs = [array(rows) for rows in zip(*trajectory["obs"])]
        next_obs = [array(row)[None] for row in trajectory["next_obs"]]
        steps = process_golden(trainer, trajectory, obs=obs, next_obs=next_obs)
        replay = trainer.replay
        places = np.arange(replay.head - steps, replay.head)
        assert replay.columns.ended[places].tolist() == expected["done_stored"]
        following = replay.columns.following[places].astype(np.int64)
        for column, wanted in zip(replay.observations, zip(*expected["next_obs_stored"]), strict=True):
            np.testing.assert_allclose(column.pairs(places, following)[1], array(wanted), rtol=1e-6)
        check_golden(trainer, expected)


@pytest.fixture
def batches(monkeypatch):
    """The batches that SAC's updates learn from."""
    seen = []
    update = SAC.update

    def updating(self, batch, *rest):
        seen.append(replace(batch, obs=[x.clone() for x in batch.obs], rewards=batch.rewards.clone()))
        return update(self, batch, *rest)

    monkeypatch.setattr(SAC, "update", updating)
    return seen


LOOPS = cases("sac", "update_loop", where=lambda case: case["inputs"]["trainer"] == "sac")


@pytest.mark.parametrize("case", LOOPS)
def test_updates_are_made_when_the_reference_makes_them(case, gathered, batches):
    given = case["inputs"]
    keys = ("buffer_init_steps", "steps_per_update", "reward_signal_steps_per_update")
    hyper = {key: given[key] for key in (*keys, "batch_size", "buffer_size")}
    learned = LearnedReward()
    trainer = trainer_of(providers={"extrinsic": learned}, hyper=hyper, max_steps=10**6)
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
        before, of_signals = len(batches), learned.learnt
        feed(trainer, *lengths)
        found = {
            "buffer": 0 if trainer.replay is None else len(trainer.replay),
            "updates": len(batches) - before,
            "reward_signal_updates": learned.learnt - of_signals,
        }
        # ML-Agents drops a full buffer to 80 % of its size, which may be less than a batch; ours is a ring.
        if fed > given["buffer_size"] and given["batch_size"] > int(0.8 * given["buffer_size"]):
            return
        assert {**counters(), **found} == {**expected, "buffer": min(fed, given["buffer_size"])}


def test_every_gradient_step_has_a_batch_of_its_own(gathered, batches):
    feed(trainer_of(hyper={**HYPER, "gradient_steps": 3}), 12)
    assert len(batches) == 3 * 5
    assert not any(torch.equal(batches[0].obs[0], other.obs[0]) for other in batches[1:])


def test_spread_updates_are_made_gradually_and_none_is_lost(gathered):
    """A 32nd of those that are due per call, at least one; a resumed trainer makes those that are left."""

    def spreading():
        hyper, providers = {**HYPER, "steps_per_update": 1.0}, {"extrinsic": LearnedReward()}
        return trainer_of(providers=providers, hyper=hyper, given={"spread_updates": True})

    trainer, resumed = spreading(), spreading()
    feed(trainer, 90)
    made = [trainer.updates.updates - 1]
    for _ in range(5):
        assert trainer.continue_updates()
        made.append(trainer.updates.updates - 1)
    assert made == [3, 6, 9, 12, 15, 18]
    resumed.load_state_dict(trainer.state_dict())
    resumed.replay = copy.deepcopy(trainer.replay)
    for one in (trainer, resumed):
        feed(one, 5)
        while one.continue_updates():
            assert one.updates.updates == one.signal_updates.updates
        assert one.updates.updates - 1 == 94
    ours, theirs = (one.algorithm.network.state_dict() for one in (trainer, resumed))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize("kind, made", [("spread", [3, 6]), ("threaded", [BURST, 2 * BURST])])
def test_weights_that_were_saved_stay_until_more_steps_are_counted(gathered, kind, made):
    """Otherwise a checkpoint, and what was said of it, could be overwritten by other weights of its step.

    More steps are taken in then, though updates are overdue: a collector may wait for that at a full queue.
    """

    def leaving_some_over():
        how = {"given": {"spread_updates": True}} if kind == "spread" else {"threaded": True}
        return trainer_of(hyper={**HYPER, "steps_per_update": 1.0}, **how)

    trainer, resumed = leaving_some_over(), leaving_some_over()
    feed(trainer, 90)
    trainer.on_saved()
    resumed.load_state_dict(trainer.state_dict())
    resumed.replay = copy.deepcopy(trainer.replay)
    for one in (trainer, resumed):
        assert not one.continue_updates() and not one.advance()
        assert (one.step, one.updates.updates - 1) == (90, made[0])
        feed(one, 1)
        assert (one.step, one.updates.updates - 1) == (91, made[1])


def test_no_updates_are_left_over_where_they_are_not_spread(gathered):
    trainer = trainer_of(hyper={**HYPER, "steps_per_update": 1.0})
    feed(trainer, 90)
    assert trainer.updates.updates - 1 == 89 and not trainer.continue_updates()


def test_a_threaded_trainer_takes_no_steps_in_while_updates_are_overdue(gathered):
    """So that a collector that is faster than it waits at the full queue, and all updates are made."""
    learned = LearnedReward()
    trainer = trainer_of(
        providers={"extrinsic": learned}, hyper={**HYPER, "steps_per_update": 1.0}, threaded=True
    )
    feed(trainer, 90)
    assert (trainer.step, trainer.updates.updates - 1, learned.learnt) == (90, BURST, BURST)
    feed(trainer, 60)
    assert (trainer.step, trainer.updates.updates - 1, learned.learnt) == (90, 2 * BURST, 2 * BURST)
    while trainer.advance():
        assert trainer.updates.updates == trainer.signal_updates.updates
    assert (trainer.step, trainer.updates.updates - 1, learned.learnt) == (150, 149, 149)


def test_a_threaded_trainer_publishes_its_weights_between_bursts_of_updates(gathered):
    trainer = trainer_of(hyper={**HYPER, "steps_per_update": 0.5}, threaded=True)
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
    trainer = trainer_of(hyper=hyper, given={"update_threads": given})
    assert trainer.update_threads == most


def test_the_metrics_of_updates_are_averaged_and_passed_on(gathered):
    trainer = trainer_of(hyper=HYPER)
    feed(trainer, 20)
    ((_, figures),) = trainer.events.calls
    told = [value for key, value, _ in trainer.stats.calls if key == "Losses/Value Loss"]
    assert len(told) == 9
    assert figures["Losses/Value Loss"] == pytest.approx(np.mean(told))


def test_every_batch_has_the_current_rewards_of_learned_signals(gathered, batches):
    learned = LearnedReward()
    hyper = {**HYPER, "reward_signal_steps_per_update": 5}
    signals = {"extrinsic": {"strength": 0.5}}
    trainer = trainer_of(providers={"extrinsic": learned}, hyper=hyper, reward_signals=signals)
    feed(trainer, 20)
    assert learned.learnt == 3 and learned.observed == 20
    feed(trainer, 1, 1)
    assert [float(batch.rewards.mean()) for batch in batches] == [0.0] * 9 + [1.5]


def test_priorities_are_corrected_in_full_at_max_steps(gathered):
    hyper = {**HYPER, "prioritized_replay": True, "prioritized_beta": 0.4}
    trainer = trainer_of(hyper=hyper, max_steps=200)
    betas = []
    for step in (0, 100, 200, 300):
        trainer.schedule.step = step
        betas.append(trainer._beta())
    assert betas == pytest.approx([0.4, 0.7, 1.0, 1.0])


def test_rewards_are_divided_by_the_deviation_of_returns():
    trainer = trainer_of(hyper={**HYPER, "normalize_rewards": True})
    rewards = np.random.default_rng(0).normal(size=40).astype(np.float32) * 100
    trainer.process(rollout_of([40], reward=rewards))
    deviation = trainer.reward_scale.deviation()
    assert deviation[0] > 50
    scaled = trainer._batch(trainer.replay).rewards.numpy()
    kept = set((rewards / deviation).tolist())
    assert all(float(reward) in kept for reward in scaled.ravel())


def test_a_trajectory_with_a_reward_too_large_is_left_out():
    trainer = trainer_of(hyper=HYPER)
    trainer.non_finite = NonFinitePolicy.DROP
    rewards = np.zeros(12, np.float32)
    rewards[2] = 1e35
    trainer.process(rollout_of([5, 7], reward=rewards))
    assert len(trainer.replay) == 7


def test_without_training_nothing_is_stored():
    trainer = trainer_of(hyper=HYPER, training=False)
    trainer.process(rollout_of([12], reward=np.ones(12, np.float32), done_reached=[True]))
    assert trainer.replay is None
    assert ["Environment/Cumulative Reward", 12.0, "HISTOGRAM"] in trainer.stats.calls


def test_dropped_episodes_reach_reward_scaling_and_statistics(gathered):
    trainer = trainer_of(hyper={**HYPER, "normalize_rewards": True})
    feed(trainer, 5, EpisodesDropped(0), 5)
    assert int(trainer.reward_scale.steps) == 10 and len(trainer.episodes.sums) == 1


@pytest.mark.parametrize("saved", [False, True])
def test_when_engines_restart_the_replay_is_that_of_a_resumed_run(gathered, saved):
    """And nothing is learned before agents have acted again, as in a resumed run."""
    events = Events(drop_after_checkpoint=True)
    hyper = {**HYPER, "save_replay_buffer": saved}
    trainer = trainer_of(events, hyper=hyper, checkpoint_interval=30)
    feed(trainer, 20)
    made = trainer.updates.updates
    feed(trainer, 5, 8, 20)
    assert trainer.step == 25 and trainer.updates.updates == made
    assert (0 if trainer.replay is None else len(trainer.replay)) == (25 if saved else 0)
    feed(trainer, 8)
    assert trainer.step == 33 and trainer.updates.updates > made


def test_the_state_holds_everything_but_the_replay(gathered):
    hyper = {**HYPER, "normalize_rewards": True, "save_replay_buffer": True}
    one = trainer_of(hyper=hyper, checkpoint_interval=10**6)
    feed(one, 20)
    feed(one, 9, 3)
    state = one.state_dict()
    other = trainer_of(hyper=hyper)
    other.load_state_dict(state)
    assert other.step == 32 and other.updates == one.updates and other.signal_updates == one.signal_updates
    assert torch.equal(other.sampler.generator.get_state(), one.sampler.generator.get_state())
    assert other.reward_scale.state_dict() == one.reward_scale.state_dict()


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"steps_per_update": 0.5}, (48, 6)),
        ({"steps_per_update": 8.0}, (3, 6)),
        ({"buffer_init_steps": 12}, (6, 3)),
        ({"buffer_init_steps": 100}, (1, 1)),
        ({"gradient_steps": 2}, (12, 6)),
        ({"reward_signal_steps_per_update": 1.0}, (12, 24)),
    ],
)
def test_a_run_resumed_with_another_interval_neither_bursts_nor_stalls(gathered, keys, expected):
    """With the old count missing updates would be made at once, or none until it is reached."""
    hyper = {**HYPER, "reward_signal_steps_per_update": 4.0}
    one = trainer_of(hyper=hyper)
    feed(one, 20)
    feed(one, 4)
    assert (one.updates.updates, one.signal_updates.updates) == (12, 6)
    other = trainer_of(hyper={**hyper, **keys})
    other.load_state_dict(one.state_dict())
    assert (other.updates.updates, other.signal_updates.updates) == expected


def test_a_run_resumed_with_its_replay_learns_bit_for_bit_the_same(gathered, tmp_path):
    hyper = {**HYPER, "prioritized_replay": True, "n_step": 3, "save_replay_buffer": True}
    one, other = trainer_of(hyper=hyper), trainer_of(hyper=hyper)
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
        trainer_of(hyper={"buffer_size": 5000})


@pytest.mark.parametrize(("frames", "said"), [(4, True), (1, False)])
def test_a_frame_stack_that_fits_no_image_is_warned_of(caplog, frames, said):
    """Otherwise every observation is kept whole, and nothing explains the memory that it takes."""
    trainer_of(hyper={"frame_stack": frames})
    assert ("B: frame_stack is 4, and no observation is an image" in caplog.text) == said


@pytest.mark.slow
@pytest.mark.parametrize(("left", "fits"), [(100_000, True), (60_000, False)])
def test_a_saved_replay_of_float_images_that_will_not_fit_is_refused(
    gathered, monkeypatch, tmp_path, left, fits
):
    """When full it takes four times what was checked at the start, for images as bytes."""
    hyper = {**HYPER, "buffer_size": 5000, "save_replay_buffer": True}
    one, other = trainer_of(hyper=hyper), trainer_of(hyper=hyper)
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


def test_steps_wait_for_at_most_a_fraction_of_a_batch():
    """But for no less than a few updates, unless these are as rare as batches."""
    assert trainer_of(hyper={"batch_size": 256}).advance_interval == 32
    assert trainer_of(hyper={"batch_size": 64, "steps_per_update": 10.0}).advance_interval == 40
    assert trainer_of(hyper={"batch_size": 64, "steps_per_update": 100.0}).advance_interval == 64
    assert trainer_of(hyper={"batch_size": 256}, summary_freq=160).advance_interval == 10


def test_updates_multiply_large_matrices_by_onednn(gathered, monkeypatch):
    trainer, used = trainer_of(hyper=HYPER), []
    trainer.dense_products = MIN_PRODUCTS
    step = trainer._gradient_step
    monkeypatch.setattr(
        trainer, "_gradient_step", lambda replay: (used.append(uses_onednn()), step(replay))[1]
    )
    feed(trainer, 20)
    assert used == [keeps_float32()] * len(used)
    assert len(used) >= 5
    assert not uses_onednn()
