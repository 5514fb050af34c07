"""Every link between files of the repository leads to a file, and to a heading of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.pages import ROOT, name_of, pages

LINKING = [
    *pages(),
    *(ROOT / name for name in ("CHANGELOG.md", "proto/README.md")),
    *sorted((ROOT / "lucky_transport").rglob("*.md")),
    *sorted((ROOT / "migration").rglob("*.md")),
    *sorted((ROOT / "plugins").rglob("*.md")),
    *sorted((ROOT / "schema").rglob("*.md")),
]


def headings(page: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", LINKING, ids=name_of)
def test_every_link_to_a_file_or_heading_leads_there(page: Path) -> None:
    text = re.sub(r"```.*?^ *```$|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]+))?\)", text):
        path = (page.parent / target) if target else page
        assert path.exists(), target
        if anchor and path.suffix == ".md":
            assert anchor in headings(path), f"{target}#{anchor}"
