"""What COMA computes from trajectories, and the gradients of its update."""

import numpy as np
import pytest
import torch
from coma_plays import Batch, Play, make, settings, vector_spec
from lanista.agent_processor.rollout import build_rollout
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.algorithms.coma.coma import COMA
from lanista.trainers.algorithms.coma.critic import Steps
from lanista.trainers.algorithms.coma.minibatches import RosterMinibatches, slots_of
from lanista.trainers.algorithms.common.actions import UnsupportedActionError
from lanista.trainers.algorithms.ppo.losses import clipped_surrogate
from lanista.trainers.buffers.columns import joined
from lanista.trainers.networks.modules.distributions import ActionDistribution, Branches
from lanista.trainers.networks.observation_kinds import UnsupportedObservationError
from lanista.trainers.rewards.extrinsic import TeamReward
from lanista.trainers.settings.models.algorithms import TeamRewardKind
from mlagents_envs.base_env import ActionSpec, BehaviorSpec
from reliability.resume import differences
from rollouts import reloaded

SPEC = vector_spec([2], [3, 2])
MEMORY = {"memory": {"memory_size": 8, "sequence_length": 4}}


def eyes(*agents):
    return [np.array([[agent, agent * agent] for agent in agents], np.float32)]


def played(play, ticks=6):
    """Two groups; in the first one agent dies early and one joins late. Both end at last."""
    rng = np.random.default_rng(7)
    play.tell(Batch([1, 2], eyes(1, 2)))
    play.tell(Batch([8, 9], eyes(8, 9), group=2), env=1)
    alive = [1, 2]
    for tick in range(ticks):
        ending = None
        if tick == 2:
            ending, alive = Batch([2], eyes(2.5), [0.5]), [1]
        if tick == 3:
            alive = [1, 5]
        mask = [np.zeros((len(alive), 3), bool), np.zeros((len(alive), 2), bool)]
        mask[0][:, tick % 3] = True
        reward = rng.normal(size=len(alive))
        seen = eyes(*(a + tick for a in alive))
        play.tell(Batch(alive, seen, reward, group_reward=0.25, mask=mask), ending)
        play.tell(Batch([8, 9], eyes(8 + tick, 9), rng.normal(size=2), group=2), env=1)
    play.tell(None, Batch(alive, eyes(*alive), [1.0] * len(alive), group_reward=1.0))
    play.tell(None, Batch([8, 9], eyes(0, 0), [1.0, 2.0], group=2, interrupted=True), env=1)
    return play.manager.trajectory_queue.drain()


def config(**keys):
    return settings(**{"batch_size": 8, "buffer_size": 1000, "max_num_agents": 3, "num_epoch": 1, **keys})


def evaluated(algorithm, rows, reward=None):
    reward = TeamReward(TeamRewardKind.MEAN) if reward is None else reward
    return algorithm.evaluate(rows, {"extrinsic": reward.evaluate(rows)}, {"extrinsic": False})


def advantages_of(algorithm, steps):
    """[N, branches], by the critic as it is now."""
    return algorithm._advantages(RosterMinibatches(algorithm.networks, steps)).numpy()


def prepared(keys, **arguments):
    """A play that has ended, and the steps that COMA makes of it."""
    play = Play(SPEC, keys, **arguments)
    return play, evaluated(play.algorithm, build_rollout(played(play), with_teammates=False)).steps


VARIANTS = {
    "shared": {},
    "index on actor": {"index_on_actor": True},
    "unshared": {"share_parameters": False},
    "recurrent": {"network_settings": MEMORY},
    "recurrent, unshared": {"share_parameters": False, "network_settings": MEMORY},
    "recurrent critic": {"network_settings": {"critic": {"hidden_units": 16, "num_layers": 1, **MEMORY}}},
    "as published": {"clip": False},
    "scaled": {"normalize_values": True, "tau": 0.5},
}


