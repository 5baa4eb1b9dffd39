"""Login, sessions, roles and the checks of each request: the threats of a dashboard, each with its defence."""

import json
import stat
from pathlib import Path

import pytest

from hanabi.client.config import ClientConfig
from hanabi.dashboard.app import PAGES
from hanabi.dashboard.config import FORM_BYTES_MAX, DashboardConfig
from hanabi.dashboard.security.guard import OPEN_IN_READ_ONLY
from hanabi.dashboard.security.passwords import hashed, matches
from hanabi.dashboard.security.roles import Role
from hanabi.dashboard.security.rules import client_address, comes_from_our_page, host_is_allowed
from hanabi.dashboard.security.sessions import SESSIONS_MAX, Sessions
from hanabi.dashboard.security.throttle import ENTRIES_MAX, Throttle, wait_after
from hanabi.dashboard.security.users import Users
from hanabi.dashboard.server import opened
from hanabi.errors import ConfigError, InvalidParameter
from hanabi.testing.clock import ManualClock
from tests.dashboard.browsing import PASSWORD, dashboard

NOWHERE = "127.0.0.1:1"  # no name server is there, and these tests need none


def paths(role: Role | None) -> list[tuple[str, str]]:
    return [(page.method, page.path.replace("{", "").replace("}", "")) for page in PAGES if page.role is role]


async def test_every_page_but_the_login_asks_for_a_login(tmp_path: Path) -> None:
    async with dashboard(tmp_path, NOWHERE) as site:
        browser = site.browser()
        for role in Role:
            for method, path in paths(role):
                response = await browser.http.request(method, path)
                assert response.status_code == 303, path
                assert response.headers["location"].startswith("/login")
        assert {path for _, path in paths(None)} == {"/login"}


async def test_a_role_that_is_too_low_gets_403_and_the_audit_log_has_it(tmp_path: Path) -> None:
    async with dashboard(tmp_path, NOWHERE) as site:
        for role in (Role.READER, Role.OPERATOR):
            browser = await site.as_role(role)
            for higher in (each for each in Role if each > role):
                for method, path in paths(higher):
                    response = await browser.post(path) if method == "POST" else await browser.get(path)
                    assert response.status_code == 403, path
        assert any(event.verdict == "refused" and "needs the role" in event.detail for event in site.parts.audit.newest)


async def test_read_only_mode_refuses_every_change_of_an_administrator(tmp_path: Path) -> None:
    async with dashboard(tmp_path, NOWHERE, read_only=True) as site:
        browser = await site.as_role(Role.ADMINISTRATOR)
        changing = [path for role in Role for method, path in paths(role) if method == "POST"]
        for path in {*changing} - OPEN_IN_READ_ONLY:
            assert (await browser.post(path)).status_code == 403, path
        assert (await browser.post("/logout")).status_code == 303


async def test_six_wrong_passwords_make_the_right_one_wait_and_the_audit_log_has_it(tmp_path: Path) -> None:
    async with dashboard(tmp_path, NOWHERE) as site:
        browser = site.browser()
        codes = [(await browser.login("reader", "wrong")).status_code for _ in range(6)]
        assert codes == [401] * 5 + [429]
        refused = await browser.login("reader", PASSWORD)
        assert refused.status_code == 429
        assert "Wait" in refused.text
        elsewhere = site.browser("198.51.100.7")  # the account waits, from every address
        assert (await elsewhere.login("reader", PASSWORD)).status_code == 429
        assert (await elsewhere.login("operator", PASSWORD)).status_code == 303
        events = [event for event in site.parts.audit.newest if event.user == "reader" and event.verdict == "refused"]
        assert len(events) == 8
        assert PASSWORD not in (site.parts.config.home / "audit.jsonl").read_text()


def test_the_wait_doubles_has_an_end_and_is_forgotten_after_a_success() -> None:
    clock = ManualClock()
    throttle = Throttle(clock.seconds)
    assert [wait_after(count, 5) for count in (4, 5, 6, 7, 100)] == [0, 30, 60, 120, 900]
    for _ in range(5):
        throttle.failed("ann", "192.0.2.1")
    assert throttle.wait_s("ann", "198.51.100.1") == 30
    clock.ms += 30_000
    assert throttle.wait_s("ann", "198.51.100.1") == 0
    throttle.failed("ann", "192.0.2.1")
    throttle.succeeded("ann", "192.0.2.1")
    assert throttle.wait_s("ann", "198.51.100.1") == 0


