"""Makes docs/gallery.md and the films of its scenes: `python docs/_ext/gallery_page.py [RESULTS]`.

RESULTS holds runs that were made with the commands of `lanista scenes`, under their run IDs. Every scene
whose run is there and has ended is played and filmed, and gets its line of films.csv; others keep what they
have. Without RESULTS only the page is written.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import yaml
from lanista.envs.scenes.registry import SCENES
from lanista.trainers.cli.runs.record import REWARD, RunRecord, is_run, read_run
from lanista.trainers.settings.presets import Preset, scene_preset
from lanista.trainers.settings.yaml_source import FOLDER as PRESETS
from lanista.trainers.settings.yaml_source import SUFFIX
from lanista.trainers.stats.event_files import event_files, read_curves
from PIL import Image, ImageSequence
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

DOCS = Path(__file__).resolve().parents[1]
FILMS = DOCS / "gallery"
LARGEST = 200_000
"""Bytes of a film."""
FORMS = ((480, 2, 128), (480, 2, 64), (480, 2, 32), (400, 2, 24), (360, 2, 16), (320, 3, 16), (260, 4, 12))
"""Width in pixels, how many steps a frame stands for, and colors: the first that is small enough is taken."""
STEPS = 120
STEP_MS = 60
EPISODES = 20
AREAS = {"ball3d": 4, "grid": 4, "basic": 1, "food": 1, "soccer-twos": 1, "pyramids": 1}
"""So many of a scene are filmed, two of others."""
LEARNED = {
    "ball3d": "Every agent tilts a box about two axes so that the ball stays on it.",
    "basic": "The goal close by pays little, the far one ten times as much: the agent passes by the first.",
    "baton-pass": "A runner fetches a ball and hands the baton on to one that joins then. What the "
    "successors fetch counts for those who have left, too.",
    "coop-push": "Three agents push blocks into a goal; the heavy ones take two or three of them.",
    "dungeon-escape": "One agent dies to kill the dragon, another takes the key that it leaves to the "
    "door. All are rewarded then, the dead one as well.",
    "food": "Agents gather good food, leave the bad, and freeze rivals: a move and a shot in one action.",
    "grid": "A camera sees two kinds of goals, and a goal signal names the one that is wanted.",
    "hallway": "An agent sees a symbol and remembers it to the end of the hall, where it chooses: an LSTM.",
    "pyramids": "A switch brings a pyramid, and that gold: one rare reward, found by looking for what "
    "is new.",
    "soccer-twos": "Two teams of two learn by playing against earlier versions of themselves.",
    "sorter": "Numbered tiles, touched in ascending order, however many there are: attention over entities.",
    "tennis": "Two rackets keep a ball in play, and learn from each other.",
    "wall-jump": "An agent jumps over low walls with one network, and over high ones from a block, which it "
    "pushes to the wall, with another.",
}


@dataclass(frozen=True)
class Film:
    """A line of films.csv: the run that was filmed."""

    scene: str
    max_steps: str
    """Of the behaviors whose budget was not the preset's, as `NAME=STEPS`."""
    steps: int
    """Of all behaviors together."""
    seconds: int
    """Of the whole process; of a run that was resumed, of all of them."""
    fastest: int
    """Steps per second between two summaries, where they were the most."""
    machine: str

    @property
    def path(self) -> Path:
        """The film."""
        return FILMS / f"{self.scene}.gif"


