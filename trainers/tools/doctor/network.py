"""The ports on which engines call, and a training through the wire."""

from __future__ import annotations

import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ....envs.engines.own_program import own_code
from .command import Diagnosis, fault, warning

STEPS = 2000
"""Of the training: some seconds of work."""
_PATIENCE = 180
"""Seconds that the training has."""


def localhost() -> Iterator[Diagnosis]:
    """Whether the name that engines call means this machine."""
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo("localhost", 80, type=socket.SOCK_STREAM)}
    except OSError as error:
        found, why = set[str](), f": {error.strerror}"
    else:
        why = f", but {', '.join(sorted(found))}"
    if not found & {"127.0.0.1", "::1"}:
        remedy = "Engines call it. Put the line `127.0.0.1 localhost` into the hosts file of this machine."
        yield fault("localhost", f"it is not this machine{why}", remedy)


def ports() -> Iterator[Diagnosis]:
    """Port 5004, where the Editor calls, and 5005, where executables do."""
    from ....envs.engines.ports import EDITOR_PORT, FIRST_PORT, PortInUseError, claim

    free = []
    for port in (EDITOR_PORT, FIRST_PORT):
        try:
            claim(_bind, port, search=False).close()
        except PortInUseError as error:
            held = re.sub(r"^.*?Port (\d+ is held)", r"port \1", str(error)).rstrip(". ")
            if port == EDITOR_PORT:
                remedy = "The Unity Editor calls there: end that process to train with the Editor."
                yield warning("ports", held, remedy)
            else:
                yield Diagnosis("ports", f"{held}; executables get the next one")
        except OSError as error:
            yield fault("ports", f"port {port} cannot be listened on: {error.strerror}", "Allow it.")
        else:
            free.append(str(port))
    if free:
        yield Diagnosis("ports", f"free: {', '.join(free)}")


def _bind(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener


def training() -> Iterator[Diagnosis]:
    """A short run of the scene basic, a process of its own that speaks the wire."""
    with tempfile.TemporaryDirectory(prefix="lanista-doctor-", ignore_cleanup_errors=True) as folder:
        began = time.monotonic()
        try:
            done = _run(folder)
        except subprocess.TimeoutExpired:
            remedy = "See what the machine is busy with, or whether a firewall holds up local connections."
            yield fault("training", f"{STEPS} steps were not over after {_PATIENCE} s", remedy)
            return
        seconds = time.monotonic() - began
        if done.returncode or not Path(folder, "doctor", "Basic.onnx").is_file():
            printed = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
            cause = printed[-1] if printed else f"status {done.returncode}"
            remedy = "If nothing above explains it, report this block."
            yield fault("training", f"a short training failed: {cause}", remedy)
            return
    paces = re.findall(r"Step: (\d+)\. Time Elapsed: ([\d.]+) s", done.stdout)
    pace = f", {float(paces[-1][0]) / max(float(paces[-1][1]), 0.01):.0f} steps/s" if paces else ""
    yield Diagnosis("training", f"{STEPS} steps through the wire in {seconds:.1f} s, with all imports{pace}")


def _run(folder: str) -> subprocess.CompletedProcess[str]:
    settings = {"max_steps": STEPS, "summary_freq": 1000, "checkpoint_interval": STEPS}
    words = [word for key, value in settings.items() for word in ("--set", f"behaviors.Basic.{key}={value}")]
    return subprocess.run(
        [
            *own_code("from lanista.trainers.console import lanista_learn; lanista_learn()"),
            *("--preset", "ppo/basic", "--env", "scene:basic", "--run-id", "doctor"),
            *("--results-dir", folder, "--seed", "0", *words),
        ],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_PATIENCE,
        check=False,
    )