def test_logins_that_succeed_do_not_count_against_their_address_and_failures_do() -> None:
    clock = ManualClock()
    throttle = Throttle(clock.seconds)
    for number in range(100):
        throttle.failed(f"user {number}", "192.0.2.1")  # counted before the check
        throttle.succeeded(f"user {number}", "192.0.2.1")
    assert throttle.wait_s("ann", "192.0.2.1") == 0
    for number in range(20):
        throttle.failed(f"user {number}", "192.0.2.1")
    throttle.failed("ann", "192.0.2.1")
    throttle.succeeded("ann", "192.0.2.1")
    assert throttle.wait_s("ann", "192.0.2.1") > 0


def test_many_accounts_from_one_network_wait_together() -> None:
    throttle = Throttle(lambda: 0.0)
    for number in range(20):
        throttle.failed(f"user{number}", f"2001:db8::{number:x}")
    assert throttle.wait_s("new", "2001:db8::ffff") > 0
    assert throttle.wait_s("new", "2001:db8:1::1") == 0
    for number in range(ENTRIES_MAX):
        throttle.failed(f"other{number}", "192.0.2.1")
    assert throttle.wait_s("new", "2001:db8::ffff") == 0  # the table is bounded


async def test_a_session_has_a_new_id_at_each_login_and_ends_at_logout(tmp_path: Path) -> None:
    async with dashboard(tmp_path, NOWHERE) as site:
        browser = site.browser()
        browser.http.cookies.set("hanabi-session", "fixed-by-an-attacker", domain="127.0.0.1")
        response = await browser.login("reader")
        cookie = response.headers["set-cookie"].lower()
        assert "fixed-by-an-attacker" not in cookie
        assert all(word in cookie for word in ("httponly", "samesite=strict", "path=/"))
        first = dict(browser.http.cookies)
        await browser.login("reader")
        assert dict(browser.http.cookies) != first
        stolen = {"cookie": f"hanabi-session={browser.http.cookies['hanabi-session']}"}
        assert (await site.browser().get("/help", headers=stolen)).status_code == 200
        await browser.post("/logout")
        assert (await site.browser().get("/help", headers=stolen)).status_code == 303


async def test_behind_tls_the_cookie_is_secure_and_bound_to_the_host(tmp_path: Path) -> None:
    async with dashboard(tmp_path, NOWHERE, trusted_proxies=("192.0.2.9",)) as site:
        headers = {"x-forwarded-proto": "https", "x-forwarded-for": "203.0.113.5"}
        form = {"name": "reader", "password": PASSWORD}
        response = await site.browser("192.0.2.9").http.post("/login", data=form, headers=headers)
        assert response.headers["set-cookie"].startswith("__Host-hanabi-session=")
        assert "Secure" in response.headers["set-cookie"]
        assert site.parts.audit.newest[-1].address == "203.0.113.5"
        forged = await site.browser("192.0.2.8").http.post("/login", data=form, headers=headers)
        assert "Secure" not in forged.headers["set-cookie"]
        assert site.parts.audit.newest[-1].address == "192.0.2.8"


def test_a_session_ends_when_it_is_idle_and_at_its_absolute_end() -> None:
    now = 0.0
    sessions = Sessions(lambda: now, idle_s=10, whole_s=100)
    identity = sessions.begin("ann", Role.READER)
    for now in range(0, 100, 9):  # noqa: B007
        assert sessions.find(identity) is not None
    now = 101
    assert sessions.find(identity) is None
    idle = sessions.begin("ann", Role.READER)
    now = 107
    assert sessions.find(idle, touch=False) is not None  # a refresh by a timer keeps nothing alive
    now = 112
    assert sessions.find(idle) is None
    first = sessions.begin("ann", Role.READER)
    for _ in range(SESSIONS_MAX):
        sessions.begin("bob", Role.READER)
    assert sessions.find(first) is None  # the table is bounded
    sessions.end_all_of("bob")
    assert sessions.find(sessions.begin("ann", Role.READER)) is not None


