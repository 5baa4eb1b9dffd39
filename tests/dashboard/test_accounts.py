"""Login with accounts of the brokers: requests are signed with them, and brokers decide what they see and may."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from hanabi import Message
from hanabi.aio import Producer
from hanabi.client.config import ClientConfig, Credentials
from hanabi.dashboard.cluster.accounts import ACCOUNTS_MAX
from hanabi.dashboard.config import DashboardConfig
from hanabi.dashboard.security.roles import Role
from hanabi.dashboard.server import opened
from hanabi.testing.cluster import Cluster, running_cluster
from tests.dashboard.browsing import PASSWORD, Browser, Dashboard

OPERATOR = Credentials("operator", "secret-of-operator")
APP = Credentials("orders-app", "secret-of-orders")
INIT = json.dumps({"username": OPERATOR.access_key, "password": OPERATOR.secret_key})


@asynccontextmanager
async def guarded(
    home: Path, *, access_control: bool = True, **settings: Any
) -> AsyncIterator[tuple[Cluster, Dashboard]]:
    """Run a broker with users, and a dashboard that signs with a Super user's account."""
    given: dict[str, Any] = {"authentication_enabled": True, "authorization_enabled": True, "init_user": INIT}
    async with running_cluster(home, **(given if access_control else {})) as cluster:
        for topic in ("Orders", "Secrets"):
            await cluster.create_topic(topic, queues=1)
        config = DashboardConfig(home=home / "dashboard", scrypt_log_n=4, **{"broker_login": True, **settings})
        client = ClientConfig(namesrv=cluster.namesrv, request_timeout_s=5.0, access=OPERATOR)
        async with opened(config, client) as (parts, _):
            await parts.users.put("administrator", Role.ADMINISTRATOR, PASSWORD)
            yield cluster, Dashboard(parts)


async def account_login(browser: Browser, access: Credentials) -> httpx.Response:
    fields = {"as": "account", "name": access.access_key, "password": access.secret_key}
    response = await browser.http.post("/login", data=fields)
    if response.status_code == 303:
        await browser.get("/help")
    return response


async def make_app(site: Dashboard, *grants: tuple[str, str]) -> Browser:
    """Create the user orders-app by the page of rights, as an administrator does; return that browser."""
    browser = site.browser()
    assert (await browser.login("administrator")).status_code == 303
    made = await browser.post("/rights/user", {"name": APP.access_key, "password": APP.secret_key, "type": "Normal"})
    assert made.status_code == 303, made.text
    for resource, actions in grants:
        done = await browser.post("/rights", {"user": APP.access_key, "resource": resource, "actions": actions})
        assert done.status_code == 303, done.text
    return browser


