"""What an on-policy trainer makes of trajectories (values, advantages, rewards, statistics), and when."""

import io

import numpy as np
import pytest
import torch
from goldendata import array, cases
from lanista.agent_processor.trajectory import AgentKey, EpisodesDropped
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.algorithms.mappo import MAPPO
from lanista.trainers.algorithms.poca.poca import POCA
from lanista.trainers.algorithms.ppo.ppo import PPO
from lanista.trainers.buffers.rollout_buffer import EvaluatedSteps, RolloutBatch
from lanista.trainers.rewards.extrinsic import ExtrinsicReward
from lanista.trainers.settings.models.behavior import TrainerSettings
from lanista.trainers.trainer.episode_stats import EpisodeStats
from lanista.trainers.trainer.on_policy import OnPolicyTrainer
from specs import vector_spec
from stub_rollouts import (
    BUILD_ROLLOUT,
    Queue,
    StubTrajectory,
    check_golden,
    feed,
    process_golden,
    rollout_of,
)
from trainer_surroundings import Events, GivenReward, Record, given_signals

SPEC = vector_spec([3], continuous=1)
SMALL = {"batch_size": 4, "buffer_size": 8, "num_epoch": 1}


def settings(**keys):
    return TrainerSettings.model_validate({"trainer_type": "ppo", **keys})


def trainer_with(events=None, make=PPO, providers=None, returns_kept=1, **keys):
    config = settings(**keys)
    algorithm = make(SPEC, config, torch.device("cpu"), 0, NonFinitePolicy.STOP)
    providers = providers or {"extrinsic": ExtrinsicReward()}
    return OnPolicyTrainer(
        config, algorithm, providers, Record(), events or Events(), returns_kept=returns_kept
    )


@pytest.mark.parametrize("case", cases("returns", "ppo_process"))
def test_values_of_trajectories_are_those_of_the_reference(case):
    given = case["inputs"]
    signals, providers = given_signals(given["signals"])
    trainer = trainer_with(
        providers=providers,
        returns_kept=given["reward_buffer_capacity"],
        hyperparameters={"lambd": given["lambd"]},
        reward_signals=signals,
        max_steps=10**6,
        summary_freq=10**6,
    )
    for trajectory, expected in zip(given["trajectories"], case["expected"]["trajectories"], strict=True):
        values = np.stack([array(trajectory["critic_values"][s]) for s in signals], axis=1)
        following = np.array([[trajectory["critic_next_value_raw"][s] for s in signals]], np.float32)
        trainer.algorithm._values = lambda rollout, v=values, f=following: (v, f)
        process_golden(trainer, trajectory, group_reward=array(trajectory["group_rewards"]))
        close = {"rtol": 1e-5, "atol": 1e-5}
        steps = trainer.buffer._parts[-1]
        for s, name in enumerate(signals):
            returns = array(expected["signals"][name]["returns"])
            np.testing.assert_allclose(steps.returns[:, s], returns, **close)
        np.testing.assert_allclose(steps.advantages, array(expected["advantages"]), **close)
        check_golden(trainer, expected)


