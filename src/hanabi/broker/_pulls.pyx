# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, embedsignature=True
"""The express lane's part for pulls: see `_speedups`. The readable way is `handlers.pull`, and `store.reads` behind it.

Only pulls without a filter are known, that find messages which need no second look. Whether the consumer may read at
all is asked of the same `PullAccess` as always: that is little, beside the messages.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memcmp, memcpy

from hanabi.broker._header cimport Header, Pair, read_header
from hanabi.store._speedups cimport Run, copy_run, find_run
from hanabi.wire._bytes cimport Bytes, Text, get_64, is_int32, number_in, put_32, put_bytes, put_digits

from hanabi.errors import StoreError

cdef enum:
    PULL = 11
    LITE_PULL = 361
    HEADER_MAX = 4096  # longer ones take the other way
    HEAD_MAX = 1024  # of an answer
    FOUND_MAX = 1 << 20  # bytes of messages; more are handed over without a copy
    ENTRIES_AHEAD = 256  # of a queue, read at once
    PLACES_MAX = 2000
    COMMIT_OFFSET = 1

    # The fields, in the order of NAMES
    GROUP = 0
    TOPIC = 1
    QUEUE_ID = 2
    QUEUE_OFFSET = 3
    COUNT = 4
    SYS_FLAG = 5
    COMMITTED = 6
    SUSPEND_MS = 7
    SUB_VERSION = 8
    NEEDED = 9  # those above must be there
    SUBSCRIPTION = 9
    EXPRESSION_TYPE = 10
    BROKER = 11
    COUNT_BYTES = 12
    FIELDS = 13

cdef const char *NAMES[FIELDS]
NAMES[:] = [
    b"consumerGroup",
    b"topic",
    b"queueId",
    b"queueOffset",
    b"maxMsgNums",
    b"sysFlag",
    b"commitOffset",
    b"suspendTimeoutMillis",
    b"subVersion",
    b"subscription",
    b"expressionType",
    b"bname",
    b"maxMsgBytes",
]
cdef Py_ssize_t NAME_BYTES[FIELDS]
NAME_BYTES[:] = [13, 5, 7, 11, 10, 7, 12, 20, 10, 12, 14, 5, 11]


cdef struct Pull:  # what the header of one says; a field that was not sent has no `at`
    Text fields[FIELDS]
    int64_t opaque
    int code
    bint is_json


cdef bint read_pull(Header *header, Pull *pull) noexcept:
    """False for a field that we do not know, or know already, and for escapes."""
    cdef Pair *pair
    cdef Py_ssize_t index
    cdef int field
    for field in range(FIELDS):
        pull.fields[field].at = NULL
    for index in range(header.count):
        pair = header.pairs + index
        for field in range(FIELDS):
            if pair.name.size == NAME_BYTES[field] and not memcmp(pair.name.at, NAMES[field], pair.name.size):
                break
        else:
            return False
        if pair.is_escaped or pull.fields[field].at != NULL:
            return False
        pull.fields[field] = pair.value
    pull.code, pull.opaque, pull.is_json = <int> header.code, header.opaque, header.is_json
    return True


cdef inline str text_of(Text text):
    return PyUnicode_DecodeASCII(<const char *> text.at, text.size, NULL) if text.at != NULL else None


cdef class PullPlace:
    """A queue that is pulled from, and some of its entries: those of `entries_at` and the next ones."""

    cdef object queue
    cdef bytes topic_field, entries
    cdef int64_t entries_at

    def __init__(self, queue, bytes topic_field not None):
        self.queue, self.topic_field, self.entries, self.entries_at = queue, topic_field, b"", 0


cdef class PlainPulls:
    """Answers plain pulls, one at a time."""

    cdef object reader, log, check_access, commits, settings, stats, now_ms
    cdef object header_type, reply_type, passes_all, suggested_broker
    cdef dict topics, places
    cdef list json_parts
    cdef bytes binary_head
    cdef Run run

    def __init__(self, pulls, store, header_type, reply_type, passes_all, suggested_broker, parts_of_answer):
        """*pulls* is a `handlers.pull.Pulls`; *parts_of_answer* says how answers look."""
        self.reader, self.log = store.reader, store._log
        self.check_access, self.commits, self.settings = pulls._access.check, pulls._commits, pulls._settings
        self.stats, self.now_ms = pulls._stats, pulls._now_ms
        self.header_type, self.reply_type, self.passes_all = header_type, reply_type, passes_all
        self.suggested_broker = suggested_broker
        self.topics, self.places = store._queues._topics, {}
        self.json_parts, self.binary_head = parts_of_answer

    def answer(self, bytes data not None, Py_ssize_t at, Py_ssize_t frame_bytes, connection):
        """The code of the request in a part of *data*, and its whole answer; None: then nothing was done."""
        cdef Bytes start = <Bytes> PyBytes_AS_STRING(data) + at
        cdef Header header
        cdef Pull pull
        cdef Text *fields = pull.fields
        cdef int field
        cdef Py_ssize_t header_bytes
        if at < 0 or frame_bytes < 28 or at + frame_bytes > PyBytes_GET_SIZE(data):
            return None
        header_bytes = start[1] << 16 | start[2] << 8 | start[3]
        if header_bytes + 4 != frame_bytes or header_bytes > HEADER_MAX:
            return None
        if not read_header(start, header_bytes, PULL, LITE_PULL, &header) or not read_pull(&header, &pull):
            return None

        cdef int64_t queue_id, offset, count, sys_flag, committed, suspend_ms, sub_version, unused
        for field in range(NEEDED):
            if fields[field].at == NULL:
                return None
        if (
            not number_in(fields[QUEUE_ID], &queue_id)
            or not number_in(fields[QUEUE_OFFSET], &offset)
            or not number_in(fields[COUNT], &count)
            or not number_in(fields[SYS_FLAG], &sys_flag)
            or not number_in(fields[COMMITTED], &committed)
            or not number_in(fields[SUSPEND_MS], &suspend_ms)
            or not number_in(fields[SUB_VERSION], &sub_version)
            or (fields[COUNT_BYTES].at != NULL and not (number_in(fields[COUNT_BYTES], &unused) and is_int32(unused)))
            or not is_int32(queue_id)
            or not is_int32(count)
            or not is_int32(sys_flag)
            or queue_id < 0
            or offset < 0
        ):
            return None
        return self.found(&pull, queue_id, offset, max(count, 1), sys_flag, committed, suspend_ms, sub_version, connection)

    cdef found(
        self,
        Pull *pull,
        int64_t queue_id,
        int64_t offset,
        Py_ssize_t count,
        int64_t sys_flag,
        int64_t committed,
        int64_t suspend_ms,
        int64_t sub_version,
        connection,
    ):
        """As `Pulls.handle`, when it finds messages."""
        began_ms = self.now_ms()
        group, topic = text_of(pull.fields[GROUP]), text_of(pull.fields[TOPIC])
        cdef PullPlace place = self.place_of(topic, queue_id)
        if place is None:
            return None
        queue = place.queue
        cdef int64_t low = queue.min_offset, high = queue.max_offset
        if not low <= offset < high:
            return None
        peer = connection.peer
        access = self.check_access(
            self.header_type(
                consumer_group=group,
                topic=topic,
                queue_id=queue_id,
                queue_offset=offset,
                max_msg_nums=count,
                sys_flag=sys_flag,
                commit_offset=committed,
                suspend_timeout_millis=suspend_ms,
                sub_version=sub_version,
                subscription=text_of(pull.fields[SUBSCRIPTION]),
                expression_type=text_of(pull.fields[EXPRESSION_TYPE]),
            ),
            peer,
        )
        if type(access) is self.reply_type:
            return None
        group_config, message_filter = <tuple> access
        if message_filter is not self.passes_all:
            return None
        answer = self.read(pull, place, queue_id, offset, count, low, high, group_config)
        if answer is None:
            return None
        self.commits.pulled(group, topic, queue_id, peer)
        if sys_flag & COMMIT_OFFSET and self.settings.broker.broker_role != "SLAVE":
            self.commits.with_pull(group, topic, queue_id, committed, peer)
        self.stats.found(
            group,
            topic,
            queue_id,
            self.run.count,
            self.run.total,
            <int64_t> self.log.end_offset - self.run.last_log_offset,
            self.run.last_store_ms,
            began_ms,
            self.now_ms(),
        )
        return pull.code, answer

    cdef PullPlace place_of(self, str topic, queue_id):
        cdef dict queues = self.topics.get(topic)
        queue = queues.get(queue_id) if queues is not None else None
        if queue is None:
            return None
        cdef PullPlace place = self.places.get((topic, queue_id))
        if place is None or place.queue is not queue:  # deleted, and made again
            if len(self.places) >= PLACES_MAX:
                self.places.clear()
            place = PullPlace(queue, self.reader._topic_field(topic))
            self.places[topic, queue_id] = place
        return place

    cdef read(self, Pull *pull, PullPlace place, int64_t queue_id, int64_t offset, Py_ssize_t count, int64_t low, int64_t high, group):
        """The whole answer, if all messages that it should have are where they usually are."""
        cdef Py_ssize_t bytes_max, count_max
        cdef int64_t memory_bytes = self.reader._memory_bytes, log_end = self.log.end_offset, log_offset
        bytes_max, count_max = <tuple> self.reader._memory_limits
        count = min(count, count_max, high - offset)
        cdef Bytes entry = self.entries_of(place, offset, count, high)
        if entry == NULL:
            return None
        log_offset = get_64(entry)
        segment = self.log.find(log_offset)
        if segment is None:
            return None
        cdef Py_buffer view
        cdef bint is_plain
        cdef unsigned char head[HEAD_MAX]
        cdef Py_ssize_t head_bytes
        answer = None
        PyObject_GetBuffer(segment._view, &view, PyBUF_SIMPLE)
        try:
            is_plain = find_run(
                <Bytes> view.buf,
                segment.written,
                segment.base_offset,
                entry,
                20 * count,
                <Bytes> PyBytes_AS_STRING(place.topic_field),
                PyBytes_GET_SIZE(place.topic_field),
                queue_id,
                offset,
                max(log_end - memory_bytes, <int64_t> self.reader._opened_at),
                count,
                bytes_max,
                &self.run,
            )
            if is_plain and self.run.total <= FOUND_MAX:
                suggested = self.suggested_broker(
                    group,
                    suggests_slave=log_end - self.run.last_log_offset > memory_bytes,
                    slave_read_enabled=self.settings.broker.slave_read_enabled,
                )
                head_bytes = self.head(pull, head, suggested, offset + self.run.count, low, high)
                answer = PyBytes_FromStringAndSize(NULL, head_bytes + self.run.total)
                memcpy(PyBytes_AS_STRING(answer), head, head_bytes)
                copy_run(<Bytes> view.buf, &self.run, PyBytes_AS_STRING(answer) + head_bytes)
        finally:
            PyBuffer_Release(&view)
        return answer

    cdef Bytes entries_of(self, PullPlace place, int64_t offset, Py_ssize_t count, int64_t high) except? NULL:
        """*count* entries from *offset* on, of which there are so many; NULL if they cannot be read."""
        cdef int64_t skipped = offset - place.entries_at
        if skipped < 0 or (skipped + count) * 20 > PyBytes_GET_SIZE(place.entries):
            skipped = 0
            try:
                place.entries = place.queue.read(offset, max(count, min(ENTRIES_AHEAD, high - offset)))
            except StoreError:
                return NULL  # the handler meets the same error, and answers with it
            place.entries_at = offset
            if PyBytes_GET_SIZE(place.entries) < 20 * count:
                return NULL
        return <Bytes> PyBytes_AS_STRING(place.entries) + 20 * skipped

    cdef Py_ssize_t head(self, Pull *pull, unsigned char *start, int64_t suggested, int64_t next_offset, int64_t low, int64_t high) except -1:
        """What `wire.command.encode_reply_head` makes of it; how long it is."""
        cdef unsigned char *at = start + 8
        cdef unsigned char *fields
        if pull.is_json:
            at = put_digits(put_bytes(at, <bytes> self.json_parts[0]), suggested)
            at = put_digits(put_bytes(at, <bytes> self.json_parts[1]), next_offset)
            at = put_digits(put_bytes(at, <bytes> self.json_parts[2]), low)
            at = put_digits(put_bytes(at, <bytes> self.json_parts[3]), high)
            at = put_digits(put_bytes(at, <bytes> self.json_parts[4]), pull.opaque)
            at = put_bytes(at, <bytes> self.json_parts[5])
        else:
            at = put_bytes(at, self.binary_head)
            put_32(start + 8 + 5, <uint32_t> <int32_t> pull.opaque)
            fields = at
            at = add_number(at, b"\x00\x14suggestWhichBrokerId", 22, suggested)
            at = add_number(at, b"\x00\x0fnextBeginOffset", 17, next_offset)
            at = add_number(at, b"\x00\x09minOffset", 11, low)
            at = add_number(at, b"\x00\x09maxOffset", 11, high)
            put_32(fields - 4, <uint32_t> (at - fields))
        cdef Py_ssize_t header_bytes = at - start - 8
        put_32(start, <uint32_t> (4 + header_bytes + self.run.total))
        put_32(start + 4, <uint32_t> header_bytes | (0 if pull.is_json else 1 << 24))
        return 8 + header_bytes


cdef inline unsigned char *add_number(unsigned char *at, const char *name, Py_ssize_t name_bytes, int64_t number) noexcept:
    memcpy(at, name, name_bytes)
    at += name_bytes
    cdef unsigned char *end = put_digits(at + 4, number)
    put_32(at, <uint32_t> (end - at - 4))
    return end
