"""In a session of its own, for the jars of S3A: what archives ask of a file system, asked by several at once."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from pyspark.sql import SparkSession

from hanabi.errors import MQError
from hanabi.spark.pipelines.archive.home import ArchiveHome, writing_archive
from hanabi.spark.pipelines.archive.state import ArchiveState, encode
from hanabi.spark.pipelines.support.file_system import FileSystem

AT_ONCE, TIMES = 8, 10


def main(url: str) -> None:
    spark = SparkSession.builder.appName("s3").getOrCreate()
    files = FileSystem(spark, f"{url}/raced")
    with ThreadPoolExecutor(AT_ONCE) as threads:
        winners = [race(files, threads, f"folder/{time}") for time in range(TIMES)]
    told = {
        "knows_who_was_first": files.knows_who_was_first,
        "winners": winners,
        "only_states_of_winners": all(
            files.read(f"folder/{time}") == str(won[0]).encode() for time, won in enumerate(winners)
        ),
        "left_beside_them": len(files.files("folder")) - TIMES,
        **cut_off(FileSystem(spark, f"{url}/cut")),
        **contested(spark, f"{url}/contested"),
        **left_over(FileSystem(spark, f"{url}/left")),
    }
    sys.stdout.write(json.dumps(told) + "\n")
    spark.stop()


def race(files: FileSystem, threads: ThreadPoolExecutor, name: str) -> list[int]:
    """Return the writers that were told that they made the file, of all that tried at once."""
    tries = [threads.submit(files.create, name, str(number).encode()) for number in range(AT_ONCE)]
    return [number for number, each in enumerate(tries) if each.result()]


def cut_off(files: FileSystem) -> dict[str, object]:
    """Return a move is a copy and a deletion; here the process died between them, and the next one opens the
    archive."""
    home = ArchiveHome(files)
    source = f"{home.staging()}/t/a.parquet"
    for name in (source, "t/a.parquet"):
        files.create(name, b"a")
    state = ArchiveState(version=1, messages=1, moves=[(source, "t/a.parquet")])
    files.create("_archive/state/000000000001.json", encode(state))
    opened = ArchiveHome(files)
    return {
        "cut_off_version": opened.state.version,
        "cut_off_files": [file.name for file in files.files("") if file.name.endswith(".parquet")],
    }


def contested(spark: SparkSession, url: str) -> dict[str, object]:
    with writing_archive(FileSystem(spark, url)) as one, writing_archive(FileSystem(spark, url)) as two:
        steps = [step(one, b"first"), step(two, b"second")]
        one.commit(steps[0])
        try:
            two.commit(steps[1])
        except MQError as error:
            return {"refused": str(error), "kept": one.files.read("t/a.parquet").decode()}
        return {"refused": None}


def left_over(files: FileSystem) -> dict[str, object]:
    """Folders have no time of their own on S3: that of their files counts."""
    files.create("_archive/staging/killed/1/a.parquet", b"a")
    written_ms = files.files("_archive/staging")[0].modified_ms
    day_ms = 24 * 3_600_000
    kept = []
    for age_ms in (day_ms - 1_000, day_ms + 1_000):
        ArchiveHome(files, partial(int, written_ms + age_ms)).clear_leftovers(is_alone=False)
        kept.append(len(files.files("_archive/staging")))
    return {"left_before_and_after_a_day": kept}


def step(home: ArchiveHome, data: bytes) -> ArchiveState:
    source = f"{home.staging()}/t/a.parquet"
    home.files.create(source, data)
    return ArchiveState(version=1, messages=1, moves=[(source, "t/a.parquet")])


main(sys.argv[1])