@pytest.fixture
def minibatch_rows(monkeypatch):
    """The steps of every minibatch that the policy learns from.

    They are counted as the reference counts them, which pads sequences to the full length; ours end earlier.
    """
    rows, made = [], RolloutBatch.minibatches

    def minibatches(batch, size, generator, sequence_length=1):
        for minibatch in made(batch, size, generator, sequence_length):
            rows.append(len(minibatch.advantages) // minibatch.length * sequence_length)
            yield minibatch

    monkeypatch.setattr(RolloutBatch, "minibatches", minibatches)
    return rows


LOOPS = cases("sac", "update_loop", where=lambda case: case["inputs"]["trainer"] != "sac")


@pytest.mark.parametrize("case", LOOPS)
def test_updates_are_made_when_the_reference_makes_them(case, monkeypatch, minibatch_rows):
    given = case["inputs"]
    length = given["sequence_length"]
    memory = {"memory": {"sequence_length": length, "memory_size": 8}} if length > 1 else {}

    def gather(trajectories, with_teammates=True):
        lengths = [len(t) for t in trajectories]
        return rollout_of(lengths, memory=np.zeros((sum(lengths), 8), np.float32) if memory else None)

    monkeypatch.setattr(BUILD_ROLLOUT, gather)
    trainer = trainer_with(
        make={"ppo": PPO, "poca": POCA}[given["trainer"]],
        trainer_type=given["trainer"],
        hyperparameters={key: given[key] for key in ("batch_size", "buffer_size", "num_epoch")},
        network_settings={"hidden_units": 8, "num_layers": 1, **memory},
        max_steps=10**6,
    )
    advances = zip(
        given["trajectory_lengths_per_advance"], case["expected"]["after_each_advance"], strict=True
    )
    for lengths, expected in advances:
        minibatch_rows.clear()
        feed(trainer, *lengths)
        steps = trainer.buffer.columns() if len(trainer.buffer) else []
        assert (trainer.step, len(steps)) == (expected["step"], expected["buffer_after"])
        assert minibatch_rows == expected["minibatch_rows"]


def test_summaries_are_labelled_with_exact_multiples_and_come_before_the_crossing_trajectory(gathered):
    trainer = trainer_with(summary_freq=10, checkpoint_interval=1000)
    feed(trainer, 12, 4, 5, 25, 3)
    # 12 crosses nothing (step 0 is never a summary); 16; 21 crosses 20; 46 crosses 30 only; 49.
    assert trainer.events.calls == [("summary", 20), ("summary", 30)]
    assert gathered == [[12, 4], [5], [25, 3]]
    assert trainer.step == 49


def test_a_checkpoint_is_taken_before_the_crossing_trajectory_is_counted(gathered):
    steps = []
    trainer = trainer_with(checkpoint_interval=20)
    trainer.events.on_checkpoint = lambda: bool(steps.append(trainer.step))
    feed(trainer, 8, 8, 8, 8)
    assert steps == [16]


def test_when_engines_restart_at_a_checkpoint_what_follows_it_is_dropped(gathered):
    trainer = trainer_with(Events(drop_after_checkpoint=True), checkpoint_interval=20)
    feed(trainer, 8, 8, 8, 8)
    assert trainer.step == len(trainer.buffer) == 16


def test_an_update_waits_for_more_than_buffer_size_steps(gathered):
    trainer = trainer_with(hyperparameters={**SMALL, "buffer_size": 16})
    feed(trainer, 16)
    assert trainer.events.calls == []
    feed(trainer, 1)
    assert [call[0] for call in trainer.events.calls] == ["updated"]
    assert len(trainer.buffer) == 0


def test_after_max_steps_a_trainer_counts_and_learns_no_more(gathered):
    trainer = trainer_with(hyperparameters=SMALL, max_steps=10)
    trainer.schedule.restore(11)
    feed(trainer, 20)
    assert not trainer.should_still_train
    assert (trainer.step, len(trainer.buffer), trainer.events.calls) == (31, 0, [])


def test_queued_steps_can_be_processed_without_an_update(gathered):
    trainer = trainer_with(hyperparameters=SMALL)
    trainer.subscribe(Queue([StubTrajectory(20)]))
    assert trainer.process_queues()
    assert trainer.step == 20 and trainer.events.calls == []
    assert not trainer.process_queues()


@pytest.mark.parametrize(
    "buffer_size, summary_freq, interval",
    [(12000, 12000, 187), (12000, 800, 50), (10, 10, 1), (10**7, 10**7, 4096)],
)
def test_a_pass_is_small_compared_with_the_buffer_and_a_summary(buffer_size, summary_freq, interval):
    keys = {"hyperparameters": {"batch_size": 4, "buffer_size": buffer_size}, "summary_freq": summary_freq}
    assert trainer_with(**keys).advance_interval == interval


# Rewards in units of their returns -----------------------------------------------------------------------


TRAINERS = {"ppo": PPO, "poca": POCA, "mappo": MAPPO}


def scaling_trainer(kind, bonus, normalizes=True, events=None):
    signals = {"extrinsic": {"gamma": 0.9, "strength": 2.0}, "rnd": {"gamma": 0.5, "strength": 0.02}}
    given = GivenReward(ignores_done=True)
    given.given = bonus
    return trainer_with(
        events,
        make=TRAINERS[kind],
        providers={"extrinsic": ExtrinsicReward(), "rnd": given},
        trainer_type=kind,
        hyperparameters={"normalize_rewards": normalizes, "batch_size": 16, "buffer_size": 64},
        reward_signals=signals,
        max_steps=1000,
    )


@pytest.mark.parametrize("kind", TRAINERS)
def test_rewards_are_divided_by_the_deviation_of_their_returns(kind, monkeypatch):
    """By that of each signal, including what groups earn, before its strength; they are clipped to 10."""
    random, bonus = np.random.default_rng(0), np.zeros(420, np.float32)
    own, of_group = random.normal(size=(2, 420)).astype(np.float32) * 100
    bonus[40] = 7e3
    rewards, returns = np.stack([own + of_group, bonus], axis=1).astype(np.float64), np.zeros((420, 2))
    for t in range(420):
        returns[t] = rewards[t] + (0.0 if t in (0, 300) else returns[t - 1] * [0.9, 0.5])
    expected = rewards / np.sqrt(returns.var(axis=0) + 1e-8) * [2.0, 0.02]
    assert np.abs(expected[:, 1]).max() < 1.0
    taken, reported = [], []
    for normalizes in (True, False):
        trainer = scaling_trainer(kind, bonus, normalizes)
        evaluate = trainer.algorithm.evaluate
        learned = lambda *given, of=evaluate: taken.append(given[1]) or of(*given)  # noqa: E731
        monkeypatch.setattr(trainer.algorithm, "evaluate", learned)
        trainer.process(rollout_of([300, 120], reward=own, group_reward=of_group, done_reached=[True, True]))
        reported.append([call for call in trainer.stats.calls if "Estimate" not in call[0]])
        assert len(trainer.buffer) == 420
    for name, column in zip(("extrinsic", "rnd"), expected.T, strict=True):
        np.testing.assert_allclose(taken[0][name], column, rtol=1e-4)
    np.testing.assert_array_equal(taken[1]["extrinsic"], np.float32(2.0) * (own + of_group))
    assert reported[0] == reported[1], "what is reported is what the environment gave"


def test_a_rare_reward_is_clipped():
    trainer = scaling_trainer("ppo", np.zeros(1000, np.float32))
    reward = np.zeros(1000, np.float32)
    reward[500] = -3.0
    scaled = trainer._scaled(rollout_of([1000]), {"extrinsic": reward, "rnd": np.zeros(1000, np.float32)})
    assert scaled["extrinsic"].min() == scaled["extrinsic"][500] == -10.0 and scaled["extrinsic"].max() == 0.0
    assert scaled["extrinsic"].dtype == np.float32


def test_the_deviation_is_saved_and_counts_only_what_is_learned_from(gathered):
    trainer = scaling_trainer("ppo", np.zeros(20, np.float32))
    feed(trainer, 20, EpisodesDropped(0))
    state = trainer.state_dict()
    assert state["reward_scale"]["count"] == 20
    other = scaling_trainer("ppo", np.zeros(20, np.float32))
    other.load_state_dict(state)
    assert other.reward_scale.state_dict() == trainer.reward_scale.state_dict()
    other.load_state_dict({key: value for key, value in state.items() if key != "reward_scale"})
    trainer.schedule.restore(1001)
    feed(trainer, 20)
    assert int(trainer.reward_scale.steps) == 20
    assert "reward_scale" not in scaling_trainer("ppo", None, normalizes=False).state_dict()


# Episodes that never end --------------------------------------------------------------------------------


def reported_returns(trainer):
    return [value for key, value, _ in trainer.stats.calls if key == "Environment/Cumulative Reward"]


def played(monkeypatch, *items):
    """A trainer that processed these trajectories and dropped episodes, with a reward of 1 at each step."""

    def gather(trajectories, with_teammates=True):
        lengths = [len(t) for t in trajectories]
        return rollout_of(
            lengths,
            reward=np.ones(sum(lengths), np.float32),
            done_reached=[t.done for t in trajectories],
            agents=[t.agent for t in trajectories],
        )

    monkeypatch.setattr(BUILD_ROLLOUT, gather)
    trainer = trainer_with()
    feed(trainer, *items)
    return trainer


A, B, OTHER = AgentKey(0, 1), AgentKey(0, 2), AgentKey(1, 1)


@pytest.mark.parametrize(
    "dropped, reported",
    [
        (EpisodesDropped(0), [2, 2, 12]),
        (EpisodesDropped(), [2, 2, 2]),
        (EpisodesDropped(0, np.array([2], np.int32)), [12, 2, 12]),
        (EpisodesDropped(2), [12, 12, 12]),
    ],
    ids=["an environment's", "all", "an agent's", "another environment's"],
)
def test_what_agents_of_a_failed_engine_had_earned_is_in_no_return(monkeypatch, dropped, reported):
    """Its trajectories are still queued when it is restarted, and agents with the same ids follow."""
    before = [StubTrajectory(10, agent) for agent in (A, B, OTHER)]
    after = [StubTrajectory(2, agent, done=True) for agent in (A, B, OTHER)]
    trainer = played(monkeypatch, *before, dropped, *after)
    assert reported_returns(trainer) == reported
    assert trainer.step == 36 and not trainer.episodes.sums


def test_dropped_episodes_reach_the_algorithm_in_order(monkeypatch):
    calls = []
    monkeypatch.setattr(PPO, "reset_agents", lambda self, env, ids: calls.append(("forgotten", env, ids)))
    plain = PPO.evaluate
    monkeypatch.setattr(PPO, "evaluate", lambda *given: calls.append("evaluated") or plain(*given))
    played(monkeypatch, StubTrajectory(3, A), EpisodesDropped(0), StubTrajectory(3, A))
    assert calls == ["evaluated", ("forgotten", 0, None), "evaluated"]


@pytest.mark.parametrize("action", [-1, 3, 120])
def test_saved_steps_with_actions_that_there_are_not_are_refused(action):
    """They would be indices of probabilities that belong to other agents, or to none."""

    def trainer():
        given = settings()
        spec = vector_spec([3], branches=(3,))
        algorithm = PPO(spec, given, torch.device("cpu"), 0, NonFinitePolicy.STOP)
        return OnPolicyTrainer(given, algorithm, {"extrinsic": ExtrinsicReward()}, Record(), Events())

    saved, zeros = trainer(), np.zeros((2, 1), np.float32)
    steps = dict.fromkeys(("log_probs", "values", "returns"), zeros)
    discrete = np.array([[2], [action]], np.int32)
    saved.buffer.append(
        EvaluatedSteps(
            obs=[np.zeros((2, 3), np.float32)],
            continuous=zeros[:, :0],
            discrete=discrete,
            action_mask=None,
            advantages=zeros[:, 0],
            **steps,
        )
    )
    with pytest.raises(ValueError, match=r"buffer\.discrete holds actions .* \(3,\)"):
        trainer().load_state_dict(saved.state_dict())


# Numbers that overflow ----------------------------------------------------------------------------------


def rewarded(trainer, *rewards):
    """Process one trajectory of three steps for each of these rewards."""
    column = np.repeat(np.array(rewards, np.float32), 3)
    trainer.process(rollout_of([3] * len(rewards), reward=column, done_reached=[True] * len(rewards)))


def savable(trainer):
    return all(
        bool(torch.isfinite(x).all())
        for column in trainer.buffer.state_dict().values()
        for x in (column if isinstance(column, list) else [column])
    )


def test_rewards_that_overflow_end_the_run_and_stay_out_of_what_is_saved():
    trainer = trainer_with()
    rewarded(trainer, 1.0, 2.0)
    with pytest.raises(FloatingPointError, match=r"a reward of agent_0-1 is 3e\+38.*non_finite: drop"):
        rewarded(trainer, 1.0, 3e38)
    assert len(trainer.buffer) == 6 and savable(trainer)


def test_trajectories_with_rewards_that_overflow_are_dropped(caplog):
    trainer = trainer_with()
    trainer.non_finite = NonFinitePolicy.DROP
    rewarded(trainer, 1.0, -3e38, 2.0)
    rewarded(trainer, 3e38)
    assert len(trainer.buffer) == 6 and savable(trainer)
    assert caplog.text.count("a reward of agent_0-1 is 3e+38") == 1 and caplog.text.count("logged once") == 1
    assert len(reported_returns(trainer)) == 4, "these episodes took place all the same"


def test_critics_restart_after_what_is_dropped():
    trainer = trainer_with()
    trainer.non_finite = NonFinitePolicy.DROP
    calls = []
    trainer.algorithm.reset_agents = lambda env, ids: calls.append(("reset", env, ids.tolist()))
    evaluate = trainer.algorithm.evaluate
    trainer.algorithm.evaluate = lambda *given: (calls.append("evaluate"), evaluate(*given))[1]
    rewarded(trainer, 1.0, 2.0)
    assert calls == ["evaluate"]
    calls.clear()
    rewarded(trainer, 1.0, -3e38, 2.0)
    assert calls == [("reset", 0, [1]), "evaluate", ("reset", 0, [1])]
    calls.clear()
    rewarded(trainer, 3e38)
    assert calls == [("reset", 0, [0])]


@pytest.mark.parametrize("policy", [NonFinitePolicy.STOP, NonFinitePolicy.DROP])
def test_values_that_overflow_stay_out_of_what_is_saved(policy, caplog):
    trainer = trainer_with()
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
    saved = trainer_with()
    saved.episodes = EpisodeStats(["extrinsic"], returns_kept=5)
    for value in range(8):
        saved.episodes.history.last.appendleft(float(value))
    resumed = trainer_with()
    resumed.episodes = EpisodeStats(["extrinsic"], returns_kept=kept)
    resumed.episodes.history.last.appendleft(99.0)
    resumed.load_state_dict(saved.state_dict())
    assert list(resumed.episodes.history.last) == [7.0, 6.0, 5.0, 4.0, 3.0][:kept]


def test_a_resumed_trainer_learns_bit_for_bit_what_the_first_one_learns(gathered):
    keys = {"hyperparameters": {"batch_size": 8, "buffer_size": 32}, "network_settings": {"normalize": True}}

    first, second = trainer_with(**keys), trainer_with(**keys)
    feed(first, 40)
    feed(first, 20)
    buffer = io.BytesIO()
    torch.save(first.state_dict(), buffer)
    buffer.seek(0)
    second.load_state_dict(torch.load(buffer, weights_only=True))
    for trainer in (first, second):
        feed(trainer, 15)
        feed(trainer, 50)
    weights = [trainer.algorithm.network.state_dict() for trainer in (first, second)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert first.step == second.step


def test_ppo_mentions_group_rewards_once(caplog):
    algorithm = PPO(SPEC, settings(), torch.device("cpu"), 0, NonFinitePolicy.STOP)
    rewards, ignores = {"extrinsic": np.zeros(4, np.float32)}, {"extrinsic": False}
    algorithm.evaluate(rollout_of([4]), rewards, ignores)
    assert not caplog.records
    for _ in range(3):
        algorithm.evaluate(rollout_of([4], group_reward=np.ones(4, np.float32)), rewards, ignores)
    assert len(caplog.records) == 1 and "trainer_type: poca" in caplog.text
