"""Demonstrations are loaded, refused and written as by ML-Agents 1.1.0."""

from pathlib import Path

import goldendata
import numpy as np
import pytest
from lanista.envs.demonstrations.demonstration import Demonstration, read_demonstration
from lanista.envs.demonstrations.format import HEADER, outline
from lanista.envs.demonstrations.recorder import DemonstrationWriter
from lanista.envs.errors import DemonstrationError
from lanista.envs.images import as_floats
from lanista.envs.protocol import messages
from lanista.envs.protocol.engine import AgentBatch
from lanista.envs.protocol.wire_format import varint
from lanista.trainers.buffers.demonstrations import Demonstrations, load_demonstrations
from mlagents_envs.base_env import (
    ActionSpec,
    ActionTuple,
    BehaviorSpec,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
)


def test_every_kind_is_tested() -> None:
    assert goldendata.kinds("demo") <= {"load", "malformed", "write"}


def spec_of(described: dict) -> BehaviorSpec:
    observations = [
        ObservationSpec(
            tuple(each["shape"]),
            tuple(map(DimensionProperty, each["dimension_property"])),
            ObservationType[each["observation_type"]],
            each["name"],
        )
        for each in described["observation_specs"]
    ]
    actions = described["action_spec"]
    return BehaviorSpec(
        observations, ActionSpec(actions["continuous_size"], tuple(actions["discrete_branches"]))
    )


def write_files(case: dict, folder: Path) -> Path:
    for name, data in case["inputs"]["files"].items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(goldendata.bytes_of(data))
    return folder / case["inputs"]["path"]


def files_in_order(case: dict, path: Path) -> list[Path]:
    """In the order in which the reference listed the folder; ours are sorted."""
    if not path.is_dir():
        return [path]
    order = [name for name in case["inputs"]["file_order"] if name.endswith(".demo")]
    return [path / Path(name).name for name in order]


def kept_rows(demos: list[Demonstration], length: int) -> tuple[np.ndarray, np.ndarray]:
    """By step of the reference: its row in the reference's buffer, and whether we make this step too.

    The reference makes a step of every pair but the last, even across episodes, and pads each episode to
    whole sequences.
    """
    done = np.concatenate([demo.done for demo in demos])
    last = np.zeros(len(done), bool)
    last[np.cumsum([len(demo) for demo in demos]) - 1] = True
    ours, rows, row, episode_start = [], [], 0, 0
    for pair in range(len(done) - 1):
        rows.append(row)
        ours.append(not (done[pair] or last[pair]))
        row += 1
        if done[pair + 1]:
            row += -(row - episode_start) % length
            episode_start = row
    return np.array(rows, int), np.array(ours, bool)


def joined(parts: list[Demonstrations]) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The columns of several files, and False for the first step of each file but the first."""
    columns = {key: np.concatenate([columns_of(part)[key] for part in parts]) for key in columns_of(parts[0])}
    lengths = np.concatenate([part.lengths for part in parts])
    within = np.ones(lengths.sum(), bool)
    within[np.cumsum(lengths)[:-1]] = False
    return columns, within


def columns_of(steps: Demonstrations) -> dict[str, np.ndarray]:
    """The columns by the reference's names."""
    columns = {"done": steps.done, "environment_rewards": steps.reward}
    columns |= {f"obs:{k}": as_floats(obs) for k, obs in enumerate(steps.obs)}
    if steps.continuous.shape[1]:
        columns["continuous_action"] = steps.continuous
    if steps.discrete.shape[1]:
        columns["discrete_action"] = steps.discrete
    columns["prev_action"] = np.concatenate([steps.prev_continuous, steps.prev_discrete], axis=1)
    return columns


