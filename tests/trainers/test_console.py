"""Whatever happens in a command, it ends with a line that says whose fault it is, and no traceback."""

import errno
import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from lanista.trainers.utils.guard import guarded

LEARN = "from lanista.trainers.console import lanista_learn as main"
LANISTA = "from lanista.trainers.console import lanista as main"


def ends(command, *arguments, shell="", cwd=None):
    """Status and standard error of a console script, whose command the shell completes with redirections."""
    script = [sys.executable, "-c", f"import sys\nsys.argv[0] = 'lanista'\n{command}\nmain()", *arguments]
    done = subprocess.run(
        ["bash", "-c", f'"$0" "$@" {shell}', *script],
        capture_output=True,
        text=True,
        cwd=cwd,
        check=False,
    )
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr, done.stderr
    return done.returncode, done.stderr


def raising(error):
    def command():
        raise error

    return command


def test_a_fault_of_the_program_is_one_line_and_a_file_to_report(monkeypatch, capsys):
    monkeypatch.setattr(
        sys, "argv", ["lanista", "play", "--token", "s3cret", "--tls-key=s3cret", "--env", "x"]
    )
    assert guarded("lanista", raising(ZeroDivisionError("by\n\x1b[31mzero"))) == 1
    line = capsys.readouterr().err
    assert line.startswith("lanista: error: ZeroDivisionError: by \\x1b[31mzero. That is a fault of Lanista")
    assert line.count("\n") == 1
    file = Path(re.search(r"the file (\S+),", line)[1])
    report = file.read_text()
    file.unlink()
    assert "Traceback" in report and "raise error" in report and "lanista " in report and "--env x" in report
    assert "s3cret" not in report


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PermissionError(13, "Permission denied", "there"), "lanista: error: there: Permission denied. If"),
        (MemoryError(), "lanista: error: there is not enough memory. What asked for it: the file"),
        (
            RuntimeError("[enforce fail at alloc_cpu.cpp:124] err == 0. can't allocate memory: 9 bytes"),
            "lanista: error: there is not enough memory: [enforce fail at alloc_cpu.cpp:124]",
        ),
    ],
)
def test_what_the_system_refuses_is_told_in_its_words(error, said, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert guarded("lanista", raising(error)) == 1
    assert capsys.readouterr().err.startswith(said)
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    "error", [ConnectionRefusedError(111, "Connection refused"), OSError("no number"), ZeroDivisionError()]
)
def test_an_error_that_no_output_has_caused_prints_none(error, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert guarded("lanista", raising(error)) == 1
    assert capsys.readouterr().out == ""


def test_a_disk_that_takes_nothing_is_told_without_a_traceback(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    assert guarded("lanista", raising(OSError(errno.EROFS, "Read-only file system", "a.onnx"))) == 1
    said = capsys.readouterr().err
    assert said.startswith("lanista: error: a.onnx: Read-only file system.") and said.count("\n") == 1


@pytest.mark.posix("permissions")
@pytest.mark.parametrize(("umask", "mode"), [(0, 0o775), (0o022, 0o755), (0o077, 0o700)])
def test_what_a_command_makes_is_never_for_everybody_to_change(umask, mode, tmp_path):
    before = os.umask(umask)
    try:
        assert guarded("lanista", lambda: (tmp_path / "made").mkdir() or 0) == 0
    finally:
        os.umask(before)
    assert (tmp_path / "made").stat().st_mode & 0o777 == mode


def test_output_that_is_refused_in_the_middle_is_told_as_such(capsys, monkeypatch):
    class Full(io.StringIO):
        def write(self, text):
            if text:
                raise OSError(errno.ENOSPC, "No space left on device")
            return 0

    with monkeypatch.context() as patched:
        patched.setattr("sys.stdout", Full())
        status = guarded("lanista", lambda: print("a line"))
    said = "lanista: error: standard output cannot be written: No space left on device.\n"
    assert (status, capsys.readouterr().err) == (1, said)


@pytest.mark.posix("signals are sent to processes")
@pytest.mark.parametrize("module", ["_tools", "trainers.utils.guard", "trainers.settings"])
@pytest.mark.parametrize("command", [LEARN, LANISTA])
def test_ctrl_c_while_a_command_is_loaded_is_a_line(command, module):
    interrupt = (
        "import os, signal, sys\nclass CtrlC:\n    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == 'lanista.{module}': os.kill(os.getpid(), signal.SIGINT)\n"
        f"sys.meta_path.insert(0, CtrlC())\n{command}"
    )
    status, said = ends(interrupt, "sweep", "no.yaml")
    assert status == 130 and said.strip().endswith(": stopped before it began.") and said.count("\n") == 2


def test_the_script_loads_no_command_before_it_is_guarded():
    code = (
        f"{LEARN}\nimport sys\nprint([m for m in ('torch', 'numpy', 'pydantic', 'yaml') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_standard_output_is_a_sentence(tmp_path):
    status, said = ends(LANISTA, "scenes", shell="> /dev/full")
    assert (status, said) == (
        1,
        "lanista: error: standard output cannot be written: No space left on device.\n",
    )


def test_a_reader_that_has_ended_is_no_fault():
    assert ends(LANISTA, "scenes", shell="| true; exit ${PIPESTATUS[0]}")[1] == ""


@pytest.mark.posix("needs a shell")
def test_closed_standard_streams_do_not_reach_files(tmp_path):
    assert ends(LANISTA, "scenes", shell="<&- >&-") == (0, "")
    config = tmp_path / "c.yaml"
    config.write_text("behaviors: {B: {max_steps: 1}}")
    status, _ = ends(LEARN, str(config), "--env", "scene:nothing", shell=">&-", cwd=tmp_path)
    assert status == 1 and config.read_text() == "behaviors: {B: {max_steps: 1}}"


@pytest.mark.posix("a folder in use cannot be deleted there")
def test_a_deleted_working_directory_is_a_sentence(tmp_path):
    (tmp_path / "gone").mkdir()
    code = f"import os\nos.rmdir(os.getcwd())\n{LEARN}"
    status, said = ends(code, cwd=tmp_path / "gone")
    assert status == 1 and "the working directory does not exist any more" in said


@pytest.mark.posix("links need a privilege there")
def test_a_results_folder_that_leads_to_itself_is_a_sentence(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "c.yaml").write_text("behaviors: {B: {max_steps: 1}}")
    status, said = ends(LEARN, "c.yaml", "--env", "scene:basic", "--results-dir", "loop", cwd=tmp_path)
    assert status == 1 and said.count("\n") <= 2 and "loop/ppo cannot be made" in said


@pytest.mark.parametrize("name", ["", "/", "."])
def test_an_environment_that_names_no_file_is_a_sentence(tmp_path, name):
    status, said = ends(LEARN, "--env", name, cwd=tmp_path)
    assert status == 1 and "that names no file" in said
    shutil.rmtree(tmp_path / "results", ignore_errors=True)
