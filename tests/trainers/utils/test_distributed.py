"""The collective calls of ranks, and that what they compute together is what one process computes."""

import os

import numpy as np
import psutil
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.algorithms.ppo.ppo import PPO
from lanista.trainers.buffers.rollout_buffer import EvaluatedSteps, normalized
from lanista.trainers.networks.modules.normalizer import Normalizer, SharedMoments
from lanista.trainers.settings.models.behavior import TrainerSettings
from lanista.trainers.utils import distributed
from lanista.trainers.utils.distributed import RankLostError
from specs import spec_of_shapes
from torch import nn
from two_ranks import together

ROWS = 64


@given(st.integers(0, 300), st.integers(1, 9))
def test_environments_are_divided_among_the_ranks(count, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distributed._world, "size", size)
        shares = []
        for rank in range(size):
            patch.setattr(distributed._world, "rank", rank)
            shares.append(distributed.shard(count))
    assert [number for share in shares for number in share] == list(range(count))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_values_are_exchanged(tmp_path):
    def exchange(rank):
        tensor = torch.tensor([1.0, 2.0]) * (rank + 1)
        distributed.all_reduce_mean(tensor)
        largest = torch.tensor(2.0 + rank)
        distributed.all_reduce_max(largest)
        everywhere = [distributed.all_true(True), distributed.all_true(rank == 0)]
        counted = [*distributed.in_step(range(3 + 2 * rank))], [*distributed.in_step(range(2))]
        return (
            *(tensor.tolist(), largest.item(), distributed.sums(rank, 1.5), distributed.sums(1 - rank)),
            *(everywhere, counted, distributed.broadcast({"from": rank}), distributed.gather(rank)),
        )

    found = together(tmp_path, exchange)
    assert found[0] == found[1]
    assert found[0] == (
        *([1.5, 3.0], 3.0, [1.0, 3.0], [1.0]),
        *([True, False], ([0, 1, 2], [0, 1]), {"from": 0}, [0, 1]),
    )


def test_alone_nothing_is_exchanged():
    tensor, rows = torch.ones(2), [1, 2]
    distributed.all_reduce_mean(tensor)
    distributed.all_reduce_max(tensor)
    assert tensor.tolist() == [1, 1] and distributed.in_step(rows) is rows
    assert distributed.sums(2.0) == [2.0] and distributed.broadcast(rows) is rows
    assert distributed.all_true(True) and not distributed.all_true(False)
    assert distributed.gather(3) == [3] and (distributed.rank(), distributed.world_size()) == (0, 1)


def test_a_lost_rank_is_detected_and_the_other_continues_alone(tmp_path):
    def lose(rank):
        distributed.sums(1.0)  # both have connected
        if rank:
            os._exit(3)
        with pytest.raises(RankLostError):
            for _ in range(100):
                distributed.sums(1.0)
        return distributed.connected(), distributed.sums(1.0), distributed.gather("alone")

    assert together(tmp_path, lose, statuses=(0, 3))[0] == (False, [1.0], ["alone"])


def note(folder):
    (folder / f"read by {distributed.rank()}").touch()


class Planted:
    """Leaves a file where it is unpickled."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return note, (self.folder,)


@pytest.mark.parametrize(("key", "number"), [("another", 0), (None, -1), (None, 0)])
def test_an_object_is_read_only_if_this_run_has_signed_it_now(tmp_path, key, number):
    """A program that has taken a rank's place at the ports of gloo knows no key, and may repeat an object."""
    forged = key is not None or number != 0

    def exchange(rank):
        assert distributed.broadcast(7 if rank == 0 else None) == 7
        if rank == 0:
            distributed._world.key = key.encode() if key else distributed._world.key
            distributed._world.exchanged += number
        elif forged:
            with pytest.raises(RankLostError, match=r"learner 0 of 2 is not signed by this run: .*SECURITY"):
                distributed.broadcast(None)
            return distributed.connected()
        distributed.broadcast(Planted(tmp_path) if rank == 0 else None)
        return distributed.connected()

    assert together(tmp_path, exchange) == [True, not forged]
    assert {path.name for path in tmp_path.glob("read by *")} == {
        "read by 0",
        *([] if forged else ["read by 1"]),
    }


