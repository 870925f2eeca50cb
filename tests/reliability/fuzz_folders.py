"""What reads, and what carries on, folders of runs that others share, for `fuzz.py`.

An input is a list of damages: three bytes each, which file, what is done with it, and with which text. Beside
the run lies a file of the user's, which must stay as it is and appear in nothing that is made of the run.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import io
import logging
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from random import Random

from fuzz_files import scratch
from fuzz_target import Target, refusal
from lanista.envs.engines.logs import new_log
from lanista.trainers.checkpoints.manager import CheckpointManager
from lanista.trainers.checkpoints.run_folder import (
    claimed_run_folder,
    recorded_seed,
    recorded_start,
    write_configuration,
)
from lanista.trainers.checkpoints.status import TrainingStatus, TrainingStatusError
from lanista.trainers.cli.main import run as main
from lanista.trainers.cli.runs.record import REWARD
from lanista.trainers.settings.models.run import CheckpointSettings
from lanista.trainers.settings.options import RunOptions
from lanista.trainers.stats.event_files import FILE_NAME
from lanista.trainers.stats.summary import StatsSummary
from lanista.trainers.stats.tensorboard import TensorBoardWriter
from lanista.trainers.stats.timers import Timers
from lanista.trainers.stats.writers import CsvTable
from lanista.trainers.tools.hub import _copy_to_upload
from lanista.trainers.tools.report.command import LivePage
from lanista.trainers.tools.run_process import RunProcess
from lanista.trainers.tools.sweep.metric import Metric
from lanista.trainers.utils.errors import CommandError, TrainerError
from lanista.trainers.utils.logging import PACKAGE, warnings_kept
from lanista.trainers.utils.trust import mark_own
from lanista.trainers.utils.trusted_names import Named
from made_runs import make_run

SECRET = b"precious words of the user"
USER = (
    "victim",
    "folder/videos/a.gif",
    "folder/summaries.csv",
    "folder/checkpoint.pt",
    "folder/Ball-100.onnx",
)
FILES = (
    *("configuration.yaml", "run_logs/training_status.json", "run_logs/timers.json", "README.md"),
    *("run_logs/engine_errors.json", "run_logs/warnings.log", "run_logs/own.json", "run_logs/Player-0.log"),
    *("Ball", "run_logs", "Ball/videos", "Ball/videos/a.gif", "Ball/events.out.tfevents.1", "Ball.onnx"),
    *("Ball/summaries.csv", "Ball/checkpoint.pt", "Ball/Ball-100.onnx", "Ball/Ball-best.onnx", "best"),
)
LARGE = 3 << 30
"""Bytes of a file without content, which takes no space."""
_HUGE, _LONG = "9" * 400, "7" * 5000
TEXTS = (
    *(f'{{"total": {number}}}' for number in ("Infinity", "NaN", "-1", "1e999", _HUGE, _LONG, "null", "[]")),
    *(f'{{"metadata": {{"peak_memory_bytes": "{number}"}}}}' for number in (_LONG, "0x9", "-1", "9.5")),
    '{"metadata": {"command_line_arguments": "lanista-learn \'", "lanista_version": 3}}',
    *(f"env_settings: {{seed: {number}}}" for number in ("0x" + "f" * 5000, _LONG, "1:59:59", ".nan", "[1]")),
    *(
        f"behaviors: {{Ball: {value}}}"
        for value in ("null", "[]", "3", f"{{max_steps: {_HUGE}}}", "{clone: 3}")
    ),
    "behaviors: {1: 2, null: {}, 2001-01-01: {}, /etc: {}, ../victim: {}, ., .., '': 1, \"a\\0b\": {}}",
    "behaviors: {Ball: {trainer_type: ppo, max_steps: 1e300}}\ncheckpoint_settings: null",
    "environment_parameters: {a: {curriculum: [{name: b, value: {sampler_type: x}}]}}",
    f'{{"Ball": {{"final_checkpoint": {{"steps": {_HUGE}, "reward": {_HUGE}}}, "checkpoints": null}}}}',
    '{"Ball": {"checkpoints": [{"steps": 1e999, "reward": NaN, "file_path": "../../victim"}], "elo": null}}',
    '{"Ball": null, "metadata": [], "a": {"lesson_num": 1e999}}',
    f'{{"total": {_HUGE}, "kinds": [{{"engine": null, "text": "\\u0000", "log": "/etc/passwd"}}]}}',
    '{"total": 1, "kinds": [{"engine": "unity", "environment": "0", "text": "a", "place": "", "count": 1, '
    '"log": "../victim", "is_warning": false}]}',
    *(
        "[" * 100_000,
        "{a: " * 5000,
        '{"a":' * 500 + "1" + "}" * 500,
        "- 1\n" * 60_000,
        "&a [*a]",
        "\0",
        "\ufeff",
    ),
    "step,time,Environment/Cumulative Reward\n" + f"{_LONG},{_LONG},{_LONG}\n",
    "step,time,Environment/Cumulative Reward\n1,-1e300,1e999\n0,nan,nan\n9223372036854775807,1e300,-inf\n",
    "step,time\n1,2,3,4\n" + '"' * 200_000,
    *(
        "---\nlanista: {score: {behaviors: {Ball: [1]}}}\n---\n",
        "---\nlanista: 1:59:59\n---\n",
        "---\n" * 9999,
    ),
    "3:59 WARNING \x1b[2J<script>\n" * 99_999,
)


def _text(path: Path, number: int) -> None:
    path.write_text(TEXTS[number % len(TEXTS)], "utf-8", "surrogatepass")


def _bytes(path: Path, number: int) -> None:
    path.write_bytes(
        (b"\xff\xfe", b"", b"\0" * 4096, b"PK\x03\x04", b"\x08" * 99)[number % 5] + bytes([number])
    )


def _cut(path: Path, number: int) -> None:
    if path.is_file() and not path.is_symlink():
        os.truncate(path, path.stat().st_size * number // 256)


def _sparse(path: Path, number: int) -> None:
    with path.open("wb") as file:
        file.truncate(LARGE if path.suffix != ".onnx" else LARGE >> 6)


def _pipe(path: Path, number: int) -> None:
    os.mkfifo(path)


def _folder(path: Path, number: int) -> None:
    path.mkdir()


def _socket(path: Path, number: int) -> None:
    before = os.getcwd()
    os.chdir(path.parent)  # for a short name
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
    finally:
        os.chdir(before)


LINKS = (
    "VICTIM",
    "FOLDER",
    "/dev/zero",
    "/dev/full",
    "nowhere",
    ".",
    "..",
    "NAME",
    "../",
    "/proc/self/mem",
    "/",
)


def _link(path: Path, number: int) -> None:
    places = {"VICTIM": _user() / "victim", "FOLDER": _user() / "folder", "NAME": path.name}
    path.symlink_to(places.get(LINKS[number % len(LINKS)], LINKS[number % len(LINKS)]))


DAMAGES: tuple[Callable[[Path, int], None], ...] = (
    *(_text, _text, _text, _text, _bytes, _cut),
    *(_sparse, _pipe, _folder, _socket, _link, _link, _link),
)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _user() -> Path:
    return scratch() / str(os.getpid()) / "user"


def _results() -> Path:
    return scratch() / str(os.getpid()) / "results"


def _whole() -> Path:
    """A whole run, made once."""
    folder = scratch() / str(os.getpid()) / "whole" / "r"
    if not folder.exists():
        make_run(folder.parent, "r", timers={"total": 9.0, "metadata": {"peak_memory_bytes": "99"}})
        for name in FILES:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix and not path.exists():
                path.write_text({".json": "{}", ".csv": "step,time\n1,2\n"}.get(path.suffix, "whole"))
    return folder


def damaged(data: bytes) -> Path:
    """A run with the damages of an input."""
    shutil.rmtree(_results(), ignore_errors=True)
    run = _results() / "r"
    shutil.copytree(_whole(), run)
    shutil.rmtree(_user(), ignore_errors=True)
    (_user() / "folder" / "videos").mkdir(parents=True)
    for name in USER:
        (_user() / name).write_bytes(SECRET)
    for at in range(0, min(len(data), 24) - 2, 3):
        which, kind, number = data[at : at + 3]
        path = run / FILES[which % len(FILES)]
        damage = DAMAGES[kind % len(DAMAGES)]
        with contextlib.suppress(OSError, UnicodeError):  # one before has taken its folder
            if Path(os.path.realpath(path.parent)).is_relative_to(os.path.realpath(run)):
                if damage is not _cut:
                    _remove(path)
                damage(path, number)
    return run


def read_folder(data: bytes) -> None:
    """As `lanista runs`, `report` (also --watch), `check`, `card`, `export`, `sweep` and `hub push` do."""
    run, page = damaged(data), _results() / "page.html"
    made = io.StringIO()
    with contextlib.redirect_stdout(made), contextlib.redirect_stderr(made), refusal(names=""):
        for words in (
            ["runs", _results()],
            ["runs", _results(), "--json"],
            ["report", run, "-o", page],
            ["check", run / "configuration.yaml"],
            ["card", run, "--episodes", "0"],
            ["export", run],
        ):
            main([str(word) for word in words])
        made.write(LivePage(lambda: {"r": run}).read().decode())
        made.write(page.read_text() if page.exists() else "")  # not if it is no run any more
        Metric(REWARD, None, 3).curve(run)
        Metric(REWARD, "Ball", 3).explain_missing(run)
        _upload(run, made)
    _require_untouched(made.getvalue())


def _upload(run: Path, made: io.StringIO) -> None:
    """Write what would be uploaded."""
    if any(path.lstat().st_size >= LARGE for path in run.rglob("*")):
        return  # gigabytes would be copied
    given = argparse.Namespace(local_dir=run, configfile_name="configuration.yaml", run_id="r", repo_id="a/b")
    with refusal(CommandError, names=""), _copy_to_upload(given) as copy:
        for path in copy.rglob("*"):
            if path.is_file():
                made.write(path.read_bytes()[:99999].decode(errors="replace"))


def _require_untouched(output: str) -> None:
    """The files of the user are as they were, and nowhere in what was made of the run."""
    assert SECRET not in output.encode("utf-8", "surrogatepass"), "it is in the output"
    assert base64.b64encode(SECRET).decode() not in output, "it is in a page"
    found = {path.relative_to(_user()).as_posix(): path for path in _user().rglob("*") if not path.is_dir()}
    assert set(found) == set(USER), f"there is {sorted(found)}"
    assert all(path.read_bytes() == SECRET for path in found.values()), "it was written to"


def carry_on_folder(data: bytes) -> None:
    """Write what --resume does into a run: its logs, tables, settings and checkpoints."""
    damaged(data)
    os.environ["XDG_DATA_HOME"] = str(scratch() / "key")  # not the user's own
    settings = CheckpointSettings(run_id="r", results_dir=str(_results()), resume=True)
    errors = (TrainerError, TrainingStatusError, OSError, ValueError)
    with (
        refusal(*errors, names=""),
        claimed_run_folder(settings) as folder,
        warnings_kept(folder / "run_logs" / "warnings.log"),
    ):
        logging.getLogger(PACKAGE).warning("something")
        recorded_seed(folder)
        recorded_start(folder)
        write_configuration(folder, RunOptions())
        mark_own(folder, Named(("python:a",)))
        _write_logs(folder)
        for write in (_write_status, _write_table, _write_curves, _write_checkpoint):
            with refusal(*errors, names=""):
                write(folder)
    _require_untouched("")


def _write_logs(run: Path) -> None:
    new_log(run / "run_logs", 0).path.write_text("of an engine")
    RunProcess([], run / "run_logs" / "trial.log", ("true",)).kill()
    Timers().save(run / "run_logs" / "timers.json", {})


def _write_status(run: Path) -> None:
    status = TrainingStatus(run / "run_logs" / "training_status.json")
    with contextlib.suppress(TrainingStatusError):
        status.load()
    status.save()


def _write_table(run: Path) -> None:
    CsvTable(run / "Ball" / FILE_NAME).append({"step": 1, "time": 0.0, "a": 2})


def _write_curves(run: Path) -> None:
    writer = TensorBoardWriter(run, clear_past_data=True)
    writer.write_stats("Ball", {REWARD: StatsSummary([1.0])}, 1)
    writer.close()


def _write_checkpoint(run: Path) -> None:
    manager = CheckpointManager("Ball", run, 1, TrainingStatus(run / "run_logs" / "training_status.json"))
    for step in (100, 200):
        manager.save(step, {"step": step}, export=lambda path: path.write_bytes(b"model") and None)
    manager.finish()


def seeds() -> list[bytes]:
    """Each file with one damage, in turn; others are drawn, for which there is `every`."""
    return [bytes((which, which % len(DAMAGES), 7 * which)) for which in range(len(FILES))]


def every() -> list[bytes]:
    """Each damage of each file, and each link and each text of some: minutes."""
    kinds = range(len(DAMAGES))
    found = [
        bytes((which, kind, 0)) for which in range(len(FILES)) for kind in kinds if DAMAGES[kind] is not _text
    ]
    link = DAMAGES.index(_link)
    found += [bytes((which, link, number)) for which in range(len(FILES)) for number in range(len(LINKS))]
    return found + [bytes((which, 0, number)) for which in range(5) for number in range(len(TEXTS))]


def another(data: bytes, random: Random) -> bytes:
    """Up to four damages, some of them those of the input."""
    kept = [data[at : at + 3] for at in range(0, len(data) - 2, 3)]
    added = [random.randbytes(3) for _ in range(random.randint(1, 2))]
    return b"".join([*random.sample(kept, min(len(kept), 2)), *added])


FOLDERS = {
    "folder": Target(seeds, read_folder, another),
    "folder_resumed": Target(seeds, carry_on_folder, another),
}
