"""Builds the site of the Markdown as it stands: `sphinx-build -W -E -c docs . build/site`.

The source is the repository's root, so that a link leads to the same place here and on a host of Git, and
files beside the pages (settings, tables) come along. The order of the pages is that of `docs/README.md`.
"""

import re
import shutil
import sys
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "_ext"))

from front_page import cards  # noqa: E402

VERSION = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)
# Of the index: a heading, or the page that a row of a table names first.
ENTRY = re.compile(r"^## (?P<caption>.+)$|^\| \[(?P<title>[^\]]+)\]\((?P<page>[^)#]+)\.md\)", re.MULTILINE)

project = "Lanista"
extensions = ["myst_parser", "sphinx_copybutton", "sphinx_design"]
root_doc = "README"
include_patterns = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "docs/**.md"]
exclude_patterns = [".*", "*.egg-info", "build", "dist", "results", "venv"]

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
smartquotes = False  # flags that are named in prose keep both dashes
highlight_language = "none"  # for blocks that name no language

copybutton_exclude = ".linenos, .gp, .go"
html_theme = "furo"
html_logo = html_favicon = "pictures/logo.svg"
html_search_scorer = str(ROOT / "docs" / "_ext" / "search_scorer.js")
html_title = "Lanista " + VERSION.findall((ROOT / "_version.py").read_text(encoding="utf-8"))[0]
html_copy_source = False
html_show_copyright = False
html_static_path = ["site.css"]
html_css_files = ["site.css"]


def navigation(index: str) -> str:
    """The tables of the index as Sphinx's tables of contents, one under each heading.

    Args:
        index: the Markdown of `docs/README.md`, whose links are relative to `docs`.
    """
    lines = ["```{toctree}", ":hidden:", "All pages <docs/README>", "```"]
    for entry in ENTRY.finditer(index):
        if entry["caption"]:
            lines += ["```{toctree}", ":hidden:", f":caption: {entry['caption']}", "```"]
        else:
            page = f"docs/{entry['page']}".replace("docs/../", "")
            lines.insert(-1, f"{entry['title']} <{page}>")
    return "\n".join(lines)


def add_navigation(app: Sphinx, page: str, source: list[str]) -> None:
    """Puts cards before the front page's second heading, and behind its text the tables of contents."""
    if page == root_doc:
        source[0] = source[0].replace("\n## ", f"\n{cards()}\n## ", 1)
        source[0] += "\n" + navigation((ROOT / "docs" / "README.md").read_text(encoding="utf-8"))


def name_front_page(app: Sphinx, error: Exception | None) -> None:
    """Servers look for `index.html`; links inside the site lead to `README.html`."""
    if error is None and app.builder.name == "html":
        shutil.copyfile(Path(app.outdir) / "README.html", Path(app.outdir) / "index.html")


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", add_navigation)
    app.connect("build-finished", name_front_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
