"""Tests of what every store of keys must hold, and what each of them must hold alone."""

import os
import sqlite3
import threading
import time
from pathlib import Path

import pytest
import redis

from hanabi.client.deduplicate.key_store import Claim, KeyStore
from hanabi.client.deduplicate.memory_keys import MemoryKeys
from hanabi.client.deduplicate.redis_keys import RedisKeys
from hanabi.client.deduplicate.sqlite_keys import CLAIMS_BETWEEN_CLEANINGS, SqliteKeys
from hanabi.errors import ConfigError, KeyStoreFailed


def test_a_key_is_given_to_one_and_is_done_for_all(store: KeyStore) -> None:
    assert store.claim(["a", "b"], "me", 60) == [Claim.OURS, Claim.OURS]
    assert store.claim(["a", "c"], "you", 60) == [Claim.BUSY, Claim.OURS]
    store.done(["a"], "me", 60)
    assert store.claim(["a", "b"], "you", 60) == [Claim.DONE, Claim.BUSY]


def test_who_claims_twice_is_told_that_it_is_busy(store: KeyStore) -> None:
    assert store.claim(["a"], "me", 60) == [Claim.OURS]
    assert store.claim(["a"], "me", 60) == [Claim.BUSY]


def test_what_was_released_is_free_again_but_only_for_its_owner_to_release(store: KeyStore) -> None:
    store.claim(["a"], "me", 60)
    store.release(["a", "never claimed"], "you")
    assert store.claim(["a"], "you", 60) == [Claim.BUSY]
    store.release(["a"], "me")
    assert store.claim(["a"], "you", 60) == [Claim.OURS]


def test_what_is_done_is_not_released(store: KeyStore) -> None:
    store.claim(["a"], "me", 60)
    store.done(["a"], "me", 60)
    store.release(["a"], "me")
    assert store.claim(["a"], "you", 60) == [Claim.DONE]


def test_claims_and_what_is_done_expire(store: KeyStore) -> None:
    store.claim(["claimed", "done"], "me", 0.05)
    store.done(["done"], "me", 0.05)
    time.sleep(0.1)
    assert store.claim(["claimed", "done"], "you", 60) == [Claim.OURS, Claim.OURS]
    store.release(["claimed"], "me")  # too late: it is another's now
    assert store.claim(["claimed"], "me", 60) == [Claim.BUSY]


def test_the_work_is_done_even_if_the_claim_was_over(store: KeyStore) -> None:
    store.claim(["a"], "me", 0.01)
    time.sleep(0.05)
    store.claim(["a"], "you", 60)
    store.done(["a"], "me", 60)
    assert store.claim(["a"], "them", 60) == [Claim.DONE]


def test_keys_may_be_any_text(store: KeyStore) -> None:
    keys = ["", " ", "ключ", "a\nb", "x" * 2_000, "'; DROP TABLE hanabi_keys; --", "*"]
    assert store.claim(keys, "me", 60) == [Claim.OURS] * len(keys)
    assert store.claim(keys, "you", 60) == [Claim.BUSY] * len(keys)


def test_of_many_threads_one_gets_each_key(store: KeyStore) -> None:
    keys = [f"key-{number}" for number in range(50)]
    won: list[str] = []

    def claim(owner: str) -> None:
        for start in range(0, 50, 10):
            some = keys[start : start + 10]
            answers = store.claim(some, owner, 60)
            won.extend(key for key, answer in zip(some, answers, strict=True) if answer is Claim.OURS)

    threads = [threading.Thread(target=claim, args=(f"owner-{number}",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == sorted(keys)


def test_memory_is_bounded_and_forgets_what_was_done_first_but_no_claim() -> None:
    store = MemoryKeys(keys_max=3)
    store.claim(["held"], "me", 60)
    for key in ("a", "b", "c", "d"):
        store.claim([key], "me", 60)
        store.done([key], "me", 60)
    assert len(store) == 3
    assert store.claim(["held", "d"], "you", 60) == [Claim.BUSY, Claim.DONE]
    assert store.claim(["a"], "you", 60) == [Claim.OURS]
    with pytest.raises(ConfigError, match="keys_max"):
        MemoryKeys(keys_max=0)


def test_a_file_of_keys_is_there_after_a_restart_and_for_other_processes(tmp_path: Path) -> None:
    path = tmp_path / "keys.db"
    with SqliteKeys(path) as first, SqliteKeys(path) as second:
        assert first.claim(["a"], "me", 60) == [Claim.OURS]
        assert second.claim(["a"], "you", 60) == [Claim.BUSY]
        first.done(["a"], "me", 60)
    with SqliteKeys(path) as again:
        assert again.claim(["a"], "you", 60) == [Claim.DONE]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_of_a_fork_has_a_connection_of_its_own(tmp_path: Path) -> None:
    with SqliteKeys(tmp_path / "keys.db") as store:
        store.claim(["a"], "parent", 60)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = 0 if store.claim(["a", "b"], "child", 60) == [Claim.BUSY, Claim.OURS] else 1
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert store.claim(["b"], "parent", 60) == [Claim.BUSY]


def test_what_has_expired_leaves_the_file(tmp_path: Path) -> None:
    now = 1_000.0
    with SqliteKeys(tmp_path / "keys.db", now=lambda: now) as store:
        store.done([f"old-{number}" for number in range(100)], "me", 10)
        now = 2_000.0
        for start in range(0, CLAIMS_BETWEEN_CLEANINGS, 100):
            store.claim([f"new-{start + number}" for number in range(100)], "me", 10)
    connection = sqlite3.connect(tmp_path / "keys.db")
    assert connection.execute("SELECT count(*) FROM hanabi_keys").fetchone() == (CLAIMS_BETWEEN_CLEANINGS,)
    connection.close()


def test_a_file_that_is_no_database_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "keys.db"
    path.write_bytes(b"this is something else" * 100)
    with SqliteKeys(path) as store, pytest.raises(KeyStoreFailed, match=r"keys\.db.*not a database"):
        store.claim(["a"], "me", 60)
    with SqliteKeys(tmp_path / "no" / "such" / "folder.db") as store, pytest.raises(KeyStoreFailed, match="folder"):
        store.claim(["a"], "me", 60)


def test_a_redis_that_is_not_there_is_an_error_that_says_so() -> None:
    store = RedisKeys("redis://127.0.0.1:1/0")
    with pytest.raises(KeyStoreFailed, match="Redis cannot be used"):
        store.claim(["a"], "me", 60)
    store.close()


def test_a_client_of_ones_own_is_used_and_left_open(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        store = RedisKeys(client, prefix="own:")
        assert store.claim(["a", "b"], "me", 60) == [Claim.OURS, Claim.OURS]
        store.done(["a"], "me", 60)
        assert store.claim(["a", "b"], "you", 60) == [Claim.DONE, Claim.BUSY]
        store.release(["b"], "me")
        store.close()
        assert client.ping()
        assert client.get("own:a") == "d"
        assert client.get("own:b") is None
        assert 0 < client.pttl("own:a") <= 60_000
