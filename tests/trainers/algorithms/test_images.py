"""Acting, evaluation and learning give the same with images of bytes as with floats, bit for bit."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from crowd import make_learner
from lanista.trainers.networks.modules import passes
from lanista.trainers.networks.modules.passes import CHUNK_BYTES, chunked_forward
from lanista.trainers.networks.modules.visual import VisualEncoder
from lanista.trainers.networks.observation_kinds import UnsupportedObservationError
from lanista.trainers.policies.onnx.load import load
from lanista.trainers.policies.onnx.runtime import Brain
from lanista.trainers.trainer.learner import Learner
from mlagents_envs.base_env import (
    ActionSpec,
    BehaviorSpec,
    DecisionSteps,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
    TerminalSteps,
)
from reliability.resume import differences

NONE, SHIFTS = DimensionProperty.NONE, DimensionProperty.TRANSLATIONAL_EQUIVARIANCE
AGENTS, BEHAVIOR = 3, "Seer?team=0"
BUFFER = 48


def seer(side: int = 20) -> BehaviorSpec:
    """Observes an image, a vector, and another image."""
    camera = ObservationSpec((3, side, side), (NONE, SHIFTS, SHIFTS), ObservationType.DEFAULT, "camera")
    vector = ObservationSpec((2,), (NONE,), ObservationType.DEFAULT, "vector")
    grid = ObservationSpec((1, 21, 23), (NONE, SHIFTS, SHIFTS), ObservationType.DEFAULT, "grid")
    return BehaviorSpec([camera, vector, grid], ActionSpec(0, (3,)))


def make(folder: Path, spec: BehaviorSpec, trainer: str, memory: bool, resume: bool = False) -> Learner:
    network: dict[str, Any] = {"hidden_units": 8, "num_layers": 1, "normalize": True}
    if memory:
        network["memory"] = {"memory_size": 4, "sequence_length": 3}
    behavior = {
        "trainer_type": trainer,
        "hyperparameters": {"batch_size": 12, "buffer_size": BUFFER, "num_epoch": 1},
        "network_settings": network,
        "time_horizon": 7,
    }
    return make_learner(folder, spec, behavior, "Seer", resume=resume)


def messages(spec: BehaviorSpec, as_bytes: bool) -> Iterator[tuple[DecisionSteps, TerminalSteps]]:
    """A team whose last member ends now and then."""
    rng = np.random.default_rng(0)

    def see(n: int) -> list[np.ndarray]:
        pixels = [rng.integers(0, 256, (n, *each.shape), dtype=np.uint8) for each in spec.observation_specs]
        return [o if as_bytes and o.ndim == 4 else (o / np.float32(255)).astype(np.float32) for o in pixels]

    groups, first = np.ones(AGENTS, np.int32), 0
    while True:
        ids = np.arange(first, first + AGENTS, dtype=np.int32)
        for step in range(10):
            rewards = rng.normal(size=AGENTS).astype(np.float32)
            over = TerminalSteps.empty(spec)
            if step == 0 and first:
                old = ids - AGENTS
                over = TerminalSteps(see(AGENTS), rewards, groups > 1, old, groups, rewards)
            yield DecisionSteps(see(AGENTS), rewards, ids, None, groups, rewards), over
        first += AGENTS


def play(learner: Learner, spec: BehaviorSpec, as_bytes: bool, ticks: int) -> None:
    manager, decided = learner.add_team(BEHAVIOR), None
    script = messages(spec, as_bytes)
    learner.trainer.advance_interval = 20
    for _ in range(ticks):
        decisions, terminals = next(script)
        manager.add_experiences(decisions, terminals, 0, decided)
        (decided,) = learner.act_requests([decisions], [(0, BEHAVIOR)])[0].decide()
        learner.advance()
    learner.trainer.process_queues()


@pytest.mark.parametrize(
    ("trainer", "memory"),
    [("ppo", False), ("ppo", True), ("poca", False), ("poca", True), ("mappo", True), ("coma", False)],
)
def test_learning_from_bytes_equals_learning_from_floats(tmp_path: Path, trainer: str, memory: bool) -> None:
    spec = seer()
    states = []
    for as_bytes in (True, False):
        learner = make(tmp_path / str(as_bytes), spec, trainer, memory)
        before = copy.deepcopy(learner.algorithm.network.state_dict())
        play(learner, spec, as_bytes, ticks=30)
        states.append(learner.trainer.state_dict())
        after = learner.algorithm.network.state_dict()
        assert any(not torch.equal(before[key], after[key]) for key in before), "nothing was learned"
    bytes_, floats = (state.pop("buffer") for state in states)
    found = {text.partition(":")[0] for text in differences(*states)}
    assert not found
    kinds = {torch.uint8: bytes_["obs"], torch.float32: floats["obs"]}
    for kind, (camera, vector, grid) in kinds.items():
        assert (camera.dtype, vector.dtype, grid.dtype) == (kind, torch.float32, kind)
        assert len(camera) > 0
    for ours, theirs in zip(bytes_["obs"], floats["obs"], strict=True):
        assert torch.equal(ours / 255 if ours.dtype == torch.uint8 else ours, theirs)


def test_a_resumed_run_continues_with_a_half_full_buffer_of_bytes(tmp_path: Path) -> None:
    spec = seer()
    learner = make(tmp_path, spec, "ppo", memory=False)
    play(learner, spec, as_bytes=True, ticks=10)
    assert learner.save()
    waiting = len(learner.trainer.buffer)
    assert 0 < waiting < BUFFER
    resumed = make(tmp_path, spec, "ppo", memory=False, resume=True)
    assert len(resumed.trainer.buffer) == waiting
    for ours, theirs in zip(resumed.trainer.buffer.columns().obs, learner.trainer.buffer.columns().obs):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    play(resumed, spec, as_bytes=True, ticks=8)
    assert resumed.trainer.buffer.columns().obs[0].dtype == np.uint8


def test_an_image_below_the_encoders_minimum_is_refused_when_the_behavior_appears(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedObservationError, match=r"camera.*20"):
        make(tmp_path, seer(side=19), "ppo", memory=False)


def test_images_go_through_a_network_in_chunks() -> None:
    images = torch.randint(0, 256, (700, 3, 64, 84), dtype=torch.uint8)
    vectors = torch.arange(700.0)[:, None]
    sizes = []

    def network(inputs: Any) -> torch.Tensor:
        sizes.append(inputs[0].nbytes)
        return inputs[1] + inputs[0][:, 0, 0, :1]

    found = chunked_forward(network, [images, vectors])
    assert torch.equal(found, vectors + images[:, 0, 0, :1])
    assert len(sizes) == 3 and max(sizes) <= CHUNK_BYTES
    sizes.clear()
    chunked_forward(lambda inputs: sizes.append(0) or inputs[0], [vectors])
    assert len(sizes) == 1, "vectors go together"


@pytest.mark.parametrize("trainer", ["ppo", "poca", "mappo", "coma"])
def test_images_are_evaluated_in_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trainer: str
) -> None:
    """However many steps arrive at once; the results are the same."""
    spec, states, most = seer(), [], []
    see = VisualEncoder.forward

    def watched(encoder: VisualEncoder, images: torch.Tensor) -> torch.Tensor:
        if not torch.is_grad_enabled():
            rows.append(len(images))
        return see(encoder, images)

    monkeypatch.setattr(VisualEncoder, "forward", watched)
    monkeypatch.setattr(passes, "MIN_CHUNK", 6)
    for at_once in (CHUNK_BYTES, 1):
        rows: list[int] = []
        monkeypatch.setattr(passes, "CHUNK_BYTES", at_once)
        learner = make(tmp_path / str(at_once), spec, trainer, memory=False)
        play(learner, spec, as_bytes=True, ticks=30)
        states.append(learner.trainer.state_dict())
        most.append(max(rows))
    assert most[1] <= 7 * AGENTS < most[0], "a trajectory of a team stays together, and no more"
    for key, value in states[0]["Policy"].items():
        torch.testing.assert_close(states[1]["Policy"][key], value, rtol=1e-3, atol=1e-5)


def test_a_brain_and_a_checkpoint_act_alike_on_bytes_and_floats(tmp_path: Path) -> None:
    spec = seer()
    learner = make(tmp_path, spec, "ppo", memory=False)
    assert learner.save()
    obs = [each[:1] for each in next(messages(spec, as_bytes=True))[0].obs]
    floats = [each / np.float32(255) if each.dtype == np.uint8 else each for each in obs]
    (folder,) = {path.parent for path in tmp_path.rglob("*.onnx")}
    for file in (next(folder.glob("*.onnx")), next(folder.glob("*.pt"))):
        brain = load(file)
        found = brain.act(obs, deterministic=True)
        expected = brain.act(floats, deterministic=True)
        np.testing.assert_array_equal(found.discrete, expected.discrete)
    brain = Brain(next(folder.glob("*.onnx")))
    zeros, ids = np.zeros(1, np.float32), np.zeros(1, np.int32)
    feeds = [brain._feeds(DecisionSteps(each, zeros, ids, None, ids, zeros), "") for each in (obs, floats)]
    for key, value in feeds[0].items():
        np.testing.assert_array_equal(value, feeds[1][key])
