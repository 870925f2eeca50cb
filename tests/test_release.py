"""The command that makes a release: what it refuses, what it changes, and that it ends before the upload."""

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import install_lines
import pytest
import release
import yaml

ROOT = Path(__file__).parents[1]
CHANGED = ("_version.py", "CITATION.cff", "CHANGELOG.md", "README.md")
CURRENT = runpy.run_path(str(ROOT / "_version.py"))["__version__"]
VERSION = "9.8.7"


def commit(root):
    identity = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.com"]
    release.git(root, "add", "--all")
    release.git(root, *identity, "commit", "--quiet", "--message", "before")


@pytest.fixture
def checkout(tmp_path):
    """What a release changes of this checkout, committed in another one."""
    root = tmp_path / "checkout"
    for name in [*CHANGED, *(str(page.relative_to(ROOT)) for page in ROOT.glob("docs/**/*.md"))]:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    changelog = root / "CHANGELOG.md"
    text = changelog.read_text(encoding="utf-8")
    changelog.write_text(release.UNRELEASED.sub("## Unreleased\n\n- A change.\n\n", text), encoding="utf-8")
    release.git(root, "init", "--quiet", "--initial-branch", "main")
    commit(root)
    return root


def dirty(root):
    (root / "forgotten.py").touch()


def tagged(root):
    release.git(root, "tag", f"v{VERSION}")


def detached(root):
    release.git(root, "checkout", "--quiet", "--detach")


def nothing_new(root):
    release.replace(root / "CHANGELOG.md", "^- A change.$", "")
    commit(root)


@pytest.mark.parametrize(
    ("version", "prepare", "message"),
    [
        (VERSION, dirty, "not committed.*\n.*forgotten.py"),
        (VERSION, tagged, f"there is a tag v{VERSION} already"),
        (VERSION, detached, "found no branch"),
        (VERSION, nothing_new, "nothing under '## Unreleased'"),
        ("new", None, r"found version 'new'; expected one such as 0\.2\.0"),
        ("v9.8", None, "found version 'v9.8'; expected '9.8'"),
        ("9.8.0-rc1", None, "expected '9.8.0rc1'"),
        ("9.8+mine", None, "expected '9.8'"),
        ("0.0.9", None, "not newer than"),
        (CURRENT, None, "not newer than"),
    ],
)
def test_what_cannot_be_released_is_refused_before_anything_is_written(checkout, version, prepare, message):
    if prepare:
        prepare(checkout)
    before = release.git(checkout, "status", "--porcelain")
    with pytest.raises(SystemExit, match=message):
        release.main([version, "--without-installs"], root=checkout)
    assert release.git(checkout, "status", "--porcelain") == before


def test_version_and_date_are_the_same_everywhere_also_the_second_time(checkout):
    for version, day in ((VERSION, "2031-02-03"), ("9.9", "2031-04-05")):
        release.change(checkout, version, day)
        texts = {name: release.read(checkout / name) for name in CHANGED}
        assert f'__version__ = "{version}"\n' in texts["_version.py"]
        assert texts["CITATION.cff"].count(f'version: {version}\ndate-released: "{day}"\n') == 1
        assert texts["CITATION.cff"].count("date-released") == 1
        assert f"## Unreleased\n\n## {version} ({day})\n" in texts["CHANGELOG.md"]
        assert not release.notes(checkout)
    assert f"## 9.9 (2031-04-05)\n\n## {VERSION} (2031-02-03)\n\n- A change.\n" in texts["CHANGELOG.md"]


