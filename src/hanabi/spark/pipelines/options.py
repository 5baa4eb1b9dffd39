"""Options of a pipeline, from its Struct: their list, and the conversion of texts and YAML to checked values. Pure.

A field `batch_messages` is `--batch-messages` on the command line and `batch-messages` or `batch_messages` in a file.
An error names the option in one sentence.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any, Final, TypeVar, get_type_hints

import msgspec
from msgspec import inspect

from hanabi.errors import ConfigError
from hanabi.spark.shared.suggestions import did_you_mean

T = TypeVar("T", bound=msgspec.Struct)

_TRUTH: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_SHORT: Final = {"-n": "namesrv"}  # as in all other commands


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One option, as `hanabi pipeline show` lists it."""

    name: str
    type: str
    default: str | int | float | bool | list[str] | None
    required: bool
    meaning: str


def options_of(struct: type[msgspec.Struct]) -> list[Option]:
    return [
        Option(
            name=flag_of(field.name),
            type=_kind(field.type),
            default=_default(field),
            required=field.required,
            meaning=_meaning(field.type),
        )
        for field in _fields(struct)
    ]


def flag_of(name: str) -> str:
    return name.replace("_", "-")


def parse_flags(struct: type[msgspec.Struct], words: Sequence[str], pipeline: str) -> dict[str, Any]:
    """Parse *words* of a command line: `--key value`, `--key=value`, `--switch`, `--no-switch`.

    A list is given with commas, or by repeating the option.
    """
    kinds = {field.name: field.type for field in _fields(struct)}
    said: dict[str, Any] = {}
    left = list(words)
    while left:
        word = left.pop(0)
        flag, has_value, value = word.partition("=")
        if flag in _SHORT:
            flag = f"--{_SHORT[flag]}"
        if not flag.startswith("--"):
            raise ConfigError(f"pipeline {pipeline} takes options only, such as --{_an_option(kinds)}, not {word!r}")
        name = flag[2:].replace("-", "_")
        if name not in kinds and name.startswith("no_") and _is_switch(kinds.get(name[3:])) and not has_value:
            said[name[3:]] = False
            continue
        if name not in kinds:
            raise _unknown(flag, kinds, pipeline)
        if _is_switch(kinds[name]) and not has_value:
            said[name] = True
            continue
        if not has_value:
            if not left:
                raise ConfigError(f"option {flag} needs a value: {_kind(kinds[name])}")
            value = left.pop(0)
        if name in said and not _is_list(kinds[name]):
            raise ConfigError(f"option {flag} is given twice")
        said[name] = [*said.get(name, []), *_split(value)] if _is_list(kinds[name]) else value
    return said


def check_names(struct: type[msgspec.Struct], told: Mapping[str, Any], pipeline: str, where: str) -> dict[str, Any]:
    """Return the options of a file, under the names of the fields."""
    kinds = {field.name: field.type for field in _fields(struct)}
    found: dict[str, Any] = {}
    for key, value in told.items():
        name = str(key).replace("-", "_")
        if name not in kinds:
            raise ConfigError(f"{where}: {_unknown(str(key), kinds, pipeline)}")
        if name in found:
            raise ConfigError(f"{where}: {key} is given twice")
        found[name] = _split(value) if _is_list(kinds[name]) and isinstance(value, str) else _as_text(value)
    return found


def build(struct: type[T], said: Mapping[str, Any], pipeline: str) -> T:
    """Return the checked options. *said* maps field names to texts, or to values from a file."""
    values: dict[str, Any] = {}
    hints = get_type_hints(struct, include_extras=True)
    for field in _fields(struct):
        if field.name in said:
            values[field.name] = _convert(hints[field.name], field, said[field.name])
        elif field.required:
            raise ConfigError(f"pipeline {pipeline} needs --{flag_of(field.name)}: {_meaning(field.type)}")
    return struct(**values)


def _fields(struct: type[msgspec.Struct]) -> tuple[inspect.Field, ...]:
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)  # noqa: S101 - what a Struct is
    return info.fields


def _convert(hint: Any, field: inspect.Field, value: Any) -> Any:
    kind = _plain(field.type)
    if isinstance(kind, inspect.BoolType) and isinstance(value, str):
        value = _TRUTH.get(value.lower(), value)
    if isinstance(kind, inspect.StrType) and isinstance(value, str):
        return value  # "null" stays a text
    try:
        return msgspec.convert(value, hint, strict=False)
    except msgspec.ValidationError:
        raise ConfigError(f"option {flag_of(field.name)}={value!r}: must be {_kind(field.type)}") from None


def _unknown(flag: str, kinds: Iterable[str], pipeline: str) -> ConfigError:
    dashes = "--" if flag.startswith("--") else ""
    known = [f"{dashes}{flag_of(name)}" for name in kinds]
    hint = did_you_mean(flag, known) or f": `hanabi pipeline show {pipeline}` lists them all"
    return ConfigError(f"pipeline {pipeline} has no option {flag}{hint}")


def _an_option(kinds: Iterable[str]) -> str:
    return flag_of(next(iter(kinds)))


def _split(value: str) -> list[str]:
    return [word.strip() for word in value.split(",") if word.strip()]


def _as_text(value: Any) -> Any:
    """Convert a date from YAML back to text: options take times as texts."""
    return value.isoformat() if isinstance(value, datetime | date) else value


def _plain(kind: inspect.Type | None) -> inspect.Type | None:
    """Return the type of a field, without its description and without None."""
    if isinstance(kind, inspect.Metadata):
        return _plain(kind.type)
    if isinstance(kind, inspect.UnionType):
        some = [each for each in kind.types if not isinstance(each, inspect.NoneType)]
        return _plain(some[0]) if len(some) == 1 else kind
    return kind


def _is_switch(kind: inspect.Type | None) -> bool:
    return isinstance(_plain(kind), inspect.BoolType)


def _is_list(kind: inspect.Type) -> bool:
    return isinstance(_plain(kind), inspect.ListType | inspect.VarTupleType)


def _meaning(kind: inspect.Type) -> str:
    return str((kind.extra_json_schema or {}).get("description", "")) if isinstance(kind, inspect.Metadata) else ""


def _kind(kind: inspect.Type) -> str:
    plain = _plain(kind)
    match plain:
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return f"a whole number{_limits(plain)}"
        case inspect.FloatType():
            return f"a number{_limits(plain)}"
        case inspect.LiteralType():
            return "one of " + ", ".join(map(str, plain.values))
        case inspect.ListType() | inspect.VarTupleType():
            return "a list, with commas"
        case inspect.StrType():
            return "text"
        case _:
            return type(plain).__name__.removesuffix("Type").lower()


def _limits(kind: inspect.IntType | inspect.FloatType) -> str:
    texts = [
        f"{words} {limit}"
        for words, limit in (
            ("at least", kind.ge),
            ("more than", kind.gt),
            ("at most", kind.le),
            ("less than", kind.lt),
        )
        if limit is not None
    ]
    return ", " + ", ".join(texts) if texts else ""


def _default(field: inspect.Field) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return list(field.default_factory()) if field.default_factory in (list, tuple) else None
    return None if field.default is msgspec.NODEFAULT else field.default
