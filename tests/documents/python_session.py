"""A Python that runs one block after another, as a reader who types them in: names stay. Talks to `running.py`.

A block that uses `spark` finds a local session of that name. What blocks print goes to stderr.
"""

import json
import os
import re
import sys
import traceback
from pathlib import Path
from typing import Any


def spark_session() -> Any:
    from pyspark.sql import SparkSession

    here = Path.cwd()
    session = (
        SparkSession.builder.master("local[2]")
        .appName("hanabi documents")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dderby.system.home={here}")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(here / "warehouse"))
        .config("spark.local.dir", str(here / "spark-local"))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    names: dict[str, Any] = {"__name__": "__main__"}
    for line in sys.stdin:
        block = json.loads(line)
        try:
            if "spark" not in names and re.search(r"\bspark\.", block["text"]):
                names["spark"] = spark_session()
            exec(compile(block["text"], block["place"], "exec"), names)  # noqa: S102 - that is what it is for
        except BaseException:  # noqa: BLE001 - told to the test
            traceback.print_exc()
            print("it failed", file=answers, flush=True)
        else:
            print("done", file=answers, flush=True)
    if "spark" in names:
        names["spark"].stop()


if __name__ == "__main__":
    main()
