"""What a rule says: one finding is one thing that is wrong."""

from enum import StrEnum

from hanabi.admin.answer import Answer


class Severity(StrEnum):
    """Errors: something does not work, or messages are lost to somebody. Warnings: it will come to that, or may. Notes:
    worth knowing, and wanted by some."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Finding(Answer, frozen=True, kw_only=True):
    """What is wrong with whom, why it matters, what to do. `rule` is a name that stays, for programs."""

    severity: Severity
    rule: str
    subject: str
    what: str
    why: str
    todo: str
