"""Tests of how much memory there is, and that peers cannot fill it."""

from pathlib import Path

import pytest

from hanabi.memory import memory_bytes
from hanabi.remoting.config import RemotingConfig
from hanabi.remoting.transport.memory import PEERS_BYTES_MIN, within_memory

MB = 1 << 20
UNLIMITED_V1 = "9223372036854771712\n"


def cgroups(root: Path, own: str, limits: dict[str, str]) -> tuple[Path, Path]:
    for name, text in limits.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "own").write_text(own)
    return root, root / "own"


@pytest.mark.parametrize(
    ("own", "limits", "expected"),
    [
        ("0::/a/b\n", {"a/b/memory.max": "max\n", "a/memory.max": f"{90 * MB}\n"}, 90 * MB),
        ("0::/a/b\n", {"a/b/memory.max": f"{80 * MB}\n", "a/memory.max": f"{90 * MB}\n"}, 80 * MB),
        ("0::/\n", {"memory.max": f"{70 * MB}\n"}, 70 * MB),
        ("0::/named/by/the/machine\n", {"memory.max": f"{70 * MB}\n"}, 70 * MB),
        ("4:memory:/x\n0::/\n", {"memory/x/memory.limit_in_bytes": f"{60 * MB}\n"}, 60 * MB),
        (
            "4:cpu,memory:/x\n",
            {"memory/x/memory.limit_in_bytes": UNLIMITED_V1, "memory/memory.limit_in_bytes": f"{50 * MB}"},
            50 * MB,
        ),
    ],
)
def test_the_smallest_limit_around_this_process_counts(
    tmp_path: Path, own: str, limits: dict[str, str], expected: int
) -> None:
    assert memory_bytes(*cgroups(tmp_path, own, limits)) == expected


@pytest.mark.parametrize("own", ["", "nonsense\n", "4:memory:/x\n0::/\n", "1:cpu:/\n"])
def test_without_a_limit_it_is_what_the_machine_has(tmp_path: Path, own: str) -> None:
    machine = memory_bytes(tmp_path, tmp_path / "missing")
    assert memory_bytes(*cgroups(tmp_path, own, {"memory.max": "max\n", "memory.x": "7"})) == machine > 64 * MB


def test_all_peers_together_have_a_part_of_it_and_never_more_than_the_settings_say() -> None:
    plain = RemotingConfig()
    assert within_memory(plain, 64 << 30) == plain
    small = within_memory(plain, 160 * MB)
    assert small.read_buffer_total_bytes_max == small.write_buffer_total_bytes_max == 20 * MB
    assert small.answers_total_bytes_max == 20 * MB
    assert within_memory(plain, 10 * MB).read_buffer_total_bytes_max == PEERS_BYTES_MIN
    assert within_memory(RemotingConfig(read_buffer_total_bytes_max=1_000), 10 * MB).read_buffer_total_bytes_max == 1000
