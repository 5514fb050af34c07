"""Makes the site hold the repository's own Markdown, where it is, beside the pages under docs/.

The READMEs of plugins, kits and folders become pages, README.md the first one. Links are written as GitHub follows
them, relative to the file; here they are pointed at the pages of the site. A linked source file becomes a page that
shows it. Each folder of docs/ gets a page that lists its pages.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]

#: Markdown outside docs/ that is part of the documentation, linked or not.
PAGES = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "lucky_transport/README.md",
    "lucky_transport/*/README.md",
    "migration/README.md",
    "plugins/README.md",
    "plugins/*/*.md",
    "proto/README.md",
    "schema/README.md",
    "schema/kits/*/README.md",
)

#: Folder of docs/ -> the title and the first sentence of its page.
SECTIONS = {
    "tutorials": ("Tutorials", "Learn by doing, from the first command to a result."),
    "how-to": ("How-to guides", "One task each, for readers who know what they want."),
    "reference": ("Reference", "Facts to look up."),
    "explanation": ("Explanation", "Why it is as it is, and what it costs and gains."),
}

_LANGUAGES = {".py": "python", ".pyi": "python", ".c": "c", ".h": "c", ".cs": "csharp", ".toml": "toml", ".yml": "yaml"}
_IMAGES = {".png", ".svg", ".jpg"}

#: A fenced block, code within a line, or a link; only of a link the groups are set.
_LINK = re.compile(r"^```.*?^```|`[^`\n]*`|(\]\()([^)\s#]*)(#[^)\s]*)?(\))", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the repository, and what they and the pages under docs/ link to."""
    for folder, (title, sentence) in SECTIONS.items():
        if files.get_file_from_path(f"{folder}/index.md") is None:
            files.append(File.generated(config, f"{folder}/index.md", content=_listing(folder, title, sentence)))
    waiting = [path for pattern in PAGES for path in sorted(ROOT.glob(pattern))]
    waiting += [ROOT / "docs" / file.src_uri for file in files.documentation_pages() if file.generated_by is None]
    seen: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        uri = site_uri(path)
        if files.get_file_from_path(uri) is None:
            files.append(_file(config, path, uri))
        if path.suffix == ".md":
            waiting += [target for target in _targets(path) if target.is_file()]
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point the links of a page at the pages of the site; a folder that is no page leaves its text."""
    if page.file.generated_by is not None and page.file.src_uri not in _SOURCES:
        return markdown
    if page.file.src_uri == "README.md":
        page.meta["hide"] = ["navigation"]  # the first page is the only one of its section
    source = _SOURCES.get(page.file.src_uri, ROOT / "docs" / page.file.src_uri)
    if source.suffix != ".md":
        return markdown

    def pointed(link: re.Match[str]) -> str:
        start, target, fragment, end = link.groups()
        if not start or not target or ":" in target:
            return link[0]
        path = _resolve(source, target)
        if path.is_dir() and (path.parent != ROOT / "docs" or path.name not in SECTIONS):
            return "]"  # with the bracket before, no link to Markdown
        uri = site_uri(path / "index.md" if path.is_dir() else path)
        return f"{start}{posixpath.relpath(uri, posixpath.dirname(page.file.src_uri) or '.')}{fragment or ''}{end}"

    return _LINK.sub(pointed, markdown)


#: Page of the site -> the file of the repository that it shows.
_SOURCES: dict[str, Path] = {}


def site_uri(path: Path) -> str:
    """Return where the site has a file of the repository."""
    inside = path.relative_to(ROOT)
    if inside.parts[0] == "docs":
        return posixpath.join(*inside.parts[1:])
    if path.suffix == ".md" or path.suffix in _IMAGES:
        return inside.as_posix()
    return f"source/{inside.as_posix()}.md"


def _file(config: MkDocsConfig, path: Path, uri: str) -> File:
    if path.suffix in _IMAGES:
        return File.generated(config, uri, abs_src_path=str(path))
    _SOURCES[uri] = path
    if path.suffix == ".md":
        return File.generated(config, uri, abs_src_path=str(path))
    text = path.read_text(encoding="utf-8").replace("```", "'''")
    name = path.relative_to(ROOT).as_posix()
    return File.generated(config, uri, content=f"# {name}\n\n```{_LANGUAGES.get(path.suffix, 'text')}\n{text}```\n")


def _targets(path: Path) -> Iterator[Path]:
    """Yield the files of the repository that a Markdown file links to."""
    for link in _LINK.finditer(path.read_text(encoding="utf-8")):
        target = link[2]
        if not target or ":" in target:
            continue
        found = _resolve(path, target)
        if not found.exists():
            raise PluginError(f"{path.relative_to(ROOT)} links to {target}, which is not there")
        readme = found / "README.md"
        yield readme if found.is_dir() and readme.exists() else found


def _resolve(path: Path, target: str) -> Path:
    found = Path(posixpath.normpath(path.parent.joinpath(target)))
    readme = found / "README.md"
    return readme if found.is_dir() and readme.exists() else found


def groups(folder: Path) -> dict[str, list[Path]]:
    """Return the pages of a folder by group, as its .nav.yml has them; one group "" where there is no such file."""
    file = folder / ".nav.yml"
    if not file.exists():
        return {"": sorted(folder.glob("*.md"))}
    entries: list[str | dict[str, object]] = yaml.safe_load(file.read_text(encoding="utf-8"))["nav"]
    named = {title: names for entry in entries if isinstance(entry, dict) for title, names in entry.items()}
    found = {title: [folder / name for name in names] for title, names in named.items() if isinstance(names, list)}
    rest = set(folder.glob("*.md")).difference(*found.values())
    return found | ({"More": sorted(rest)} if rest else {})


def _listing(folder: str, title: str, sentence: str) -> str:
    home = ROOT / "docs" / folder
    lines = [f"# {title}", "", sentence]
    for group, paths in groups(home).items():
        lines += ["", *([f"## {group}", ""] if group else []), *_links(paths, home, in_order=bool(group))]
    for deeper in sorted(path for path in home.iterdir() if path.is_dir()):
        lines += ["", f"## {deeper.name.upper()}", "", *_links(deeper.glob("*.md"), home)]
    return "\n".join(lines) + "\n"


def _links(paths: Iterable[Path], home: Path, *, in_order: bool = False) -> list[str]:
    """Return a list of pages, by title or in their order, to stand on a page of the folder `home`."""
    titles: list[tuple[str, str]] = []
    for path in paths:
        heading = re.search(r"^# (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        titles.append((heading[1] if heading else path.stem, path.relative_to(home).as_posix()))
    ordered = titles if in_order else sorted(titles, key=lambda one: one[0].lower())
    return [f"- [{title}]({name})" for title, name in ordered]
