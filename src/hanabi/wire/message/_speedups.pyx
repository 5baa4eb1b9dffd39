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

from hanabi.wire._bytes cimport Bytes, Text, get_32
from hanabi.wire.message._record cimport (
    HEAD_BYTES, HOST_BYTES, HOSTS_V6, PROPERTIES_BYTES_MAX, TOPIC_BYTES_MAX, Indexed, Record, find_indexed, is_at,
    read_record, record_bytes, write_record,
)

from hanabi.wire.message.crc import crc32
from hanabi.wire.message.tags import tags_code

cdef extern from "Python.h":
    object PyObject_Vectorcall(object callable, PyObject *const *arguments, size_t count, PyObject *names)

cdef enum:
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
    cdef Indexed indexed
    find_indexed(at, at + PyBytes_GET_SIZE(raw), &indexed)
    return text_of(indexed.tags), text_of(indexed.keys), text_of(indexed.unique_key)


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
    cdef Record record
    cdef Py_ssize_t start = position, left
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        left = (view.len if end is None else min(<Py_ssize_t> end, view.len)) - start
        if (
            start >= 0
            and read_record(<Bytes> view.buf + start, left, &record)
            and (not check_crc or is_whole(record.body, record.body_bytes, record.crc))
        ):
            properties = PyBytes_FromStringAndSize(<const char *> record.properties, record.properties_bytes)
            tags, keys, unique_key = indexed_properties(properties)
            return tuple.__new__(
                Dispatch,
                (
                    PyUnicode_DecodeUTF8(<const char *> record.topic, record.topic_bytes, "replace"),
                    record.queue_id,
                    record.queue_offset,
                    record.log_offset,
                    <int32_t> get_32(<Bytes> view.buf + start),
                    0 if tags is None else tags_code(tags),
                    record.store_ms,
                    keys or "",
                    unique_key,
                    record.sys_flag,
                    record.prepared_offset,
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
        cdef Record record
        if not read_record(at, left, &record) or record.sys_flag & COMPRESSED:
            return None
        cdef Bytes topic_at = record.topic
        cdef Py_ssize_t topic_bytes = record.topic_bytes
        body = PyBytes_FromStringAndSize(<const char *> record.body, record.body_bytes)
        if record.body_bytes and <uint32_t> (crc32(body) & 0x7FFFFFFF) != record.crc:
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
        properties = read_properties(
            <const char *> record.properties, <const char *> record.properties + record.properties_bytes
        )
        tags = properties.get("TAGS")
        keys_text = properties.get("KEYS")
        keys = () if keys_text is None else tuple((<str> keys_text).split())
        message_id = properties.get("UNIQ_KEY", offset_id)
        cdef object flag = record.flag  # objects, as `values` has pointers to them
        cdef object queue_id = record.queue_id
        cdef object queue_offset = record.queue_offset
        if self.offset_delta:
            queue_offset = queue_offset + self.offset_delta
        cdef object born_ms = record.born_ms
        cdef object store_ms = record.store_ms
        cdef object reconsumed = record.reconsumed
        cdef object prepared = record.prepared_offset
        cdef object sys_flag = record.sys_flag
        cdef object log_offset = record.log_offset
        cdef object size = <int32_t> get_32(at)
        cdef object crc = <int32_t> record.crc
        cdef PyObject *values[FIELDS]
        values[:] = [
            <PyObject *> self.topic, <PyObject *> body, <PyObject *> tags, <PyObject *> keys, <PyObject *> properties,
            <PyObject *> flag, <PyObject *> queue_id, <PyObject *> queue_offset, <PyObject *> message_id,
            <PyObject *> offset_id, <PyObject *> born_ms, <PyObject *> self.born_host, <PyObject *> store_ms,
            <PyObject *> self.store_host, <PyObject *> reconsumed, <PyObject *> prepared, <PyObject *> sys_flag,
            <PyObject *> log_offset, <PyObject *> size, <PyObject *> crc, <PyObject *> self.broker_name,
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
