"""The documentation is usable: links resolve, commands parse, examples run."""

import os
import re
import runpy
import shlex
import subprocess
import sys
from itertools import chain
from pathlib import Path

import install_lines
import lanista
import pytest
from lanista.docs._ext import algorithm_pages, gallery_page
from lanista.envs.scenes import client
from lanista.envs.scenes.registry import SCENES
from lanista.envs.unity import UnityEnvironment
from lanista.trainers.settings.command_line import parse_command_line
from lanista.trainers.settings.registry import trainer_types

ROOT = Path(__file__).parents[1]
PAGES = sorted(chain(ROOT.glob("*.md"), ROOT.glob("docs/**/*.md")))
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def name(page):
    return str(page.relative_to(ROOT))


def text(page):
    return page.read_text(encoding="utf-8")


def prose(page):
    """The page without its fenced and indented code."""
    return re.sub(r"^(?:    |\t).*$", "", FENCE.sub("", text(page)), flags=re.MULTILINE)


def anchors(page):
    """The fragments that headings of a page make, as code hosts make them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text(page)), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_files_and_headings_that_exist(page):
    broken = []
    for link in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, fragment = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (fragment and fragment not in anchors(target)):
            broken.append(link)
    assert not broken


@pytest.fixture
def described(monkeypatch):
    """What setup.py tells setuptools."""
    given = {}
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("setuptools.setup", given.update)
    runpy.run_path("setup.py")
    return given


def test_security_names_exactly_the_dependencies_of_setup_and_what_reaches_them(described):
    given = described
    names = re.compile(r"^[\w.-]+")
    needed = {names.match(one)[0] for one in given["install_requires"]}
    extras = {
        extra: {names.match(one)[0] for one in needs} for extra, needs in given["extras_require"].items()
    }
    rows = re.findall(r"^\| `(\w[\w-]*)` \| (.+) \|$", text(ROOT / "SECURITY.md"), flags=re.MULTILINE)
    cells = {name: re.split(r" \| ", rest) for name, rest in rows}
    assert {name for name, told in cells.items() if len(told) == 2} == needed
    listed = {name: set(re.findall(r"`([\w-]+)`", told[0])) for name, told in cells.items() if len(told) == 3}
    assert listed == {extra: needs for extra, needs in extras.items() if extra not in ("docs", "dev")}


def test_every_page_is_in_the_index():
    index = ROOT / "docs" / "README.md"
    listed = {(index.parent / link.partition("#")[0]).resolve() for link in LINK.findall(text(index))}
    missing = [name(page) for page in PAGES if page.is_relative_to(index.parent) and page != index]
    missing = [page for page in missing if (ROOT / page).resolve() not in listed]
    assert not missing


@pytest.mark.parametrize("trainer", trainer_types)
def test_every_algorithm_has_a_page_with_the_presets_of_today(trainer):
    page = text(algorithm_pages.FOLDER / f"{trainer}.md")
    assert algorithm_pages.table(trainer) in page, "run `python docs/_ext/algorithm_pages.py`"
    assert f"configuration.md#hyperparameters-trainer_type-{trainer})" in page
    assert algorithm_pages.with_settings(page, trainer) == page


def test_the_gallery_is_what_its_films_and_the_presets_say():
    films = gallery_page.read_films()
    assert text(gallery_page.DOCS / "gallery.md") == gallery_page.page(films), (
        "run `python docs/_ext/gallery_page.py`"
    )
    for scene in SCENES:
        words = shlex.split(gallery_page.command(scene, films.get(scene)))
        assert parse_command_line(words[1:]).behaviors


def test_every_film_of_the_gallery_is_small():
    films = gallery_page.read_films().values()
    assert {film.path for film in films} == set(gallery_page.FILMS.glob("*.gif"))
    assert all(film.path.stat().st_size <= gallery_page.LARGEST for film in films)


@pytest.mark.parametrize("purpose", ["train", "test"])
def test_the_readme_has_each_command_on_one_line(purpose):
    found = re.findall(
        rf"^<!-- command: {purpose} -->\n```sh\n(.+)\n```$", text(ROOT / "README.md"), flags=re.MULTILINE
    )
    assert len(found) == 1
    assert "-c constraints.txt" in found[0], "the tested versions are what a newcomer gets"


def test_the_readme_has_the_training_command_for_powershell_too():
    """Windows PowerShell 5.1 has no &&."""
    page = text(ROOT / "README.md")
    (bash,) = re.findall(r"^<!-- command: train -->\n```sh\n(.+)\n```$", page, re.MULTILINE)
    (powershell,) = re.findall(
        r"^<!-- command: train in PowerShell -->\n```powershell\n(.+)\n```$", page, re.MULTILINE
    )
    assert powershell == bash.replace("python3 ", "py ").replace(" &&", ";").replace(
        ".venv/bin/", ".venv\\Scripts\\"
    )


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_installs_lanista_as_it_can_be_had(page, described):
    """From a clone or the repository's address until the first release, then from an index."""
    page = text(page)
    assert install_lines.wrong_lines(page, released=install_lines.is_released(ROOT)) == []
    assert install_lines.extras(page) <= set(described["extras_require"])


def test_what_pages_and_presets_install_is_quoted_for_every_shell():
    """cmd takes no single quotes."""
    files = [*PAGES, *ROOT.glob("config/**/*.yaml"), *ROOT.glob("tests/benchmarks/pages/*.md")]
    assert [name(file) for file in files if re.search(r"pip install [^`\n]*'", text(file))] == []


