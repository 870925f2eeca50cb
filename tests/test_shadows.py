"""Modules of the current folder hide none that Lanista imports; those in PYTHONPATH may, and are named."""

import os
import subprocess
import sys

import pytest

MARK = "open('PWNED', 'a').write('imported')\n"
BY_MODULE = [sys.executable, "-m", "lanista.trainers.cli.main"]
AS_SCRIPT = [
    sys.executable,
    "-c",
    "import sys; sys.argv[0] = 'lanista'; from lanista.trainers.console import lanista; lanista()",
]
"""What the console script does; with the current folder before all others, as by PYTHONPATH=."""


def run_in(folder, command, *, words=("play", "--help"), path=""):
    found = os.pathsep.join(filter(None, (path, os.environ.get("PYTHONPATH", ""))))
    return subprocess.run(
        [*command, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": found},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_a_command_by_its_module_imports_nothing_from_the_current_folder(tmp_path):
    for name in ("argparse", "json", "numpy", "logging", "random", "torch", "typing", "yaml"):
        (tmp_path / f"{name}.py").write_text(MARK)
    done = run_in(tmp_path, BY_MODULE)
    assert done.returncode == 0 and "usage: lanista play" in done.stdout, done.stderr
    assert not (tmp_path / "PWNED").exists()


@pytest.mark.parametrize("name", ["typing", "argparse", "yaml"])
def test_a_file_that_hides_a_module_is_named_in_a_sentence(tmp_path, name):
    (tmp_path / f"{name}.py").write_text(MARK)
    done = run_in(tmp_path, AS_SCRIPT, words=("check", "c.yaml"))
    assert done.returncode == 1 and "Traceback" not in done.stderr and "fault of Lanista" not in done.stderr
    for part in (f"{name}.py was imported as the module {name}", "Rename the file", "PYTHONPATH", "Error: "):
        assert part in done.stderr.splitlines()[-1]


def test_a_file_by_the_path_is_named_for_a_command_by_its_module_too(tmp_path):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "argparse.py").write_text(MARK)
    done = run_in(tmp_path, BY_MODULE, path=str(tmp_path / "theirs"))
    assert done.returncode == 1 and "argparse.py was imported as the module argparse" in done.stderr
    assert "Traceback" not in done.stderr


def test_other_programs_are_left_as_they_are(tmp_path):
    """A user's script finds its own modules, and its errors are told by Python."""
    (tmp_path / "own_module.py").write_text("VALUE = 3\n")
    (tmp_path / "script.py").write_text(
        "import sys\nbefore = list(sys.path)\nimport lanista, own_module\n"
        "assert sys.path == before and sys.excepthook is sys.__excepthook__ and own_module.VALUE == 3\n"
    )
    subprocess.run([sys.executable, "script.py"], cwd=tmp_path, check=True, timeout=300)
    subprocess.run(
        [sys.executable, "-c", "import lanista, own_module"], cwd=tmp_path, check=True, timeout=300
    )
    package = tmp_path / "own_package"
    package.mkdir()
    (package / "__init__.py").write_text("import lanista\n")
    (package / "train.py").write_text("import own_module\n")
    for words in (
        ["-m", "own_package.train"],
        ["-Bmown_package.train"],
        ["-Wignore", "-m", "own_package.train"],
    ):
        subprocess.run([sys.executable, *words, "lanista"], cwd=tmp_path, check=True, timeout=300)


def test_a_package_of_the_user_that_imports_lanista_is_run_by_its_module_with_the_current_folder(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "__init__.py").write_text("import lanista\n")
    (tmp_path / "own" / "train.py").write_text("import beside\nassert beside.VALUE == 3\n")
    (tmp_path / "beside.py").write_text("VALUE = 3\n")
    done = run_in(tmp_path, [sys.executable, "-m", "own.train"], words=("--quiet",))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "module",
    [
        ("-m", "lanista.trainers.cli.main"),
        ("-mlanista.trainers.cli.main",),
        (
            "-Wignore",
            "-bmlanista.trainers.cli.main",
        ),
    ],
)
def test_both_ways_to_write_a_module_import_nothing_from_the_current_folder(tmp_path, module):
    (tmp_path / "argparse.py").write_text(MARK)
    done = run_in(tmp_path, [sys.executable, "-B", *module])
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "PWNED").exists()
