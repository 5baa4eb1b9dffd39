"""Completion in shells: the script of each, and the names of a running cluster."""

import os
import pty
import re
import select
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

import hanabi
from hanabi.cli.shared.completion import join_colons, matching, with_shell
from tests.cli.admin_commands import said, send
from tests.cli.commands import DEADLINE_SECONDS, environment, refused
from tests.cli.commands import hanabi as hanabi_process
from tests.serving import Serving

PATIENCE = "60"  # for a machine with much else to do
FIRST_LINES = {"bash": "_hanabi_completion() {", "zsh": "#compdef hanabi", "fish": "complete --command hanabi"}


def completed(*words: str, namesrv: str = "", patience: str = PATIENCE) -> list[str]:
    """Complete the last word, as bash asks for it."""
    asked = hanabi_process(
        _HANABI_COMPLETE="complete_bash",
        COMP_WORDS="\n".join(("hanabi", *words)),
        COMP_CWORD=str(len(words)),
        HANABI_COMPLETION_SECONDS=patience,
        NAMESRV_ADDR=namesrv,
    )
    assert asked.stderr == ""
    return asked.stdout.split()


@pytest.mark.parametrize("shell", FIRST_LINES)
def test_the_script_is_that_of_the_shell_that_is_named(shell: str) -> None:
    shown = hanabi_process("--show-completion", shell)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.startswith(FIRST_LINES[shell])


@pytest.mark.parametrize(
    ("shell", "file"),
    [
        ("bash", ".bash_completions/hanabi.sh"),
        ("zsh", ".zfunc/_hanabi"),
        ("fish", ".config/fish/completions/hanabi.fish"),
    ],
)
def test_the_script_of_the_shell_that_is_named_is_installed(tmp_path: Path, shell: str, file: str) -> None:
    done = hanabi_process("--install-completion", shell, HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / file).read_text().startswith(FIRST_LINES[shell])


@pytest.mark.parametrize("option", ["--show-completion", "--install-completion"])
def test_a_shell_without_completion_is_refused(tmp_path: Path, option: str) -> None:
    sentence = refused(hanabi_process(option, "tcsh", HOME=str(tmp_path)), 2)
    assert "tcsh" in sentence
    assert "bash, zsh, fish" in sentence
    assert not list(tmp_path.iterdir())


def test_an_option_without_a_shell_means_the_callers() -> None:
    assert with_shell(["--show-completion"]) == ["--show-completion", "auto"]
    assert with_shell(["--show-completion", "zsh"]) == ["--show-completion", "zsh"]
    assert with_shell([]) == []


def test_topics_groups_brokers_clusters_and_kept_values_are_completed(cluster: Serving) -> None:
    said(cluster, "topic", "create", "CompleteOrders")
    said(cluster, "topic", "create", "CompleteParcels")
    said(cluster, "group", "create", "complete_billing")
    said(cluster, "namesrv", "kv", "COMPLETION", "kept-key", "kept value")
    at = ("-n", cluster.namesrv)
    assert completed("topic", "status", *at, "Complete") == ["CompleteOrders", "CompleteParcels"]
    assert completed("tail", *at, "CompleteO") == ["CompleteOrders"]
    assert completed("send", "CompleteP", namesrv=cluster.namesrv) == ["CompleteParcels"]
    assert completed("group", "progress", *at, "complete_") == ["complete_billing"]
    assert completed("offset", "reset", *at, "complete_billing", "CompleteO") == ["CompleteOrders"]
    assert completed("stats", *at, "--topic", "CompleteP") == ["CompleteParcels"]
    assert completed("broker", "status", *at, "--broker", "") == ["broker-a"]
    assert completed("topic", "list", *at, "--cluster", "") == ["DefaultCluster"]
    assert completed("namesrv", "kv", *at, "COMPLETION", "") == ["kept-key"]
    assert completed("broker", "config", *at, "fileReservedT") == ["fileReservedTime="]


def test_words_that_bash_split_at_colons_are_one_again(cluster: Serving) -> None:
    said(cluster, "topic", "create", "SplitOrders")
    host, port = cluster.namesrv.split(":")
    assert completed("topic", "status", "-n", host, ":", port, "Split") == ["SplitOrders"]
    assert join_colons(["hanabi", "-n", "h", ":", "1", "x"], 5) == (["hanabi", "-n", "h:1", "x"], 3)
    assert join_colons(["hanabi", "-n", "[", "::", "1]", ":", "1", "x"], 7) == (["hanabi", "-n", "[::1]:1", "x"], 3)


def installed(folder: Path) -> dict[str, str]:
    """Make `hanabi` a command of *folder*; return the environment that finds it first, with *folder* as its home."""
    command = folder / "bin" / "hanabi"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m hanabi "$@"\n')
    command.chmod(0o755)
    path = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
    return environment(HANABI_COMPLETION_SECONDS=PATIENCE, PATH=path, HOME=str(folder), TERM="dumb")


def on_path(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"there is no {shell}")


def said_by(shell: Sequence[str], home: dict[str, str]) -> str:
    done = subprocess.run(shell, capture_output=True, text=True, timeout=DEADLINE_SECONDS, env=home, check=True)
    assert done.stderr == ""
    return done.stdout


@on_path("bash")
def test_bash_itself_completes_the_name_of_a_topic(tmp_path: Path, cluster: Serving) -> None:
    said(cluster, "topic", "create", "BashOrders")
    script = f"""eval "$(hanabi --show-completion bash)"
COMP_WORDS=(hanabi topic status -n {cluster.namesrv.replace(":", " : ")} BashO) COMP_CWORD=7
_hanabi_completion hanabi
echo "${{COMPREPLY[@]}}" """
    assert said_by(("bash", "--norc", "-c", script), installed(tmp_path)) == "BashOrders\n"


