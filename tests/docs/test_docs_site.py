"""The site builds without a warning and loads nothing from elsewhere.

Generated pages say what the code says; examples are short, and run.
"""

from __future__ import annotations

import functools
import http.server
import importlib
import importlib.util
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import batch, forked

from leakbound import __version__

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
REPOSITORY = "https://github.com/example/leakbound"
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")
NAMED_TEST = re.compile(r"`(tests/[\w/]+\.py)?(?:::(test_\w+))?`")
EXTENDING = re.findall(
    r"^```python\n(.*?)^```", (DOCS / "extending.md").read_text(), flags=re.M | re.S
)
MOVED = "the page was made from other docstrings or options; run `make catalogue`"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site: every page is in the navigation, every link and anchor leads somewhere."""
    for name in ("mkdocs", "material", "mkdocstrings"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    folder = tmp_path_factory.mktemp("site")
    build = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "--site-dir",
        str(folder),
    ]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "REPOSITORY": REPOSITORY}
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, env=quiet)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr, done.stderr
    return folder


@pytest.mark.slow
def test_every_page_is_built(site: Path) -> None:
    pages = {p.relative_to(DOCS).with_suffix("").as_posix() for p in DOCS.rglob("*.md")}
    built, copied = (
        {p.relative_to(site).with_suffix("").as_posix() for p in site.rglob(f"*.{kind}")}
        for kind in ("html", "md")
    )
    assert pages <= built
    listed = re.findall(r"\]\(([\w/-]+)\.md\):", (site / "llms.txt").read_text())
    assert set(listed) == pages == copied


@pytest.mark.slow
def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    """Anchors may lead anywhere; images, styles, scripts and fonts are files of the site."""
    loads = re.compile(
        r"<(?:img|script|iframe|source)\b[^>]*\bsrc=[\"']?(?:https?:)?//"
        r"|<link\b[^>]*rel=[\"']?(?:stylesheet|preconnect|icon)[^>]*href=[\"']?(?:https?:)?//"
    )
    for page in site.rglob("*.html"):
        assert not loads.search(page.read_text()), page.name


@pytest.mark.slow
def test_a_browser_on_the_site_contacts_the_site_only(
    site: Path, served: str, browser: Any
) -> None:
    browser.get(f"{served}/index.html")
    browser.get(f"{served}/statistics.html")
    assert browser.find_element("css selector", "h1").text
    asked = requested(browser)
    assert f"{served}/statistics.html" in asked
    assert not [url for url in asked if url.startswith("http") and not url.startswith(served)]


@pytest.mark.slow
def test_the_site_works_from_its_folder(site: Path, browser: Any) -> None:
    """Search, colours, version and repository of a page that is opened as a file; no host is asked,
    though the repository is on one that the theme would ask for its stars."""
    wait = importlib.import_module("selenium.webdriver.support.ui").WebDriverWait(browser, 120)
    browser.get(site.joinpath("index.html").as_uri())
    browser.find_element("name", "query").send_keys("sweep")
    wait.until(lambda _: browser.find_elements("css selector", ".md-search-result__link"))
    first = browser.find_element("css selector", ".md-search-result__link").get_attribute("href")
    assert first.startswith(f"{site.as_uri()}/runs.html")

    def scheme() -> str:
        return str(browser.find_element("tag name", "body").get_attribute("data-md-color-scheme"))

    for colours, named in (("dark", "slate"), ("light", "default")):
        seen = {"name": "prefers-color-scheme", "value": colours}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [seen]})
        wait.until(lambda _, named=named: scheme() == named)
    browser.get(site.joinpath("index.html").as_uri())
    for named in ("default", "slate"):
        click = "document.querySelector('.md-header__option label:not([hidden])').click()"
        browser.execute_script(click)
        wait.until(lambda _, named=named: scheme() == named)
    assert __version__ in browser.find_element("css selector", ".md-header__title").text
    link = browser.find_element("css selector", ".md-header a.md-source")
    assert link.get_attribute("href") == REPOSITORY
    assert not [url for url in requested(browser) if url.startswith("http")]


def requested(browser: Any) -> list[str]:
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [e["params"] for e in events if e["method"] == "Network.requestWillBeSent"]
    return [one["request"]["url"] for one in sent]


@pytest.fixture
def served(site: Path) -> Iterator[str]:
    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.mark.parametrize(
    "page", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "pocket_training/README.md"]
)
def test_links_between_files_lead_somewhere(page: str) -> None:
    """What the site builder does not see."""
    here = ROOT / page
    missing = [link for link in LINK.findall(here.read_text()) if not (here.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.stem)
def test_tests_that_a_page_names_are_there(page: Path) -> None:
    """A test without a file is in the file that the page named before it."""
    file = ""
    for named, test in NAMED_TEST.findall(page.read_text()):
        file = named or file
        if named or test:
            assert f"def {test}" in (ROOT / file).read_text(), (file, test)


def test_each_wrong_answer_of_the_first_release_has_a_test() -> None:
    """Thirteen findings of an audit of that release."""
    page = (DOCS / "measured" / "statistics.md").read_text()
    section = page.split("## Wrong answers that are tests now")[1]
    table = [line for line in section.split("\n##")[0].splitlines() if line.startswith("| ")]
    assert len(table) == 2 + 13
    assert all(NAMED_TEST.search(row.rsplit(" | ", 1)[-1]) for row in table[2:])


@pytest.mark.parametrize("page", ["catalogue", "cli"])
def test_a_reference_page_is_what_the_code_says(page: str) -> None:
    script = {"catalogue": "catalogue.py", "cli": "cli_page.py"}[page]
    done = forked((ROOT / "bench" / script).read_text(), script, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (DOCS / f"{page}.md").read_text(), MOVED


def test_llms_txt_has_a_sentence_on_every_page() -> None:
    """The built site holds it; see `site`."""
    hook: dict[str, Any] = runpy.run_path(str(ROOT / "bench" / "llms.py"))
    settings = (ROOT / "mkdocs.yml").read_text()
    nav = yaml.safe_load(settings[settings.index("\nnav:") :])["nav"]
    lines = hook["index"](nav, DOCS, "About").splitlines()
    listed = [re.match(r"- \[.+\]\(([\w/-]+\.md)\): \w*.{20,}", line) for line in lines]
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert {found[1] for found in listed if found} == pages


def test_examples_of_extending_are_short() -> None:
    """At most fifty lines of code each; `test_python_runs` runs them."""
    kinds = ("a-mechanism", "a-canary", "a-query", "a-score", "an-estimator", "a-model")
    assert len(EXTENDING) == len(kinds)
    lines = [[line for line in code.splitlines() if line.strip()] for code in EXTENDING]
    assert all(len(code) <= 50 and max(map(len, code)) <= 100 for code in lines)


def test_the_example_mechanism_is_refused_once_it_guarantees_too_much(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = EXTENDING[0].replace("PureDP(self.epsilon)", "PureDP(self.epsilon / 2)")
    assert wrong != EXTENDING[0]
    with pytest.raises(
        AssertionError,
        match=r"breaks 3 of 22 invariants\. sensitivity.*loss: .* a pair has δ = 0.187 at ε = 0.5",
    ):
        exec(compile(wrong, "extending.md", "exec", dont_inherit=True), {"__name__": "page"})


@pytest.fixture(scope="module")
def card_number(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the package of the page is installed in, as the page says how."""
    root = tmp_path_factory.mktemp("card")
    source, site = root / "source", root / "site"
    source.mkdir()
    page = (DOCS / "extending.md").read_text()
    (project,) = re.findall(r"^```toml\n(.*?)^```", page, flags=re.M | re.S)
    (source / "pyproject.toml").write_text(project)
    (source / "card_number.py").write_text(EXTENDING[1].partition("\nresult = ")[0])
    command = ["pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run(
        [sys.executable, "-m", *command, "--target", str(site), str(source)],
        cwd=root, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return site


@pytest.mark.slow
def test_the_commands_of_the_page_find_the_installed_canary(
    card_number: Path, tmp_path: Path
) -> None:
    """The canary has no label of a class, so membership rejects the claim in all of them."""
    page = (DOCS / "extending.md").read_text()
    (block,) = re.findall(r"^```console\n(.*?)^```", page, flags=re.M | re.S)
    commands = [line.removeprefix("$ leakbound ") for line in block.splitlines()]
    commands.append("audit --config audit.yaml --pairs 20 --shots 6")
    (tmp_path / "audit.yaml").write_text("canary: {kind: card_number, groups: 3}\n")
    typed = [shlex.split(command) for command in commands]
    codes, shown, errors = batch(*typed, cwd=tmp_path, PYTHONPATH=str(card_number))
    assert codes == [0, 1, 1, 1], errors
    assert "card_number        A random card number, fresh for every pair." in shown
    assert len({line for line in shown.splitlines() if line.strip().startswith("report ")}) == 1


def test_pictures_are_small() -> None:
    pictures = [*DOCS.glob("*.png"), *DOCS.glob("*.svg")]
    assert {"audit-report.png", "influence.png"} <= {p.name for p in pictures}
    assert all(p.stat().st_size < 150_000 for p in pictures)
