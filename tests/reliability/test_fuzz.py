"""What the fuzzers' targets read: the kept corpus, and for half a minute inputs that are mutated from it."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("fuzz.py")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="bounds work and memory as Linux can"),
]


def fuzz(*arguments):
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_no_input_breaks_what_reads_it():
    done = fuzz("--seconds", 30, "--seed", 0)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 findings" in done.stdout


@pytest.mark.parametrize(
    ("content", "signature"),
    [
        (b"raise", "ZeroDivisionError"),
        (b"loop", "TooMuchWorkError"),
        (b"allocate", "memory"),
        (b"abort", "crash"),
    ],
)
def test_a_finding_joins_the_corpus_and_says_how_to_replay_it(tmp_path, content, signature):
    """The product is stood for by a function that lies in its folder and does as its input says."""
    program = f"""
import sys
sys.path.insert(0, {str(SCRIPT.parent)!r})
import fuzz, os
from pathlib import Path
code = '''
def read(data):
    if data == b"raise": 1 / 0
    if data == b"abort": os.abort()
    if data == b"allocate": bytes(b"x" * (300 << 20))
    while data == b"loop":
        len(data)
'''
space = {{"os": os}}
exec(compile(code, fuzz.PRODUCT + "made_up.py", "exec"), space)
fuzz.TARGETS["wire"] = fuzz.Target(lambda: [{content!r}], space["read"])
fuzz.CORPUS = Path({str(tmp_path)!r})
sys.argv = ["fuzz.py", "--targets", "wire", "--seconds", "0.1"]
sys.exit(fuzz.main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    (kept,) = (tmp_path / "wire").iterdir()
    assert kept.read_bytes() == content
    assert f"FOUND in wire: {signature}" in done.stdout and f"--replay {kept}" in done.stdout


def test_an_input_of_the_corpus_is_replayed(tmp_path):
    path = tmp_path / "side_channels" / "cut"
    path.parent.mkdir()
    path.write_bytes(b"abc")
    assert fuzz("--replay", path).returncode == 0