async def test_an_account_sees_and_does_what_the_brokers_let_it(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (cluster, site):
        await make_app(site, ("Topic:Orders", "Pub,Sub,Get"), ("Group:TOOLS_CONSUMER", "Sub"))
        async with Producer("shop", namesrv=cluster.namesrv, access=OPERATOR) as producer:
            for topic in ("Orders", "Secrets"):
                await producer.send(Message(topic, b"a body of " + topic.encode(), keys=["k"]))
        browser = site.browser("192.0.2.7")
        assert (await account_login(browser, APP)).status_code == 303
        page = (await browser.get("/topics/Orders")).text
        assert "account:orders-app" in page
        assert "has no permission" not in page.split("<caption>Groups")[0]
        assert "/messages/view?id=" in (await browser.get("/messages?topic=Orders")).text
        secret = (await browser.get("/messages?topic=Secrets")).text
        assert "/messages/view?id=" not in secret
        assert "no permission" in secret
        sent = await browser.post("/topics/Orders/send", {"body": "mine", "keys": "mine"})
        assert sent.status_code == 303
        refused = await browser.post("/topics/Secrets/send", {"body": "mine"})
        assert refused.status_code == 502
        assert "no permission" in refused.text
        for path in ("/users", "/audit", "/alerts"):
            assert (await browser.get(path)).status_code == 403, path
        assert (await browser.post("/users", {"name": "x", "role": "administrator"})).status_code == 403
        assert (await browser.get("/history?of=topic&name=Orders")).status_code == 200
        for query in ("of=topic&name=Secrets", "of=overview", f"of=broker&name={cluster.address}"):
            assert (await browser.get(f"/history?{query}")).status_code == 403, query
        lines = [json.loads(line) for line in (tmp_path / "dashboard" / "audit.jsonl").read_text().splitlines()]
        assert any(line["user"] == "account:orders-app" and line["action"] == "send" for line in lines)
        assert APP.secret_key not in (tmp_path / "dashboard" / "audit.jsonl").read_text()


async def test_answers_that_one_account_got_are_not_shown_to_another(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (cluster, site):
        await make_app(site, ("Topic:Orders", "Pub,Sub,Get"))
        operator, app = site.browser("192.0.2.8"), site.browser("192.0.2.9")
        await account_login(operator, OPERATOR)
        await account_login(app, APP)
        assert "no permission" not in (await operator.get(f"/brokers/{cluster.address}")).text
        assert "flushDiskType" in (await operator.get(f"/brokers/{cluster.address}")).text
        assert "flushDiskType" not in (await app.get(f"/brokers/{cluster.address}")).text


async def test_a_wrong_secret_is_refused_and_after_five_the_right_one_must_wait(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (_, site):
        browser = site.browser()
        wrong = Credentials(OPERATOR.access_key, "wrong-secret")
        for _number in range(5):
            assert (await account_login(browser, wrong)).status_code == 401
        assert (await account_login(browser, OPERATOR)).status_code == 429
        assert (await account_login(site.browser("192.0.2.3"), Credentials("unknown", "x" * 20))).status_code == 401


async def test_where_brokers_check_no_signature_no_account_can_log_in(tmp_path: Path) -> None:
    async with guarded(tmp_path, access_control=False) as (_, site):
        response = await account_login(site.browser(), OPERATOR)
        assert response.status_code == 502
        assert "do not check signatures" in response.text


async def test_without_the_option_an_account_is_an_unknown_user(tmp_path: Path) -> None:
    async with guarded(tmp_path, broker_login=False) as (_, site):
        response = await account_login(site.browser(), OPERATOR)
        assert response.status_code == 401
        assert "account of the brokers" not in response.text


async def test_a_grant_is_previewed_and_takes_effect_and_a_revocation_too(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (_, site):
        admin = await make_app(site)
        app = site.browser("192.0.2.9")
        assert (await account_login(app, APP)).status_code == 303
        assert (await app.post("/topics/Orders/send", {"body": "1"})).status_code == 502
        query = "user=orders-app&resource=Topic:Ord*&actions=Pub,Get"
        preview = (await admin.get(f"/rights/preview?{query}")).text
        assert "Nothing has changed yet." in preview
        assert "Allow Pub, Get" in preview
        assert (await app.post("/topics/Orders/send", {"body": "2"})).status_code == 502
        fields = {"user": "orders-app", "resource": "Topic:Ord*", "actions": "Pub,Get"}
        assert (await admin.post("/rights", fields)).status_code == 303
        assert "Topic:Ord*" in (await admin.get("/rights")).text
        assert (await app.post("/topics/Orders/send", {"body": "3"})).status_code == 303
        revoke = {"user": "orders-app", "resource": "Topic:Ord*", "do": "revoke"}
        assert "Allow" in (await admin.get("/rights/preview", params=revoke)).text
        assert (await admin.post("/rights", revoke)).status_code == 303
        refused = await app.post("/topics/Orders/send", {"body": "4"})
        assert "no permission" in refused.text
        audit = (await admin.get("/audit?q=rights")).text
        assert "Allow Pub,Get → nothing" in audit
        for bad in ({"user": "orders-app", "resource": "Orders"}, {"user": "", "resource": "Topic:x"},
                    {"user": "orders-app", "resource": "Topic:x", "decision": "Maybe"}):  # fmt: skip
            assert (await admin.get("/rights/preview", params=bad)).status_code == 400, bad
        assert (await admin.post("/rights/user/delete", {"name": "orders-app", "confirm": "x"})).status_code == 400
        done = await admin.post("/rights/user/delete", {"name": "orders-app", "confirm": "orders-app"})
        assert done.status_code == 303


async def test_of_too_many_accounts_the_oldest_is_logged_out(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (_, site):
        first = site.browser("192.0.2.9")
        assert (await account_login(first, OPERATOR)).status_code == 303
        assert (await first.get("/help")).status_code == 200
        accounts = site.parts.accounts
        client = site.parts.client
        for number in range(ACCOUNTS_MAX):
            await accounts.remember(f"account:{number}", await accounts.opened(client))
        assert (await first.get("/help")).status_code == 303  # to the login
