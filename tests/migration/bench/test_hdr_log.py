"""The raw histograms of a run as a log that other tools read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

from lucky_transport_migration.bench.hdr_log import hdr_log
from lucky_transport_migration.bench.histogram import Histogram


def test_every_row_has_a_line_with_a_tag_of_its_own(bench_result: dict[str, Any]) -> None:
    lines = [line for line in hdr_log(bench_result).splitlines() if line.startswith("Tag=")]
    tags = [line.split(",")[0] for line in lines]
    assert len(lines) == len(bench_result["rows"]) + 1
    assert len(set(tags)) == len(tags)
    assert all(re.fullmatch(r"Tag=[^, \n]+", tag) for tag in tags)
    assert any(tag.endswith("_again") for tag in tags)


def test_the_histogram_library_reads_all_samples_back(bench_result: dict[str, Any], tmp_path: Path) -> None:
    bench_result["noise_floor"] = None
    untagged = re.sub(r"^Tag=[^,]+,", "", hdr_log(bench_result), flags=re.MULTILINE)  # this reader knows no tags
    (tmp_path / "bench.hlog").write_text(untagged)
    whole = HdrHistogram(1, 3_600_000_000_000, 3)
    reader = HistogramLogReader(str(tmp_path / "bench.hlog"), whole)
    while reader.add_next_interval_histogram(whole) is not None:
        pass
    reader.close()
    assert whole.get_total_count() == sum(row["n"] for row in bench_result["rows"])


def test_a_decoded_histogram_has_the_counts_of_the_encoded_one(bench_result: dict[str, Any]) -> None:
    row = bench_result["rows"][0]
    counts = Histogram.decoded(row["hdr"]).counts()
    assert sum(n for _, n in counts) == row["n"]
    assert [us for us, _ in counts] == sorted(us for us, _ in counts)
    assert counts[-1][0] == pytest.approx(row["us"]["max"], rel=1e-3)
