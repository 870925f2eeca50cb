"""The command in CONTRIBUTING.md builds a complete documentation site."""

import re
import shlex
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
LOADED = {"img": "src", "script": "src", "iframe": "src", "link": "href"}
"""Attributes with URLs that a browser fetches by itself; it follows an `a` only on a click."""


class Page(HTMLParser):
    """What a page loads, its links, and its anchors."""

    def __init__(self, path):
        super().__init__()
        self.loads, self.leads, self.anchors = [], [], {""}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if tag in LOADED and attributes.get(LOADED[tag]):
            self.loads.append(attributes[LOADED[tag]])
        if tag == "a" and attributes.get("href"):
            self.leads.append(attributes["href"])
        self.anchors.add(attributes.get("id"))


def command():
    """The documented command, which writes to `build/site`."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^\.venv/bin/sphinx-build (.+)$", text, re.MULTILINE)
    return shlex.split(line)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    arguments = [str(folder) if part == "build/site" else part for part in command()]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site):
    return {path: Page(path) for path in site.rglob("*.html")}


def test_the_command_makes_an_error_of_every_warning():
    assert "-W" in command()


def test_every_page_is_in_the_site_and_in_the_navigation(site, pages):
    expected = {"README.html", "CONTRIBUTING.html", "CHANGELOG.html"}
    expected |= {page.relative_to(ROOT).with_suffix(".html").as_posix() for page in ROOT.glob("docs/**/*.md")}
    assert {path.relative_to(site).as_posix() for path in pages} >= expected
    assert expected - set(pages[site / "index.html"].leads) <= {"README.html"}, "`#` leads to the page itself"


def test_the_front_page_shows_the_picture(site, pages):
    front = pages[site / "index.html"]
    assert "_images/ball3d.gif" in front.loads
    assert (site / "_images" / "ball3d.gif").stat().st_size > 0


def test_cards_lead_on_from_the_front_page(site):
    front = (site / "index.html").read_text(encoding="utf-8")
    cards = re.findall(r'class="sd-stretched-link[^"]*" href="([^"]+)"', front)
    assert {"docs/getting-started.html", "docs/from-ml-agents.html", "docs/configuration.html"} <= set(cards)


def test_what_users_look_up_weighs_more_in_the_search_than_what_they_read_once(site):
    scorer = (ROOT / "docs/_ext/search_scorer.js").read_text(encoding="utf-8")
    assert scorer in (site / "_static/language_data.js").read_text(encoding="utf-8")


def test_the_site_works_without_a_network(site, pages):
    """No page or style sheet loads a font, script or image from elsewhere."""
    assert not [link for page in pages.values() for link in page.loads if urlsplit(link).netloc]
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert not re.findall(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//", styles)
    assert (site / "searchindex.js").exists(), "search needs no server"


def test_links_within_the_site_lead_to_files_and_headings_that_exist(pages):
    """Also those to files beside the pages, such as settings and tables."""
    broken = []
    for path, page in pages.items():
        for link in page.leads + page.loads:
            where = urlsplit(link)
            if where.scheme or where.netloc:
                continue
            target = (path.parent / unquote(where.path)).resolve() if where.path else path
            entered = pages[target].anchors if target in pages else {where.fragment}
            if not target.exists() or unquote(where.fragment) not in entered:
                broken.append((path.name, link))
    assert not broken
