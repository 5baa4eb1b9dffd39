"""`hanabi dashboard` and `hanabi serve --dashboard-port`, as processes; and the files that browsers load."""

import hashlib
import json
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hanabi.dashboard.app import STATIC
from tests.cli.commands import HANABI, environment, hanabi, refused

DEADLINE_SECONDS = 60.0
SMALL = "mappedFileSizeCommitLog=1048576\nmappedFileSizeConsumeQueue=20000\nmaxHashSlotNum=100\nmaxIndexNum=400\n"


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


@contextmanager
def started(*arguments: str, lines: int) -> Iterator[tuple["subprocess.Popen[str]", list[str]]]:
    with subprocess.Popen(
        [*HANABI, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        try:
            assert process.stdout is not None
            yield process, [process.stdout.readline().strip() for _ in range(lines)]
        finally:
            process.kill()


def request(url: str, form: dict[str, str] | None = None) -> tuple[int, str]:
    data = urllib.parse.urlencode(form).encode() if form else None
    try:
        with urllib.request.build_opener(_Stay).open(url, data, timeout=DEADLINE_SECONDS) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers.get("location", "")


def test_serve_starts_a_dashboard_that_asks_for_a_login(tmp_path: Path) -> None:
    config = tmp_path / "broker.conf"
    config.write_text(SMALL)
    arguments = ("-c", str(config), "--home", str(tmp_path / "home"), "--namesrv-port", "0", "--broker-port", "0")
    with started("serve", *arguments, "--dashboard-port", "0", lines=4) as (process, lines):
        (ready,) = (line.split()[-1] for line in lines if line.startswith("ready dashboard "))
        (told,) = (line for line in lines if line.startswith("dashboard user admin has the password "))
        assert request(ready)[0] == 303
        status, page = request(f"{ready}login")
        assert status == 200
        assert 'type="password"' in page
        password = told.split()[6]
        assert request(f"{ready}login", {"name": "admin", "password": password}) == (303, "/")
        process.terminate()
        assert process.wait(DEADLINE_SECONDS) == 0


def test_a_dashboard_alone_needs_no_server_to_start_and_stops_cleanly(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("a long password\n")
    options = ("--port", "0", "--home", str(tmp_path / "home"), "--password-file", str(password), "-n", "127.0.0.1:1")
    with started("dashboard", *options, lines=1) as (process, (ready,)):
        url = ready.split()[-1]
        assert request(f"{url}login", {"name": "admin", "password": "a long password"})[0] == 303
        process.terminate()
        assert process.wait(DEADLINE_SECONDS) == 0


def test_a_taken_port_and_a_bad_password_file_are_told_in_one_sentence(tmp_path: Path) -> None:
    options = ["dashboard", "--home", str(tmp_path / "home"), "--port", "0"]
    missing = hanabi(*options, "--password-file", str(tmp_path / "missing"))
    assert refused(missing, 2).startswith("--password-file")
    assert refused(hanabi(*options, "--host", "203.0.113.1"), 2).startswith("cannot listen on 203.0.113.1")


def test_files_of_others_are_as_they_were_published_and_have_their_licences() -> None:
    lines = (STATIC / "vendor" / "SHA256SUMS").read_text().splitlines()
    sums = {name: digest for digest, name in map(str.split, lines)}
    files = {path.name: path for path in (STATIC / "vendor").iterdir() if path.name != "SHA256SUMS"}
    assert {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()} == sums
    assert "htmx.LICENSE" in files


def test_templates_load_nothing_from_elsewhere_and_have_no_inline_code() -> None:
    templates = sorted((STATIC.parent / "templates").glob("*.html"))
    assert len(templates) > 10
    for path in templates:
        text = path.read_text()
        assert "|safe" not in text, path
        assert not re.search(r"https?://", text), path
        assert not re.search(r"<script(?![^>]*src=)", text), path
        assert not re.search(r"\s(on\w+|style|hx-on[\w:-]*)=", text), path
    assert not re.search(r"innerHTML|eval\(|https?://", (STATIC / "app.js").read_text())


def test_every_text_of_the_templates_has_a_translation() -> None:
    texts = json.loads((STATIC.parent / "render" / "chinese.json").read_text())
    used = {
        text
        for path in (STATIC.parent / "templates").glob("*.html")
        for text in re.findall(r"""\bt\(["']([^"]+?)["']\)""", path.read_text())
    }
    assert len(used) > 200
    assert used - set(texts) == set()
    assert all(value.strip() for value in texts.values())
