"""YAML as plain text values: scalars stay text, so that an unquoted 12345678 is the secret "12345678".

No tag makes an object (CVE-2022-1471). Aliases are counted and merge keys refused, so that a small file stays small.
"""

from typing import Any, Final

import yaml

from hanabi.errors import ConfigError

_ALIASES_MAX: Final = 50  # as Apache's parser
_Loader: Final = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_Dumper: Final = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def read_yaml(text: bytes, path: str) -> Any:
    """Return lists, mappings and texts; None for an empty file. An error has the file, the line and the reason."""
    try:
        aliases = sum(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=_Loader))
        if aliases > _ALIASES_MAX:
            raise ConfigError(f"{path}: {aliases} aliases, at most {_ALIASES_MAX}")
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a base loader: makes text only
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(f"{path}{line}: {error.problem}") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"{path}: not YAML: {reason}") from error


def write_yaml(document: dict[str, Any]) -> bytes:
    """Return *document* as YAML, in its own order."""
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False)
    return text.encode()
