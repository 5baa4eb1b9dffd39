"""Sessions of logged-in users: random ids kept here, with an idle and an absolute end. Restarting ends all."""

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import msgspec

from hanabi.dashboard.security.roles import Role

SESSIONS_MAX: Final = 10_000


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """One login. `csrf` must be in every form that changes something."""

    user: str
    role: Role
    csrf: str
    began_s: float
    account: bool = False  # of the brokers; its rights are those that brokers grant it


class Sessions:
    """Live sessions, by the hash of their id: a dump of the memory of this table lets nobody in."""

    def __init__(self, now_s: Callable[[], float], idle_s: float, whole_s: float) -> None:
        self._now_s, self._idle_s, self._whole_s = now_s, idle_s, whole_s
        self._live: OrderedDict[str, tuple[Session, float]] = OrderedDict()  # and the time of the last request

    def begin(self, user: str, role: Role, *, account: bool = False) -> str:
        """Begin a session; return its id, for the cookie. The oldest of too many sessions ends."""
        identity = secrets.token_urlsafe(32)
        now = self._now_s()
        session = Session(user=user, role=role, csrf=secrets.token_urlsafe(24), began_s=now, account=account)
        self._live[_key(identity)] = (session, now)
        while len(self._live) > SESSIONS_MAX:
            self._live.popitem(last=False)
        return identity

    def find(self, identity: str, *, touch: bool = True) -> Session | None:
        """Return a live session. With *touch* its idle time begins again; refreshes by a timer do not touch it."""
        key = _key(identity)
        session, used = self._live.get(key, (None, 0.0))
        if session is None:
            return None
        now = self._now_s()
        if now - used > self._idle_s or now - session.began_s > self._whole_s:
            del self._live[key]
            return None
        if touch:
            self._live[key] = (session, now)
            self._live.move_to_end(key)
        return session

    def end(self, identity: str) -> None:
        """End a session."""
        self._live.pop(_key(identity), None)

    def end_all_of(self, user: str) -> None:
        """End the sessions of a user whose role or password changed."""
        for key in [key for key, (session, _) in self._live.items() if session.user == user]:
            del self._live[key]


def _key(identity: str) -> str:
    return hashlib.sha256(identity.encode(errors="replace")).hexdigest()
