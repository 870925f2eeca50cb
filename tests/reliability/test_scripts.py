"""The scripts of this folder with small numbers: each ends with status 1 when a promise does not hold."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

POSIX = pytest.mark.posix("kills and freezes processes by signals")
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux what only it tells or allows")


def script(command, *marks):
    return pytest.param(command.split(), marks=marks, id=command)


@pytest.mark.parametrize(
    "command",
    [
        script("attach.py --times 4"),
        script("attach.py --times 4 --relay"),
        script("bytes.py --messages 10000", POSIX),
        script("damaged.py --every 97"),
        script("disk_full.py --rounds 10", POSIX),
        script("full_disk_runs.py --runs 1", LINUX),
        script(
            "engines.py --envs 2 --kills 2 --freezes 1 --timeout 3 --env scene:basic --kinds crash hang",
            POSIX,
        ),
        script("engines.py --envs 2 --kills 8 --freezes 1 --timeout 3 --kinds exit lie drip", POSIX),
        script("file_faults.py --distinct --every 12", LINUX),
        script("kills.py --cases ppo --kills 3", POSIX),
        script("kills.py --cases behaviors --kills 2", POSIX),
        script("non_finite.py --cases observation-nan observation-3e38 mask reward-nan-drop"),
        script("resume.py --runs 1 --cases ppo memory --updates 1", POSIX),
        script("resume.py --runs 1 --cases sac-saved --updates 1", POSIX),
        script("saves.py --kills 8", POSIX),
        # In so short a time memory and speed have no slope yet.
        script("soak.py --minutes 0.1 --envs 2 --every 1 --slope 1e9 --drift 100", POSIX),
        script("start_up.py --fork", LINUX),
        # In so short a time the shares are no figures; without bounds all of a core is taken.
        script(
            "strangers.py --rounds 1 --seconds 1 --core 0.5 --share 0.3 --callers pings refused leave", POSIX
        ),
        script("strangers.py --rounds 1 --core 0.5 --share 0.3 --callers crowd --connections 200", POSIX),
        script("training.py --envs 3 --steps 20000 --after 500", POSIX),
    ],
)
def test_the_promise_holds(command):
    if "--relay" in command:
        pytest.importorskip("cryptography")
    name, *options = command
    result = subprocess.run(
        [sys.executable, str(Path(__file__).with_name(name)), *options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
