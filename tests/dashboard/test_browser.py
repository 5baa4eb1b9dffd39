"""The dashboard in a real browser: what people do, in both themes, with a strict policy and without console errors.

One browser and one cluster for all tests of this module. Skipped where there is no chromium; CI installs it.
"""

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

import hanabi
from hanabi.client.config import ClientConfig
from hanabi.dashboard.config import DashboardConfig
from hanabi.dashboard.server import running
from hanabi.testing.cluster import running_cluster
from hanabi.testing.threads import in_thread

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PASSWORD = "a long password"  # noqa: S105 - of this test
SCRIPT = "<script>document.title = 'taken'</script>"
PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
PAGES = ("/", "/topics", "/topics/Orders", "/groups", "/groups/billing", "/messages?topic=Orders", "/dead-letters")
MORE_PAGES = ("/brokers", "/replication", "/producers", "/waiting", "/users", "/audit", "/help", "/jobs", "/new/topic")

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None and not os.environ.get("HANABI_CHROMIUM_REQUIRED"), reason="needs chromium"),
]


class Site:
    """The URL of a dashboard, a browser that is logged in, and what its console said."""

    def __init__(self, url: str, namesrv: str, browser: Browser) -> None:
        self.url, self.namesrv, self.browser = url, namesrv, browser
        self.context = self.logged_in()
        self.errors: list[str] = []

    def logged_in(self, **options: Any) -> BrowserContext:
        context = self.browser.new_context(base_url=self.url, **options)
        page = context.new_page()
        page.goto("/login")
        page.get_by_label("Name").fill("admin")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        page.close()
        return context

    def page(self, path: str, context: BrowserContext | None = None) -> Page:
        page = (context or self.context).new_page()
        page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.goto(path)
        return page


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("browser")
    (folder / "password").write_text(PASSWORD)
    with in_thread(running_cluster(folder / "cluster")) as cluster:
        namesrv = cluster.it.namesrv
        cluster.run(cluster.it.create_topic("Orders", queues=2))
        with hanabi.Producer("shop", namesrv=namesrv) as producer:
            for number in range(20):
                producer.send(hanabi.Message("Orders", json.dumps({"amount": number}).encode(), keys=[f"k{number}"]))
            producer.send(hanabi.Message("Orders", SCRIPT.encode(), keys=["evil"]))
        with hanabi.PullConsumer("billing", namesrv=namesrv) as consumer:
            consumer.commit(dict.fromkeys(consumer.queues_of("Orders"), 1))
        config = DashboardConfig(home=folder / "home", port=0, password_file=folder / "password", scrypt_log_n=4)
        client = ClientConfig(namesrv=namesrv, request_timeout_s=2.5)
        with in_thread(running(config, client)) as dashboard, sync_playwright() as play:
            browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            try:
                yield Site(dashboard.it[0].split()[-1].rstrip("/"), namesrv, browser)
            finally:
                browser.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_page_has_a_violation_of_accessibility_or_an_error_in_the_console(site: Site, theme: Any) -> None:
    context = site.logged_in(color_scheme=theme, viewport={"width": 1280, "height": 800})
    page = site.page("/", context)
    wrong = {}
    for path in (*PAGES, *MORE_PAGES):
        page.goto(path)
        found = Axe().run(page)
        if found.violations_count:
            wrong[path] = found.generate_report()
        if folder := os.environ.get("HANABI_PICTURES"):
            name = path.strip("/").split("?")[0].replace("/", "-") or "overview"
            page.screenshot(path=Path(folder) / f"dashboard-{name}-{theme}.png")
    context.close()
    assert not wrong, "\n".join(f"{path}: {report}" for path, report in wrong.items())
    assert site.errors == []


def test_a_search_narrows_the_list_while_typing_and_the_address_holds_it(site: Site) -> None:
    page = site.page("/topics")
    page.keyboard.press("/")
    page.keyboard.type("ord")
    expect(page).to_have_url(re.compile(r"q=ord"))
    expect(page.get_by_role("link", name="Orders")).to_be_visible()
    page.get_by_role("searchbox").fill("nothing")
    expect(page.get_by_text("No topic matches.")).to_be_visible()
    page.goto("/topics?q=ord")
    page.locator("body").press("j")
    expect(page.get_by_role("link", name="Orders")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Topic Orders")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("g")
    expect(page).to_have_url(re.compile("/groups$"))
    page.close()


def test_a_body_that_is_a_script_is_read_as_text(site: Site) -> None:
    page = site.page("/messages?key=evil")
    page.locator("table.rows a").click()
    expect(page.locator("pre")).to_have_text(SCRIPT)
    assert "taken" not in page.title()
    page.close()


def test_a_message_is_sent_and_seen_live_and_its_link_opens_it(site: Site) -> None:
    live = site.page("/topics/Orders/live?filter=amount+%3E+100")
    expect(live.get_by_text("waiting for messages")).to_be_visible()
    page = site.page("/topics/Orders/send")
    for amount in (50, 150):
        page.goto("/topics/Orders/send")
        page.get_by_label("Keys").fill(f"live{amount}")
        page.get_by_label("Body").fill(json.dumps({"amount": amount}))
        page.get_by_role("button", name="Send").click()
        expect(page.get_by_role("status")).to_contain_text("SEND_OK")
    expect(live.locator("tbody tr")).to_have_count(1)
    expect(live.locator("tbody tr")).to_contain_text("live150")
    live.locator("tbody a").click()
    expect(live.get_by_role("heading", name="Message")).to_be_visible()
    live.close()
    page.close()


def test_pages_read_without_javascript_on_a_narrow_screen_and_in_chinese(site: Site) -> None:
    context = site.logged_in(java_script_enabled=False, viewport={"width": 360, "height": 640})
    page = site.page("/topics", context)
    expect(page.get_by_role("link", name="Orders")).to_be_visible()
    page.get_by_label("Language").select_option("zh")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name="主题")).to_be_visible()
    for path in PAGES:
        page.goto(path)
        assert page.locator("main").bounding_box()["width"] <= 360, path  # type: ignore[index]
    context.close()


def test_a_reset_is_previewed_and_done_by_hand(site: Site) -> None:
    page = site.page("/groups/billing")
    page.get_by_role("link", name="Reset").click()
    page.get_by_label("Topic").fill("Orders")
    page.locator("select[name=to]").select_option("first")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_text("Nothing has changed yet.")).to_be_visible()
    page.get_by_label("Type the name").fill("billing")
    page.get_by_role("button", name="Reset").click()
    expect(page.get_by_text("The offsets were reset.")).to_be_visible()
    page.goto("/audit?q=reset")
    expect(page.locator("tbody tr").first).to_contain_text("reset offsets")
    page.close()
    assert site.errors == []
