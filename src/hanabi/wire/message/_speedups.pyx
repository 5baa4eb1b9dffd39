# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, embedsignature=True
"""The functions of `wire` that every message needs, compiled. Optional: the readable versions are the specification.

Each does the common case and hands everything unusual (IPv6, long topics, numbers that do not fit) to the Python
function of the same name, so that errors are made in one place. Chosen at import, see `record` and `properties`;
HANABI_PURE_PYTHON=1 leaves them out.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_DecodeASCII, PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

from hanabi.wire._bytes cimport Bytes, Text, get_32, get_64
from hanabi.wire.message._record cimport (
    HEAD_BYTES, HOST_BYTES, HOSTS_V6, MAGIC, MAGIC_LONG_TOPIC, TOPIC_BYTES_MAX, Record, find_indexed, is_at, record_bytes,
    write_record,
)

from hanabi.wire.message.crc import crc32
from hanabi.wire.message.tags import tags_code

cdef extern from "Python.h":
    object PyObject_Vectorcall(object callable, PyObject *const *arguments, size_t count, PyObject *names)

cdef enum:
    PROPERTIES_BYTES_MAX = 32767
    COMPRESSED = 1
    ID_DIGITS = 32
    FIELDS = 21


def encode_record(
    *,
    topic,
    body,
    properties=b"",
    queue_id,
    flag=0,
    sys_flag=0,
    born_timestamp_ms,
    born_host,
    store_timestamp_ms=0,
    store_host,
    reconsume_times=0,
    prepared_offset=0,
    queue_offset=0,
    log_offset=0,
    crc=None,
    magic=None,
):
    """A record; see `hanabi.wire.message.record.encode_record`."""
    if (
        crc is not None
        or magic is not None
        or type(topic) is not bytes
        or type(properties) is not bytes
        or type(born_host) is not bytes
        or type(store_host) is not bytes
        or PyBytes_GET_SIZE(topic) > TOPIC_BYTES_MAX
        or PyBytes_GET_SIZE(properties) > PROPERTIES_BYTES_MAX
        or PyBytes_GET_SIZE(born_host) != HOST_BYTES
        or PyBytes_GET_SIZE(store_host) != HOST_BYTES
    ):
        return _encode_in_python(
            topic, body, properties, queue_id, flag, sys_flag, born_timestamp_ms, born_host, store_timestamp_ms,
            store_host, reconsume_times, prepared_offset, queue_offset, log_offset, crc, magic,
        )
    cdef Record fields
    try:
        fields.queue_id, fields.flag, fields.sys_flag, fields.reconsumed = queue_id, flag, sys_flag, reconsume_times
        fields.born_ms, fields.store_ms = born_timestamp_ms, store_timestamp_ms
        fields.prepared_offset, fields.queue_offset, fields.log_offset = prepared_offset, queue_offset, log_offset
    except (OverflowError, TypeError):
        return _encode_in_python(
            topic, body, properties, queue_id, flag, sys_flag, born_timestamp_ms, born_host, store_timestamp_ms,
            store_host, reconsume_times, prepared_offset, queue_offset, log_offset, crc, magic,
        )
    cdef bytes field = bytes((len(topic),)) + <bytes> topic
    cdef Py_buffer view
    fields.crc = crc32(body) & 0x7FFFFFFF
    fields.topic, fields.topic_bytes = <Bytes> PyBytes_AS_STRING(field), PyBytes_GET_SIZE(field)
    fields.properties, fields.properties_bytes = <Bytes> PyBytes_AS_STRING(properties), PyBytes_GET_SIZE(properties)
    fields.born_host, fields.store_host = <Bytes> PyBytes_AS_STRING(born_host), <Bytes> PyBytes_AS_STRING(store_host)
    PyObject_GetBuffer(body, &view, PyBUF_SIMPLE)
    try:
        fields.body, fields.body_bytes = <Bytes> view.buf, view.len
        record = PyByteArray_FromStringAndSize(NULL, record_bytes(&fields))
        write_record(<unsigned char *> PyByteArray_AS_STRING(record), &fields)
    finally:
        PyBuffer_Release(&view)
    return record


cdef _encode_in_python(
    topic, body, properties, queue_id, flag, sys_flag, born_timestamp_ms, born_host, store_timestamp_ms, store_host,
    reconsume_times, prepared_offset, queue_offset, log_offset, crc, magic,
):
    from hanabi.wire.message.record import python_encode_record

    return python_encode_record(
        topic=topic,
        body=body,
        properties=properties,
        queue_id=queue_id,
        flag=flag,
        sys_flag=sys_flag,
        born_timestamp_ms=born_timestamp_ms,
        born_host=born_host,
        store_timestamp_ms=store_timestamp_ms,
        store_host=store_host,
        reconsume_times=reconsume_times,
        prepared_offset=prepared_offset,
        queue_offset=queue_offset,
        log_offset=log_offset,
        crc=crc,
        magic=magic,
    )


def is_record(buffer, Py_ssize_t position, Py_ssize_t size, bytes topic, queue_id, queue_offset, log_offset, check_crc):
    """Whether the record at *position* is this one; see `hanabi.wire.message.record.is_record`."""
    if size < HEAD_BYTES:
        return False
    cdef Py_buffer view
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    cdef const unsigned char *at
    cdef Py_ssize_t body_bytes
    cdef bint unusual
    try:
        unusual = position < 0 or position + size > view.len
        if not unusual:
            at = <const unsigned char *> view.buf + position
            unusual = at[39] & HOSTS_V6
        if not unusual:
            if not is_at(at, size, <Bytes> PyBytes_AS_STRING(topic), PyBytes_GET_SIZE(topic), queue_id, queue_offset, log_offset):
                return False
            body_bytes = <int32_t> get_32(at + 84)
            if not check_crc or not body_bytes:
                return True
            body = buffer[position + HEAD_BYTES : position + HEAD_BYTES + body_bytes]
            return (crc32(body) & 0x7FFFFFFF) == get_32(at + 8)
    finally:
        PyBuffer_Release(&view)
    from hanabi.wire.message.record import python_is_record

    return python_is_record(buffer, position, size, topic, queue_id, queue_offset, log_offset, check_crc)


def indexed_properties(bytes raw):
    """Tags, keys and unique key in *raw*; see `hanabi.wire.message.properties.indexed_properties`."""
    cdef Bytes at = <Bytes> PyBytes_AS_STRING(raw)
    cdef Text tags
    cdef Text keys
    cdef Text unique_key
    find_indexed(at, at + PyBytes_GET_SIZE(raw), &tags, &keys, &unique_key)
    return text_of(tags), text_of(keys), text_of(unique_key)


cdef inline str text_of(Text text):
    return PyUnicode_DecodeUTF8(<const char *> text.at, text.size, "replace") if text.at != NULL else None


cdef object Dispatch = None  # of `record`, which imports us before it has it


def decode_dispatch(buffer, position=0, end=None, *, check_crc=False):
    """Read the dispatch fields of the record at *position*; see `hanabi.wire.message.record.decode_dispatch`."""
    global Dispatch
    if Dispatch is None:
        from hanabi.wire.message.record import Dispatch as dispatch_type

        Dispatch = dispatch_type
    cdef Py_buffer view
    cdef const unsigned char *at
    cdef const unsigned char *topic_at
    cdef const unsigned char *properties_at
    cdef Py_ssize_t start, left, size, body_bytes, topic_bytes, properties_bytes
    cdef bint usual = False
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        start = position
        left = (view.len if end is None else min(<Py_ssize_t> end, view.len)) - start
        if start >= 0 and left >= HEAD_BYTES:
            at = <const unsigned char *> view.buf + start
            size, body_bytes = <int32_t> get_32(at), <int32_t> get_32(at + 84)
            if (
                get_32(at + 4) == MAGIC
                and not at[39] & HOSTS_V6
                and size <= left
                and body_bytes >= 0
                and HEAD_BYTES + body_bytes + 1 + 2 <= size
            ):
                topic_at = at + HEAD_BYTES + body_bytes + 1
                topic_bytes = topic_at[-1]
                if topic_bytes <= TOPIC_BYTES_MAX and HEAD_BYTES + body_bytes + 1 + topic_bytes + 2 <= size:
                    properties_at = topic_at + topic_bytes + 2
                    properties_bytes = properties_at[-2] << 8 | properties_at[-1]
                    usual = (
                        properties_bytes <= PROPERTIES_BYTES_MAX
                        and properties_at + properties_bytes == at + size
                        and (not check_crc or is_whole(at + HEAD_BYTES, body_bytes, get_32(at + 8)))
                    )
        if usual:
            properties = PyBytes_FromStringAndSize(<const char *> properties_at, properties_bytes)
            tags, keys, unique_key = indexed_properties(properties)
            return tuple.__new__(
                Dispatch,
                (
                    PyUnicode_DecodeUTF8(<const char *> topic_at, topic_bytes, "replace"),
                    <int32_t> get_32(at + 12),
                    <int64_t> get_64(at + 20),
                    <int64_t> get_64(at + 28),
                    size,
                    0 if tags is None else tags_code(tags),
                    <int64_t> get_64(at + 56),
                    keys or "",
                    unique_key,
                    <int32_t> get_32(at + 36),
                    <int64_t> get_64(at + 76),
                    properties,
                ),
            )
    finally:
        PyBuffer_Release(&view)
    from hanabi.wire.message.record import python_decode_dispatch

    return python_decode_dispatch(buffer, position, end, check_crc=check_crc)


cdef bint is_whole(const unsigned char *body, Py_ssize_t size, uint32_t checksum) except -1:
    """Whether *body* has its checksum; an empty one has none."""
    return not size or <uint32_t> (crc32(PyBytes_FromStringAndSize(<const char *> body, size)) & 0x7FFFFFFF) == checksum


# The fields of a StoredMessage, in the order in which `message_at` gives them.
cdef tuple NAMES = (
    "topic", "body", "tags", "keys", "properties", "flag", "queue_id", "queue_offset", "message_id",
    "offset_message_id", "born_timestamp_ms", "born_host", "store_timestamp_ms", "store_host", "reconsume_times",
    "prepared_offset", "sys_flag", "log_offset", "size", "body_crc", "broker_name",
)
cdef const char *DIGITS = b"0123456789ABCDEF"


cdef dict read_properties(const char *at, const char *end):
    """As `hanabi.wire.message.properties.decode_properties`."""
    cdef const char *pair_end
    cdef const char *name_end
    cdef dict properties = {}
    while at < end:
        pair_end = <const char *> memchr(at, 2, end - at)
        if pair_end == NULL:
            pair_end = end
        name_end = <const char *> memchr(at, 1, pair_end - at)
        if name_end != NULL and name_end > at and name_end + 1 < pair_end:
            properties[PyUnicode_DecodeUTF8(at, name_end - at, "replace")] = PyUnicode_DecodeUTF8(
                name_end + 1, pair_end - name_end - 1, "replace"
            )
        at = pair_end + 1
    return properties


cdef class Reader:
    """Makes messages of the records in one buffer. Values equal to those of the last record are reused."""

    cdef object make, decode_host, broker_name, topic, born_host, store_host
    cdef int64_t offset_delta
    cdef const unsigned char *topic_at
    cdef Py_ssize_t topic_bytes
    cdef const unsigned char *born_at
    cdef const unsigned char *store_at

    cdef object host(self, const unsigned char *at):
        return self.decode_host(PyBytes_FromStringAndSize(<const char *> at, HOST_BYTES))

    cdef object message_at(self, const unsigned char *at, Py_ssize_t left):
        """The message of the record at *at*; None if it is unusual or broken."""
        if left < HEAD_BYTES:
            return None
        cdef Py_ssize_t size = <int32_t> get_32(at), body_bytes = <int32_t> get_32(at + 84)
        cdef int32_t system = <int32_t> get_32(at + 36)
        if get_32(at + 4) != MAGIC or system & (HOSTS_V6 | COMPRESSED) or size > left or body_bytes < 0:
            return None
        cdef const unsigned char *topic_at = at + HEAD_BYTES + body_bytes + 1
        if HEAD_BYTES + body_bytes + 1 + 2 > size:
            return None
        cdef Py_ssize_t topic_bytes = topic_at[-1]
        if topic_bytes > TOPIC_BYTES_MAX or HEAD_BYTES + body_bytes + 1 + topic_bytes + 2 > size:
            return None
        cdef const unsigned char *properties_at = topic_at + topic_bytes + 2
        cdef Py_ssize_t properties_bytes = properties_at[-2] << 8 | properties_at[-1]
        if properties_bytes > PROPERTIES_BYTES_MAX or properties_at + properties_bytes != at + size:
            return None
        cdef uint32_t checksum = get_32(at + 8)
        body = PyBytes_FromStringAndSize(<const char *> at + HEAD_BYTES, body_bytes)
        if body_bytes and <uint32_t> (crc32(body) & 0x7FFFFFFF) != checksum:
            return None
        if self.topic_at == NULL or topic_bytes != self.topic_bytes or memcmp(topic_at, self.topic_at, topic_bytes):
            self.topic = PyUnicode_DecodeUTF8(<const char *> topic_at, topic_bytes, "replace")
            self.topic_at, self.topic_bytes = topic_at, topic_bytes
        if self.born_at == NULL or memcmp(at + 48, self.born_at, HOST_BYTES):
            self.born_host = self.host(at + 48)
            self.born_at = at + 48
        if self.store_at == NULL or memcmp(at + 64, self.store_at, HOST_BYTES):
            self.store_host = self.host(at + 64)
            self.store_at = at + 64
        cdef char digits[ID_DIGITS]
        cdef int index
        for index in range(HOST_BYTES):
            digits[2 * index] = DIGITS[at[64 + index] >> 4]
            digits[2 * index + 1] = DIGITS[at[64 + index] & 15]
            digits[16 + 2 * index] = DIGITS[at[28 + index] >> 4]
            digits[17 + 2 * index] = DIGITS[at[28 + index] & 15]
        offset_id = PyUnicode_DecodeASCII(digits, ID_DIGITS, NULL)
        properties = read_properties(<const char *> properties_at, <const char *> properties_at + properties_bytes)
        tags = properties.get("TAGS")
        keys_text = properties.get("KEYS")
        keys = () if keys_text is None else tuple((<str> keys_text).split())
        message_id = properties.get("UNIQ_KEY", offset_id)
        cdef object flag = <int32_t> get_32(at + 16)  # objects, as `values` has pointers to them
        cdef object queue_id = <int32_t> get_32(at + 12)
        cdef object queue_offset = <int64_t> get_64(at + 20)
        if self.offset_delta:
            queue_offset = queue_offset + self.offset_delta
        cdef object born_ms = <int64_t> get_64(at + 40)
        cdef object store_ms = <int64_t> get_64(at + 56)
        cdef object reconsumed = <int32_t> get_32(at + 72)
        cdef object prepared = <int64_t> get_64(at + 76)
        cdef object sys_flag = system
        cdef object log_offset = <int64_t> get_64(at + 28)
        cdef object record_bytes = size
        cdef object crc = <int32_t> checksum
        cdef PyObject *values[FIELDS]
        values[:] = [
            <PyObject *> self.topic, <PyObject *> body, <PyObject *> tags, <PyObject *> keys, <PyObject *> properties,
            <PyObject *> flag, <PyObject *> queue_id, <PyObject *> queue_offset, <PyObject *> message_id,
            <PyObject *> offset_id, <PyObject *> born_ms, <PyObject *> self.born_host, <PyObject *> store_ms,
            <PyObject *> self.store_host, <PyObject *> reconsumed, <PyObject *> prepared, <PyObject *> sys_flag,
            <PyObject *> log_offset, <PyObject *> record_bytes, <PyObject *> crc, <PyObject *> self.broker_name,
        ]
        return PyObject_Vectorcall(self.make, values, 0, <PyObject *> NAMES)


def to_messages(bytes records, broker_name="", int64_t offset_delta=0):
    """The messages in *records*; see `hanabi.wire.message.stored.to_messages`."""
    from hanabi.errors import MQError
    from hanabi.message import StoredMessage
    from hanabi.wire.message.hosts import decode_host
    from hanabi.wire.message.stored import message_at

    cdef Reader reader = Reader()
    reader.make, reader.decode_host, reader.broker_name = StoredMessage, decode_host, broker_name
    reader.offset_delta = offset_delta
    cdef const unsigned char *start = <const unsigned char *> PyBytes_AS_STRING(records)
    cdef Py_ssize_t position = 0, end = PyBytes_GET_SIZE(records)
    cdef list messages = []
    while position < end:
        message = reader.message_at(start + position, end - position)
        if message is None:
            try:
                message, size = message_at(records, position, broker_name, offset_delta)
            except MQError as error:
                return messages, error
            position += size
        else:
            position += <int32_t> get_32(start + position)
        messages.append(message)
    return messages, None
