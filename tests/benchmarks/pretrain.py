"""The trained models that come with Lanista: trains what is missing, and writes docs/pretrained.md.

    python tests/benchmarks/pretrain.py [--scenes basic ...] [--results FOLDER] [--page] [--only-finished]

For each scene it trains the preset that `lanista scenes` names, unless the results folder has that run, lets
the exported model play with its likeliest and with sampled actions, each in a process of its own, and keeps
the models in config/pretrained/SCENE with the card of the likeliest, unless sampled ones earn more by two
standard errors of the difference.
Scenes that are there already are skipped: delete the folder of one that is to be made anew. `--only-finished`
trains nothing, `--page` only writes the page.
"""

import argparse
import math
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from lanista.envs.scenes.registry import SCENES
from lanista.trainers.cli.runs.record import CARD, read_run
from lanista.trainers.settings.presets import scene_preset
from lanista.trainers.tools.card.markdown import read_card, shown
from lanista.trainers.tools.pretrained import PRETRAINED, find_pretrained, pretrained_names

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "pretrained.md"
MARKS = ("<!-- table -->\n", "<!-- end of the table -->\n")
LANISTA = (sys.executable, "-m", "lanista.trainers.cli.main")
SEED = 1
EPISODES = 100
"""Scored of each behavior and team, of groups where agents are in groups."""
MORE = {"basic": ["--set", "behaviors.Basic.max_steps=40000"]}
"""Arguments besides the preset's own."""
AIMS = {
    "ball3d": "100 (Unity: 100)",
    "basic": "0.93 (Unity: 0.93)",
    "baton-pass": "8",
    "coop-push": "just below 4",
    "dungeon-escape": "1 (Unity: 1)",
    "grid": "just below 1 (Unity: 0.8)",
    "hallway": "about 0.95 (Unity: 0.7)",
    "pyramids": "about 1.9 (Unity: 1.75)",
    "soccer-twos": "0 against itself",
    "sorter": "just below 2.5",
    "tennis": "0 against itself",
    "wall-jump": "just below 1 (Unity: 0.8)",
}
"""The best return in a scene of the size of its preset (docs/scenes.md); Unity's benchmark for its own."""


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scenes", nargs="+", choices=sorted(SCENES), default=sorted(SCENES))
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--only-finished", action="store_true")
    parser.add_argument("--page", action="store_true")
    arguments = parser.parse_args()
    for scene in [] if arguments.page else arguments.scenes:
        if scene not in pretrained_names():
            run = finished_run(scene, arguments.results, train=not arguments.only_finished)
            if run is not None:
                keep(scene, run)
    write_page()


def finished_run(scene, results, *, train):
    """The folder of the run of a scene's preset, trained first if it must be; None if it is not finished."""
    preset = scene_preset(scene)
    folder = results / preset.name.rpartition("/")[2]
    state = read_run(folder, brief=True).state if folder.is_dir() else "missing"
    if state != "finished" and train and state != "running":
        words = ["learn", "--preset", preset.name, *preset.arguments(), *MORE.get(scene, ())]
        words += ["--run-id", folder.name, "--seed", str(SEED), "--num-threads", "1"]
        resume = ["--resume"] if folder.is_dir() else []
        subprocess.run([*LANISTA, *words, "--results-dir", str(results), *resume], check=True)
        state = "finished"
    if state != "finished":
        print(f"{scene}: {folder} is {state}, and nothing is kept.", flush=True)
        return None
    return folder


def keep(scene, run):
    """Score the models of a run, and keep them with their card."""
    with tempfile.TemporaryDirectory() as temporary:
        cards = []
        for flags in ([], ["--sampled"]):
            card = Path(temporary) / f"{len(cards)}.md"
            words = ["card", str(run), "-o", str(card), "--name", scene, "--episodes", str(EPISODES), *flags]
            subprocess.run([*LANISTA, *words], check=True)
            cards.append(card)
        likeliest, sampled = map(mean_and_error, cards)
        best = cards[sampled[0] - likeliest[0] > 2 * math.hypot(likeliest[1], sampled[1])]
        target = PRETRAINED / scene
        target.mkdir(parents=True)
        for model in read_card(best)["models"]:
            shutil.copyfile(run / model["file"], target / model["file"])
        shutil.copyfile(best, target / CARD)


def mean_and_error(card):
    """The mean return over the behaviors of a card, and its standard error."""
    behaviors = list(read_card(card)["score"]["behaviors"].values())
    errors = [one["std"] / (one.get("groups") or one["episodes"]) ** 0.5 for one in behaviors]
    return sum(one["mean"] for one in behaviors) / len(behaviors), sum(errors) / len(behaviors)


def table():
    """The scenes with a trained model, from their cards."""
    lines = [
        "| scene | mean return | at best | actions | episodes | kB | card in `config/pretrained` |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in map(find_pretrained, pretrained_names()):
        counts = [
            f"{b.get('groups', b.get('episodes'))}{' of groups' * ('groups' in b)}"
            for b in one.facts["score"]["behaviors"].values()
        ]
        size = sum(model["bytes"] for model in one.facts["models"]) / 1000
        cells = (
            f"`{one.environment[0]}`",
            shown(one.score),
            AIMS.get(one.name, ""),
            one.facts["score"]["actions"],
            ", ".join(dict.fromkeys(counts)),
            f"{size:.0f}",
            f"`{one.name}/{CARD}`",
        )
        lines.append(f"| {' | '.join(cells)} |")
    missing = sorted(set(SCENES) - set(pretrained_names()))
    lines += ["", f"There is none yet of {', '.join(missing)}."] if missing else []
    return "\n".join(lines) + "\n"


def write_page():
    """Put today's table into the page."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(MARKS[0])
    PAGE.write_text(f"{before}{MARKS[0]}{table()}{MARKS[1]}{rest.split(MARKS[1])[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
