"""The desk's descriptor set, as of the quick tests; their planted transport is not registered here."""

from tests.planted.conftest import described
