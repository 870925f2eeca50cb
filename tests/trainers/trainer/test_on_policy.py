"""What an on-policy trainer makes of trajectories: values, advantages, rewards, statistics, and when."""

import numpy as np
import pytest
import torch
from goldendata import array, cases
from lanista.agent_processor.trajectory import AgentKey, EpisodesForgotten
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.algorithms.poca.minibatches import TeamMinibatches
from lanista.trainers.algorithms.poca.poca import POCA
from lanista.trainers.algorithms.ppo.ppo import PPO
from lanista.trainers.buffers.rollout_buffer import RolloutBatch
from lanista.trainers.rewards.extrinsic import ExtrinsicReward
from lanista.trainers.settings.models.behavior import TrainerSettings
from lanista.trainers.trainer.episode_stats import EpisodeStats
from lanista.trainers.trainer.on_policy import OnPolicyTrainer
from referencenets import vector_spec
from rollouts import make_rollout
from trainer_surroundings import Events, Record, given_signals

SPEC = vector_spec([3], continuous=1)


def settings(**keys):
    return TrainerSettings.model_validate({"trainer_type": "ppo", **keys})


def rollout_of(lengths, rewards=None, group_rewards=None, done=None, interrupted=None, agents=None):
    """A Rollout of trajectories of these lengths; what is not given is zeros."""
    n = sum(lengths)
    return make_rollout(
        lengths,
        [np.random.default_rng(n).normal(size=(n, 3)).astype(np.float32)],
        continuous=np.zeros((n, 1), np.float32),
        reward=rewards,
        group_reward=group_rewards,
        done_reached=done,
        interrupted_at_end=interrupted,
        agents=agents,
    )


@pytest.mark.parametrize("case", cases("returns", "ppo_process"))
def test_values_of_trajectories_are_those_of_the_reference(case):
    given = case["inputs"]
    signals, providers = given_signals(given["signals"])
    config = settings(
        hyperparameters={"lambd": given["lambd"]}, reward_signals=signals, max_steps=10**6, summary_freq=10**6
    )
    algorithm = PPO(SPEC, config, torch.device("cpu"), 0, NonFinitePolicy.STOP)
    record = Record()
    trainer = OnPolicyTrainer(
        config, algorithm, providers, record, Events(), returns_kept=given["reward_buffer_capacity"]
    )
    for trajectory, expected in zip(given["trajectories"], case["expected"]["trajectories"], strict=True):
        record.calls.clear()
        values = np.stack([array(trajectory["critic_values"][s]) for s in signals], axis=1)
        following = np.array([[trajectory["critic_next_value_raw"][s] for s in signals]], np.float32)
        algorithm._values = lambda rollout, v=values, f=following: (v, f)
        for name, provider in providers.items():
            provider.given = array(trajectory["signal_rewards_unscaled"][name])
        env, _, agent = trajectory["agent_id"].removeprefix("agent_").partition("-")
        one = rollout_of(
            [len(trajectory["rewards"])],
            array(trajectory["rewards"]),
            array(trajectory["group_rewards"]),
            [trajectory["done_reached"]],
            [trajectory["interrupted"]],
            [AgentKey(int(env), int(agent))],
        )
        trainer.schedule.count(one.steps)
        trainer.stats.set_stat("Step", float(trainer.step))
        trainer.process(one)
        check(trainer, record, signals, expected)


