"""`lanista doctor` names what is wrong: every fault here is set up for a process of its own."""

import os
import re
import socket
import subprocess
import sys

import pytest
from installed_plugins import install

resource = pytest.importorskip("resource")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the faults are Linux's"),
]
CONSOLE = "from lanista.trainers.console import lanista; lanista()"


def doctor(folder, *arguments, limits=None, **variables):
    """Status and lines of the command, in `folder`, with these variables and limits."""
    clean = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "LANISTA_GODOT", "TMPDIR"):
        clean.pop(name, None)

    def limit():
        for name, value in (limits or {}).items():
            resource.setrlimit(getattr(resource, name), (value, value))

    done = subprocess.run(
        [sys.executable, "-c", CONSOLE, "doctor", *arguments],
        cwd=folder,
        env={**clean, **variables},
        preexec_fn=limit if limits else None,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout.splitlines()


def findings(lines, subject):
    return [line for line in lines if line[9:].startswith(f"{subject} ")]


def named(found, subject, *words, level="FAULT"):
    """Whether one line of a subject has these words, and the status says whether there is a fault."""
    status, lines = found
    assert status == any(line.startswith("FAULT") for line in lines)
    return any(
        line.startswith(level) and all(word in line for word in words) for line in findings(lines, subject)
    )


def test_where_all_is_well_a_training_through_the_wire_succeeds(tmp_path):
    status, lines = doctor(tmp_path, OMP_NUM_THREADS="1")
    assert status == 0, lines
    assert "2000 steps through the wire" in findings(lines, "training")[0]
    subjects = {line[9:].split("  ")[0].strip() for line in lines[:-1]}
    assert subjects >= {"Python", "Lanista", "packages", "extras", "torch", "device", "processors", "memory"}
    assert subjects >= {"disk", "display", "proxies", "variables", "ports"}
    assert lines[-1].startswith("no faults") and not list(tmp_path.iterdir())


def test_whether_bf16_pays_is_measured(tmp_path):
    _, lines = doctor(tmp_path, "--no-training")
    (line,) = findings(lines, "products")
    found = re.search(r"(\d+) GFLOP/s in float32, (\d+) in bfloat16, .*: --precision bf16 (\w+)", line)
    float32, bf16 = int(found[1]), int(found[2])
    assert float32 > 0 and line.startswith("ok")
    if abs(bf16 - 1.5 * float32) > 2:  # the shown numbers are rounded
        assert found[3] == ("may" if bf16 > 1.5 * float32 else "does")


def test_a_torch_that_cannot_be_loaded(tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('libcudart.so.12: cannot open shared object file')")
    found = doctor("/", "--no-training", PYTHONPATH=str(tmp_path))
    assert named(found, "torch", "libcudart.so.12", "pip install --force-reinstall torch")


def test_a_package_that_is_too_old(tmp_path):
    info = tmp_path / "onnx-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: onnx\nVersion: 1.2\n")
    found = doctor("/", "--no-training", PYTHONPATH=str(tmp_path))
    assert named(found, "packages", "onnx 1.2 is too old", 'pip install "onnx>=1.16"')


def test_a_plugin_that_cannot_be_loaded(tmp_path):
    install(tmp_path, {"lanista.trainers": {"mine": "no_such_module:trainer"}})
    found = doctor("/", "--no-training", PYTHONPATH=str(tmp_path))
    assert named(found, "plug-ins", "'mine'", "sample 1.2", "no_such_module", level="warning")


def test_a_gpu_that_torch_does_not_use(tmp_path):
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 550.54.14\n")
    program.chmod(0o755)
    variables = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "CUDA_VISIBLE_DEVICES": "-1"}
    found = doctor("/", "--no-training", **variables)
    assert named(found, "device", "driver 550.54.14", "sees no GPU", level="warning")


def test_a_folder_that_cannot_be_written():
    assert named(doctor("/proc", "--no-training"), "disk", "/proc cannot be written", "--results-dir")


def test_no_folder_for_temporary_files():
    found = doctor("/", "--no-training", TMPDIR="/no/such/folder")
    assert named(found, "disk", "TMPDIR=/no/such/folder is no folder", level="warning")


def test_too_little_memory():
    found = doctor("/", "--no-training", limits={"RLIMIT_AS": 900 * 2**20})
    assert named(found, "memory", "limit of addresses (ulimit -v) 900 MiB", "raise the limit")


def test_too_few_open_files():
    found = doctor("/", "--no-training", limits={"RLIMIT_NOFILE": 64})
    assert named(found, "limits", "64 files may be open", "ulimit -n 1024", level="warning")


def test_files_that_are_cut_off(tmp_path):
    found = doctor(tmp_path, "--no-training", limits={"RLIMIT_FSIZE": 2**20})
    assert named(found, "limits", "files may have 1 MiB", level="warning")
    assert named(found, "disk", "cannot be written: File too large")


def test_a_display_where_nothing_answers():
    found = doctor("/", "--no-training", DISPLAY=":987")
    assert named(found, "display", "DISPLAY=:987, and no X server answers there", level="warning")


def test_a_proxy_between_engine_and_trainer_is_named_without_its_password():
    proxy = "http://user:hunter2@proxy.example:3128"
    found = doctor("/", "--no-training", http_proxy=proxy)
    assert named(found, "proxies", "http_proxy=http://(hidden)@proxy.example:3128", level="warning")
    assert "hunter2" not in "".join(found[1])
    found = doctor("/", "--no-training", http_proxy=proxy, no_proxy="localhost,127.0.0.1")
    assert named(found, "proxies", "proxy.example", level="ok")


def test_a_godot_that_is_not_there():
    found = doctor("/", "--no-training", LANISTA_GODOT="/no/godot", LANISTA_TOKEN="hunter2")
    assert named(found, "variables", "LANISTA_GODOT=/no/godot is no program", level="warning")
    assert "hunter2" not in "".join(found[1])


def test_a_port_that_another_process_holds():
    with socket.socket() as holder:
        try:
            holder.bind(("127.0.0.1", 5004))
            holder.listen()
        except OSError:
            pytest.skip("port 5004 is held by another process already")
        found = doctor("/", "--no-training")
        assert named(found, "ports", "port 5004 is held by process", str(os.getpid()), level="warning")


def test_a_training_that_fails(tmp_path):
    (tmp_path / "onnx.py").write_text("raise ImportError('built for another processor')")
    found = doctor("/", PYTHONPATH=str(tmp_path))
    assert named(found, "training", "a short training failed", "built for another processor")