@pytest.fixture(params=VARIANTS.values(), ids=VARIANTS.keys())
def variant(request):
    return config(**request.param)


def test_advantages_and_targets_follow_their_definitions():
    play = Play(SPEC, config(lambd=0.7, reward_signals={"extrinsic": {"gamma": 0.9}}))
    rows = build_rollout(played(play), with_teammates=False)
    play.algorithm.sampler.manual_seed(0)
    steps = evaluated(play.algorithm, rows).steps
    play.algorithm.sampler.manual_seed(0)
    estimates = play.algorithm.evaluator(rows, play.algorithm.exploration)
    reward = TeamReward(TeamRewardKind.MEAN).evaluate(rows)
    start = 0
    for j, length in enumerate(rows.lengths.tolist()):
        target = following = estimates.following[j, 0]
        for t in reversed(range(start, start + length)):
            last = t == start + length - 1
            value = following if last else estimates.taken[t + 1, 0]
            target = reward[t] + 0.9 * (0.3 * value + 0.7 * target)
            assert steps.returns[t, 0] == pytest.approx(target, rel=1e-4, abs=1e-5)
        start += length
    nets, advantages = play.algorithm.networks, advantages_of(play.algorithm, steps)
    with torch.no_grad():
        for i in range(rows.steps):
            (place,) = np.flatnonzero(rows.roster[i] == i)
            obs = [torch.from_numpy(o.copy()) for o in rows.obs]
            roster = np.where(rows.roster[i : i + 1] >= 0, rows.roster[i : i + 1], len(rows.reward))
            one = Steps(torch.tensor([i]), torch.from_numpy(roster), torch.tensor([place]))
            table = nets.table_of(nets.critic, obs, torch.from_numpy(rows.discrete).long())
            q = nets.critic(table, one)[0, 0]
            mask = torch.from_numpy(rows.action_mask[i : i + 1])
            epsilon = float(rows.exploration[i])
            p = nets.policy(obs, one, mask, epsilon).probabilities[0]
            for k, branch in enumerate((q[:3], q[3:])):
                chosen = rows.discrete[i, k]
                expected = branch[chosen] - (p[k, : len(branch)] * branch).sum()
                assert advantages[i, k] == pytest.approx(float(expected), rel=1e-4, abs=1e-5)
            logged = p[torch.arange(2), torch.from_numpy(rows.discrete[i]).long()].log()
            np.testing.assert_allclose(rows.log_probs[i], logged, rtol=1e-4, atol=1e-5)


def test_the_bootstrap_value_is_zero_where_all_have_terminated_and_the_survivors_otherwise():
    play = Play(SPEC, config())
    trajectories = {t.agent.agent: t for t in played(play)}
    algorithm = play.algorithm
    dead, last, interrupted = (build_rollout([trajectories[a]], with_teammates=False) for a in (2, 1, 8))
    evaluator = algorithm.evaluator
    assert evaluator(last, 0.1).following.tolist() == [[0.0]]
    assert evaluator(interrupted, 0.1).following[0, 0] != 0.0
    # One member lives on: what it does is summed over and nobody else does anything, so that this is exact.
    nets = algorithm.networks
    following = evaluator(dead, 0.1).following[0, 0]
    (survivor,) = dead.next_roster[0][dead.next_roster[0] >= 0]
    obs = [torch.from_numpy(o[[survivor]]) for o in dead.obs]
    alone = Steps(torch.tensor([0]), torch.tensor([[0, 1, 1]]), torch.tensor([0]))
    with torch.no_grad():
        table = nets.table_of(nets.target, obs, torch.zeros(1, 2, dtype=torch.int64))
        q = nets.target(table, alone)[0, 0]
        p = nets.policy(obs, alone, torch.from_numpy(dead.action_mask[[survivor]]), 0.1).probabilities[0]
    expected = ((p[0] * q[:3]).sum() + (p[1, :2] * q[3:]).sum()) / 2
    assert following == pytest.approx(float(expected), rel=1e-4, abs=1e-5)


