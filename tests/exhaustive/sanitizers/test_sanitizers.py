"""No sanitizer finds anything in the native module, and each finds what is planted there."""

import shutil
from pathlib import Path

import pytest

from tests.sanitizers.__main__ import JOBS, SOURCES, Unavailable, build_harness, run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sanitizers")


@pytest.fixture(scope="module", params=list(JOBS))
def harness(request: pytest.FixtureRequest, folder: Path) -> tuple[Path, dict[str, int]]:
    return _built(request.param, folder), JOBS[request.param]


def _built(sanitizer: str, folder: Path, sources: Path = SOURCES) -> Path:
    try:
        return build_harness(sanitizer, folder, sources)
    except Unavailable as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("job", ["ring", "exchange", "images", "hostile"])
def test_the_native_module_is_clean(harness: tuple[Path, dict[str, int]], job: str) -> None:
    program, counts = harness
    if job not in counts:
        pytest.skip("one thread has no races")
    done = run(program, job, counts[job])
    assert (done.returncode, done.stdout) == (0, f"{job}: done\n"), done.stderr


@pytest.mark.parametrize(
    ("sanitizer", "job", "file", "sound", "planted", "found"),
    [
        (
            "thread",
            "ring",
            "ring_writer.c",
            "__atomic_store_n(r->write, r->position, __ATOMIC_RELEASE)",
            "__atomic_store_n(r->write, r->position, __ATOMIC_RELAXED)",
            "data race",
        ),
        (
            "address",
            "hostile",
            "ring_reader.c",
            "stride > published || index + stride > size",
            "0",
            "heap-buffer-overflow",
        ),
    ],
)
def test_a_sanitizer_finds_what_is_planted(
    sanitizer: str, job: str, file: str, sound: str, planted: str, found: str, tmp_path: Path
) -> None:
    sources = tmp_path / "_native"
    shutil.copytree(SOURCES, sources)
    text = (sources / file).read_text()
    assert text.count(sound) == 1
    (sources / file).write_text(text.replace(sound, planted))
    done = run(_built(sanitizer, tmp_path, sources), job, 20_000)
    assert done.returncode
    assert found in done.stderr
