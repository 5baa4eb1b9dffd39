"""`hanabi cluster plan` and `hanabi cluster up`: the options, and what is printed."""

import shlex
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Annotated

import typer

from hanabi.cli.cluster.forms import (
    NAMESRV_PORT,
    Asked,
    Form,
    Kind,
    Server,
    every_file,
    file_text,
    hosts_needed,
    planned,
    usual_hosts,
)
from hanabi.cli.cluster.places import Hosts, ThisMachine
from hanabi.cli.cluster.services import Output, Services
from hanabi.cli.logs.log_output import LogLevel
from hanabi.cli.logs.server_logs import server_logs
from hanabi.cli.shared import completion
from hanabi.cli.shared.output import output
from hanabi.errors import ConfigError

ETCD_PORT = 2379
SMALL = {"mappedFileSizeCommitLog": str(64 << 20), "mappedFileSizeConsumeQueue": "600000"}

FormName = Annotated[
    str,
    typer.Argument(
        metavar="FORM",
        help=f"One of {', '.join(form.value for form in Form)}.",
        autocompletion=completion.one_of(*(form.value for form in Form)),
    ),
]
HostNames = Annotated[
    list[str] | None,
    typer.Option("--host", metavar="ADDR", help="Address of a machine, once for each.", show_default="10.0.0.1, ..."),
]
Brokers = Annotated[int, typer.Option("--brokers", metavar="N", help="Brokers of the form one-host.")]
Etcd = Annotated[
    str | None,
    typer.Option(
        "--state",
        metavar="URL",
        help="Where several controllers keep elections: etcd://HOST:PORT,...",
        show_default="etcd on port 2379 of each host",
    ),
]


def plan(
    form: FormName,
    host: HostNames = None,
    brokers: Brokers = 2,
    state: Etcd = None,
    config_dir: Annotated[
        str, typer.Option("--config-dir", metavar="DIR", help="Where the files will be on each machine.")
    ] = "/etc/hanabi",
    data_dir: Annotated[
        str, typer.Option("--data-dir", metavar="DIR", help="Where the servers keep their data.")
    ] = "/var/lib/hanabi",
    as_what: Annotated[
        str, typer.Option("--as", metavar="WHAT", help="files, compose or kubernetes: one file for an orchestrator.")
    ] = Output.FILES.value,
    write_to: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Write the files there, one folder a machine.", show_default="print"),
    ] = None,
) -> None:
    """Print the configuration files of a cluster, and the commands that start it.

    single-master: one name server, one master. several-masters: a master on each host. masters-and-slaves-async and
    masters-and-slaves-sync: a master and its slave on each two hosts. crossed: two hosts, each with a master and the
    slave of the other. controller: three hosts, an elected master and two slaves. one-host: several masters on one
    host.
    """
    chosen = _form(form)
    if (wanted := _output(as_what)) is not Output.FILES:
        if host or state or write_to:
            raise ConfigError(f"--as {wanted.value} takes no --host, --state and --out: services have names")
        from hanabi.cli.cluster.orchestrators import rendered

        servers = planned(chosen, Services(chosen), Asked(hosts=usual_hosts(chosen), brokers=brokers))
        with output() as write:
            write(rendered(chosen, servers, wanted))
        return
    addresses = host or [f"10.0.0.{number + 1}" for number in range(usual_hosts(chosen))]
    hosts_needed(chosen, len(addresses))
    if len(set(addresses)) < len(addresses):
        raise ConfigError("--host has an address twice: each machine has its own")
    places = Hosts(addresses, PurePosixPath(config_dir), PurePosixPath(data_dir))
    etcd = state or "etcd://" + ",".join(f"{address}:{ETCD_PORT}" for address in addresses)
    servers = planned(chosen, places, Asked(hosts=len(addresses), brokers=brokers, etcd=etcd))
    files = dict(_files(addresses, servers))
    if write_to is not None:
        _write(write_to, files)
    with output() as write:
        for name, text in files.items():
            write(f"wrote {write_to / name}\n" if write_to is not None else f"# ==> {name} <==\n{text}\n")


