"""One checkpoint file: what is saved is read back, and whatever else there is, is refused with the reason."""

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from checkpoint_states import state, step_of
from lanista.trainers.checkpoints.file import CheckpointError, load_checkpoint, save_checkpoint
from reliability.resume import differences


def test_a_state_with_an_optimizer_survives_saving_and_loading(tmp_path):
    layer = torch.nn.Linear(2, 2)
    optimizer = torch.optim.Adam(layer.parameters())
    layer(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    written = {**state(7), "Optimizer": optimizer.state_dict()}
    save_checkpoint(tmp_path / "a.pt", written)
    loaded = load_checkpoint(tmp_path / "a.pt")
    assert not differences(written, loaded)
    optimizer.load_state_dict(loaded["Optimizer"])


@pytest.mark.slow
def test_a_checkpoint_cut_at_any_length_is_refused(tmp_path):
    whole, cut = tmp_path / "Ball-5.pt", tmp_path / "Ball-9.pt"
    save_checkpoint(whole, state(5))
    data = whole.read_bytes()
    for length in [*range(len(data) - 200, len(data)), *range(0, len(data), 11)]:
        cut.write_bytes(data[:length])
        with pytest.raises(CheckpointError) as error:
            load_checkpoint(cut)
        assert str(cut) in str(error.value) and f"({length} bytes)" in str(error.value)
        assert "Ball-5.pt" in str(error.value)


@pytest.mark.slow
def test_a_flipped_bit_is_refused_or_harmless(tmp_path):
    path = tmp_path / "a.pt"
    save_checkpoint(path, state(5, size=4))
    data = path.read_bytes()
    refused = 0
    for position in range(0, len(data), 13):
        damaged = bytearray(data)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        try:
            loaded = load_checkpoint(path)
        except CheckpointError:
            refused += 1
        else:
            assert torch.equal(loaded["Policy"]["weight"], torch.full((4, 4), 5.0))
            assert step_of(loaded) == 5
    assert refused > len(data) / 13 / 2


def test_a_file_that_would_run_code_is_refused(tmp_path):
    class Evil:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "ran",))

    torch.save({"Policy": Evil()}, tmp_path / "evil.pt")
    with pytest.raises(
        CheckpointError, match=r"evil\.pt.*cannot be used: it holds .* could run any program"
    ) as error:
        load_checkpoint(tmp_path / "evil.pt")
    assert "weights_only" not in str(error.value) and "trust" not in str(error.value)
    assert not (tmp_path / "ran").exists()


def after(path, junk):
    save_checkpoint(path, state(5))
    path.write_bytes(junk + path.read_bytes())


def zip_archive(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("hello.txt", "hello")


def compressed_zeros(path):
    """64 MiB of weights in 70 kB."""
    torch.save({"Policy": torch.zeros(1 << 24)}, path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)


def nested(path):
    """8 ** 30 values in a file of some kilobytes."""
    value = [0]
    for _ in range(30):
        value = [value] * 8
    torch.save({"Policy": value}, path)


def inside_itself(path):
    value = []
    value.append(value)
    torch.save({"Policy": value}, path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "write, says",
    [
        (lambda path: path.write_bytes(b""), "no other checkpoint"),
        (lambda path: path.write_bytes(b"not a checkpoint"), "no other checkpoint"),
        (lambda path: path.write_bytes(b"PK\x03\x04" + bytes(100)), "no other checkpoint"),
        (zip_archive, r"x\.pt"),
        (lambda path: torch.save([1, 2], path), "holds a list"),
        (lambda path: after(path, b"junk"), "cannot be used: 4 bytes that are not its own stand before it"),
        (lambda path: None, r"x\.pt cannot be read: No such file"),
        (compressed_zeros, r"its parts take 67,1\d\d,\d\d\d bytes, more than the file has"),
        (
            lambda path: torch.save({"a": [torch.ones(1).expand(1 << 40)]}, path),
            r"\[1099511627776\], whose numbers",
        ),
        (nested, "holds more than 1,000,000 values"),
        (inside_itself, "holds more than 1,000,000 values, or contains itself"),
    ],
    ids=[
        *("empty", "text", "zip-like", "zip archive", "list", "after junk", "missing", "bomb", "repeated"),
        *("nested", "inside itself"),
    ],
)
def test_what_is_not_a_checkpoint_is_refused_with_the_reason(tmp_path, write, says):
    write(tmp_path / "x.pt")
    with pytest.raises(CheckpointError, match=says):
        load_checkpoint(tmp_path / "x.pt")


@pytest.mark.posix("named pipes")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "x.pt")
    with pytest.raises(CheckpointError, match=r"x\.pt cannot be read: it is a pipe or a device"):
        load_checkpoint(tmp_path / "x.pt")


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_never_saved(tmp_path, number):
    save_checkpoint(tmp_path / "a.pt", state(1))
    before = (tmp_path / "a.pt").read_bytes()
    with pytest.raises(CheckpointError, match=r"Policy\.weight holds NaN or infinite"):
        save_checkpoint(tmp_path / "a.pt", {"Policy": {"weight": torch.tensor([1.0, number])}})
    assert (tmp_path / "a.pt").read_bytes() == before


@pytest.mark.parametrize(
    "value",
    [np.float64(1.0), np.zeros(2), {1, 2}, Path("x"), {np.int64(1): 0}],
    ids=lambda v: type(v).__name__,
)
def test_values_that_could_not_be_loaded_are_never_saved(tmp_path, value):
    with pytest.raises(CheckpointError, match=r"Module\.extra"):
        save_checkpoint(tmp_path / "a.pt", {"Module": {"extra": value}})
    assert os.listdir(tmp_path) == []
