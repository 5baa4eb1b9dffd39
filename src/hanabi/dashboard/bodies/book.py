"""The book of forms: how the bodies of each topic are shown, with the schema if one is needed. A file in the home."""

from pathlib import Path
from typing import Final

import msgspec

from hanabi.dashboard.bodies.forms import FORMS, SCHEMA_FORMS, TopicForm, decoder_of
from hanabi.dashboard.bodies.schemas import SCHEMA_CHARACTERS_MAX
from hanabi.dashboard.security.users import write_private
from hanabi.errors import ConfigError, InvalidParameter

TOPICS_MAX: Final = 1_000
SCHEMAS_CHARACTERS_MAX: Final = 16 << 20


class FormBook:
    """Forms by topic, in `forms.json`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._forms = _read(path)

    def find(self, topic: str) -> TopicForm | None:
        """Return how the bodies of a topic are shown; None if that was not chosen."""
        return self._forms.get(topic)

    def put(self, topic: str, form: TopicForm | None) -> None:
        """Remember a form, or forget it. A schema that cannot be read is refused."""
        others = {name: each for name, each in self._forms.items() if name != topic}
        if form is not None:
            if form.form not in (*FORMS, *SCHEMA_FORMS):
                raise InvalidParameter(f"a form is one of {', '.join((*FORMS, *SCHEMA_FORMS))}")
            if len(form.schema) > SCHEMA_CHARACTERS_MAX:
                raise InvalidParameter(f"a schema has at most {SCHEMA_CHARACTERS_MAX} characters")
            if len(others) >= TOPICS_MAX or sum(len(each.schema) for each in others.values()) > SCHEMAS_CHARACTERS_MAX:
                raise InvalidParameter("too many forms are remembered: forget some")
            decoder_of(form)
            others[topic] = form
        write_private(self._path, msgspec.json.format(msgspec.json.encode(others)))
        self._forms = others


def _read(path: Path) -> dict[str, TopicForm]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, TopicForm])
    except FileNotFoundError:
        return {}
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path} is not a file of forms: {error}; move it away to begin with a new one") from error