@on_path("fish")
def test_fish_itself_completes_names_commands_and_options(tmp_path: Path, cluster: Serving) -> None:
    said(cluster, "topic", "create", "FishOrders")
    said(cluster, "group", "create", "fish_billing")
    home = installed(tmp_path)
    assert hanabi_process("--install-completion", "fish", HOME=home["HOME"]).returncode == 0

    def offered(line: str) -> list[str]:
        """Return the words that fish offers for the end of *line*, without their descriptions."""
        asked = said_by(("fish", "-c", f"complete -C '{line}'"), home)
        return [each.partition("\t")[0] for each in asked.splitlines()]

    assert offered(f"hanabi topic status -n {cluster.namesrv} FishO") == ["FishOrders"]
    assert offered(f"hanabi group progress -n {cluster.namesrv} fish_") == ["fish_billing"]
    assert offered("hanabi topic stat") == ["status"]
    assert offered("hanabi topic list --clus") == ["--cluster"]


@on_path("zsh")
def test_zsh_itself_completes_names_commands_and_options(tmp_path: Path, cluster: Serving) -> None:
    said(cluster, "topic", "create", "ZshOrders")
    said(cluster, "group", "create", "zsh_billing")
    home = installed(tmp_path)
    assert hanabi_process("--install-completion", "zsh", HOME=home["HOME"]).returncode == 0
    with (Path(home["HOME"]) / ".zshrc").open("a") as settings:
        settings.write(ZSH_SETTINGS)
    with zsh(home) as completed_by_zsh:
        topic, group = (f"hanabi {noun} -n {cluster.namesrv} " for noun in ("topic status", "group progress"))
        assert completed_by_zsh(f"{topic}ZshO") == f"{topic}ZshOrders"
        assert completed_by_zsh(f"{group}zsh_") == f"{group}zsh_billing"
        assert completed_by_zsh("hanabi topic stat") == "hanabi topic status"
        assert completed_by_zsh("hanabi topic list --clus") == "hanabi topic list --cluster"


# Ctrl-X prints the line that is being typed, which stands between marks, and removes it.
ZSH_SETTINGS = """
PROMPT='' PROMPT_EOL_MARK=''
show_line() { print -r -- "{{$BUFFER}}"; BUFFER='' }
zle -N show_line
bindkey '^X' show_line
"""


@contextmanager
def zsh(home: dict[str, str]) -> Iterator[Callable[[str], str]]:
    """zsh on a terminal of its own; what is called types a line, presses Tab, and returns the line as it is then."""
    ours, theirs = pty.openpty()
    command = ["zsh", "--no-global-rcs", "-i"]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=home, start_new_session=True) as run:
        os.close(theirs)
        try:
            yield lambda line: _typed(ours, f"{line}\t\x18")
        finally:
            run.kill()
            os.close(ours)


def _typed(terminal: int, keys: str) -> str:
    os.write(terminal, keys.encode())
    heard = ""
    while not (found := re.search(r"\{\{(.*)\}\}", heard)):
        ready, _, _ = select.select([terminal], [], [], DEADLINE_SECONDS)
        assert ready, f"zsh says no more after {heard!r}"
        heard += os.read(terminal, 65536).decode()
    return found[1].strip()


def test_a_namespace_offers_its_own_topics_by_their_bare_names(cluster: Serving) -> None:
    for topic in ("shop%NamedOrders", "other%NamedParcels", "NamedOnly"):
        said(cluster, "topic", "create", topic)
    at = ("-n", cluster.namesrv)
    for command in ("send", "tail"):
        assert completed(command, *at, "--namespace", "shop", "Named") == ["NamedOrders"]
    assert completed("tail", *at, "Named") == ["NamedOnly"]
    assert completed("tail", *at, "shop%") == ["shop%NamedOrders"]


def test_pipelines_and_fixed_words_are_completed_without_a_cluster() -> None:
    assert completed("pipeline", "show", "dead") == ["dead-letters"]
    assert completed("broker", "clean", "to") == ["topics"]
    assert completed("--show-completion", "z") == ["zsh"]


def test_dead_letter_topics_are_offered_when_their_prefix_is_typed() -> None:
    names = ["Orders", "%DLQ%billing", "two words", "$(reboot)", "a`b`"]
    assert matching(names, "") == ["Orders"]
    assert matching(names, "%D") == ["%DLQ%billing"]
    assert matching(names, "$") == []


def test_a_cluster_that_cannot_be_reached_or_hangs_completes_nothing_and_says_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hung = f"127.0.0.1:{silent.getsockname()[1]}"
        assert completed("topic", "status", "-n", hung, "O", patience="") == []
    assert completed("topic", "status", "-n", hung, "O") == []
    assert completed("topic", "status", "-n", "no address", "O") == []
    assert completed("topic", "status", "--access-key", "without-secret", "O") == []


def test_a_member_of_a_group_is_completed(cluster: Serving) -> None:
    send(cluster, hanabi.Message("CompleteMembers", b"one"))
    consumer = hanabi.LitePullConsumer("complete_members", namesrv=cluster.namesrv)
    consumer.subscribe("CompleteMembers")
    with consumer:
        found = completed("group", "members", "-n", cluster.namesrv, "complete_members", "--client", "")
        assert found == [consumer.client_id]
