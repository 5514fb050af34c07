"""Shell completion: click's, with completers for engines and endpoints.

A completer runs at each press of the key, so nothing here imports NumPy: engines come from the registry, segments and
servers from their files.
"""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, CompletionItem, add_completion_class, split_arg_string

from lucky_transport.config import environment

#: Set where a shell asks to complete a command line: click derives it from the program's name.
COMPLETION_VARIABLE = "_LUCKY_TRANSPORT_COMPLETE"


def complete_engines(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the engines of all plugins, "name" and "name:variant"."""
    from lucky_transport.registry import registry

    names = {name: info.summary for name, info in registry().engines.items()}
    names |= {
        f"{name}:{variant}": info.summary for name, info in registry().engines.items() for variant in info.variants
    }
    return [CompletionItem(name, help=names[name]) for name in sorted(names) if name.startswith(incomplete)]


def complete_endpoints(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer living engines and servers in shared memory, and the schemes of transports before one is typed."""
    from lucky_transport.diagnosis import servers
    from lucky_transport.registry import registry
    from lucky_transport.shm.files import lockfile

    serving = (one.name for one in servers.find() if one.state != "stale")
    found = [f"shm://{name}" for name in dict.fromkeys((*lockfile.engines(lockfile.DIRECTORY), *serving))]
    if ":" not in incomplete:
        transports = [info for info in registry().transports.values() if not info.routes]
        found += [f"{scheme}://" for info in transports for scheme in info.schemes if scheme != "shm" or not found]
    return [CompletionItem(one) for one in sorted(found) if one.startswith(incomplete)]


@add_completion_class
class Bash(BashComplete):
    """Click's, but for words with colons: Bash cuts those, and puts what it gets behind the last colon."""

    name = "bash"
    source_template = BashComplete.source_template.replace(
        "COMP_CWORD=$COMP_CWORD",
        'COMP_CWORD=$COMP_CWORD COMP_LINE="$COMP_LINE" COMP_POINT=$COMP_POINT COMP_WORDBREAKS="$COMP_WORDBREAKS"',
    )
    _cut = 0

    def get_completion_args(self) -> tuple[list[str], str]:
        variables = environment()
        line = variables["COMP_LINE"][: int(variables["COMP_POINT"])]
        words = split_arg_string(line)
        incomplete = "" if not words or line[-1:].isspace() else words.pop()
        value = incomplete.rpartition("=")[2] if incomplete.startswith("--") else incomplete
        if ":" in variables["COMP_WORDBREAKS"]:
            self._cut = value.rfind(":") + 1
        return words[1:], incomplete

    def format_completion(self, item: CompletionItem) -> str:
        return f"{item.type},{item.value[self._cut :]}"
