"""Python, what Lanista needs of other packages, plug-ins, torch and its device."""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, metadata, requires, version

from ....envs.engines.own_program import own_code
from ....envs.utils.installation import install_command
from ....envs.utils.programs import find_program
from ...utils import plugins
from .command import Diagnosis, fault, warning

_PATIENCE = 120
"""Seconds that another program has to answer."""
_HIDDEN_EXTRAS = frozenset({"dev", "docs"})
_BESIDE = ("mlagents", "ray", "stable-baselines3", "godot-rl")
"""Packages whose versions a report of a fault should name, if they are there."""
_BF16_PAYS = 1.5
"""Times the rate of float32 from which `precision: bf16` is worth its lesser exactness."""
_PROBE = """
import json, time, torch

def rate(dtype):
    rows, weights = torch.ones(1024, 256, dtype=dtype), torch.ones(256, 256, dtype=dtype)
    seconds = []
    for _ in range(50):
        began = time.perf_counter()
        torch.mm(rows, weights)
        seconds.append(time.perf_counter() - began)
    return 2e-9 * 1024 * 256 * 256 / min(seconds)

cuda = torch.cuda.is_available()
names = [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())] if cuda else []
mps = getattr(torch.backends, "mps", None)
threads = torch.get_num_threads()
torch.set_num_threads(1)  # several would wait for each other where the machine is busy
print(json.dumps({"version": torch.__version__, "cuda": torch.version.cuda, "names": names,
                  "mps": bool(mps and mps.is_available()), "threads": threads,
                  "float32": rate(torch.float32), "bf16": rate(torch.bfloat16)}))
"""


def python() -> Iterator[Diagnosis]:
    """The interpreter and the system."""
    text = f"{platform.python_version()} ({sys.executable}), {platform.platform()}"
    if sys.maxsize < 2**32:
        yield fault(
            "Python", text, "It has 32 bits, for which there is no torch. Install Python with 64 bits."
        )
        return
    try:
        classifiers = metadata("lanista").get_all("Classifier") or []
    except PackageNotFoundError:
        classifiers = []
    tested = [text.rpartition(" ")[2] for text in classifiers if re.search(r":: 3\.\d+$", text)]
    if tested and f"{sys.version_info[0]}.{sys.version_info[1]}" not in tested:
        yield warning("Python", text, f"Lanista is tested with {', '.join(tested)}.")
    else:
        yield Diagnosis("Python", text)


def packages() -> Iterator[Diagnosis]:
    """What Lanista requires, and its extras."""
    try:
        yield Diagnosis("Lanista", version("lanista"))
    except PackageNotFoundError:
        yield fault("Lanista", "it is not installed for this Python", f"Install it: {install_command()}")
        return
    present, extras = [], dict[str, list[str]]()
    for name, least, extra in _requirements():
        found = _version(name)
        old = found is not None and _numbers(found) < _numbers(least)
        if extra in _HIDDEN_EXTRAS:
            continue
        if extra:
            extras.setdefault(extra, [])
            if found is None or old:
                extras[extra].append(f"{name}>={least}" if least else name)
        elif found is None or old:
            what = f"{name} {found} is too old" if old else f"{name} is not installed"
            yield fault("packages", what, f'Install it: pip install "{name}{">=" * bool(least)}{least}"')
        else:
            present.append(f"{name} {found}")
    others = [f"{name} {found}" for name in _BESIDE if (found := _version(name))]
    yield Diagnosis("packages", ", ".join([*present, *others]))
    complete = [name for name, lacks in extras.items() if not lacks]
    lacking = [name for name, lacks in extras.items() if lacks]
    yield Diagnosis(
        "extras", f"installed: {', '.join(complete) or 'none'}; not: {', '.join(lacking) or 'none'}"
    )


def _requirements() -> Iterator[tuple[str, str, str]]:
    """Name, least version and extra (or nothing) of each line of setup.py that is for this system."""
    for line in requires("lanista") or ():
        other = re.search(r"platform_system\s*==\s*[\"'](\w+)", line)
        if other and other[1] != platform.system():
            continue
        found = re.match(r"([\w.-]+)\s*(?:>=\s*([\d.]+))?", line)
        extra = re.search(r"extra\s*==\s*[\"']([\w-]+)", line)
        if found:
            yield found[1], found[2] or "", extra[1] if extra else ""


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _numbers(text: str) -> tuple[int, ...]:
    """1.26.4 of `1.26.4+local`, without zeros at the end, to be compared."""
    found = re.match(r"\d+(\.\d+)*", text)
    numbers = [int(part) for part in found[0].split(".")] if found else []
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def registered() -> Iterator[Diagnosis]:
    """The plug-ins of other packages."""
    good = []
    for group in (plugins.TRAINERS, plugins.NETWORKS, plugins.CALLBACKS, plugins.STATS_WRITERS):
        for name, entry in plugins.plugins(group).items():
            try:
                plugins.load(entry)
            except plugins.PluginError as error:
                yield warning("plug-ins", str(error), "Install its package again, or remove it.")
            else:
                good.append(f"{name} ({group})")
    if good:
        yield Diagnosis("plug-ins", ", ".join(good))


def torch() -> Iterator[Diagnosis]:
    """Whether torch can be loaded, which a process of its own tries, and its device."""
    try:
        done = subprocess.run(
            own_code(_PROBE), capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        yield fault("torch", f"it was not loaded within {_PATIENCE} s", "Install it again: pip install torch")
        return
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"the process ended with status {done.returncode}"]
        remedy = "Install it again: pip install --force-reinstall torch"
        yield fault("torch", f"it cannot be loaded: {lines[-1]}", remedy)
        return
    reported = json.loads(done.stdout.strip().splitlines()[-1])
    yield Diagnosis("torch", f"{reported['version']}, {reported['threads']} threads")
    pays = reported["bf16"] >= _BF16_PAYS * reported["float32"]
    yield Diagnosis(
        "products",
        f"{reported['float32']:.0f} GFLOP/s in float32, {reported['bf16']:.0f} in bfloat16, by one thread: "
        f"--precision bf16 {'may speed up updates of wide networks' if pays else 'does not pay'} on this CPU",
    )
    driver = _driver()
    if reported["names"]:
        yield Diagnosis(
            "device", f"{', '.join(reported['names'])}, CUDA {reported['cuda']}, driver {driver or 'unknown'}"
        )
    elif reported["mps"]:
        yield Diagnosis("device", "Apple's GPU (mps)")
    elif driver:
        yield warning(
            "device",
            f"NVIDIA's driver {driver} is here, but torch {reported['version']} sees no GPU",
            "Training runs on the CPU. Install a torch for CUDA that this driver can run "
            "(https://pytorch.org/get-started), and see that CUDA_VISIBLE_DEVICES hides none."
            if reported["cuda"] is None
            else f"Training runs on the CPU. CUDA {reported['cuda']} may need a newer driver, or "
            "CUDA_VISIBLE_DEVICES hides the GPU.",
        )
    else:
        yield Diagnosis("device", "CPU; no NVIDIA driver was found")


def _driver() -> str | None:
    """The version of NVIDIA's driver; None without one."""
    program = find_program("nvidia-smi")
    if program is None:
        return None
    command = [program, "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return next(iter(done.stdout.split()), None)
