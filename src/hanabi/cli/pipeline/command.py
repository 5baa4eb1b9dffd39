"""`hanabi pipeline`: the ready pipelines on Spark, listed, explained and run.

Options of a pipeline are those of its Struct, so typer does not know them: they are read here. A file given with
--config has the same options, and beside them `master` and `conf`; what the command line says goes before it.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hanabi.cli.shared import completion
from hanabi.cli.shared.administration import INTERRUPTED, Json
from hanabi.cli.shared.cluster import FAILED, errors_as_exit_code
from hanabi.cli.shared.output import json_line, output
from hanabi.cli.shared.render import pairs, table
from hanabi.errors import ConfigError

if TYPE_CHECKING:
    from hanabi.spark.pipelines.contract import Outcome, Pipeline
    from hanabi.spark.pipelines.options import Option

app = typer.Typer(help="Run ready pipelines on Spark.", no_args_is_help=True)

OWN_OPTIONS = {"allow_extra_args": True, "ignore_unknown_options": True}
DEFAULT_MASTER = "local[*]"

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="Of the pipeline; `hanabi pipeline list` shows them.", autocompletion=completion.pipelines
    ),
]


@app.callback()
def _pipeline() -> None:
    pass


@app.command("list")
def list_pipelines(json: Json = False) -> None:
    """List the pipelines."""
    from hanabi.spark.pipelines.catalogue import SUMMARIES

    found = [{"name": name, "summary": summary} for name, summary in SUMMARIES.items()]
    with output() as write:
        write(json_line(found) if json else table(("name", "what it does"), SUMMARIES.items()))


@app.command("show")
def show(name: Name, json: Json = False) -> None:
    """Show the options of a pipeline: their types, defaults and meanings."""
    from hanabi.spark.pipelines.catalogue import find
    from hanabi.spark.pipelines.options import options_of

    pipeline = find(name)
    options = options_of(pipeline.options)
    with output() as write:
        if json:
            write(json_line({"name": name, "summary": pipeline.summary, "options": options}))
        else:
            rows = [(f"--{each.name}", each.type, _default_text(each), each.meaning) for each in options]
            write(f"{name}: {pipeline.summary}\n\n{table(('option', 'type', 'default', 'meaning'), rows)}")


def _default_text(option: "Option") -> str:
    if option.required:
        return "required"
    if isinstance(option.default, list):
        return ",".join(option.default)
    if isinstance(option.default, bool):
        return "true" if option.default else "false"
    return "" if option.default is None else str(option.default)


@app.command("run", context_settings=OWN_OPTIONS)
def run(
    context: typer.Context,
    name: Name,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="YAML with the same options; the command line wins.")
    ] = None,
    master: Annotated[
        str | None,
        typer.Option(
            "--master",
            metavar="URL",
            show_default=DEFAULT_MASTER,
            help="Where Spark runs: local[*], spark://HOST:PORT, yarn, k8s://...",
        ),
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark; may be repeated.")
    ] = None,
    log: Annotated[
        Path | None, typer.Option("--log", metavar="FILE", show_default="thrown away", help="Keep Spark's own log.")
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report",
            metavar="DIR",
            show_default="none",
            help="Write a report of the run there, for `hanabi dashboard --pipelines DIR`.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Run a pipeline: hanabi pipeline run NAME --its-option VALUE. `hanabi pipeline show NAME` lists its options."""
    from hanabi.cli.pipeline.file import read_config
    from hanabi.spark.pipelines.catalogue import find
    from hanabi.spark.pipelines.options import build, check_names, parse_flags

    pipeline = find(name)
    given = read_config(config)
    options = build(
        pipeline.options,
        {
            **check_names(pipeline.options, given.options, name, str(config)),
            **parse_flags(pipeline.options, context.args, name),
        },
        name,
    )
    settings = {**given.conf, **dict(_setting(each) for each in conf or ())}
    outcome = _run(pipeline, options, master or given.master or DEFAULT_MASTER, settings, log, report)
    with output() as write:
        write(json_line({"pipeline": name, **_plain(outcome)}) if json else _text(outcome))
    if outcome.complaint is not None:
        typer.echo(f"hanabi: {outcome.complaint}", err=True)
        raise typer.Exit(FAILED)


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--conf {text!r}: must be KEY=VALUE, such as spark.driver.memory=4g")
    return key.strip(), value


def _run(
    pipeline: "Pipeline[Any]",
    options: Any,
    master: str,
    settings: dict[str, str],
    log: Path | None,
    report: Path | None,
) -> "Outcome":
    from hanabi.cli.pipeline.log import spark_log
    from hanabi.cli.pipeline.progress import shown_progress
    from hanabi.cli.pipeline.report import reported
    from hanabi.spark.pipelines.failures import plain_spark_errors
    from hanabi.spark.pipelines.session import session, settings_for

    all_settings = settings_for(pipeline.name, master, pipeline=pipeline.spark_conf, user=settings)
    with errors_as_exit_code():
        try:
            with (
                spark_log(log) as file,
                shown_progress() as shown,
                reported(report, pipeline.name, shown) as (progress, file_of_run),
            ):
                progress.step("starting Spark")
                with session(all_settings, file) as spark, plain_spark_errors():
                    outcome = pipeline.run(spark, options, progress)
                if file_of_run is not None:
                    file_of_run.ended(outcome)
                return outcome
        except KeyboardInterrupt:
            typer.echo("hanabi: interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from None


def _plain(outcome: "Outcome") -> dict[str, Any]:
    return {"facts": outcome.facts, "tables": outcome.tables, "complaint": outcome.complaint}


def _text(outcome: "Outcome") -> str:
    parts = [f"{each.title}\n{table(each.columns, each.rows)}" for each in outcome.tables]
    if outcome.facts:
        parts.append(pairs((name.replace("_", " "), value) for name, value in outcome.facts.items()))
    return "\n".join(parts)