def check(trainer, record, signals, expected):
    close = {"rtol": 1e-5, "atol": 1e-5}
    steps = trainer.buffer._parts[-1]
    for s, name in enumerate(signals):
        np.testing.assert_allclose(steps.returns[:, s], array(expected["signals"][name]["returns"]), **close)
    np.testing.assert_allclose(steps.advantages, array(expected["advantages"]), **close)
    assert trainer.step == expected["step"]
    assert [c[0] for c in record.calls] == [c[0] for c in expected["stats_reported"]]
    assert [c[2] for c in record.calls] == [c[2] for c in expected["stats_reported"]]
    np.testing.assert_allclose(
        [c[1] for c in record.calls], [c[1] for c in expected["stats_reported"]], rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(
        list(trainer.episodes.recent_returns), expected["reward_buffer"], rtol=1e-4, atol=1e-5
    )
    for key, sums in expected["collected_rewards"].items():
        column = trainer.episodes.names.index(key)
        # Unlike the reference we keep no entry for agents that have ended (pitfalls B1: it grows for ever).
        living = {k: v for k, v in sums.items() if isinstance(v, float)}
        got = {str(agent): total[column] for agent, total in trainer.episodes.sums.items()}
        assert set(got) == set(living)
        for agent, total in living.items():
            assert got[agent] == pytest.approx(total, rel=1e-4, abs=1e-5)


class Queue:
    """Hands over everything at once."""

    def __init__(self, items):
        self.items = items

    def drain(self):
        items, self.items = self.items, []
        return items


def trainer_with(events, **keys):
    config = settings(**keys)
    algorithm = PPO(SPEC, config, torch.device("cpu"), 0, NonFinitePolicy.STOP)
    return OnPolicyTrainer(config, algorithm, {"extrinsic": ExtrinsicReward()}, Record(), events)


class FakeTrajectory:
    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length


@pytest.fixture
def gathers(monkeypatch):
    """Trajectories stand for themselves; their lengths are all that matters here."""
    calls = []

    def gather(trajectories, with_mates=True):
        calls.append([len(t) for t in trajectories])
        return rollout_of([len(t) for t in trajectories])

    monkeypatch.setattr("lanista.trainers.trainer.trainer.build_rollout", gather)
    return calls


@pytest.fixture
def minibatch_rows(monkeypatch):
    """The steps of every minibatch that is learned from."""
    rows = []

    def counting(made):
        def minibatches(*given):
            for minibatch in made(*given):
                rows.append(len(getattr(minibatch, "steps", minibatch).advantages))
                yield minibatch

        return minibatches

    for owner in (RolloutBatch, TeamMinibatches):
        monkeypatch.setattr(owner, "minibatches", counting(owner.minibatches))
    return rows


LOOPS = cases("sac", "update_loop", where=lambda case: case["inputs"]["trainer"] != "sac")


@pytest.mark.parametrize("case", LOOPS)
def test_updates_are_made_when_the_reference_makes_them(case, monkeypatch, minibatch_rows):
    given = case["inputs"]
    length = given["sequence_length"]
    memory = {"memory": {"sequence_length": length, "memory_size": 8}} if length > 1 else {}

    def gather(trajectories, with_mates=True):
        rollout = rollout_of([len(t) for t in trajectories])
        if memory:
            rollout.memory = np.zeros((rollout.steps, 8), np.float32)
        return rollout

    monkeypatch.setattr("lanista.trainers.trainer.trainer.build_rollout", gather)
    hyper = {key: given[key] for key in ("batch_size", "buffer_size", "num_epoch")}
    config = settings(
        trainer_type=given["trainer"],
        hyperparameters=hyper,
        network_settings={"hidden_units": 8, "num_layers": 1, **memory},
        max_steps=10**6,
    )
    make = {"ppo": PPO, "poca": POCA}[given["trainer"]]
    algorithm = make(SPEC, config, torch.device("cpu"), 0, NonFinitePolicy.STOP)
    trainer = OnPolicyTrainer(config, algorithm, {"extrinsic": ExtrinsicReward()}, Record(), Events())
    advances = zip(
        given["trajectory_lengths_per_advance"], case["expected"]["after_each_advance"], strict=True
    )
    for lengths, expected in advances:
        minibatch_rows.clear()
        trainer.queues = [Queue([FakeTrajectory(n) for n in lengths])]
        trainer.advance()
        steps = trainer.buffer.columns() if len(trainer.buffer) else []
        assert (trainer.step, len(steps)) == (expected["step"], expected["buffer_after"])
        if given["trainer"] == "poca":  # whose minibatches here are whole moments of groups
            assert len(minibatch_rows) == len(expected["minibatch_rows"])
        else:
            assert minibatch_rows == expected["minibatch_rows"]


def test_summaries_are_labelled_with_exact_multiples_and_come_before_the_crossing_trajectory(gathers):
    events = Events()
    trainer = trainer_with(events, summary_freq=10, checkpoint_interval=1000)
    trainer.subscribe(Queue([FakeTrajectory(n) for n in (12, 4, 5, 25, 3)]))
    trainer.advance()
    # 12 crosses nothing (step 0 is never a summary); 16; 21 crosses 20; 46 crosses 30 only; 49.
    assert events.calls == [("summary", 20), ("summary", 30)]
    assert gathers == [[12, 4], [5], [25, 3]]
    assert trainer.step == 49


def test_a_checkpoint_is_taken_before_the_crossing_trajectory_is_counted(gathers):
    steps = []
    events = Events()
    trainer = trainer_with(events, checkpoint_interval=20)
    events.on_checkpoint = lambda: bool(steps.append(trainer.step))
    trainer.subscribe(Queue([FakeTrajectory(n) for n in (8, 8, 8, 8)]))
    trainer.advance()
    assert steps == [16]


def test_what_follows_a_checkpoint_is_dropped_when_the_engines_start_afresh(gathers):
    trainer = trainer_with(Events(drop_after_checkpoint=True), checkpoint_interval=20)
    trainer.subscribe(Queue([FakeTrajectory(n) for n in (8, 8, 8, 8)]))
    trainer.advance()
    assert trainer.step == 16
    assert len(trainer.buffer) == 16


def test_an_update_waits_for_more_than_buffer_size_steps(gathers):
    events = Events()
    keys = {"hyperparameters": {"batch_size": 4, "buffer_size": 16, "num_epoch": 1}}
    trainer = trainer_with(events, **keys)
    trainer.subscribe(Queue([FakeTrajectory(16)]))
    trainer.advance()
    assert events.calls == []
    trainer.subscribe(Queue([FakeTrajectory(1)]))
    trainer.advance()
    assert [call[0] for call in events.calls] == ["updated"]
    assert len(trainer.buffer) == 0


def test_a_trainer_that_is_done_counts_on_and_learns_no_more(gathers):
    events = Events()
    keys = {"hyperparameters": {"batch_size": 4, "buffer_size": 8, "num_epoch": 1}, "max_steps": 10}
    trainer = trainer_with(events, **keys)
    trainer.schedule.restore(11)
    trainer.subscribe(Queue([FakeTrajectory(20)]))
    trainer.advance()
    assert not trainer.should_still_train
    assert trainer.step == 31
    assert len(trainer.buffer) == 0
    assert events.calls == []


def test_what_waits_is_taken_in_without_an_update(gathers):
    events = Events()
    keys = {"hyperparameters": {"batch_size": 4, "buffer_size": 8, "num_epoch": 1}}
    trainer = trainer_with(events, **keys)
    trainer.subscribe(Queue([FakeTrajectory(20)]))
    assert trainer.process_queues()
    assert trainer.step == 20 and events.calls == []
    assert not trainer.process_queues()


@pytest.mark.parametrize(
    "buffer_size, summary_freq, portion",
    [(12000, 12000, 187), (12000, 800, 50), (10, 10, 1), (10**7, 10**7, 4096)],
)
def test_a_portion_is_small_beside_the_buffer_and_a_summary(buffer_size, summary_freq, portion):
    keys = {"hyperparameters": {"batch_size": 4, "buffer_size": buffer_size}, "summary_freq": summary_freq}
    assert trainer_with(Events(), **keys).advance_interval == portion


# Episodes that never end --------------------------------------------------------------------------------


def returns_told(trainer):
    return [value for key, value, _ in trainer.stats.calls if key == "Environment/Cumulative Reward"]


def played(monkeypatch, items, rewards=1.0):
    """A trainer that took in these items: (agent, length, done), or forgotten episodes."""

    class Played(FakeTrajectory):
        def __init__(self, agent, length, done):
            super().__init__(length)
            self.agent, self.done = agent, done

    def gather(trajectories, with_mates=True):
        lengths = [len(t) for t in trajectories]
        return rollout_of(
            lengths,
            rewards=np.full(sum(lengths), rewards, np.float32),
            done=[t.done for t in trajectories],
            agents=[t.agent for t in trajectories],
        )

    monkeypatch.setattr("lanista.trainers.trainer.trainer.build_rollout", gather)
    trainer = trainer_with(Events())
    trainer.subscribe(
        Queue([item if isinstance(item, EpisodesForgotten) else Played(*item) for item in items])
    )
    trainer.advance()
    return trainer


A, B, OTHER = AgentKey(0, 1), AgentKey(0, 2), AgentKey(1, 1)


@pytest.mark.parametrize(
    "forgotten, told",
    [
        (EpisodesForgotten(0), [2, 2, 12]),
        (EpisodesForgotten(), [2, 2, 2]),
        (EpisodesForgotten(0, np.array([2], np.int32)), [12, 2, 12]),
        (EpisodesForgotten(2), [12, 12, 12]),
    ],
    ids=["an environment's", "all", "an agent's", "another environment's"],
)
def test_what_a_dead_engine_s_agents_had_earned_is_in_no_return(monkeypatch, forgotten, told):
    """Its cut trajectories still wait when it is restarted, and agents of the same names follow."""
    before = [(agent, 10, False) for agent in (A, B, OTHER)]
    after = [(agent, 2, True) for agent in (A, B, OTHER)]
    trainer = played(monkeypatch, [*before, forgotten, *after])
    assert returns_told(trainer) == told
    assert trainer.step == 36 and not trainer.episodes.sums


def test_forgotten_episodes_reach_the_algorithm_in_their_turn(monkeypatch):
    calls = []
    monkeypatch.setattr(PPO, "reset_agents", lambda self, env, ids: calls.append(("forgotten", env, ids)))
    plain = PPO.evaluate
    monkeypatch.setattr(PPO, "evaluate", lambda *given: calls.append("evaluated") or plain(*given))
    played(monkeypatch, [(A, 3, False), EpisodesForgotten(0), (A, 3, False)])
    assert calls == ["evaluated", ("forgotten", 0, None), "evaluated"]


# Numbers that overflow ----------------------------------------------------------------------------------


def rewarded(trainer, *rewards):
    """Take in one trajectory of three steps for each of these rewards."""
    column = np.repeat(np.array(rewards, np.float32), 3)
    trainer.process(rollout_of([3] * len(rewards), rewards=column, done=[True] * len(rewards)))


def savable(trainer):
    return all(
        bool(torch.isfinite(x).all())
        for column in trainer.buffer.state_dict().values()
        for x in (column if isinstance(column, list) else [column])
    )


def test_rewards_that_overflow_end_the_run_and_stay_out_of_what_is_saved():
    trainer = trainer_with(Events())
    rewarded(trainer, 1.0, 2.0)
    with pytest.raises(FloatingPointError, match=r"a reward of agent_0-1 is 3e\+38.*non_finite: drop"):
        rewarded(trainer, 1.0, 3e38)
    assert len(trainer.buffer) == 6 and savable(trainer)


def test_trajectories_with_rewards_that_overflow_are_left_out(caplog):
    trainer = trainer_with(Events())
    trainer.non_finite = NonFinitePolicy.DROP
    rewarded(trainer, 1.0, -3e38, 2.0)
    rewarded(trainer, 3e38)
    assert len(trainer.buffer) == 6 and savable(trainer)
    assert caplog.text.count("a reward of agent_0-1 is 3e+38") == 1 and caplog.text.count("logged once") == 1
    assert len(returns_told(trainer)) == 4, "they have happened all the same"


def test_critics_begin_anew_behind_what_is_left_out():
    trainer = trainer_with(Events())
    trainer.non_finite = NonFinitePolicy.DROP
    told = []
    trainer.algorithm.reset_agents = lambda env, ids: told.append(("forget", env, ids.tolist()))
    evaluate = trainer.algorithm.evaluate
    trainer.algorithm.evaluate = lambda *given: (told.append("evaluate"), evaluate(*given))[1]
    rewarded(trainer, 1.0, 2.0)
    assert told == ["evaluate"]
    told.clear()
    rewarded(trainer, 1.0, -3e38, 2.0)
    assert told == [("forget", 0, [1]), "evaluate", ("forget", 0, [1])]
    told.clear()
    rewarded(trainer, 3e38)
    assert told == [("forget", 0, [0])]


@pytest.mark.parametrize("policy", [NonFinitePolicy.STOP, NonFinitePolicy.DROP])
def test_values_that_overflow_stay_out_of_what_is_saved(policy, caplog):
    trainer = trainer_with(Events())
    trainer.non_finite = policy
    rewarded(trainer, 1.0)
    with torch.no_grad():
        trainer.algorithm.network.values.bias.fill_(3e38)
        trainer.algorithm.network.values.weight.fill_(3e38)
    if policy is NonFinitePolicy.STOP:
        with pytest.raises(FloatingPointError, match="values or the advantages are not finite"):
            rewarded(trainer, 1.0)
    else:
        rewarded(trainer, 1.0)
        assert "Dropped before step" in caplog.text
    assert len(trainer.buffer) == 3 and savable(trainer)


# Resuming -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [1, 3, 9])
def test_a_resumed_trainer_keeps_the_newest_returns(kept):
    saved = trainer_with(Events())
    saved.episodes = EpisodeStats(["extrinsic"], returns_kept=5)
    for value in range(8):
        saved.episodes.recent_returns.appendleft(float(value))
    resumed = trainer_with(Events())
    resumed.episodes = EpisodeStats(["extrinsic"], returns_kept=kept)
    resumed.episodes.recent_returns.appendleft(99.0)
    resumed.load_state_dict(saved.state_dict())
    assert list(resumed.episodes.recent_returns) == [7.0, 6.0, 5.0, 4.0, 3.0][:kept]


def test_a_resumed_trainer_learns_bit_for_bit_what_the_first_one_learns(gathers):
    keys = {"hyperparameters": {"batch_size": 8, "buffer_size": 32}, "network_settings": {"normalize": True}}

    def feed(trainer, lengths):
        trainer.queues = [Queue([FakeTrajectory(n) for n in lengths])]
        trainer.advance()

    first = trainer_with(Events(), **keys)
    feed(first, [40])
    feed(first, [20])
    saved = first.state_dict()
    saved = torch.load(_saved(saved), weights_only=True)
    second = trainer_with(Events(), **keys)
    second.load_state_dict(saved)
    for trainer in (first, second):
        feed(trainer, [15])
        feed(trainer, [50])
    for (name, a), (_, b) in zip(
        first.algorithm.network.state_dict().items(),
        second.algorithm.network.state_dict().items(),
        strict=True,
    ):
        assert torch.equal(a, b), name
    assert first.step == second.step


def _saved(state):
    import io

    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    return buffer


def test_ppo_speaks_of_group_rewards_once(caplog):
    algorithm = PPO(SPEC, settings(), torch.device("cpu"), 0, NonFinitePolicy.STOP)
    rewards, ignores = {"extrinsic": np.zeros(4, np.float32)}, {"extrinsic": False}
    algorithm.evaluate(rollout_of([4]), rewards, ignores)
    assert not caplog.records
    for _ in range(3):
        algorithm.evaluate(rollout_of([4], group_rewards=np.ones(4, np.float32)), rewards, ignores)
    assert len(caplog.records) == 1 and "trainer_type: poca" in caplog.text