def documented_commands():
    """Every `lanista-learn` line of the user's pages, cut where the shell would cut it."""
    pages = [
        ROOT / "README.md",
        *(ROOT / "docs" / f"{page}.md" for page in ("getting-started", "headless", "windows")),
    ]
    found = [block for page in pages for block in FENCE.findall(text(page))]
    blocks = [code for language, code in found if language in ("sh", "powershell")]
    lines = re.findall(r"(?:\.venv/bin/)?lanista-learn (.+)$", "\n".join(blocks), re.MULTILINE)
    return sorted({re.split(r" [>$]", line)[0] for line in lines})


@pytest.mark.parametrize("arguments", documented_commands())
def test_documented_training_commands_are_understood(arguments, monkeypatch):
    monkeypatch.chdir(ROOT)
    options = parse_command_line(arguments.split())
    assert "3DBall" in options.behaviors


def examples(page):
    return [code for language, code in FENCE.findall(text(ROOT / "docs" / page)) if language == "python"]


RUNNABLE = (
    *("callbacks.md", "demonstrations.md", "environments.md", "extending.md", "many-environments.md"),
    *("python-api.md", "wrappers.md"),
)
TALKING = "7f2ed3e4-30a4-4f57-9a4e-9f8e4c5e6d10"
"""In the game and the script of docs/environments.md that talk with each other: they have their own test."""


def runnable():
    return [code for page in RUNNABLE for code in examples(page) if TALKING not in code]


@pytest.mark.slow
@pytest.mark.parametrize("code", runnable())
def test_the_examples_run_as_they_stand(code, tmp_path):
    """Examples for Stable-Baselines3 run in the Python that LANISTA_SB3 names, which has it and Lanista."""
    python = sys.executable
    if "ray.rllib" in code:
        pytest.importorskip("ray.rllib", exc_type=ImportError)  # of ray alone it lacks packages
    if "stable_baselines3" in code:
        python = os.environ.get("LANISTA_SB3") or python
        if python == sys.executable:
            pytest.importorskip("stable_baselines3")
    command = [python, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_example_game_can_be_trained_with_the_settings_beside_it(tmp_path):
    """The game of docs/scenes.md has the one behavior of its YAML, and both work as printed."""
    page = text(ROOT / "docs" / "scenes.md")
    (settings,) = [code for language, code in FENCE.findall(page) if language == "yaml"]
    (tmp_path / "walk.yaml").write_text(settings, encoding="utf-8")
    options = parse_command_line([str(tmp_path / "walk.yaml"), "--env", "./walk.py"])
    namespace = {"__name__": "walk"}
    exec(examples("scenes.md")[0], namespace)
    world = namespace["Walk"](walkers=2)
    assert [behavior.partition("?")[0] for behavior in world.specs()] == list(options.behaviors)
    assert set(client.options_of(type(world))) == {"walkers"}


def test_the_example_callback_is_found_by_the_yaml_beside_it(tmp_path, monkeypatch):
    from lanista.trainers.callbacks.factory import make_callbacks
    from lanista.trainers.settings import RunOptions

    page = text(ROOT / "docs" / "callbacks.md")
    (settings,) = [code for language, code in FENCE.findall(page) if language == "yaml"]
    (tmp_path / "watch.py").write_text(examples("callbacks.md")[0], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    made = make_callbacks(RunOptions.from_text(settings))
    assert list(made) == ["stop_at_reward", "keep_best", "watch:Watch"] and made["watch:Watch"].every == 5
    sys.modules.pop("watch")


def test_the_example_game_is_an_environment_as_it_is_saved(tmp_path):
    """The file is not executable and has no shebang line."""
    (tmp_path / "walk.py").write_text(examples("scenes.md")[0], encoding="utf-8")
    env = UnityEnvironment(str(tmp_path / "walk.py"), additional_args=["--walkers", "3"])
    env.reset()
    env.step()
    assert len(env.get_steps("Walker?team=0")[0]) == 3
    env.close()


def test_the_container_image_has_all_files_of_an_installation(described):
    """`tests/container.sh` builds it, in minutes; this compares it with what setup.py takes."""
    recipe = text(ROOT / "docs/Dockerfile")
    copied = set(chain.from_iterable(line.split()[1:-1] for line in re.findall(r"^COPY.+$", recipe, re.M)))
    assert not [path for path in copied if not (ROOT / path).exists()]
    needed = {package.split(".")[1] for package in described["packages"] if "." in package}
    needed |= {path.name for path in ROOT.glob("*.py")}
    needed |= {
        "README.md",
        "pyproject.toml",
        "constraints.txt",
        *described["license_files"],
    }
    assert copied >= needed | set(described["package_data"]["lanista"])
    (program,) = re.findall(r'^ENTRYPOINT \["([^"]+)"\]$', recipe, re.MULTILINE)
    assert program in {script.split("=")[0] for script in described["entry_points"]["console_scripts"]}


def test_citation_and_changelog_name_this_version_with_the_same_date():
    """The version stands first, but for what is not released; one that never was released has no date."""
    headings = re.findall(r"^## (.+)$", text(ROOT / "CHANGELOG.md"), re.MULTILINE)
    dated = re.fullmatch(r"([^ ]+)(?: \((\d{4}-\d\d-\d\d)\))?", headings[headings[0] == "Unreleased"])
    assert dated and dated[1] == lanista.__version__
    citation = text(ROOT / "CITATION.cff")
    assert f"version: {lanista.__version__}\n" in citation
    assert re.findall(r'^date-released: "(.+)"$', citation, re.MULTILINE) == [dated[2]] * bool(dated[2])


def test_the_example_channel_talks_to_the_example_game(tmp_path):
    game, script = [code for code in examples("environments.md") if "SideChannel" in code and "uuid" in code]
    (tmp_path / "talking.py").write_text(game, encoding="utf-8")
    (tmp_path / "script.py").write_text(script, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
