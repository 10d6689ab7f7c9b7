"""Opens every page of the documentation in a browser, wide and narrow, and says what is wrong: `make docs-look`.

    python docs/look.py site [--pictures FOLDER] [page.html ...]

Playwright drives the Chromium or Chrome of this machine. The pages come from a server here; what asks for another
address fails, and is named. A page must fit the window: what is wider scrolls in a box of its own. Formulas must be
set, pictures loaded, and links between pages lead somewhere. The search and the menu of a narrow window are tried too.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urlencode, urljoin, urlsplit

from playwright.sync_api import Page, Request, expect, sync_playwright

WIDTHS = (1280, 400)
# no name of another machine is known, and no process of the browser is shut in, which a container may not allow
ALONE = ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--no-sandbox"]
SEARCHED = (
    "install", "pretrained", "cold start", "implicit feedback", "out of vocabulary", "GPU", "memory",
    "surprisal", "perplexity", "plugin", "tagger", "word vectors", "recommendations", "unknown words",
)  # fmt: skip
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

# What a page tells of itself. What ends beyond the window sticks out, unless a box around it in the article scrolls.
LOOK = """() => {
  const width = document.documentElement.clientWidth;
  const article = document.querySelector(".bd-article") ?? document.body;
  const scrolls = (box) => ["auto", "scroll"].includes(getComputedStyle(box).overflowX);
  const boxed = (e) => {
    for (let box = e.parentElement; box && !box.contains(article); box = box.parentElement)
      if (scrolls(box) && box.getBoundingClientRect().right <= width + 1) return true;
    return false;
  };
  const out = [];
  for (const e of document.querySelectorAll(".bd-main *")) {
    const box = e.getBoundingClientRect();
    if (box.width && box.height && box.right > width + 1 && !boxed(e)) out.push(e);
  }
  const inner = out.filter((e) => !out.some((other) => other !== e && e.contains(other)));
  const text = (e) => `<${e.localName}> ${e.textContent.trim().slice(0, 60)}`;
  const all = (query) => [...document.querySelectorAll(query)];
  return {
    width: document.documentElement.scrollWidth - width,
    outside: inner.map(text),
    cut: all(".bd-article pre, .bd-article div.math").filter(
      (e) => e.scrollWidth > e.clientWidth + 1 && !scrolls(e)).map(text),
    unset: all(".bd-article .math").filter((e) => !e.querySelector("mjx-container")).map(text),
    wrong: all("mjx-merror, [data-mjx-error]").map(text),
    missing: all(".bd-article img").filter((e) => !e.naturalWidth).map((e) => e.src),
    links: all("a[href]").map((e) => e.href),
    names: all("[id]").map((e) => e.id),
    heading: document.querySelectorAll(".bd-article h1").length,
  };
}"""
SAID = {
    "outside": "sticks out of the window",
    "cut": "is cut off",
    "unset": "is a formula that was not set",
    "wrong": "is a formula with an error",
    "missing": "is a picture that is not there",
}


class Files(SimpleHTTPRequestHandler):
    """The site, without a log."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Server(ThreadingHTTPServer):
    """A server that lets a browser go away in the middle of a file."""

    def handle_error(self, *_: object) -> None:
        """Say nothing: the browser says what it did not get."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on this machine; yield the address, which ends with a slash."""
    handler = partial(Files, directory=str(folder))
    with Server(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@contextmanager
def browser() -> Iterator[Any]:
    """Start the Chromium or Chrome of this machine, or else the one that Playwright has installed."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=ALONE)
        yield started
        started.close()


def note_failure(problems: list[str], sent: Request) -> None:
    """Note what could not be loaded; what a reader left before it was there is no fault."""
    if sent.failure != "net::ERR_ABORTED":
        problems.append(f"not loaded: {sent.url} ({sent.failure})")


def look(page: Page, address: str, problems: list[str]) -> dict[str, Any]:
    """Open a page at the present width, note what is wrong with it, and return what it tells."""
    name = urlsplit(address).path.lstrip("/")
    width = (page.viewport_size or {})["width"]
    page.goto(address, wait_until="load")
    page.evaluate("() => window.MathJax?.startup?.promise")
    told: dict[str, Any] = page.evaluate(LOOK)
    if told["width"] > 0:
        problems.append(
            f"{name} at {width}: the page is {told['width']} pixels wider than the window"
        )
    for kind, words in SAID.items():
        problems.extend(f"{name} at {width}: {each!r} {words}" for each in told[kind])
    if told["heading"] != 1 and name != "search.html":
        problems.append(f"{name}: {told['heading']} titles instead of one")
    return told


def check_links(told: dict[str, dict[str, Any]], folder: Path, root: str) -> Iterator[str]:
    """Yield every link between pages that leads to no page, or to no place of one."""
    for address, page in told.items():
        for link in dict.fromkeys(page["links"]):
            target, place = urldefrag(urljoin(address, link))
            if not target.startswith(root):
                continue
            path = unquote(urlsplit(target).path).lstrip("/")
            if not (folder / path).exists():
                yield f"{address.removeprefix(root)}: no page {path}"
            elif place and target in told and unquote(place) not in told[target]["names"]:
                yield f"{address.removeprefix(root)}: no place {place} on {path}"


def try_search(page: Page, root: str) -> None:
    """Search as a reader does: the button, a word, the first of the pages found."""
    page.goto(root + "index.html")
    page.locator("button.search-button__button:visible, .search-button-field:visible").first.click()
    page.keyboard.type("surprisal")
    page.keyboard.press("Enter")
    found = page.locator("#search-results ul.search li a").first
    expect(found).to_be_visible()
    found.click()
    expect(page.locator(".bd-article h1").first).to_be_visible()


def check_search(page: Page, root: str) -> Iterator[str]:
    """Yield the words for which a search does not find a guide first."""
    for words in SEARCHED:
        page.goto(f"{root}search.html?{urlencode({'q': words})}")
        found = page.locator("#search-results ul.search li a").first
        expect(found).to_be_visible()
        first = urlsplit(found.evaluate("link => link.href")).path.lstrip("/")
        if first.startswith(("api/", "results", "genindex")):
            yield f"a search for {words!r} finds {first} first"


def try_menu(page: Page, root: str) -> None:
    """Open the menu of a narrow window, and go to a section by it."""
    page.goto(root + "index.html")
    page.locator("button.primary-toggle:visible").click()
    link = page.locator(".bd-sidebar-primary a:visible, dialog[open] a:visible").get_by_text(
        "Reference", exact=True
    )
    link.first.click()
    expect(page.locator(".bd-article h1").first).to_contain_text("Reference")


def main() -> None:
    """Look at all pages, or at those named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("site", type=Path, help="the folder that `make docs` made")
    parser.add_argument("pages", nargs="*", help="pages within it; all if none is given")
    parser.add_argument("--pictures", type=Path, help="a folder for a picture of every page")
    options = parser.parse_args()
    every = sorted(
        path.relative_to(options.site).as_posix() for path in options.site.rglob("*.html")
    )
    pages = options.pages or [name for name in every if not name.startswith("_")]
    problems: list[str] = []
    told: dict[str, dict[str, Any]] = {}
    with served(options.site) as root, browser() as started:
        for width in WIDTHS:
            page = started.new_page(viewport={"width": width, "height": 900})
            page.on("pageerror", lambda error: problems.append(f"an error of a script: {error}"))
            page.on("requestfailed", partial(note_failure, problems))
            for name in pages:
                told[root + name] = look(page, root + name, problems)
                if options.pictures:
                    place = options.pictures / str(width) / name
                    page.screenshot(path=place.with_suffix(".png"), full_page=True)
            if not options.pages:
                (try_search if width == max(WIDTHS) else try_menu)(page, root)
            if not options.pages and width == max(WIDTHS):
                problems.extend(check_search(page, root))
            page.close()
        problems.extend(check_links(told, options.site, root))
    found = list(dict.fromkeys(problems))
    widths = " and ".join(map(str, WIDTHS))
    print(*found, f"pages, at {widths} pixels: {len(pages)}; problems: {len(found)}", sep="\n")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
