"""Fixtures of the interop tests: both sites, and mqadmin of both lines, started once for all tests."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# The harness is imported as tests.interop, by the benchmarks too.
sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from tests.interop.jars import (
    ADMIN_4,
    ALL_5,
    SERVERS_4,
    JavaUnavailable,
    classpath,
    driver_classpath,
    required,
)
from tests.interop.mqadmin import MqAdmin
from tests.interop.mqadmin_script import SCRIPT_4, SCRIPT_5, Transcripts, hold
from tests.interop.sites import Site, sites


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.interop)


@pytest.fixture(scope="session")
def apache_jars() -> None:
    """Apache's programs are here; without them the tests are skipped, but not in CI."""
    try:
        classpath(SERVERS_4)
        driver_classpath(ADMIN_4)
        driver_classpath(ALL_5)
    except JavaUnavailable as error:
        if required():
            pytest.fail(f"CI must run the interop tests, but {error}", pytrace=False)
        pytest.skip(f"no Apache RocketMQ here: {error}")


@pytest.fixture(scope="package")
def both_sites(apache_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Site]]:
    """Apache's site and ours."""
    with sites(tmp_path_factory.mktemp("sites")) as both:
        yield both


@pytest.fixture(scope="package")
def admin_4(apache_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MqAdmin]:
    """mqadmin of 4.9.8."""
    admin = MqAdmin(tmp_path_factory.mktemp("admin-4"), ADMIN_4)
    yield admin
    admin.close()


@pytest.fixture(scope="package")
def admin_5(apache_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MqAdmin]:
    """mqadmin of the 5.3 line."""
    admin = MqAdmin(tmp_path_factory.mktemp("admin-5"), ALL_5)
    yield admin
    admin.close()


@pytest.fixture(scope="package")
def transcripts(both_sites: tuple[Site, Site], admin_4: MqAdmin, admin_5: MqAdmin) -> Transcripts:
    """Return for mqadmin of both lines what each step printed with Apache's name server, and with ours."""
    apache, ours = both_sites
    return {
        "4.9": (hold(SCRIPT_4, admin_4, apache), hold(SCRIPT_4, admin_4, ours)),
        "5.3": (hold(SCRIPT_5, admin_5, apache), hold(SCRIPT_5, admin_5, ours)),
    }


@pytest.fixture(scope="package")
def our_site(both_sites: tuple[Site, Site], transcripts: Transcripts) -> Site:
    """Our site, when the comparison is done with it: tests may leave topics and groups on it."""
    return both_sites[1]
