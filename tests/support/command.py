"""Commands of `lucky-transport`, run in this process."""

from typing import Any

from click.testing import CliRunner, Result

from lucky_transport.cli.main import cli


def invoke(*arguments: str, **given: Any) -> Result:
    """Return what came of `lucky-transport ARGUMENTS...`; given: as `CliRunner.invoke` takes it."""
    return CliRunner().invoke(cli, arguments, **given)
