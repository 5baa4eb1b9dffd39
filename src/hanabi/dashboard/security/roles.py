"""Roles of users: each may do what those before it may."""

from enum import IntEnum


class Role(IntEnum):
    """A reader looks; an operator sends, resends and resets; an administrator also deletes and configures."""

    READER = 1
    OPERATOR = 2
    ADMINISTRATOR = 3

    @classmethod
    def named(cls, name: str) -> "Role | None":
        """Return the role of this name, in small letters; None for any other text."""
        return next((role for role in cls if role.title == name), None)

    @property
    def title(self) -> str:
        return self.name.lower()
