"""All benchmarks, one after the other: `python -m benches [--quick]`."""

import argparse
from importlib.util import find_spec

from benches import (
    clients,
    held_pulls,
    messages,
    pair,
    pop,
    route_queries,
    route_scale,
    signed,
    start_and_memory,
    store,
)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benches", description="Measure us and Apache RocketMQ side by side."
    )
    parser.add_argument("--quick", action="store_true", help="few short rounds: to see that it works, not to quote")
    quick: bool = parser.parse_args().quick
    start_and_memory.main(quick=quick)
    route_queries.main(quick=quick)
    route_scale.main(quick=quick)
    store.main(quick=quick)
    messages.main(quick=quick)
    signed.main(quick=quick)
    pair.main(quick=quick)
    pop.main(quick=quick)
    clients.main(quick=quick)
    if quick:  # a look is five minutes; these two take as long again
        print("left out: python -m benches.spark --quick, python -m benches.held_pulls")
        return
    held_pulls.main()
    if find_spec("pyspark") is not None:  # the extra `spark`
        from benches import spark

        spark.main()


main()
