"""The documentation's site builds strictly and without a network, and a reader gets to each of its pages."""

import importlib.util
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

from tests.support.command import python, stdout_of
from tests.support.pages import DOCS, README, ROOT, pages

#: mkdocs with no way out: a plugin that asks the network for something fails the build.
BUILD = """
import socket, sys
def refuse(*arguments): raise OSError("the site is built without a network")
socket.socket.connect = socket.getaddrinfo = refuse
from mkdocs.__main__ import cli
cli(["build", "--strict", "--site-dir", sys.argv[1]])  # --quiet would not count warnings
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """All pages of the built site: path -> HTML."""
    for module in ("mkdocs", "material", "mkdocstrings", "mkdocs_awesome_nav"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed: pip install 'lucky-transport[docs]'")
    folder = tmp_path_factory.mktemp("docs") / "site"
    environment = {"PATH": "/usr/bin:/bin", "NO_MKDOCS_2_WARNING": "1"}
    stdout_of(python("-c", BUILD, folder, cwd=ROOT, env=environment, timeout=550))
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in folder.rglob("*.html")}


def test_every_page_under_docs_is_in_the_site(site: Mapping[str, str]) -> None:
    written = {page.relative_to(DOCS).with_suffix(".html").as_posix() for page in DOCS.rglob("*.md")}
    assert written <= set(site)


def test_every_page_is_reached_from_the_first_one(site: Mapping[str, str]) -> None:
    reached, waiting = set[str](), ["index.html"]
    while waiting:
        page = waiting.pop()
        if page in reached or page not in site:
            continue
        reached.add(page)
        for link in re.findall(r'href="([^":]+)"', site[page]):
            target = (Path("/", page).parent / unquote(urldefrag(link).url)).resolve()
            waiting.append(target.relative_to("/").as_posix())
    assert set(site) - reached == {"404.html"}


def test_no_page_loads_anything_from_elsewhere(site: Mapping[str, str]) -> None:
    for page, html in site.items():
        loaded = re.findall(r'<(?:script|img|iframe|source)[^>]* src="([^"]+)"', html)
        loaded += re.findall(r'<link[^>]* href="([^"]+)"[^>]*rel="(?:stylesheet|preload|icon)"', html)
        loaded += re.findall(r'<link[^>]*rel="(?:stylesheet|preload|icon)"[^>]* href="([^"]+)"', html)
        assert loaded, page
        assert [address for address in loaded if "//" in address] == [], page


def test_the_reference_of_the_api_shows_docstrings(site: Mapping[str, str]) -> None:
    assert "over the configured transport" in site["reference/api.html"]
    assert 'id="lucky_transport.errors.PeerDied"' in site["reference/api.html"]


def test_what_the_groups_of_guides_name_is_there_and_named_once() -> None:
    written = (DOCS / "how-to" / ".nav.yml").read_text(encoding="utf-8")
    named = re.findall(r"^ {6}- (\S+\.md)$", written, re.MULTILINE)
    assert len(named) == len(set(named)) > 30
    assert set(named) <= {page.name for page in (DOCS / "how-to").glob("*.md")}


def test_the_readme_has_at_most_150_lines() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 150


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_a_page_has_one_title(page: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert len(re.findall(r"^# ", prose, re.MULTILINE)) == 1


def test_the_figures_are_those_that_their_script_draws() -> None:
    spec = importlib.util.spec_from_file_location("draw", DOCS / "figures" / "draw.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    drawn = {name: str(draw()) for name, draw in script.FIGURES.items()}
    shown = {path.name: path.read_text(encoding="utf-8") for path in (DOCS / "figures").glob("*.svg")}
    assert shown == drawn, "run: python docs/figures/draw.py"
