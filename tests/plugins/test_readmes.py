"""The tests, and files of tests, that the plugins' READMEs name as proofs are there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_test_that_a_readme_names_is_there() -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")}
    code = "\n".join(sources.values())
    for readme in sorted((ROOT / "plugins").glob("*/*.md")):
        files = {path.stem for path in sources if readme.parent.name.removeprefix("lucky_transport_") in path.parts}
        for name in re.findall(r"`(?:test_\w+(?:\.py)?::)?(test_\w+)(?:\.py)?`", readme.read_text(encoding="utf-8")):
            there = name in files or f"def {name}(" in code
            assert there, f"{readme.relative_to(ROOT)} names {name}, which is not there"