def _form(name: str) -> Form:
    try:
        return Form(name)
    except ValueError as error:
        forms = ", ".join(form.value for form in Form)
        raise ConfigError(f"FORM must be one of {forms}, not {name!r}") from error


def _output(name: str) -> Output:
    try:
        return Output(name)
    except ValueError as error:
        raise ConfigError(f"--as must be files, compose or kubernetes, not {name!r}") from error


def _files(addresses: list[str], servers: list[Server]) -> Iterator[tuple[str, str]]:
    for number, address in enumerate(addresses):
        own = [server for server in servers if server.host == number]
        for server in every_file(own):
            yield f"{address}/{server.name}.conf", file_text(server)
        commands = "".join(f"hanabi {shlex.join(server.command)}\n" for server in own)
        yield f"{address}/commands.txt", commands


def _write(folder: Path, files: dict[str, str]) -> None:
    """Write all files or none: an old plan is not overwritten."""
    for name in files:
        if (folder / name).exists():
            raise ConfigError(f"{folder / name} is there already: choose an empty directory for --out")
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def up(
    form: FormName,
    local: Annotated[bool, typer.Option("--local", help="Required: servers are started on this machine only.")] = False,
    brokers: Brokers = 2,
    home: Annotated[
        Path | None,
        typer.Option(
            "--home", metavar="DIR", help="Where files and data are kept.", show_default="a temporary directory"
        ),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="Port of the first name server, 0: any.")
    ] = NAMESRV_PORT,
    log_level: Annotated[
        LogLevel, typer.Option("--log-level", metavar="LEVEL", help="How much is logged.")
    ] = LogLevel.WARNING,
) -> None:
    """Start a cluster of a form on this machine, for trying it out.

    All servers listen on 127.0.0.1, each a process of its own with a ready line, started again when it ends: kill one
    and watch the others. Ctrl-C ends all. Not for production: one machine holds all copies.
    """
    if not local:
        raise ConfigError("a cluster is started only on this machine: add --local, or use `hanabi cluster plan`")
    chosen = _form(form)
    with server_logs(log_level, as_json=False) as logs, _home(home) as place:
        logs.without_file()
        places = ThisMachine(place, port)
        servers = planned(chosen, places, Asked(hosts=usual_hosts(chosen), namesrvs=1, brokers=brokers, more=SMALL))
        from hanabi.cli.cluster.up import run_until_signal, write_files
        from hanabi.remoting.loop import run

        write_files(servers)
        quiet = [_with_options(server, "--log-level", log_level.value) for server in servers]
        run(run_until_signal(quiet, _hint(servers, place, keeps=home is not None)))


def _with_options(server: Server, *options: str) -> Server:
    from msgspec.structs import replace

    return replace(server, options=(*server.options, *options))


@contextmanager
def _home(given: Path | None) -> Iterator[Path]:
    """Yield the directory of the cluster; a temporary one is removed at the end."""
    if given is not None:
        given.mkdir(parents=True, exist_ok=True)
        yield given.absolute()
        return
    made = Path(tempfile.mkdtemp(prefix="hanabi-cluster-"))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _hint(servers: list[Server], home: Path, *, keeps: bool) -> str:
    namesrv = ";".join(server.address for server in servers if server.kind is Kind.NAMESRV)
    controllers = ";".join(server.address for server in servers if server.kind is Kind.CONTROLLER)
    quoted = shlex.quote(namesrv)
    lines = [
        f"the cluster is up; its name servers: {namesrv}",
        f"  hanabi cluster list -n {quoted}",
        f"  hanabi topic create Test -n {quoted}",
        f"  hanabi send Test hello -n {quoted}",
        f"  hanabi tail Test --from first -n {quoted}",
    ]
    if controllers:
        lines.append(f"  hanabi controller status -a {shlex.quote(controllers)}")
    lines.append(f"Ctrl-C ends it; {'its files stay in' if keeps else 'then its files are deleted:'} {home}")
    return "\n".join(lines)
