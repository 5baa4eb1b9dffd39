class RecordRun:
    @property
    def count(self) -> int: ...
    @property
    def total(self) -> int: ...
    @property
    def last_log_offset(self) -> int: ...
    @property
    def last_store_ms(self) -> int: ...
    def find(
        self,
        view: memoryview,
        base: int,
        entries: bytes,
        entries_at: int,
        topic: bytes,
        queue_id: int,
        offset: int,
        log_offset_min: int,
        count_max: int,
        bytes_max: int,
    ) -> bool: ...
    def slices(self) -> list[bytes | memoryview]: ...
    def behind(self, head: bytes) -> bytes: ...