@pytest.mark.parametrize(
    ("headers", "fields"),
    [
        ({}, {"csrf": ""}),
        ({}, {"csrf": "of another session"}),
        ({"origin": "http://evil.example"}, {}),
        ({"origin": "null"}, {}),
        ({"sec-fetch-site": "cross-site"}, {}),
        ({"sec-fetch-site": "same-site"}, {}),
    ],
)
async def test_a_forged_form_changes_nothing(tmp_path: Path, headers: dict[str, str], fields: dict[str, str]) -> None:
    async with dashboard(tmp_path, NOWHERE) as site:
        browser = await site.as_role(Role.ADMINISTRATOR)
        form = {"name": "mallory", "role": "administrator", "password": "x" * 12, **fields}
        assert (await browser.post("/users", form, headers=headers)).status_code == 403
        assert "mallory" not in site.parts.users.roles()
        assert (await browser.post("/users", {**form, "csrf": browser.csrf})).status_code == 303
        assert "mallory" in site.parts.users.roles()


async def test_reading_changes_nothing(tmp_path: Path) -> None:
    """Every page that changes something takes POST only, and a GET of it is refused."""
    async with dashboard(tmp_path, NOWHERE) as site:
        browser = await site.as_role(Role.ADMINISTRATOR)
        readable = {path for role in Role for method, path in paths(role) if method == "GET"}
        only_post = {path for role in Role for method, path in paths(role) if method == "POST"} - readable
        for path in only_post:
            assert (await browser.get(path)).status_code in (404, 405), path
        assert {method for role in Role for method, _ in paths(role)} == {"GET", "POST"}


async def test_a_host_name_that_is_not_ours_is_refused(tmp_path: Path) -> None:
    async with dashboard(tmp_path, NOWHERE, allowed_hosts=("mq.example",)) as site:
        browser = site.browser()
        for host, code in (("evil.example", 421), ("mq.example:8080", 200), ("localhost:1", 200), ("", 421)):
            assert (await browser.get("/login", headers={"host": host})).status_code == code, host


def test_hosts_are_compared_as_names() -> None:
    good = ["127.0.0.1:8080", "[::1]:8080", "10.1.2.3", "localhost", "MQ.example"]
    assert all(host_is_allowed(host, ["mq.example"]) for host in good)
    bad = ["", "evil.example", "mq.example.evil.example", "mq.example@evil.example", "a:b:c", "[::1", "127.0.0.1/x"]
    assert not any(host_is_allowed(host, ["mq.example"]) for host in bad)


def test_only_trusted_proxies_say_where_a_request_comes_from() -> None:
    headers = {"x-forwarded-for": "203.0.113.66, 203.0.113.5"}
    assert client_address("192.0.2.1", headers, ()) == "192.0.2.1"
    assert client_address("192.0.2.1", headers, ("192.0.2.1",)) == "203.0.113.5"
    assert comes_from_our_page({"origin": "http://127.0.0.1:8080"}, "127.0.0.1:8080")
    assert not comes_from_our_page({"origin": "http://127.0.0.1:8081"}, "127.0.0.1:8080")


async def test_every_answer_has_the_strict_headers(tmp_path: Path) -> None:
    async with dashboard(tmp_path, NOWHERE) as site:
        browser = await site.as_role(Role.READER)
        for path in ("/login", "/help", "/none", "/static/app.js", "/static/none.js", "/topics?page=x"):
            response = await browser.get(path)
            policy = response.headers["content-security-policy"]
            assert "default-src 'none'" in policy, path
            assert "unsafe" not in policy
            assert response.headers["x-content-type-options"] == "nosniff"
            assert response.headers["x-frame-options"] == "DENY"
        assert (await browser.get("/help")).headers["cache-control"] == "no-store"


@pytest.mark.parametrize("target", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)"])
async def test_a_login_leads_to_no_other_site(tmp_path: Path, target: str) -> None:
    async with dashboard(tmp_path, NOWHERE) as site:
        form = {"name": "reader", "password": PASSWORD, "next": target}
        response = await site.browser().http.post("/login", data=form)
        assert response.headers["location"] == "/"


async def test_forms_that_are_huge_or_no_forms_are_refused(tmp_path: Path) -> None:
    async with dashboard(tmp_path, NOWHERE) as site:
        browser = await site.as_role(Role.ADMINISTRATOR)
        form = {"content-type": "application/x-www-form-urlencoded"}
        bodies = [
            (b"x=" + b"y" * FORM_BYTES_MAX, form),
            (b"&".join(b"a=1" for _ in range(5_000)), form),
            (b"csrf=\xff", form),
            (b"{}", {"content-type": "application/json"}),
        ]
        for body, headers in bodies:
            sent = {**headers, "x-csrf-token": browser.csrf}
            assert (await browser.http.post("/users", content=body, headers=sent)).status_code in (403, 413)


