"""The page in a browser: quiet, alone, readable on a phone and in the dark."""

from __future__ import annotations

import shutil
from functools import cache

import pytest
from report_cases import labels, numbers, table

from onefold.report import gather

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs chromium or chrome (see .ci/run)")

CONTRASTS = """
() => {
  const parse = (text) => {
    const found = text.match(/[\\d.]+/g).map(Number);
    return found.length < 4 ? [...found, 1] : found;
  };
  const luminance = (rgb) => {
    const [r, g, b] = rgb.slice(0, 3).map((v) => v / 255)
      .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour[3] > 0) return colour;
    }
    return [255, 255, 255, 1];
  };
  const found = [];
  for (const node of document.querySelectorAll("body *:not(svg *):not(style)")) {
    const own = [...node.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !node.getClientRects().length) continue;
    const a = luminance(parse(getComputedStyle(node).color)), b = luminance(behind(node));
    found.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), node.textContent.slice(0, 40)]);
  }
  return found;
}
"""


OUTSIDE = """
() => [...document.querySelectorAll("body *")]
  .filter((n) => !n.closest(".scroll, svg, .skip") && n.getBoundingClientRect().right > innerWidth + 1)
  .map((n) => n.outerHTML.slice(0, 80))
"""


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as running:
        found = running.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield found
        found.close()


@cache
def html(kind: str) -> str:
    if kind == "table":
        frame, model = table()
        return gather(model, frame).html()
    X, y, estimator = {"numbers": numbers, "labels": labels}[kind]()
    return estimator.report(X=X, y=y).html()


@pytest.fixture(params=["numbers", "labels", "table"])
def path(request, tmp_path, pictures):
    place = tmp_path / "page.html"
    place.write_text(html(request.param), encoding="utf-8")
    return place


def opened(browser, path, **options):
    """The page in a context of its own; what it said and asked for is in `page.noise`."""
    page = browser.new_context(**options).new_page()
    page.noise = []
    page.on("console", lambda message: page.noise.append(message.text))
    page.on("pageerror", lambda error: page.noise.append(str(error)))
    page.on("request", lambda request: page.noise.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_load_state("load")
    return page


def test_a_page(browser, path):
    own = path.as_uri()
    grounds = []
    for scheme in ("light", "dark"):
        page = opened(browser, path, color_scheme=scheme, viewport={"width": 360, "height": 740})
        assert [said for said in page.noise if said != own and not said.startswith("data:")] == []
        assert page.locator("h1").count() == 1
        wide, room = page.evaluate(
            "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        )
        assert wide <= room
        outside = page.evaluate(OUTSIDE)
        assert outside == []
        faint = [one for one in page.evaluate(CONTRASTS) if one[0] < 4.5]
        assert faint == []
        grounds.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        page.context.close()
    assert grounds[0] != grounds[1]


def test_a_page_without_scripts_by_keyboard_and_on_paper(browser, path, tmp_path):
    page = opened(
        browser, path, java_script_enabled=False, reduced_motion="reduce", forced_colors="active"
    )
    assert "Scores" in page.locator("main").inner_text()
    assert page.locator("section").count() >= 9
    page.keyboard.press("Tab")
    assert page.locator("a:focus").inner_text() == "Skip to the report"
    assert page.locator("a:focus").bounding_box()["x"] >= 0
    assert len(page.pdf()) > 5_000
    page.context.close()


def test_reading_order_and_names_for_screen_readers(browser, path):
    page = opened(browser, path)
    assert page.get_by_role("main").count() == 1
    assert page.get_by_role("navigation").count() == 1
    for heading in page.get_by_role("region").all():
        assert heading.evaluate("n => n.getAttribute('aria-label') || n.getAttribute('aria-labelledby')")
    for link in page.get_by_role("navigation").get_by_role("link").all():
        assert page.locator(link.get_attribute("href")).count() == 1
    for drawn in page.get_by_role("img").all():
        assert drawn.evaluate("n => n.getAttribute('alt') || n.getAttribute('aria-labelledby')")
    page.context.close()
