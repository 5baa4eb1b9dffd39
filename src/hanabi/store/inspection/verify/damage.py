"""The damage that a check found: the first case of each file, and the number of cases."""

import msgspec

FILES_MAX = 1_000  # enough for a report; the rest is only counted


class Damage(msgspec.Struct, rename="camel"):
    """One file that is not as it should be. Everything but `count` is about the first place where it is not."""

    kind: str  # "commitlog", "consumequeue", "index", "checkpoint", "config"
    file: str
    position: int  # in the file
    reason: str
    log_offset: int | None = None
    queue_offset: int | None = None
    count: int = 1


class DamageList:
    """Collects damage by file."""

    def __init__(self) -> None:
        self._by_file: dict[str, Damage] = {}
        self.count = 0

    @property
    def first_of_each_file(self) -> list[Damage]:
        return list(self._by_file.values())

    def add(self, damage: Damage) -> None:
        self.count += 1
        known = self._by_file.get(damage.file)
        if known is None:
            if len(self._by_file) < FILES_MAX:
                self._by_file[damage.file] = damage
            return
        count = known.count + 1
        if damage.position < known.position:
            self._by_file[damage.file] = known = damage
        known.count = count
