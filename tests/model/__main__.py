"""Check the shared-memory protocols: `python -m tests.model --protocol all --order all --mutations`.

Prints the states of each scenario, and with `--mutations` what each release, acquire and fence of the source is for.
Exit code 0 means that every invariant holds, and that every mutation is found or kept for a reason.
"""

import argparse
import sys
import time
from collections.abc import Sequence

from tests.model.explorer import Result, Scenario, explore
from tests.model.memory_models import MODELS
from tests.model.mutations import Mutation, find, mutations_of
from tests.model.protocols import PROTOCOLS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was chosen and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("--protocol", choices=["all", *PROTOCOLS], default="all")
    parser.add_argument("--order", choices=["all", *MODELS], default="all")
    parser.add_argument(
        "--bound", type=int, default=1, help="1: what the tests run; 2 takes a minute; default: %(default)s"
    )
    parser.add_argument("--mutations", action="store_true", help="take out each release, acquire and fence")
    parser.add_argument("--traces", action="store_true", help="print the shortest trace of each finding")
    chosen = parser.parse_args(arguments)
    start = time.process_time()
    names = list(PROTOCOLS) if chosen.protocol == "all" else [chosen.protocol]
    orders = list(MODELS) if chosen.order == "all" else [chosen.order]
    scenarios = {name: PROTOCOLS[name](chosen.bound) for name in names}
    ok, states = True, 0
    print(f"{'protocol':14}{'order':12}{'states':>9}  scenario")
    for name in names:
        for scenario in scenarios[name]:
            for order in orders:
                result = explore(scenario, order)
                states += result.states
                ok &= _shown(name, scenario, order, result)
    print(f"{states:,} states, {time.process_time() - start:.1f} s of CPU")
    if chosen.mutations:
        chosen_scenarios = [scenario for name in names for scenario in scenarios[name]]
        everywhere = [scenario for make in PROTOCOLS.values() for scenario in make(1)]
        ok &= _mutations(mutations_of(chosen_scenarios), everywhere, orders, chosen.traces)
    return 0 if ok else 1


def _shown(name: str, scenario: Scenario, order: str, result: Result) -> bool:
    """Print one run; False when an invariant does not hold."""
    outcome = f": {result.violation}: VIOLATED" if result.violation else ""
    print(f"{name:14}{order:12}{result.states:9,}  {scenario.name}{outcome}", flush=True)
    if result.violation:
        print("\n".join(f"{'':8}{step}" for step in result.trace))
    return not result.violation


def _mutations(mutations: list[Mutation], scenarios: list[Scenario], orders: list[str], traces: bool) -> bool:
    """Print what each mutation breaks, at bound 1; False when one is neither found nor kept."""
    start, states, found_count, kept_count, ok = time.process_time(), 0, 0, 0, True
    print(f"\n{'found in (steps of the shortest trace)':40}  taken out")
    missing = "NOT FOUND" if len(orders) == len(MODELS) else "not in this order"
    for mutation in mutations:
        findings, visited = find(mutation, scenarios, orders)
        states += visited
        found_count += bool(findings)
        kept_count += bool(mutation.kept)
        ok &= bool(findings) is not bool(mutation.kept) or len(orders) < len(MODELS)
        where = ", ".join(f"{finding.order} ({len(finding.result.trace)})" for finding in findings)
        print(f"{where or ('kept' if mutation.kept else missing):40}  {mutation}", flush=True)
        if mutation.kept:
            print(f"{'':42}{mutation.kept}")
        for finding in findings[:1]:
            print(f"{'':42}{finding.result.violation}")
            if traces:
                print("\n".join(f"{'':46}{step}" for step in finding.result.trace))
    took = time.process_time() - start
    print(f"{found_count} of {len(mutations)} found, {kept_count} kept; {states:,} states, {took:.1f} s of CPU")
    return ok


if __name__ == "__main__":
    sys.exit(main())
