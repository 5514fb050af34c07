"""Numbers as a person reads them: ratios, durations and sizes with about three significant digits."""

from __future__ import annotations


def times_text(value: float) -> str:
    """Return a ratio with three significant digits: 0.953, 1.07, 41.2, 1,240."""
    if value < 0:
        return f"-{times_text(-value)}"
    if value >= 1000:
        return f"{float(f'{value:.3g}'):,.0f}"
    if value < 0.01:
        return f"{value:.2g}"
    return f"{value:.3g}" if value >= 100 else f"{value:#.3g}".rstrip(".")


def us_text(value: float) -> str:
    """Return microseconds with about three significant digits and no unit: 0.62, 5.14, 41.2, 1,240."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def duration_text(us: float) -> str:
    """Return a duration in the unit that fits: 0.62 µs, 41.2 µs, 5.14 ms, 1.24 s."""
    if us < 1000:
        return f"{us_text(us)} µs"
    return f"{us_text(us / 1e3)} ms" if us < 1e6 else f"{us_text(us / 1e6)} s"


def bytes_text(size: int) -> str:
    """Return a size as 64 B, 4 KiB, 1.5 MiB."""
    for unit, scale in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size} B"
