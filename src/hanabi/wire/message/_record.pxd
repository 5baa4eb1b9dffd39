# cython: language_level=3
"""Records and properties as they lie in a log, for the compiled functions of all packages: see `record` for the layout.

Only the layout with two IPv4 hosts and a topic length of one byte is written here.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

from hanabi.wire._bytes cimport Bytes, Text, get_32, get_64, put_32, put_64

cdef enum:
    HEAD_BYTES = 88  # with two IPv4 hosts
    HOST_BYTES = 8
    TOPIC_BYTES_MAX = 127
    HOSTS_V6 = 0x30
    MAGIC = 0xDAA320A7
    MAGIC_LONG_TOPIC = 0xDAA320AB
    PROPERTIES_BYTES_MAX = 32767


cdef struct Record:
    Bytes body
    Py_ssize_t body_bytes
    Bytes topic  # with its length before it
    Py_ssize_t topic_bytes
    Bytes properties
    Py_ssize_t properties_bytes
    uint32_t crc
    int32_t queue_id, flag, sys_flag, reconsumed
    int64_t queue_offset, log_offset, born_ms, store_ms, prepared_offset
    Bytes born_host  # 8 bytes, as the next
    Bytes store_host


cdef inline int64_t record_bytes(Record *record) noexcept nogil:
    return HEAD_BYTES + record.body_bytes + record.topic_bytes + 2 + record.properties_bytes


cdef inline void write_record(unsigned char *at, Record *record) noexcept nogil:
    """Write *record*, which has `record_bytes`."""
    put_32(at, <uint32_t> record_bytes(record))
    put_32(at + 4, <uint32_t> MAGIC)
    put_32(at + 8, record.crc)
    put_32(at + 12, <uint32_t> record.queue_id)
    put_32(at + 16, <uint32_t> record.flag)
    put_64(at + 20, <uint64_t> record.queue_offset)
    put_64(at + 28, <uint64_t> record.log_offset)
    put_32(at + 36, <uint32_t> record.sys_flag & ~<uint32_t> HOSTS_V6)
    put_64(at + 40, <uint64_t> record.born_ms)
    memcpy(at + 48, record.born_host, HOST_BYTES)
    put_64(at + 56, <uint64_t> record.store_ms)
    memcpy(at + 64, record.store_host, HOST_BYTES)
    put_32(at + 72, <uint32_t> record.reconsumed)
    put_64(at + 76, <uint64_t> record.prepared_offset)
    put_32(at + 84, <uint32_t> record.body_bytes)
    at += HEAD_BYTES
    memcpy(at, record.body, record.body_bytes)
    at += record.body_bytes
    memcpy(at, record.topic, record.topic_bytes)
    at += record.topic_bytes
    at[0] = <unsigned char> (record.properties_bytes >> 8)
    at[1] = <unsigned char> (record.properties_bytes & 0xFF)
    memcpy(at + 2, record.properties, record.properties_bytes)


cdef inline bint is_at(
    Bytes at, int64_t size, Bytes topic, Py_ssize_t topic_bytes, int64_t queue_id, int64_t queue_offset, int64_t log_offset
) noexcept nogil:
    """Whether the record at *at* is this one. *size* bytes are there, at least HEAD_BYTES; its hosts are IPv4."""
    cdef uint32_t magic = get_32(at + 4)
    cdef int64_t body_bytes = <int32_t> get_32(at + 84)
    return (
        <int32_t> get_32(at) == size
        and get_64(at + 28) == log_offset
        and get_64(at + 20) == queue_offset
        and <int32_t> get_32(at + 12) == queue_id
        and (magic == <uint32_t> MAGIC or magic == <uint32_t> MAGIC_LONG_TOPIC)
        and 0 <= body_bytes <= size - HEAD_BYTES - topic_bytes
        and not memcmp(at + HEAD_BYTES + body_bytes, topic, topic_bytes)
    )


cdef struct Indexed:  # the properties that queue and index keep; one that is missing, or has no value, has no `at`
    Text tags
    Text keys
    Text unique_key


cdef inline void note_indexed(Indexed *indexed, Bytes name, Bytes value, Bytes end) noexcept nogil:
    """Note a property if it is one of these. *value* is behind the separator, and not empty."""
    cdef Text *found = NULL
    if value - name == 5:
        found = &indexed.tags if not memcmp(name, b"TAGS", 4) else &indexed.keys if not memcmp(name, b"KEYS", 4) else NULL
    elif value - name == 9 and not memcmp(name, b"UNIQ_KEY", 8):
        found = &indexed.unique_key
    if found != NULL:
        found.at, found.size = value, end - value


cdef inline bint read_record(Bytes at, Py_ssize_t left, Record *record) noexcept nogil:
    """Read the record at *at*, of which *left* bytes are there; return False if it is unusual or broken. The CRC is not
    checked, the topic is without its length."""
    if left < HEAD_BYTES:
        return False
    cdef Py_ssize_t size = <int32_t> get_32(at)
    record.body_bytes = <int32_t> get_32(at + 84)
    if get_32(at + 4) != <uint32_t> MAGIC or at[39] & HOSTS_V6 or size > left or record.body_bytes < 0:
        return False
    if HEAD_BYTES + record.body_bytes + 1 + 2 > size:
        return False
    record.body = at + HEAD_BYTES
    record.topic = record.body + record.body_bytes + 1
    record.topic_bytes = record.topic[-1]
    if record.topic_bytes > TOPIC_BYTES_MAX or HEAD_BYTES + record.body_bytes + 1 + record.topic_bytes + 2 > size:
        return False
    record.properties = record.topic + record.topic_bytes + 2
    record.properties_bytes = record.properties[-2] << 8 | record.properties[-1]
    if record.properties_bytes > PROPERTIES_BYTES_MAX or record.properties + record.properties_bytes != at + size:
        return False
    record.crc = get_32(at + 8)
    record.queue_id, record.flag = <int32_t> get_32(at + 12), <int32_t> get_32(at + 16)
    record.queue_offset, record.log_offset = get_64(at + 20), get_64(at + 28)
    record.sys_flag, record.born_ms, record.born_host = <int32_t> get_32(at + 36), get_64(at + 40), at + 48
    record.store_ms, record.store_host = get_64(at + 56), at + 64
    record.reconsumed, record.prepared_offset = <int32_t> get_32(at + 72), get_64(at + 76)
    return True


cdef inline void find_indexed(Bytes at, Bytes end, Indexed *indexed) noexcept nogil:
    """Find them in *at* to *end*; of several the last one counts."""
    cdef Bytes pair_end
    cdef Bytes value
    indexed.tags.at = indexed.keys.at = indexed.unique_key.at = NULL
    while at < end:
        pair_end = <Bytes> memchr(at, 2, end - at)
        if pair_end == NULL:
            pair_end = end
        value = <Bytes> memchr(at, 1, pair_end - at)
        if value != NULL and value + 1 < pair_end:
            note_indexed(indexed, at, value + 1, pair_end)
        at = pair_end + 1