@pytest.mark.parametrize("case", goldendata.cases("demo", "load", where=lambda c: "buffer" in c["expected"]))
def test_loading_equals_the_reference(case: dict, tmp_path: Path) -> None:
    expected, path = case["expected"], write_files(case, tmp_path)
    files = files_in_order(case, path)
    demos = [read_demonstration(file, partial=True) for file in files]
    if any(len(demo) < demo.metadata.steps for demo in demos):  # the reference takes what there is
        with pytest.raises(DemonstrationError, match="--partial"):
            load_demonstrations(path)
    assert sum(map(len, demos)) == expected["num_pairs"]
    assert sum(demo.metadata.steps for demo in demos) == expected["total_expected"]
    assert demos[0].spec == spec_of(expected["spec"])
    rows, ours = kept_rows(demos, case["inputs"]["sequence_length"])
    if not ours.any():
        with pytest.raises(DemonstrationError, match="no step in it"):
            load_demonstrations(path, partial=True)
        return
    assert len(ours) == expected["num_pairs"] - 1 and expected["num_experiences"] >= len(ours)
    described = case["inputs"]["expected_spec"]
    spec = None if described is None else spec_of(described)
    with_steps = [file for file, demo in zip(files, demos) if not demo.done[:-1].all()]
    columns, within = joined([load_demonstrations(file, spec, partial=True) for file in with_steps])
    if files == sorted(files):
        for name, column in columns_of(load_demonstrations(path, spec, partial=True)).items():
            np.testing.assert_array_equal(column, columns[name])
    empty = {"discrete_action"} if not demos[0].spec.action_spec.discrete_size else set()
    assert columns.keys() == expected["buffer"].keys() - empty
    for name, column in columns.items():
        theirs = goldendata.array(expected["buffer"][name])[rows][ours].reshape(column.shape)
        # In ours, the first step of a file has no previous action, nor in theirs if it is the first pair.
        within[0] = ours[0]
        compared = within if name == "prev_action" else slice(None)
        np.testing.assert_allclose(column[compared], theirs[compared], rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize(
    "case", goldendata.cases("demo", "load", where=lambda c: "buffer" not in c["expected"])
)
def test_demonstrations_of_another_behavior_are_refused(case: dict, tmp_path: Path) -> None:
    with pytest.raises(DemonstrationError) as caught:
        load_demonstrations(write_files(case, tmp_path), spec_of(case["inputs"]["expected_spec"]))
    theirs, ours = case["expected"]["error_message"], str(caught.value)
    if theirs.startswith("The shape"):
        assert "The shape " in ours and " in demonstration do not match the policy's " in ours
    else:
        assert theirs.rstrip(".") in ours


@pytest.mark.parametrize("case", goldendata.cases("demo", "malformed"))
def test_malformed_files_are_refused(case: dict, tmp_path: Path) -> None:
    path = write_files(case, tmp_path)
    with pytest.raises(DemonstrationError) as caught:
        load_demonstrations(path)
    theirs, ours = case["expected"]["error_message"], str(caught.value)
    if path.is_file() and path.suffix == ".demo":
        assert caught.value.byte is not None and caught.value.byte <= path.stat().st_size
    for part in ("unsupported version (", "'.demo' file", "does not exist"):
        assert part in ours or part not in theirs


@pytest.mark.parametrize("case", goldendata.cases("demo", "write"))
def test_writing_equals_the_reference(case: dict, tmp_path: Path) -> None:
    """Pairs that were read are written as messages of the same content, after a header of 33 bytes."""
    reference = tmp_path / "reference.demo"
    reference.write_bytes(goldendata.bytes_of(case["expected"]["file"]))
    demo = read_demonstration(reference)
    with DemonstrationWriter(tmp_path / "demo.demo", demo.behavior, demo.spec, demo.metadata.name) as writer:
        batch = AgentBatch(
            *(demo.obs, demo.reward, demo.done, demo.interrupted, demo.agent_id, demo.group_id),
            demo.group_reward,
            demo.action_mask,
        )
        writer.write(batch, ActionTuple(demo.continuous, demo.discrete))
    data, theirs = (tmp_path / "demo.demo").read_bytes(), reference.read_bytes()
    given = [goldendata.bytes_of(pair) for pair in case["inputs"]["pairs"]]
    choices = sum(demo.spec.action_spec.discrete_branches)
    assert [content_of(pair, choices) for pair in pairs_of(data)] == [
        content_of(pair, choices) for pair in given
    ]
    written = read_demonstration(tmp_path / "demo.demo")
    for found, wanted in zip(written.obs, demo.obs, strict=True):
        np.testing.assert_allclose(as_floats(found), as_floats(wanted), atol=1e-7)
    brain = messages.BrainParametersProto.FromString(goldendata.bytes_of(case["inputs"]["brain_parameters"]))
    length, start = varint(data, HEADER, len(data))
    ours = messages.BrainParametersProto.FromString(data[start : start + length])
    assert (ours.brain_name, ours.action_spec.num_continuous_actions) == (
        brain.brain_name,
        brain.action_spec.num_continuous_actions,
    )
    assert len(theirs) > HEADER


def pairs_of(data: bytes) -> list[bytes]:
    found = outline(data)
    places = zip(found.starts.tolist(), found.lengths.tolist())
    return [data[start : start + length] for start, length in places]


def content_of(pair: bytes, choices: int) -> messages.AgentInfoActionPairProto:
    """A pair with its defaults, without images and without a mask that forbids nothing."""
    read = messages.AgentInfoActionPairProto.FromString(pair)
    info = read.agent_info
    if len(info.action_mask) != choices or not any(info.action_mask):
        info.ClearField("action_mask")
    for observation in info.observations:
        if not observation.dimension_properties:
            observation.dimension_properties.extend([0] * len(observation.shape))
        if len(observation.shape) == 3:
            for field in ("compression_type", "compressed_data", "compressed_channel_mapping", "float_data"):
                observation.ClearField(field)
    return read
