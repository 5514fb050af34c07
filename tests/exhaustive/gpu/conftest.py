"""Fixtures that the quick and the exhaustive tests of this folder share."""

from tests.gpu.conftest import connect, gpu, library, pytest_itemcollected
