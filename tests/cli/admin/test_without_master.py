"""Commands while a broker name has slaves alone: its part is missing, and one line says so."""

import asyncio
from pathlib import Path

from tests.admin.test_without_master import slave_alone
from tests.cli.commands import hanabi


async def test_the_missing_master_is_named_on_stderr(tmp_path: Path) -> None:
    async with slave_alone(tmp_path, beside=True) as (namesrv, _):
        for words in (("topic", "list"), ("topic", "status", "T"), ("group", "list"), ("stats",)):
            done = await asyncio.to_thread(hanabi, *words, "-n", namesrv)
            assert done.returncode == 0, done.stderr
            assert done.stderr == (
                "hanabi: broker-a has no master now, only slaves: what its master would answer is missing here\n"
            )
        listed = await asyncio.to_thread(hanabi, "cluster", "list", "-n", namesrv)
        assert (listed.returncode, listed.stderr) == (0, "")
        roles = {tuple(line.split()[1:4]) for line in listed.stdout.splitlines()[1:]}
        assert {("broker-a", "1", "slave"), ("broker-b", "0", "master")} <= roles


async def test_with_slaves_alone_a_command_ends_with_the_reason(tmp_path: Path) -> None:
    async with slave_alone(tmp_path) as (namesrv, sent):
        for words in (("topic", "list"), ("topic", "status", "T"), ("group", "list"), ("offset", "show", "g", "T")):
            done = await asyncio.to_thread(hanabi, *words, "-n", namesrv)
            assert done.returncode == 1
            assert done.stderr.startswith("hanabi: broker-a has no master now, only slaves"), done.stderr
        found = await asyncio.to_thread(hanabi, "message", "get", sent.offset_message_id, "-n", namesrv)
        assert "kept twice" in found.stdout, found.stderr
