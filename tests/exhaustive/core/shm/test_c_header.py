"""The C header says what the Python modules say: a C program reads a real segment by it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from lucky_transport.shm.segment import segment
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec

ROOT = Path(__file__).parents[4]

READER = r"""
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "lucky_shm.h"

static unsigned char segment[1 << 20];

static uint32_t u32(unsigned long at) { uint32_t v; memcpy(&v, segment + at, 4); return v; }
static uint64_t u64(unsigned long at) { uint64_t v; memcpy(&v, segment + at, 8); return v; }

int main(int argc, char **argv) {
    FILE *file = fopen(argv[1], "rb");
    size_t size = fread(segment, 1, sizeof segment, file);
    printf("%d %u %u %u %u %u\n", u32(LUCKY_OFFSET_MAGIC) == LUCKY_MAGIC, u32(LUCKY_OFFSET_VERSION),
           u32(LUCKY_OFFSET_SERVER_PID), u32(LUCKY_OFFSET_NUM_ENVS), u32(LUCKY_OFFSET_OBS_SIZE),
           u32(LUCKY_OFFSET_ACT_SIZE));
    fseek(file, 0, SEEK_END);
    printf("%d %d\n", u64(LUCKY_OFFSET_TOTAL_SIZE) <= size,
           u64(LUCKY_OFFSET_ARENA_OFFSET) + 2 * u64(LUCKY_OFFSET_ARENA_SIZE) == (uint64_t)ftell(file));
    printf("%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", u64(LUCKY_OFFSET_OBS_OFFSET), u64(LUCKY_OFFSET_ACT_OFFSET),
           u64(LUCKY_OFFSET_SIGNALS_OFFSET));
    printf("%.*s\n", (int)u32(LUCKY_OFFSET_SPEC_SIZE), segment + u64(LUCKY_OFFSET_SPEC_OFFSET));
    return 0;
}
"""


def test_a_c_program_reads_a_real_segment_by_the_header(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler (Debian: gcc)")
    (tmp_path / "reader.c").write_text(READER)
    command = [compiler, "-Wall", "-Werror", f"-I{ROOT / 'schema'}", str(tmp_path / "reader.c")]
    subprocess.run([*command, "-o", str(tmp_path / "reader")], check=True)
    spec = BatchSpec("toy", 3, ArraySpec("float32", (5,)), ArraySpec("float32", (2,)))
    made = segment.create("one", spec, ring_bytes=4096, directory=tmp_path)
    made.publish_ready()
    read = subprocess.run([tmp_path / "reader", made.path], capture_output=True, text=True, check=True).stdout
    regions = made.layout.regions
    assert read.splitlines() == [
        f"1 1 {os.getpid()} 3 5 2",
        "1 1",
        f"{regions['observations'].offset} {regions['actions'].offset} {regions['signals'].offset}",
        spec.to_json(),
    ]
    made.unlink()
