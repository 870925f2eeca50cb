"""Demonstrations become steps to learn from, or are refused with what differs."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from lanista.envs.demonstrations.demonstration import read_demonstration
from lanista.envs.demonstrations.format import outline
from lanista.envs.errors import DemonstrationError
from lanista.trainers.buffers.demonstrations import load_demonstrations
from lanista.trainers.learn import EXPECTED
from mlagents_envs.base_env import ActionSpec, BehaviorSpec

FOLDER = Path(__file__).parents[2] / "real" / "demos"


def test_steps_end_where_episodes_end() -> None:
    demo = read_demonstration(FOLDER / "ExpertPyramid.demo")
    steps = load_demonstrations(FOLDER / "ExpertPyramid.demo")
    assert len(steps.lengths) == 10 and steps.done.sum() == 9
    # 1751 pairs; each of nine ends and the last pair of all have no step of their own.
    assert len(steps) == steps.lengths.sum() == 1741
    ends = np.cumsum(steps.lengths) - 1
    assert steps.done_reached.tolist() == [True] * 9 + [False]
    assert steps.done[ends[:-1]].all()
    first = int(np.flatnonzero(demo.done)[0])
    np.testing.assert_array_equal(steps.next_obs[0][0], demo.obs[0][first])
    np.testing.assert_array_equal(steps.obs[0][first], demo.obs[0][first + 1])
    np.testing.assert_array_equal(steps.reward[:first], demo.reward[1 : first + 1])


def test_previous_actions_are_those_of_the_same_episode() -> None:
    steps = load_demonstrations(FOLDER / "ExpertPyramid.demo")
    starts = np.cumsum(steps.lengths) - steps.lengths
    assert not steps.prev_discrete[starts].any()
    within = np.setdiff1d(np.arange(len(steps)), starts)
    np.testing.assert_array_equal(steps.prev_discrete[within], steps.discrete[within - 1])


def test_a_folder_is_read_in_the_order_of_its_names_and_nothing_leads_from_file_to_file(
    tmp_path: Path,
) -> None:
    for name in ("b.demo", "a.demo", "c.demo"):
        shutil.copy(FOLDER / "Real3dball.demo", tmp_path / name)
    (tmp_path / "notes.txt").write_text("no demonstration")
    one, three = load_demonstrations(FOLDER / "Real3dball.demo"), load_demonstrations(tmp_path)
    assert len(three) == 3 * len(one)
    np.testing.assert_array_equal(three.obs[0], np.tile(one.obs[0], (3, 1)))
    np.testing.assert_array_equal(three.lengths, np.tile(one.lengths, 3))


def test_files_of_different_behaviors_cannot_be_combined(tmp_path: Path) -> None:
    for name in ("Real3dball.demo", "Realbasic.demo"):
        shutil.copy(FOLDER / name, tmp_path)
    with pytest.raises(
        DemonstrationError, match=r"Realbasic\.demo: The actions .* those of Real3dball\.demo"
    ):
        load_demonstrations(tmp_path)


def test_images_stay_bytes() -> None:
    assert load_demonstrations(FOLDER / "testhybridvis.demo").obs[0].dtype == np.uint8


def test_actions_without_masks_are_as_engines_take_them() -> None:
    steps = load_demonstrations(FOLDER / "Real3dball.demo")
    assert steps.action_mask is None and np.abs(steps.continuous).max() <= 1


def test_the_difference_to_the_policy_is_named() -> None:
    path = FOLDER / "Realhybrid.demo"
    spec = read_demonstration(path).spec
    others = {
        r"The actions Continuous: 2, .* in demonstration do not match the policy's Continuous: 1": (
            BehaviorSpec(spec.observation_specs, ActionSpec(1, (3, 2)))
        ),
        "do not have the same number of observations as the policy: 5 .*'Goal'.* and 4": (
            BehaviorSpec(spec.observation_specs[1:], spec.action_spec)
        ),
        r"The shape \(6, 5\) for observation 0 \('Buf'\) in demonstration do not match the policy's \(3,\)": (
            BehaviorSpec([spec.observation_specs[1], *spec.observation_specs[1:]], spec.action_spec)
        ),
    }
    for message, other in others.items():
        with pytest.raises(DemonstrationError, match=message):
            load_demonstrations(path, other)
    assert len(load_demonstrations(path, spec)) == 188


def test_a_file_that_ends_early_is_refused_unless_asked_for_and_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = (FOLDER / "Real3dball.demo").read_bytes()
    (tmp_path / "a.demo").write_bytes(data)
    demo = read_demonstration(tmp_path / "a.demo")
    between = int(outline(data).starts[150]) - 1  # the pair's length takes one byte
    (tmp_path / "a.demo").write_bytes(data[:between])
    with pytest.raises(DemonstrationError, match="announce 200 steps, and the file ends after 150"):
        load_demonstrations(tmp_path)
    assert len(load_demonstrations(tmp_path, partial=True)) < len(demo)
    assert "the 150 whole pairs before are used" in caplog.text


def test_it_is_an_error_that_runs_explain() -> None:
    assert issubclass(DemonstrationError, EXPECTED)