def test_learners_of_one_machine_listen_on_the_loopback_interface_alone(tmp_path, monkeypatch):
    """Whatever variables a cluster has set."""
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "no-such-interface")

    def listening(rank):
        distributed.sums(1.0)
        connections = psutil.Process().net_connections("inet")
        found = [each.laddr.ip for each in connections if each.status == psutil.CONN_LISTEN]
        distributed.sums(1.0)
        return found

    assert together(tmp_path, listening) == [["127.0.0.1"]] * 2


def steps_of(rows, random):
    """Random steps of an agent with two observed numbers and one continuous action."""
    normal = lambda *shape: random.normal(size=shape).astype(np.float32)  # noqa: E731
    return EvaluatedSteps(
        obs=[normal(rows, 2)],
        continuous=normal(rows, 1),
        discrete=np.zeros((rows, 0), np.int32),
        log_probs=normal(rows, 1) / 10 - 1,
        action_mask=None,
        values=normal(rows, 1),
        returns=normal(rows, 1),
        advantages=normal(rows) + 3,
    )


def part(steps, rows):
    columns = {name: getattr(steps, name) for name in EvaluatedSteps.__dataclass_fields__}
    cut = {k: v[rows] for k, v in columns.items() if isinstance(v, np.ndarray)}
    return EvaluatedSteps(**columns | cut | {"obs": [column[rows] for column in steps.obs]})


@pytest.mark.parametrize("clip_value_loss", [False, True], ids=["closed form", "autograd"])
def test_the_reduced_gradient_is_that_of_the_joined_minibatch(tmp_path, clip_value_loss):
    """With advantages normalized over the steps of all ranks."""
    steps = steps_of(ROWS, np.random.default_rng(5))

    def gradient(rows):
        hyper = {"batch_size": len(rows), "num_epoch": 1, "clip_value_loss": clip_value_loss}
        settings = TrainerSettings.model_validate({"trainer_type": "ppo", "hyperparameters": hyper})
        spec = spec_of_shapes([[2]], continuous=1)
        algorithm = PPO(spec, settings, torch.device("cpu"), 3, NonFinitePolicy.STOP)
        algorithm.update(part(steps, rows), 1)
        assert algorithm.optimizer.adam.steps == 1
        return algorithm.optimizer.flat.gradient.clone()

    whole = gradient(np.arange(ROWS))
    halves = together(tmp_path, lambda rank: gradient(np.arange(ROWS)[rank::2]))
    assert whole.abs().max() > 0.1 and torch.equal(*halves)
    torch.testing.assert_close(halves[0], whole, rtol=0, atol=1e-6)


def test_moments_and_advantages_are_those_of_all_ranks(tmp_path):
    rows = torch.from_numpy(np.random.default_rng(3).normal(7, 3, (50, 4)).astype(np.float32))
    counts = [slice(0, 10), slice(10, 40), slice(40, 50)]

    def counted(own):
        normalizer, other = Normalizer(4), Normalizer(2)
        shared = SharedMoments.of([nn.ModuleList([normalizer, other, normalizer])])
        for some in counts:
            normalizer.update(rows[some][own])
            shared.merge()
        return normalizer.state_dict(), other.state_dict(), normalized(rows[:, 0][own].numpy())

    whole = counted(slice(None))
    ranks = together(tmp_path, lambda rank: counted(slice(rank, None, 2)))
    assert all(torch.equal(ranks[0][0][key], ranks[1][0][key]) for key in whole[0])
    for found, expected in zip(ranks[0][:2], whole[:2]):
        for key in expected:
            torch.testing.assert_close(found[key], expected[key], rtol=1e-5, atol=1e-5)
    joined = np.empty(50, np.float32)
    joined[::2], joined[1::2] = ranks[0][2], ranks[1][2]
    np.testing.assert_allclose(joined, whole[2], rtol=1e-5, atol=1e-5)