def test_after_a_release_pages_install_from_an_index(checkout):
    release.change(checkout, VERSION, "2031-02-03")
    assert install_lines.is_released(checkout)
    pages = [checkout / "README.md", *checkout.glob("docs/**/*.md")]
    wrong = {page.name: install_lines.wrong_lines(release.read(page), released=True) for page in pages}
    assert not {name: lines for name, lines in wrong.items() if lines}
    assert '\n  - pip install "lanista[ray]"\n' in release.read(checkout / "docs" / "many-machines.md")
    assert "`pip install lanista`" in release.read(checkout / "README.md")


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ('`pip install -e ".[hub]"` in the clone.', '`pip install "lanista[hub]"`.'),
        (
            'pip install -c constraints.txt -e ".[gymnasium,pettingzoo]" mpe2',
            'pip install "lanista[gymnasium,pettingzoo]" mpe2',
        ),
        ('pip install -e "path/to/lanista[ray]"', 'pip install "lanista[ray]"'),
        ('- pip install "lanista[ray] @ git+<address of this repository>"', '- pip install "lanista[ray]"'),
        ("pip install -c constraints.txt -e . && lanista-learn", None),
        ('pip install -c constraints.txt -e ".[dev]"', None),
        ("pip install gymnasium", None),
    ],
)
def test_a_line_before_and_after_a_release(line, after):
    assert install_lines.from_index(line) == (after or line)
    assert not install_lines.wrong_lines(line, released=False)
    assert not install_lines.wrong_lines(after or line, released=True)
    if after:
        assert install_lines.wrong_lines(line, released=True) and install_lines.wrong_lines(
            after, released=False
        )


@pytest.mark.parametrize(
    "line", ["pip install 'lanista[ray]'", "pip install -e '.[ray]'", "pip install lanista[ray]"]
)
def test_a_line_that_some_shell_does_not_take_is_wrong(line):
    assert install_lines.wrong_lines(line, released=False) and install_lines.wrong_lines(line, released=True)


@pytest.mark.posix("the workflow's step is for its shell")
@pytest.mark.parametrize(("tag", "published"), [(f"v{CURRENT}", True), (CURRENT, False), ("v9.8.7", False)])
def test_the_workflow_publishes_what_its_tag_names_alone(tag, published):
    workflow = yaml.safe_load(release.read(ROOT / ".github" / "workflows" / "release.yml"))
    steps = workflow["jobs"]["publish"]["steps"]
    (check,) = (step["run"] for step in steps if step.get("name") == "The tag is the version")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["sh", "-c", check], cwd=ROOT, check=False, env={"PATH": path, "GITHUB_REF_NAME": tag}
    )
    assert (done.returncode == 0) is published


@pytest.mark.slow
def test_a_release_of_a_clone(tmp_path):
    """Without the installs, which take minutes and gigabytes: tests/fresh_installs.sh."""
    root = tmp_path / "clone"
    release.git(tmp_path, "clone", "--quiet", str(ROOT), str(root))
    release.git(root, "checkout", "--quiet", "-B", "main")
    for key in ("name", "email"):
        release.git(root, "config", f"user.{key}", "somebody@example.com")
    changelog = release.read(root / "CHANGELOG.md")
    if not release.notes(root):
        release.replace(root / "CHANGELOG.md", "^## Unreleased$", "## Unreleased\n\n- A change.\n")
        commit(root)
    text, before = release.notes(root), release.git(root, "rev-parse", "HEAD")
    command = [sys.executable, "tests/release.py", VERSION, "--without-installs"]

    def run(*more):
        return subprocess.run(
            [*command, *more], cwd=root, check=True, stdout=subprocess.PIPE, text=True
        ).stdout

    assert "Nothing was changed here" in run("--dry-run")
    assert release.git(root, "rev-parse", "HEAD") == before and not (root / "dist").exists()
    assert not release.git(root, "tag", "--list", f"v{VERSION}")

    printed = run()
    assert release.git(root, "rev-list", f"{before}..v{VERSION}^{{commit}}").count("\n") == 0
    assert release.git(root, "rev-parse", f"v{VERSION}^{{commit}}") == release.git(root, "rev-parse", "HEAD")
    assert release.git(root, "cat-file", "-t", f"v{VERSION}") == "tag"
    assert release.git(root, "for-each-ref", "--format=%(contents)", f"refs/tags/v{VERSION}").endswith(text)
    assert not release.git(root, "status", "--porcelain")
    assert f"## {VERSION} (" in release.read(root / "CHANGELOG.md") != changelog
    files = {f"lanista-{VERSION}-py3-none-any.whl", f"lanista-{VERSION}.tar.gz", f"notes-{VERSION}.md"}
    assert {path.name for path in (root / "dist").iterdir()} == files
    upload, push = (line.strip() for line in printed.splitlines()[-2:])
    assert re.fullmatch(rf"twine upload dist/lanista-{VERSION}\S+ dist/lanista-{VERSION}\S+", upload)
    assert push == f"git push origin main v{VERSION}"
