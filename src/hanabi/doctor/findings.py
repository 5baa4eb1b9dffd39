"""Findings of the rules: one finding is one problem."""

from enum import StrEnum

from hanabi.admin.answer import Answer


class Severity(StrEnum):
    """Errors: something does not work, or messages are lost. Warnings: that will or may happen. Notes: worth knowing,
    and sometimes intended.
    """

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Finding(Answer, frozen=True, kw_only=True):
    """One problem: its subject, why it matters, what to do. `rule` is a stable name, for programs."""

    severity: Severity
    rule: str
    subject: str
    what: str
    why: str
    todo: str
