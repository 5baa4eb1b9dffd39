"""The dashboard in a real browser: what people do, in both themes, with a strict policy and without console errors.

One browser and one cluster for all tests of this module. Skipped where there is no chromium; CI installs it.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.dashboard.site import LETTERS, NEEDS_CHROMIUM, SCRIPT, Site, site

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
PAGES = ("/", "/topics", "/topics/Orders", "/groups", "/groups/billing", "/messages?topic=Orders", "/dead-letters")
MORE_PAGES = (
    "/brokers", "/replication", "/controllers", "/producers", "/waiting", "/alerts", "/pipelines", "/rights", "/users",
    "/audit", "/help", "/jobs", "/new/topic", "/dead-letters/billing", "/topics/Orders/live", "/topics/Orders/send",
    "/groups/billing/reset",
)  # fmt: skip
__all__ = ["site"]
TAKEN = {"/": "overview", "/groups/billing": "group", "/topics/Orders": "topic", "/alerts": "alerts"}

ONLY_CONTRAST = {"runOnly": ["color-contrast"]}  # the other rules do not depend on the theme

pytestmark = NEEDS_CHROMIUM


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_page_has_a_violation_of_accessibility_or_an_error_in_the_console(site: Site, theme: Any) -> None:
    context = site.logged_in(color_scheme=theme, viewport={"width": 1280, "height": 800})
    page = site.page("/", context)
    axe, wrong = Axe(), {}
    for path in (*PAGES, *MORE_PAGES):
        page.goto(path)
        found = axe.run(page, options=None if theme == "light" else ONLY_CONTRAST)
        if found.violations_count:
            wrong[path] = found.generate_report()
    context.close()
    assert not wrong, "\n".join(f"{path}: {report}" for path, report in wrong.items())
    assert site.errors == []


@pytest.mark.skipif(
    not os.environ.get("HANABI_PICTURES"), reason="HANABI_PICTURES=1 takes the pictures of the documents"
)
def test_pictures_of_the_documents_are_taken(site: Site) -> None:
    context = site.logged_in(color_scheme="dark", viewport={"width": 1280, "height": 800})
    page = site.page("/", context)
    for path, name in TAKEN.items():
        page.goto(path)
        if page.locator("figure").count():
            expect(page.locator("figure canvas").first).to_be_visible()
        page.screenshot(path=PICTURES / f"dashboard-{name}.png")
    page.goto("/messages?key=k7&topic=Orders")
    page.locator("table.rows a").first.click()
    page.screenshot(path=PICTURES / "dashboard-message.png")
    context.close()


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


def test_the_overview_has_brokers_curves_and_what_the_doctor_finds(site: Site) -> None:
    page = site.page("/")
    expect(page.get_by_text("✓ answers")).to_be_visible()
    expect(page.locator("figure canvas")).to_have_count(2)
    expect(page.get_by_role("heading", name="What the doctor finds")).to_be_visible()
    page.close()


def test_a_topic_shows_its_queues_groups_and_curve_and_a_day_of_it(site: Site) -> None:
    page = site.page("/topics/Orders")
    expect(page.get_by_role("link", name="billing")).to_be_visible()
    expect(page.locator("figure canvas")).to_be_visible()
    page.get_by_role("link", name="1d", exact=True).click()
    expect(page).to_have_url(re.compile("span=1d"))
    expect(page.locator("figure canvas")).to_be_visible()
    page.get_by_text("As a table").click()
    expect(page.locator("figure details tbody tr")).to_have_count(12)
    page.close()


def test_a_lagging_group_shows_its_curve_how_far_behind_it_is_and_when_it_drains(site: Site) -> None:
    page = site.page("/groups/reporting")
    expect(page.locator("figure canvas")).to_have_count(2)
    expect(page.locator("dl.tiles dt").nth(1)).to_have_text("Behind")
    expect(page.locator("dl.tiles dd").nth(1)).to_have_text(re.compile(r"\d+ (s|min|h)"))
    expect(page.locator("dl.tiles dt").nth(2)).to_have_text("Drains in")
    expect(page.get_by_text("Worst queue")).to_be_visible()
    page.close()


def test_a_binary_body_is_guessed_and_a_chosen_form_is_remembered(site: Site) -> None:
    page = site.page("/messages?key=packed&topic=Orders")
    page.locator("table.rows a").first.click()
    expect(page.get_by_text("Shown as msgpack")).to_be_visible()
    page.get_by_role("link", name="hex", exact=True).click()
    expect(page.locator("pre")).to_contain_text("00000000  81")
    page.get_by_text("Remember a form for this topic").click()
    page.locator("select[name=form]").select_option("msgpack")
    page.get_by_role("button", name="Save").first.click()
    expect(page.get_by_text("Remember a form for this topic: msgpack")).to_be_visible()
    page.goto("/messages?key=k1&topic=Orders")
    page.locator("table.rows a").first.click()
    expect(page.get_by_text("the body is not msgpack")).to_be_visible()
    page.close()


def test_chosen_dead_letters_are_resent_and_the_progress_survives_a_reload(site: Site) -> None:
    page = site.page("/dead-letters/billing?origin=Paid")
    expect(page.locator("input[name=id]")).to_have_count(LETTERS)
    page.get_by_label("Choose", exact=True).check()
    expect(page.locator("input[name=id]:checked")).to_have_count(LETTERS)
    page.get_by_label("Letters a second").fill("5")
    page.get_by_role("button", name="Resend").click()
    expect(page).to_have_url(re.compile("/jobs/"))
    page.reload()
    expect(page.get_by_role("status")).to_contain_text(f"of {LETTERS}")
    expect(page.get_by_role("status")).to_contain_text(f"sent {LETTERS}", timeout=60_000)
    page.close()


def test_the_trace_of_a_message_is_a_timeline(site: Site) -> None:
    page = site.page("/messages?key=traced&topic=Orders")
    page.locator("table.rows a").first.click()
    expect(page.locator("svg.timeline rect").first).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("Trace: Pub shop"))).to_be_visible()
    page.close()


def test_an_ended_session_leads_politely_to_the_login_and_back(site: Site) -> None:
    context = site.logged_in()
    page = site.page("/topics", context)
    context.clear_cookies()
    page.get_by_role("searchbox").fill("ord")  # htmx asks for a part, and the page reloads
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    page.get_by_label("Name").fill("admin")
    page.get_by_label("Password").fill("a long password")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Topics")).to_be_visible()
    context.close()


@pytest.mark.skipif(not os.environ.get("HANABI_SLOW_TESTS"), reason="slow: HANABI_SLOW_TESTS=1 runs it")
def test_a_tab_that_is_open_for_long_keeps_its_memory_flat(site: Site) -> None:
    page = site.page("/groups/billing")
    expect(page.locator("figure canvas")).to_have_count(2)
    measure = "() => performance.memory.usedJSHeapSize"
    client = page.context.new_cdp_session(page)

    def used() -> int:
        client.send("HeapProfiler.collectGarbage")
        return int(page.evaluate(measure))

    def refresh(count: int) -> None:
        for _ in range(count):
            with page.expect_response(re.compile("/groups/billing$")):
                page.evaluate("() => htmx.ajax('GET', '/groups/billing', {target: '#part'})")

    refresh(20)
    before = used()
    refresh(200)
    assert used() - before < 2_000_000
    page.close()