async def test_static_files_lead_nowhere_else(tmp_path: Path) -> None:
    async with dashboard(tmp_path, NOWHERE) as site:
        for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static//etc/passwd"):
            assert (await site.browser().get(path)).status_code in (303, 404)


async def test_users_are_kept_as_hashes_that_only_the_owner_reads(tmp_path: Path) -> None:
    users = Users(tmp_path / "users.json", 4)
    await users.put("ann", Role.ADMINISTRATOR, PASSWORD)
    path = tmp_path / "users.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert PASSWORD not in path.read_text()
    again = Users(path, 4)
    assert await again.check("ann", PASSWORD) is Role.ADMINISTRATOR
    assert await again.check("ann", "wrong") is None
    assert await again.check("nobody", PASSWORD) is None


async def test_the_last_administrator_stays_and_bad_users_are_refused(tmp_path: Path) -> None:
    users = Users(tmp_path / "users.json", 4)
    await users.put("ann", Role.ADMINISTRATOR, PASSWORD)
    with pytest.raises(InvalidParameter, match="last administrator"):
        users.delete("ann")
    with pytest.raises(InvalidParameter, match="last administrator"):
        await users.put("ann", Role.READER, None)
    for name, password in (
        ("", PASSWORD),
        ("a b", PASSWORD),
        ("<b>", PASSWORD),
        ("x" * 65, PASSWORD),
        ("bob", "short"),
    ):
        with pytest.raises(InvalidParameter):
            await users.put(name, Role.READER, password)
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(ConfigError, match="not a file of users"):
        Users(tmp_path / "bad.json", 4)


def test_two_hashes_of_one_password_differ_and_both_match() -> None:
    first, second = hashed("secret word", 4), hashed("secret word", 4)
    assert first != second
    assert matches("secret word", first)
    assert matches("secret word", second)
    assert not matches("secret", first)


async def test_the_first_start_makes_an_administrator_once(tmp_path: Path) -> None:
    config = DashboardConfig(home=tmp_path, scrypt_log_n=4)
    async with opened(config, ClientConfig(namesrv=NOWHERE)) as (parts, password):
        assert password is not None
        assert await parts.users.check("admin", password) is Role.ADMINISTRATOR
    async with opened(config, ClientConfig(namesrv=NOWHERE)) as (_, password):
        assert password is None


async def test_the_first_password_may_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("short\n")
    config = DashboardConfig(home=tmp_path / "home", password_file=file, scrypt_log_n=4)
    with pytest.raises(ConfigError, match="at least 10"):
        async with opened(config, ClientConfig(namesrv=NOWHERE)):
            pass
    file.write_text("long enough a word\n")
    async with opened(config, ClientConfig(namesrv=NOWHERE)) as (parts, password):
        assert password is None
        assert await parts.users.check("admin", "long enough a word") is Role.ADMINISTRATOR


async def test_a_changed_password_ends_the_sessions_of_its_user(tmp_path: Path) -> None:
    async with dashboard(tmp_path, NOWHERE) as site:
        reader, administrator = await site.as_role(Role.READER), await site.as_role(Role.ADMINISTRATOR)
        assert (await reader.post("/password", {"old": "wrong", "new": "y" * 12})).status_code == 400
        assert (await reader.post("/password", {"old": PASSWORD, "new": "y" * 12})).status_code == 303
        assert (await reader.get("/help")).status_code == 303
        assert (await reader.login("reader", "y" * 12)).status_code == 303
        await administrator.post("/users", {"name": "reader", "role": "operator"})
        assert (await reader.get("/help")).status_code == 303


async def test_the_audit_log_survives_a_restart(tmp_path: Path) -> None:
    async with dashboard(tmp_path, NOWHERE) as site:
        await site.as_role(Role.READER)
        path = site.parts.config.home / "audit.jsonl"
        assert json.loads(path.read_text().splitlines()[-1])["action"] == "login"
    with path.open("a") as file:
        file.write('{"cut by a cra')
    async with dashboard(tmp_path, NOWHERE) as site:
        browser = await site.as_role(Role.ADMINISTRATOR)
        page = await browser.get("/audit?q=login")
        assert "192.0.2.1" in page.text