def read_films() -> dict[str, Film]:
    """What was filmed so far, by the scene."""
    with (FILMS / "films.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:]
    return {
        scene: Film(scene, budgets, int(steps), int(seconds), int(fastest), machine)
        for scene, budgets, steps, seconds, fastest, machine in rows
    }


def write_films(films: dict[str, Film]) -> None:
    """Write films.csv."""
    with (FILMS / "films.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(field.name for field in fields(Film))
        writer.writerows(astuple(film) for _, film in sorted(films.items()))


# Films ------------------------------------------------------------------------------------------------


def make_film(scene: str, run: RunRecord) -> Film:
    """Play a run, film it, and read what its training took."""
    preset = scene_preset(scene)
    steps = sum(behavior.steps for behavior in run.behaviors)
    machine = f"{psutil.cpu_count()} cores"
    film = Film(scene, _budgets(preset, run), steps, _seconds(run), _fastest(run), machine)
    with TemporaryDirectory() as folder:
        whole = Path(folder, "whole.gif")
        command = [sys.executable, "-m", "lanista.trainers.cli.main", "play", str(run.path)]
        areas = f"{'&' if '?' in preset.env else '?'}areas={AREAS.get(scene, 2)}"
        command += ["--env", preset.env + areas, "--episodes", str(EPISODES)]
        command += ["--render", str(whole), "--render-steps", str(STEPS), "--json"]
        played = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        film.path.write_bytes(small(whole))
    print(f"{scene}: {film.path.stat().st_size:,} bytes; {played['behaviors']}", flush=True)
    return film


def small(path: Path) -> bytes:
    """A GIF with fewer pixels, frames and colors, as small as the films of the page may be."""
    frames = [frame.convert("RGB") for frame in ImageSequence.Iterator(Image.open(path))]
    with TemporaryDirectory() as folder:
        for width, stride, colors in FORMS:
            made = _encode(frames, Path(folder, "small.gif"), width, stride, colors)
            if len(made) <= LARGEST:
                break
    return made


def _encode(frames: Sequence[Image.Image], path: Path, width: int, stride: int, colors: int) -> bytes:
    shown = min(1, width / frames[0].width)
    size = round(frames[0].width * shown), round(frames[0].height * shown)
    scaled = [frame.resize(size, Image.Resampling.BOX) for frame in frames[::stride]]
    some = scaled[:: max(1, len(scaled) // 6)]
    strip = Image.new("RGB", (size[0], size[1] * len(some)))
    for number, frame in enumerate(some):
        strip.paste(frame, (0, number * size[1]))
    palette = Image.new("P", (1, 1))  # half of it for what is large, half for what differs and may be small
    for_each = (
        strip.quantize(colors // 2, by) for by in (Image.Quantize.MEDIANCUT, Image.Quantize.MAXCOVERAGE)
    )
    palette.putpalette([value for part in for_each for value in (part.getpalette() or [])[: 3 * colors // 2]])
    first, *rest = (frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in scaled)
    first.save(path, save_all=True, append_images=rest, duration=stride * STEP_MS, loop=0, optimize=True)
    return path.read_bytes()


def _seconds(run: RunRecord) -> int:
    sessions = event_files(run.path / run.first.name)
    if len(sessions) == 1:
        times = run.timers["metadata"]
        return int(times["end_time_seconds"]) - int(times["start_time_seconds"])
    return sum(map(_span, sessions))


def _span(event_file: Path) -> int:
    times = [event.wall_time for event in EventFileLoader(str(event_file)).Load()]
    return round(times[-1] - times[0])


def _fastest(run: RunRecord) -> int:
    curve = read_curves(run.path / run.first.name).by_tag[REWARD]
    ends = list(zip(curve.steps, curve.times))
    return round(max((b - a) / (d - c) for (a, c), (b, d) in pairwise(ends)))


def _budgets(preset: Preset, run: RunRecord) -> str:
    """The behaviors that were trained for another number of steps than the preset's."""
    ours = yaml.safe_load((PRESETS / f"{preset.name}{SUFFIX}").read_text(encoding="utf-8"))["behaviors"]
    theirs = run.settings["behaviors"]
    steps = {name: theirs[name]["max_steps"] for name in ours if name in theirs}
    return " ".join(f"{name}={steps[name]}" for name in steps if steps[name] != int(ours[name]["max_steps"]))


# The page ---------------------------------------------------------------------------------------------


def page(films: dict[str, Film]) -> str:
    """docs/gallery.md."""
    return "\n".join([*_head(films), *(line for scene in sorted(SCENES) for line in _section(scene, films))])


def _head(films: dict[str, Film]) -> Iterator[str]:
    yield "# Gallery\n"
    yield "<!-- Made by `python docs/_ext/gallery_page.py`; edit the texts there. -->\n"
    yield "Every scene that comes with Lanista, what is learned in it, and the one command that trains it."
    yield "[Scenes](scenes.md) has their rules. What was trained is shown by `lanista play RUN_ID`, or"
    yield "`lanista play RUN_ID --watch` in a browser; without training,"
    yield "`lanista play --pretrained ball3d --watch` shows one of the"
    yield "[models that come with Lanista](pretrained.md).\n"
    if films:
        machines = " and ".join(sorted({film.machine for film in films.values()}))
        yield "The times are those of the runs in the pictures, from the command to its end, on"
        yield f"{machines} that a dozen other processes used as well. The speed is that between two"
        yield "summaries, where it was the highest: there the least ran beside it.\n"


def _section(scene: str, films: dict[str, Film]) -> Iterator[str]:
    film = films.get(scene)
    assert scene in LEARNED, f"{scene} is new: say in LEARNED what is learned in it"
    yield f"## {scene}\n"
    if film is not None:
        yield f"![Trained agents in {scene}](gallery/{film.path.name})\n"
    yield f"{LEARNED[scene]} [The rules](scenes.md#{scene}).\n"
    yield f"```sh\n{command(scene, film)}\n```\n"
    if film is not None:
        yield f"{film.steps:,} steps in {_duration(film.seconds)}; up to {film.fastest:,} steps per second.\n"


def command(scene: str, film: Film | None) -> str:
    """What trains in a scene as it was trained for its film, if there is one."""
    budgets = "" if film is None else film.max_steps
    more = [f"--set behaviors.{budget.replace('=', '.max_steps=')}" for budget in budgets.split()]
    return " ".join([scene_preset(scene).command(), *more])


def _duration(seconds: int) -> str:
    minutes, rest = divmod(seconds, 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def main(results: str | None = None) -> None:
    """Film what `results` has, and write the page."""
    films = read_films()
    for scene in sorted(SCENES) if results is not None else []:
        folder = Path(results or "", scene_preset(scene).name.rpartition("/")[2])
        run = read_run(folder) if is_run(folder) else None
        if run is None or run.state not in ("finished", "stopped"):
            print(f"{scene}: there is no run in {folder} that has ended")
            continue
        films[scene] = make_film(scene, run)
        write_films(films)
    (DOCS / "gallery.md").write_text(page(films), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:2])