def test_the_teams_reward_is_the_groups_and_the_mean_or_sum_of_the_members():
    play = Play(SPEC, config())
    play.tell(Batch([1, 2], eyes(1, 2)))
    play.tell(Batch([1], eyes(1), [3.0], group_reward=0.5), Batch([2], eyes(2), [1.0], group_reward=0.5))
    play.tell(None, Batch([1], eyes(1), [10.0], group_reward=-1.0))
    rows = build_rollout(play.manager.trajectory_queue.drain(), with_teammates=False)
    assert TeamReward(TeamRewardKind.MEAN).evaluate(rows).tolist() == [2.5, 2.5, 9.0]
    assert TeamReward(TeamRewardKind.SUM).evaluate(rows).tolist() == [4.5, 4.5, 9.0]


def test_rewarded_members_that_decide_at_different_times_cause_one_warning(caplog):
    def after(reward, together):
        play, reward_of_team = Play(SPEC, config()), TeamReward(TeamRewardKind.MEAN)
        for ids in [[1, 2], [1, 2] if together else [1], [1, 2], [1, 2]]:
            play.tell(Batch(ids, eyes(*ids), [reward] * len(ids)))
        play.tell(None, Batch([1, 2], eyes(1, 2)))
        rows = build_rollout(play.manager.trajectory_queue.drain(), with_teammates=False)
        caplog.clear()
        for _ in range(2):
            reward_of_team.evaluate(rows)
        return caplog.text.count("decide at different times")

    assert after(1.0, together=False) == 1
    assert after(1.0, together=True) == 0
    assert after(0.0, together=False) == 0, "group rewards are counted well"
    rows = build_rollout(played(Play(SPEC, config())), with_teammates=False)
    TeamReward(TeamRewardKind.MEAN).evaluate(rows)
    assert not caplog.text, "members that come and go together are not staggered"


def test_transferred_actors_lose_their_weights_of_the_state_and_that_is_reported():
    spec = vector_spec([2, 3], [3], ["eyes", "state"])
    seeing, state = make(spec, config(), seed=1), torch.randn(5, 3)
    blind = make(spec, config(state_observation="state"), seed=2)
    mismatches = blind.initialize_from(seeing.state_dict())
    assert any("Policy.body.layers.0 (the inputs of 'state'" in misfit for misfit in mismatches)
    weight = blind.network.body.layers[0].weight
    assert not weight[:, 2:].any()
    assert torch.equal(weight[:, :2], seeing.network.body.layers[0].weight[:, :2])
    obs = torch.randn(5, 2)
    alike = [blind.network.act(blind.network.prepare([obs, s])).logits for s in (state, -state)]
    assert torch.equal(*alike), "an engine feeds the exported brain with the state too"
    again = make(spec, config(state_observation="state"), seed=3)
    assert again.initialize_from(blind.state_dict()) == []


