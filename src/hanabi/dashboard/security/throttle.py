"""Limit of failed logins, by account and by address: after some failures each further one doubles the wait."""

import ipaddress
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

ACCOUNT_FREE: Final = 5  # failures without a wait
ADDRESS_FREE: Final = 20  # of all accounts; several users may share an address
WAIT_FIRST_S: Final = 30.0
WAIT_MAX_S: Final = 15 * 60.0
FORGET_S: Final = 60 * 60.0
ENTRIES_MAX: Final = 10_000


class Throttle:
    """Failures of logins, bounded: the entries that were used longest ago go first."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()  # how many, and when the last

    def wait_s(self, account: str, address: str) -> float:
        """Return how long a login must wait; 0 if it may be tried now."""
        return max(
            self._left(_account(account), ACCOUNT_FREE),
            self._left(_address(address), ADDRESS_FREE),
        )

    def failed(self, account: str, address: str) -> None:
        """Count a failure."""
        now = self._now_s()
        for key in (_account(account), _address(address)):
            count, last = self._failures.pop(key, (0, now))
            self._failures[key] = (count + 1 if now - last < FORGET_S else 1, now)
        while len(self._failures) > ENTRIES_MAX:
            self._failures.popitem(last=False)

    def succeeded(self, account: str, address: str) -> None:
        """Forget the failures of an account. Of the address only this login is taken back, which was counted before it
        was checked; its failures stay.
        """
        self._failures.pop(_account(account), None)
        key = _address(address)
        count, last = self._failures.get(key, (0, 0.0))
        if count > 1:
            self._failures[key] = (count - 1, last)
        else:
            self._failures.pop(key, None)

    def _left(self, key: str, free: int) -> float:
        count, last = self._failures.get(key, (0, 0.0))
        return max(last + wait_after(count, free) - self._now_s(), 0.0)


def wait_after(failures: int, free: int) -> float:
    """Return the wait after so many failures. Pure."""
    if failures < free:
        return 0.0
    return float(min(WAIT_FIRST_S * 2 ** min(failures - free, 16), WAIT_MAX_S))


def _account(name: str) -> str:
    return f"account {name[:64]}"


def _address(address: str) -> str:
    """Return the key of an address; one host may use all addresses of an IPv6 network of 64 bits."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return f"address {address[:64]}"
    if found.version == 6:
        return f"address {ipaddress.ip_network((found, 64), strict=False)}"
    return f"address {found}"
