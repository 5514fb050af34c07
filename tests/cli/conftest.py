"""Fixtures that the quick and the exhaustive tests of this folder share."""

from __future__ import annotations

from tests.support.fixtures.cli import command_line, environ, forked, make_segment, refusal, run, start
