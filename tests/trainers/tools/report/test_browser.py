"""A report in a real browser: nothing fails, nothing is fetched, everything is drawn and fits the window."""

import threading

import browser
import pytest
from lanista.trainers.cli.page_server import PageServer
from lanista.trainers.cli.runs.record import read_run
from lanista.trainers.tools.report.command import report
from lanista.trainers.tools.report.contents import RunResult, group_runs
from lanista.trainers.tools.report.page import make_page
from made_runs import make_run, write

pytestmark = pytest.mark.skipif(browser.find() is None, reason=browser.WHY_NOT)

HOSTILE = "<script>window.harmed = 1</script>\"'<img src=x onerror='window.harmed = 2'>&amp;\x1b[31m"
WIDE = "a-run-whose-name-is-long-" + 4 * "and-has-no-space-"
WINDOWS = [(width, dark) for width in (390, 1600) for dark in (False, True)]


@pytest.fixture(scope="module")
def chromium():
    with browser.running(browser.find()) as running:
        yield running


@pytest.fixture
def tab(chromium):
    with chromium.tab() as tab:
        yield tab


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Three seeds, one run with other settings, and names that are none."""
    folder = tmp_path_factory.mktemp("results")
    for seed in range(3):
        make_run(folder, f"ball-{seed}", seed=seed, rewards=[seed + k / 10 for k in range(50)])
    make_run(folder, WIDE, rate=0.01, rewards=[k / 20 for k in range(50)])
    made = make_run(folder, "hostile", rate=0.5, behavior=HOSTILE.replace("/", "|"), rewards=[1.0, 2.0, 3.0])
    (made / "run_logs" / "warnings.log").write_text(HOSTILE)
    others = {path.name: path for path in sorted(folder.iterdir()) if path != made}
    return others | {HOSTILE: made}


@pytest.fixture(scope="module")
def page(runs, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(report(runs), encoding="utf-8")
    return path


PAINTED = """[...document.querySelectorAll(".plot")].map((box) => {
  const canvas = box.querySelector("canvas");
  if (!canvas) return box.clientWidth === 0 ? "closed" : "empty";
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const colors = new Set();
  for (let k = 0; k < pixels.length; k += 4)
    if (pixels[k + 3] === 255) colors.add(pixels[k] << 16 | pixels[k + 1] << 8 | pixels[k + 2]);
  return colors.size > 1 ? "painted" : "blank";
})"""
"""What each chart shows; a chart in a section that is closed is drawn when that opens."""

BEYOND = """[...document.querySelectorAll("main *")].filter((one) =>
  !one.closest(".scroll, pre, .plot") && one.getBoundingClientRect().right > innerWidth + 1
).map((one) => one.outerHTML.slice(0, 120))"""
"""Elements that reach beyond the window, but for what scrolls by itself."""


@pytest.mark.parametrize(("width", "dark"), WINDOWS)
def test_a_report_opens_from_disk_and_is_drawn(tab, page, width, dark):
    tab.open(page.as_uri(), width, dark)
    assert tab.errors == []
    assert [url for url in tab.requests if not url.startswith("data:")] == [page.as_uri()]
    assert tab.evaluate("innerWidth") == width
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.evaluate(BEYOND) == []
    painted = tab.evaluate(PAINTED)
    assert "painted" in painted and set(painted) <= {"painted", "closed"}
    tab.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    tab.settle()
    assert set(tab.evaluate(PAINTED)) == {"painted"} and tab.evaluate(BEYOND) == []


def test_dark_and_light_are_each_readable(tab, page):
    """The contrast of text to background by WCAG 2 is at least 4.5 for all that is not a name's color."""
    shades = []
    for dark in (False, True):
        tab.open(page.as_uri(), 1600, dark)
        text, muted, ground = (
            tab.evaluate(f"getComputedStyle(document.querySelector({one!r})).{style}")
            for one, style in (("body", "color"), (".note", "color"), ("body", "backgroundColor"))
        )
        assert contrast(text, ground) >= 4.5 and contrast(muted, ground) >= 4.5
        shades.append(luminance(ground))
    assert shades[0] > 0.8 and shades[1] < 0.1


def luminance(color):
    """Of `rgb(r, g, b)`, by WCAG 2."""
    parts = [int(part) / 255 for part in color.removeprefix("rgb(").removesuffix(")").split(",")]
    red, green, blue = (x / 12.92 if x <= 0.03928 else ((x + 0.055) / 1.055) ** 2.4 for x in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


def test_names_are_shown_and_not_executed(tab, page):
    tab.open(page.as_uri(), 1600)
    tab.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    shown = tab.evaluate("document.body.textContent")
    assert HOSTILE.partition("\x1b")[0] in shown and "\x1b" not in shown
    assert tab.evaluate("window.harmed") is None
    assert tab.evaluate("document.querySelectorAll('main img, main script:not(#curves)').length") == 0


def test_a_button_hides_the_lines_of_its_runs(tab, page):
    tab.open(page.as_uri(), 1600)
    picture = "document.querySelector('.plot canvas').toDataURL()"
    before = tab.evaluate(picture)
    tab.evaluate("document.querySelector('button[data-group]').click()")
    tab.settle()
    assert tab.evaluate(picture) != before
    assert tab.evaluate("document.querySelector('button[data-group]').ariaPressed") == "false"


def test_a_page_that_is_watched_follows_its_runs(tab, tmp_path):
    run = make_run(tmp_path, "ball")

    def content():
        return make_page(group_runs([RunResult.read(read_run(run))]), refresh=0.1).encode()

    with PageServer(content) as server:
        thread = threading.Thread(target=server.serve)
        thread.start()
        tab.open(server.address, 1600)
        write(run, "Ball", {900: 7.0})
        steps = "JSON.parse(document.getElementById('curves').textContent).charts[0].x.at(-1)"
        while tab.evaluate(steps) != 900:
            tab.settle()
        tab.settle()
        assert set(tab.evaluate(PAINTED)) <= {"painted", "closed"}
        assert tab.errors == [] and set(tab.requests) == {server.address}
        server.stop()
        thread.join()
