"""Files that Unity's recorder wrote, compared with what ML-Agents 1.1.0 reads from them."""

from pathlib import Path

import numpy as np
import pytest
from lanista.envs.demonstrations.demonstration import read_demonstration
from lanista.envs.demonstrations.format import HEADER, outline
from lanista.envs.errors import DemonstrationError

FOLDER = Path(__file__).parents[2] / "real" / "demos"

SUMS = {
    # pairs, episodes started; sums of rewards (but the first), and of continuous actions, discrete actions
    # and each observation (but the last)
    "Expert3DBall": (549, 1, 54.8000031, -2.79575751, 0, [1444.54866]),
    "ExpertBasic": (73, 11, 9.28000069, 0, 144, [72]),
    "ExpertPyramid": (1751, 10, 16.2649975, 0, 3525, [17901.8142, 18102.7177, 19574.8811, 28980.1129]),
    "Real3dball": (200, 13, 6.3000021, 48.9897498, 0, [266.610212]),
    "Realbasic": (200, 26, 23.2599964, 0, 350, [199]),
    "Realhybrid": (200, 12, 55.439991, 47, 327, [3273, 199, 54082.8247, 1840.75, 16191.2397]),
    "testhybridvis": (25, 1, 4, 23.2080698, 0, [171759.13, 0]),
}


@pytest.mark.parametrize("name", SUMS)
def test_contents_equal_those_read_by_ml_agents(name: str) -> None:
    pairs, episodes, reward, continuous, discrete, observations = SUMS[name]
    demo = read_demonstration(FOLDER / f"{name}.demo")
    assert (len(demo), demo.metadata.steps, len(demo.episode_starts)) == (pairs, pairs, episodes)
    assert demo.metadata.name == name and demo.note is None
    assert demo.reward[1:].sum(dtype=np.float64) == pytest.approx(reward, rel=1e-6)
    assert demo.continuous[:-1].sum(dtype=np.float64) == pytest.approx(continuous, rel=1e-6)
    assert demo.discrete[:-1].sum() == discrete
    sums = [obs[:-1].sum(dtype=np.float64) for obs in demo.obs]
    assert sums == pytest.approx(observations, rel=1e-6)


def test_images_of_the_old_layout_are_transposed_to_channels_first() -> None:
    """ML-Agents cannot read this file. Its images contain their height and width."""
    demo = read_demonstration(FOLDER / "testdcvis.demo")
    assert demo.spec.observation_specs[0].shape == (3, 84, 84)
    assert demo.obs[0].shape == (38, 3, 84, 84) and demo.obs[0].max() <= 1
    as_bytes = read_demonstration(FOLDER / "testdcvis.demo", images="uint8").obs[0]
    assert as_bytes.dtype == np.uint8
    np.testing.assert_array_equal(as_bytes / np.float32(255), demo.obs[0])
    assert demo.spec.action_spec.discrete_branches == (3, 3, 3, 2)


def test_masks_goals_and_sets_are_read() -> None:
    demo = read_demonstration(FOLDER / "Realhybrid.demo")
    assert demo.action_mask[0].tolist() == [True, False, False, False, False]
    assert [each.observation_type.name for each in demo.spec.observation_specs].count("GOAL_SIGNAL") == 1
    assert demo.behavior == "Hybrid?team=0"


def test_every_truncation_is_refused_with_its_byte_and_read_to_its_last_whole_pair_if_asked(
    tmp_path: Path,
) -> None:
    data = (FOLDER / "Real3dball.demo").read_bytes()[:900]
    file = tmp_path / "cut.demo"
    whole = 0
    for size in range(len(data)):
        file.write_bytes(data[:size])
        with pytest.raises(DemonstrationError) as refused:
            read_demonstration(file)
        error = refused.value
        assert error.byte is not None and 0 <= error.byte <= size
        assert f"cut.demo: byte {error.byte}:" in str(error)
        assert f"has {size} bytes" in str(error)
        try:
            demo = read_demonstration(file, partial=True)
        except DemonstrationError:
            assert whole == 0 and "--partial" not in str(error)
            continue
        assert "--partial" in str(error)
        assert demo.note is not None and f"the {len(demo)} whole pairs" in demo.note
        assert len(demo) in (whole, whole + 1)
        whole = len(demo)
    assert whole > 8


def test_a_recording_cut_by_a_crash_has_no_metadata_and_is_read_if_asked(tmp_path: Path) -> None:
    data = (FOLDER / "Real3dball.demo").read_bytes()
    file = tmp_path / "crashed.demo"
    file.write_bytes(bytes(HEADER) + data[HEADER:-60])
    with pytest.raises(DemonstrationError, match=r"the pair [0-9]+ takes .* --partial"):
        read_demonstration(file)
    demo = read_demonstration(file, partial=True)
    assert 190 < len(demo) < 200 and demo.note is not None and "it is cut off" in demo.note


def test_damaged_bytes_are_refused_at_most(tmp_path: Path) -> None:
    data = bytearray((FOLDER / "Realbasic.demo").read_bytes())
    found = outline(bytes(data))
    del data[int(found.starts[8]) - 1 :]
    file = tmp_path / "damaged.demo"
    random = np.random.default_rng(0)
    refused = 0
    for position in random.integers(0, len(data), 400).tolist():
        before, data[position] = data[position], int(random.integers(256))
        file.write_bytes(data)
        data[position] = before
        try:
            read_demonstration(file, partial=True)
        except DemonstrationError as error:
            refused += 1
            assert error.byte is not None
    assert 40 < refused < 400
