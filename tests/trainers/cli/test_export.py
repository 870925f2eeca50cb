"""`lanista export` writes the models of a checkpoint, and of all behaviors of a run."""

import pytest
from lanista.trainers.checkpoints.file import save_checkpoint
from lanista.trainers.checkpoints.metadata import describe_network
from lanista.trainers.cli.main import run
from lanista.trainers.networks.actor import Actor
from lanista.trainers.policies.onnx.load import load
from lanista.trainers.settings.models.networks import NetworkSettings
from specs import vector_spec

SIZES = {"Ball": 3, "My.Walker": 5}


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A results folder with the run `both`; a behavior's name with a dot is that of a file without ending."""
    monkeypatch.chdir(tmp_path)
    settings = NetworkSettings(hidden_units=8, num_layers=1)
    for behavior, size in SIZES.items():
        network = Actor(vector_spec([size], continuous=1), settings)
        folder = tmp_path / "results" / "both" / behavior
        folder.mkdir(parents=True)
        brain = describe_network(behavior, network.spec, settings, [], None)
        state = {"Policy": network.state_dict(), "step": 12, "brain": brain}
        save_checkpoint(folder / "checkpoint.pt", state)
    (tmp_path / "results" / "both" / "run_logs").mkdir()
    return tmp_path / "results"


def sizes(folder):
    """How many numbers the models in a folder observe, by file name."""
    return {path.name: load(path).observations[0][0] for path in folder.glob("*.onnx")}


@pytest.mark.parametrize("given", ["both", "results/both"])
def test_the_models_of_a_run_are_written_to_its_folder(results, given, capsys):
    assert run(["export", given]) == 0
    assert sizes(results / "both") == {"Ball.onnx": 3, "My.Walker.onnx": 5}
    assert "both/Ball.onnx (Ball, step 12), verified" in capsys.readouterr().out.replace("\\", "/")


def test_the_models_of_a_run_are_written_to_a_folder(results, tmp_path):
    assert run(["export", "--godot-rl", "both", "new/folder", "--results-dir", str(results)]) == 0
    written = {path.name for path in (tmp_path / "new" / "folder").iterdir()}
    assert written == {"Ball-godot-rl.onnx", "My.Walker-godot-rl.onnx"}


@pytest.mark.parametrize(
    ("flags", "out", "written"),
    [
        (["--safetensors"], "weights", "weights.safetensors"),
        ([], "policy-v1.2", "policy-v1.2.onnx"),
        ([], "my.onnx", "my.onnx"),
    ],
)
def test_a_file_has_the_ending_by_which_it_is_read(results, tmp_path, flags, out, written):
    before = set(tmp_path.iterdir())
    assert run(["export", "results/both/Ball", out, *flags]) == 0
    assert {path.name for path in set(tmp_path.iterdir()) - before} == {written}


@pytest.mark.parametrize(
    ("flags", "out", "suffix"),
    [([], "configuration.yaml", ".onnx"), (["--godot"], "my.onnx", ".tres"), ([], "my.ONNX", ".onnx")],
)
def test_the_ending_of_another_kind_of_file_is_refused(results, tmp_path, flags, out, suffix, capsys):
    before = set(tmp_path.iterdir())
    assert run(["export", "results/both/Ball", out, *flags]) == 1
    assert f"{out}: expected the name of the file to write to end in {suffix}." in capsys.readouterr().err
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("out", "flag"), [("q.safetensors", "--safetensors"), ("q.tres", "--godot"), ("q.pt", None)]
)
def test_the_flag_that_writes_the_other_kind_of_file_is_named(results, out, flag, capsys):
    assert run(["export", "results/both/Ball", out]) == 1
    said = capsys.readouterr().err.strip()
    assert said.endswith(f"in .onnx. {flag} writes a file that ends in .{out[2:]}." if flag else "in .onnx.")


@pytest.mark.parametrize(
    ("flags", "out", "text"),
    [
        ([], "mine.onnx", "hi\n"),
        ([], "mine.onnx", ""),
        (["--godot-rl"], "mine.onnx", "hi\n"),
        (["--godot"], "mine.tres", '[gd_resource type="StandardMaterial3D" format=3]\n'),
        (["--safetensors"], "mine.safetensors", "hi\n"),
        (["--safetensors"], "mine.safetensors", "\x02\0\0\0\0\0\0\0{}"),
    ],
)
def test_only_a_model_is_written_over(results, tmp_path, flags, out, text, capsys):
    file = tmp_path / out
    file.write_text(text)
    words = ["export", "results/both/Ball", out, *flags]
    assert run(words) == 1
    assert f"{out} is there and is not a " in capsys.readouterr().err
    assert file.read_text() == text
    file.unlink()
    assert run(words) == 0
    assert run(words) == 0, "its own file"


def test_a_damaged_model_of_a_run_is_exported_anew(results):
    (results / "both" / "Ball.onnx").write_text("hi")
    assert run(["export", "both"]) == 0
    assert sizes(results / "both") == {"Ball.onnx": 3, "My.Walker.onnx": 5}


@pytest.mark.parametrize(
    "words", [["SOURCE", "--godot", "OUT"], ["--godot", "SOURCE", "OUT"], ["SOURCE", "OUT", "--godot"]]
)
def test_flags_may_stand_anywhere(results, tmp_path, words):
    names = {"SOURCE": "results/both/Ball", "OUT": "brain.tres"}
    assert run(["export", *(names.get(word, word) for word in words)]) == 0
    assert (tmp_path / "brain.tres").read_text(encoding="utf-8").startswith("[gd_resource")


def test_what_is_no_run_is_refused(results, capsys):
    (results / "empty").mkdir()
    for given, says in {
        "both2": "no run results/both2. Did you mean both?",
        "empty": "is not a run's folder: it holds no <behavior>/checkpoint.pt",
    }.items():
        assert run(["export", given]) == 1
        assert says in capsys.readouterr().err.replace("\\", "/")


@pytest.mark.parametrize(("made_by", "ending"), [([], ".onnx"), (["--godot"], ".tres")])
@pytest.mark.parametrize("flags", [[], ["--godot"], ["--safetensors"]])
def test_a_brain_is_not_called_a_damaged_checkpoint(results, made_by, ending, flags, capsys):
    assert run(["export", "results/both/Ball", f"ball{ending}", *made_by]) == 0
    assert run(["export", f"ball{ending}", *flags]) == 1
    said = capsys.readouterr().err
    assert f"ball{ending} is a brain, which is exported already. Give a checkpoint" in said
    (results.parent / f"cut{ending}").write_bytes(b"[gd")
    assert run(["export", f"cut{ending}", *flags]) == 1
    assert "cannot be used" in capsys.readouterr().err