def test_the_moments_of_both_optimizers_are_transferred_with_the_weights():
    play, steps = prepared(config())
    play.algorithm.update(steps, 0)
    state = play.algorithm.state_dict()
    new = make(SPEC, config(), seed=5)
    assert new.initialize_from(state) == []
    for entry in ("Optimizer", "Optimizer:critic"):
        assert not differences(state[entry], new.state_dict()[entry])
    del state["Optimizer:critic"]
    assert make(SPEC, config(), seed=5).initialize_from(state) == ["Optimizer:critic (not in the file)"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", VARIANTS)
def test_a_resumed_trainer_learns_bit_for_bit_from_the_buffer_that_was_saved(kind):
    def take_in(play, trajectories):
        play.manager.trajectory_queue.drain()
        for trajectory in trajectories:
            play.manager.trajectory_queue.put(trajectory)
        play.trainer.process_queues()

    keys = config(**{"buffer_size": 20, "tau": 0.3, **VARIANTS[kind]})
    one, two, first, second, third = (Play(SPEC, keys, seed) for seed in range(1, 6))
    take_in(one, played(first))
    one.trainer.advance()
    take_in(one, played(second, 2))
    assert one.updates == 1 and len(one.trainer.buffer) > 0
    two.trainer.load_state_dict(reloaded(one.trainer.state_dict()))
    more = played(third)
    for play in (one, two):
        take_in(play, more)
        play.trainer.advance()
    assert (one.updates, two.updates) == (2, 1)
    assert not differences(one.algorithm.state_dict(), two.algorithm.state_dict())


@pytest.mark.slow
def test_a_cpu_generator_draws_for_tensors_of_any_device():
    """So that a checkpoint made on one device resumes on another."""
    assert COMA(SPEC, config(), torch.device("meta"), 0, NonFinitePolicy.STOP).sampler.device.type == "cpu"
    logits = torch.zeros(4, 3, device="meta")
    empty = torch.zeros(4, 0, device="meta")
    distribution = ActionDistribution(empty, empty[0], logits, Branches([3]))
    assert distribution.sample(torch.Generator()).discrete.device.type == "meta"
    means = torch.zeros(4, 2, device="meta")
    distribution = ActionDistribution(means, means[0], empty, Branches([]))
    assert distribution.sample(torch.Generator()).continuous.device.type == "meta"


def test_parts_of_a_buffer_are_linked_within_themselves(variant):
    play = Play(SPEC, variant)
    trajectories = played(play)
    whole = evaluated(play.algorithm, build_rollout(trajectories, with_teammates=False)).steps
    apart = joined(
        [evaluated(play.algorithm, build_rollout([t], with_teammates=False)).steps for t in trajectories]
    )
    assert len(whole) == len(apart)
    own, roster = apart.linked()
    own_at_once, at_once = whole.linked()
    np.testing.assert_array_equal(slots_of(own, roster), slots_of(own_at_once, at_once))
    assert ((roster >= 0) == (at_once >= 0)).all()
    there = roster >= 0
    np.testing.assert_array_equal(apart.obs[0][roster[there]], whole.obs[0][at_once[there]])
    np.testing.assert_array_equal(apart.discrete[roster[there]], whole.discrete[at_once[there]])
    of_parts, of_whole = advantages_of(play.algorithm, apart), advantages_of(play.algorithm, whole)
    np.testing.assert_allclose(of_parts, of_whole, rtol=1e-4, atol=1e-4)


def test_before_the_first_gradient_step_the_policy_is_the_one_that_acted(variant):
    play, steps = prepared(variant)
    learning = RosterMinibatches(play.algorithm.networks, steps)
    for batch in learning.in_order(5):
        now = play.algorithm._policy(batch).log_probs(batch.actions)
        np.testing.assert_allclose(now.detach(), batch.old_log_probs, rtol=1e-4, atol=1e-5)


def test_every_step_is_in_one_minibatch_of_an_epoch_but_for_the_rest(variant):
    play, steps = prepared(variant)
    learning = RosterMinibatches(play.algorithm.networks, steps)
    sizes = [len(b.targets) for b in learning.shuffled(8, torch.Generator().manual_seed(0))]
    assert sum(sizes) <= len(steps)
    if learning._is_recurrent:
        assert sizes and set(sizes) != {8}, "whole trajectories"
    else:
        assert sizes == [8] * (len(steps) // 8)
    assert sum(len(b.targets) for b in learning.in_order(8)) == len(steps)


def _total(coma, batch, epsilon=0.2):
    """The objectives of the critic and of the actors together, with policies that have moved a little."""
    policy = coma._policy(batch)
    ratio = (policy.log_probs(batch.actions) - (batch.old_log_probs - 0.05)).exp()
    scale = coma.networks.critic.scale[:, None]
    errors = (coma._values_of_actions(batch) - batch.targets.unsqueeze(2)) / scale
    surrogate = clipped_surrogate(ratio, batch.advantages, epsilon)
    return -surrogate + 0.5 * (errors**2).mean() - 0.01 * policy.entropy().mean()


@pytest.mark.parametrize("kind", ["shared", "index on actor", "unshared", "recurrent"])
def test_gradients_are_those_of_finite_differences(kind):
    play, steps = prepared(config(**VARIANTS[kind]))
    nets = play.algorithm.networks
    for network in (nets.actors, nets.critic, nets.target):
        network.double()
    for field in ("log_probs", "exploration", "returns", "actor_states", "critic_states"):
        column = getattr(steps, field)
        setattr(steps, field, None if column is None else column.astype(np.float64))
    steps.obs = [o.astype(np.float64) for o in steps.obs]
    learning = RosterMinibatches(nets, steps)
    advantages = 0.1 * np.random.default_rng(1).normal(size=(len(steps), 2))
    learning.set_advantages(torch.from_numpy(advantages), normalize=False)
    (batch,) = learning.in_order(1000)
    _total(play.algorithm, batch).backward()
    random = np.random.default_rng(0)
    for network in (nets.actors, nets.critic):
        for name, parameter in network.named_parameters():
            if not parameter.numel():
                continue
            flat, gradient = parameter.data.view(-1), parameter.grad.reshape(-1)
            for i in random.integers(0, len(flat), 3):
                kept, moved = flat[i].item(), []
                for sign in (1, -1):
                    flat[i] = kept + sign * 1e-5
                    with torch.no_grad():
                        moved.append(_total(play.algorithm, next(learning.in_order(1000))).item())
                flat[i] = kept
                slope = (moved[0] - moved[1]) / 2e-5
                assert gradient[i].item() == pytest.approx(slope, abs=1e-7, rel=1e-4), name


def test_the_target_follows_gradient_steps_by_copies_or_by_interpolation():
    def distances(**keys):
        play, steps = prepared(config(batch_size=16, critic_epochs=1, **keys))
        assert len(steps) // 16 == 1, "one gradient step per update"
        nets, found = play.algorithm.networks, []
        for _ in range(4):
            play.algorithm.update(steps, 0)
            pairs = zip(nets.critic.parameters(), nets.target.parameters(), strict=True)
            found.append(max(float((a - b).detach().abs().max()) for a, b in pairs))
        return found

    assert distances(target_update_interval=1) == [0.0] * 4
    assert [d == 0.0 for d in distances(target_update_interval=2)] == [False, True, False, True]
    assert all(d > 0.0 for d in distances(tau=0.5))


@pytest.mark.parametrize("clip", [True, False])
def test_actors_learn_by_the_critic_that_has_seen_the_steps(clip, monkeypatch):
    play, steps = prepared(config(clip=clip, critic_epochs=2, critic_learning_rate=0.1))
    algorithm = play.algorithm
    before, used = advantages_of(algorithm, steps), []
    set_advantages = RosterMinibatches.set_advantages

    def spy(source, advantages, normalize):
        used.append((advantages.numpy(), normalize))
        set_advantages(source, advantages, normalize=normalize)

    monkeypatch.setattr(RosterMinibatches, "set_advantages", spy)
    algorithm.update(steps, 0)
    ((advantages, normalize),) = used
    assert normalize is clip
    assert np.abs(advantages - before).max() > 0.01
    if not clip:  # one step of the actors: with the policy of before, the critic gives the same again
        monkeypatch.undo()
        policy_before = make(SPEC, config(clip=clip)).networks.actors
        algorithm.networks.actors.load_state_dict(policy_before.state_dict())
        np.testing.assert_allclose(advantages_of(algorithm, steps), advantages, rtol=1e-4, atol=1e-5)


def test_the_critic_has_a_learning_rate_of_its_own_on_the_same_schedule():
    keys = {"learning_rate": 1e-3, "learning_rate_schedule": "linear"}
    algorithm = Play(SPEC, config(critic_learning_rate=4e-3, **keys)).algorithm
    half = algorithm.schedules.learning_rate.max_step // 2
    assert algorithm.critic_schedule(0) == 4e-3
    assert algorithm.critic_schedule(half) == pytest.approx(2e-3, rel=0.01)
    assert Play(SPEC, config(**keys)).algorithm.critic_schedule(0) == 1e-3


def test_the_explained_variance_is_of_steps_that_the_critic_has_not_seen():
    """As of the critic before the update, whatever it has learned of them in the later epochs."""
    still, _ = prepared(config(critic_learning_rate=0.0, critic_epochs=1, batch_size=16))
    learning, steps = prepared(config(critic_learning_rate=0.05, critic_epochs=50, batch_size=16))
    assert len(steps) // 16 == 1, "all in one minibatch, so that the first epoch is one gradient step"
    tag = "Losses/Value Explained Variance"
    found = still.algorithm.update(steps, 0)[tag]
    assert found < 0.9
    assert learning.algorithm.update(steps, 0)[tag] == pytest.approx(found, rel=1e-4)
    assert learning.algorithm.update(steps, 0)[tag] > found


def test_exploration_is_frozen_until_an_update_and_stored_in_rollouts():
    play = Play(SPEC, config(epsilon_start=0.5, epsilon_end=0.1, epsilon_decay_steps=100))
    assert play.algorithm.exploration == 0.5
    steps = evaluated(play.algorithm, build_rollout(played(play), with_teammates=False)).steps
    assert set(steps.exploration.tolist()) == {0.5}
    assert play.algorithm.update(steps, 50)["Policy/Exploration Epsilon"] == pytest.approx(0.3)
    assert play.algorithm.exploration == pytest.approx(0.3)
    play.algorithm.update(steps, 500)
    assert play.algorithm.exploration == pytest.approx(0.1)


def test_actors_do_not_see_the_state_and_never_learn_to():
    spec = vector_spec([2, 3], [3], ["eyes", "state"])
    play = Play(spec, config(state_observation="state", network_settings={"normalize": True}))
    random = np.random.default_rng(0)

    def seen(n):
        return [random.normal(size=(n, 2)).astype(np.float32), random.normal(size=(n, 3)).astype(np.float32)]

    play.tell(Batch([1, 2], seen(2)))
    for _ in range(20):
        play.tell(Batch([1, 2], seen(2), random.normal(size=2)))
    play.tell(None, Batch([1, 2], seen(2)))
    play.trainer.process_queues()
    for _ in range(3):
        play.algorithm.update(play.trainer.buffer.columns(), 0)
    actor = play.algorithm.network
    eyes_only, state = torch.randn(5, 2), torch.randn(5, 3)
    one, two = (actor.act(actor.prepare([eyes_only, s])).logits.detach() for s in (state, torch.randn(5, 3)))
    assert torch.equal(one, two)
    assert not torch.equal(one, actor.act(actor.prepare([eyes_only + 1, state])).logits)


def test_continuous_actions_are_refused_and_poca_recommended():
    for action in (ActionSpec(2, ()), ActionSpec(1, (3,)), ActionSpec(0, ())):
        spec = BehaviorSpec(SPEC.observation_specs, action)
        with pytest.raises(UnsupportedActionError, match="trainer_type: poca"):
            COMA(spec, config(), torch.device("cpu"), 0, NonFinitePolicy.STOP)


def test_a_state_observation_must_exist():
    spec = vector_spec([2, 3], [3], ["eyes", "global_state"])
    with pytest.raises(UnsupportedObservationError, match=r"Did you mean 'global_state'\?.*'eyes'"):
        make(spec, config(state_observation="globalstate"))
    with pytest.raises(UnsupportedObservationError, match="the only sensor"):
        make(vector_spec([2], [3], ["state"]), config(state_observation="state"))
