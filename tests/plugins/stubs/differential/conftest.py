"""Fixtures that the quick and the exhaustive tests of this folder share."""

from __future__ import annotations

from tests.support.fixtures.plugins_stubs_differential import grpcs_core_is_never_shut_down, nothing_is_left, quiet
