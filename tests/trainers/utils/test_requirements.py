"""What an installation lacks is said before torch is loaded, also to Pythons that cannot read the package."""

import ast
import math
import os
import re
import signal
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import lanista
import pytest
from lanista.trainers.utils import requirements
from lanista.trainers.utils.errors import TrainerError

ROOT = Path(lanista.__file__).parent


def test_the_oldest_torch_is_that_of_the_package() -> None:
    setup = Path(__file__).parents[3].joinpath("setup.py").read_text(encoding="utf-8")
    assert f'"torch>={".".join(map(str, requirements.OLDEST_TORCH))}"' in setup


@pytest.mark.parametrize("found", ["1.13.1", "2.3.1+cu121", "2.0"])
def test_a_torch_that_is_too_old_is_refused(monkeypatch: pytest.MonkeyPatch, found: str) -> None:
    monkeypatch.setattr(requirements, "version", lambda name: found)
    with pytest.raises(TrainerError, match=rf"torch {re.escape(found)} is too old.*pip install \"torch>="):
        requirements.check_requirements(None)


@pytest.mark.parametrize("found", ["2.4.0", "2.10.0a0+git1", "3.0", "unknown"])
def test_a_newer_or_unknown_torch_is_taken(monkeypatch: pytest.MonkeyPatch, found: str) -> None:
    monkeypatch.setattr(requirements, "version", lambda name: found)
    requirements.check_requirements("cpu")


def test_missing_packages_are_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(requirements, "version", nothing)
    with pytest.raises(TrainerError, match=r"torch is not installed.*pip install"):
        requirements.check_requirements(None)
    monkeypatch.setattr(requirements, "find_spec", lambda name: None if name == "onnx" else object())
    with pytest.raises(TrainerError, match=r"onnx is not installed.*pip install onnx$"):
        requirements.check_requirements(None)


@pytest.mark.parametrize(
    ("device", "platform", "torch", "refused"),
    [
        ("cuda:1", "linux", "2.9.0+cpu", "computes on the CPU alone"),
        ("cuda", "linux", "2.9.0+cu128", None),
        ("cuda", "win32", "2.9.0", None),
        ("cuda", "darwin", "2.9.0", "computes on the CPU alone"),
        ("mps", "linux", "2.9.0", "only Macs have it"),
        ("mps", "darwin", "2.9.0", None),
        ("cpu", "linux", "2.9.0+cpu", None),
    ],
)
def test_a_device_that_cannot_be_here_is_refused_without_torch(
    monkeypatch: pytest.MonkeyPatch, device: str, platform: str, torch: str, refused: str | None
) -> None:
    monkeypatch.setattr(requirements, "version", lambda name: torch)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(requirements, "_limited_addresses", lambda: ("", math.inf))  # asks this system
    if refused is None:
        requirements.check_requirements(device)
    else:
        with pytest.raises(TrainerError, match=rf"{device}.*{refused}.*Leave it out"):
            requirements.check_requirements(device)


def test_a_torch_that_cannot_be_loaded_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(TrainerError, match=r"cannot be loaded: .*pip install --force-reinstall torch"):
        requirements.load_torch()


def test_ctrl_c_while_torch_is_loaded_counts_afterwards(tmp_path: Path) -> None:
    """Torch's own libraries abort the process where an exception is raised while they start."""
    stop = "_thread.interrupt_main()" if os.name == "nt" else "os.kill(os.getpid(), signal.SIGINT)"
    torch = f"import _thread, os, signal\n{stop}\nfor _ in range(1000):\n    pass\nloaded = True"
    (tmp_path / "torch.py").write_text(torch)
    script = (
        "import sys\nfrom lanista.trainers.utils.requirements import load_torch\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "try:\n    load_torch()\n    print('not stopped')\n"
        "except KeyboardInterrupt:\n    print(sys.modules['torch'].loaded)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "True\n", "")


def test_handlers_of_signals_are_as_before_once_torch_is_loaded() -> None:
    before = {number: signal.getsignal(number) for number in signal.valid_signals()}
    requirements.load_torch()
    assert {number: signal.getsignal(number) for number in signal.valid_signals()} == before


def test_older_pythons_can_read_the_sentence_about_their_age() -> None:
    ast.parse((ROOT / "__init__.py").read_text(encoding="utf-8"), feature_version=(3, 7))


@pytest.mark.parametrize(
    ("before", "told"),
    [
        ("sys.version_info = (3, 9, 18)", "needs Python 3.10 or newer, and this is Python 3.9"),
        ("sys.modules['mlagents_envs'] = None", "mlagents-envs is not installed.*pip install mlagents-envs"),
    ],
)
def test_our_commands_end_with_a_line_and_other_programs_get_an_import_error(before: str, told: str) -> None:
    for program, status in (("lanista-learn", 1), ("lanista.exe", 1), ("game.py", 3)):
        script = (
            f"import sys; sys.argv[0] = {program!r}; {before}\n"
            "try:\n    import lanista.trainers.learn\nexcept ImportError as error:\n"
            "    print(error, file=sys.stderr); sys.exit(3)"
        )
        ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        assert ended.returncode == status and re.search(told, ended.stderr), ended.stderr
        assert "Traceback" not in ended.stderr
        assert ("error: " in ended.stderr) == (status == 1)
