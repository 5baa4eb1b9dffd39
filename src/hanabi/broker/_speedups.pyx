# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, embedsignature=True
"""The express lane: plain sends and pulls, from the bytes that were read to the bytes of the answers, compiled.

Optional, as `hanabi.wire._speedups`; the readable way through `remoting.dispatch` and `handlers` is what it must agree
with, for every frame: it answers the same, byte for byte, and stores the same, or it stops before anything of that
frame is done, and the readable way has the frame and those behind it. So whatever is unusual may be left to that, and
most of it is: of sends only SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE are known, with fields in ASCII, to a queue and topic
that exist, for messages that neither wait nor are part of a transaction or a retry.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

from hanabi.broker._header cimport Header, Pair, read_header
from hanabi.store._speedups cimport RUN_MAX, Message, Place, PlainPuts
from hanabi.wire._bytes cimport Bytes, Text, get_32, is_ascii, is_int32, number_in, put_32, put_bytes, put_digits

from time import perf_counter

cdef enum:
    SEND = 310
    BATCH = 320
    PULL = 11
    LITE_PULL = 361
    HEADER_MAX = 32768  # longer ones take the other way
    TOPIC_MAX = 127
    QUEUES_MAX = 4096
    TOPICS_MAX = 10_000
    V5_0_0 = 413  # see handlers.send
    FIELDS = 14  # a to n
    REPLY_MAX = 2048  # with one id
    BATCH_MAX = 256  # messages
    ID_BYTES = 33  # with a comma
    ANSWERS_MAX = 65536  # bytes, of one run
    PROPERTIES_MAX = 32767
    BUCKETS_4 = 16  # see delay.java_order
    BUCKETS_5 = 128
    NAMES_MAX_4 = 12  # more have more buckets
    NAMES_MAX_5 = 40

cdef const char *HEX = b"0123456789ABCDEF"


cdef struct Send:  # what the header of one says; a field that was not sent has no `at`
    Text fields[FIELDS]
    int64_t opaque
    int64_t version
    bint is_json
    bint is_batch


cdef inline bint is_true(Text text) noexcept:
    return text.at != NULL and text.size == 4 and not memcmp(text.at, b"true", 4)


cdef inline bint is_false(Text text) noexcept:
    """Not sent, or false."""
    return text.at == NULL or (text.size == 5 and not memcmp(text.at, b"false", 5))


cdef bint read_send(Header *header, Send *send) noexcept:
    """Fields that have more than a letter are not ours, and passed. Only properties may have escapes."""
    cdef Pair *pair
    cdef Py_ssize_t index
    cdef bint is_letter
    for index in range(FIELDS):
        send.fields[index].at = NULL
    for index in range(header.count):
        pair = header.pairs + index
        is_letter = pair.name.size == 1 and c"a" <= pair.name.at[0] <= c"n"
        if pair.is_escaped and not (is_letter and pair.name.at[0] == c"i"):
            return False
        if is_letter:
            send.fields[pair.name.at[0] - c"a"] = pair.value
    send.opaque, send.version, send.is_json = header.opaque, header.version, header.is_json
    send.is_batch = header.code == BATCH
    return True


cdef int hex_digit(unsigned char digit) noexcept:
    if c"0" <= digit <= c"9":
        return digit - c"0"
    if c"a" <= digit <= c"f":
        return digit - c"a" + 10
    if c"A" <= digit <= c"F":
        return digit - c"A" + 10
    return -1


cdef Py_ssize_t unescape(Text text, unsigned char *into) noexcept:
    """The ASCII that JSON's *text* means; how long it is, or -1."""
    cdef Py_ssize_t at = 0, size = 0
    cdef int high, low
    cdef unsigned char unit
    while at < text.size:
        unit = text.at[at]
        at += 1
        if unit == c"\\":
            unit = text.at[at]
            at += 1
            if unit == c"u":
                if text.size - at < 4 or text.at[at] != c"0" or text.at[at + 1] != c"0":
                    return -1
                high, low = hex_digit(text.at[at + 2]), hex_digit(text.at[at + 3])
                if not 0 <= high < 8 or low < 0:
                    return -1
                unit = <unsigned char> (high << 4 | low)
                at += 4
            elif unit != c'"' and unit != c"\\" and unit != c"/":
                return -1
        into[size] = unit
        size += 1
    return size


cdef struct Property:  # name 0x01 value
    Bytes at
    Py_ssize_t name_bytes  # without the separator
    Py_ssize_t size
    uint32_t bucket
    bint is_left_out


cdef struct Properties:  # in the order in which a HashMap of Java's lists them
    Property items[NAMES_MAX_5]
    int count, names_max
    uint32_t buckets


cdef inline bint is_named(Property *item, const char *name, Py_ssize_t size) noexcept:
    return item.name_bytes == size and not memcmp(item.at, name, size)


cdef bint add_property(Properties *properties, Property *item) noexcept:
    """Put it behind those of its bucket. False where there is one of this name, or there are too many."""
    cdef uint32_t code = 0
    cdef Py_ssize_t index
    if properties.count == properties.names_max:
        return False
    for index in range(item.name_bytes):
        code = code * 31 + item.at[index]
    item.bucket = (code ^ code >> 16) & (properties.buckets - 1)
    index = properties.count
    while index and properties.items[index - 1].bucket > item.bucket:
        properties.items[index] = properties.items[index - 1]
        index -= 1
    properties.items[index] = item[0]
    properties.count += 1
    while index and properties.items[index - 1].bucket == item.bucket:
        index -= 1
        if is_named(properties.items + index, <const char *> item.at, item.name_bytes):
            return False
    return True


cdef bint read_properties(Properties *properties, Bytes at, Py_ssize_t size, bint is_batch, bytes added) noexcept:
    """As `stored_properties.sent_properties` and `batch_properties`; False where these have more to do.

    *added* is what the broker adds, each with a separator behind it.
    """
    cdef Bytes end = at + size
    cdef Bytes pair_end
    cdef Bytes value
    cdef Property item
    cdef bint is_new = properties.buckets == BUCKETS_5
    cdef bint has_key = is_batch or not is_new
    while at < end:
        pair_end = <Bytes> memchr(at, 2, end - at)
        if pair_end == NULL:
            pair_end = end
        value = <Bytes> memchr(at, 1, pair_end - at)
        item.at, item.size, item.is_left_out = at, pair_end - at, False
        at = pair_end + 1
        if value == NULL or value == item.at or value + 1 == pair_end:
            continue  # without a name, or a value
        item.name_bytes = value - item.at
        if is_named(&item, b"WAIT", 4):
            if item.size != 9 or memcmp(value + 1, b"true", 4):
                return False
            item.is_left_out = not is_batch and not is_new
        elif is_named(&item, b"UNIQ_KEY", 8):
            if is_batch:
                continue
            has_key = True
        elif is_named(&item, b"TRAN_MSG", 8) or (is_new and is_named(&item, b"POP_CK", 6)):
            return False
        if not add_property(properties, &item):
            return False
    at = <Bytes> PyBytes_AS_STRING(added)
    end = at + PyBytes_GET_SIZE(added)
    while at < end:
        item.at, item.is_left_out = at, False
        item.name_bytes = <Bytes> memchr(at, 1, end - at) - at
        item.size = <Bytes> memchr(at, 2, end - at) - at
        if not add_property(properties, &item):
            return False
        at += item.size + 1
    return has_key


cdef Py_ssize_t write_properties(Properties *properties, unsigned char *into) noexcept:
    """All of them, and how many bytes that makes. A separator ends each of 5.x's, and stands between those of 4.9."""
    cdef unsigned char *at = into
    cdef int index
    cdef Property *item
    for index in range(properties.count):
        item = properties.items + index
        if not item.is_left_out:
            memcpy(at, item.at, item.size)
            at += item.size
            at[0] = 2
            at += 1
    return at - into - (properties.buckets == BUCKETS_4)


cdef inline bint has_delay(Bytes at, Py_ssize_t size) noexcept:
    """DEL, which all names of delays contain."""
    cdef Bytes end = at + size
    while end - at >= 3:
        at = <Bytes> memchr(at, c"D", end - at - 2)
        if at == NULL:
            return False
        if at[1] == c"E" and at[2] == c"L":
            return True
        at += 1
    return False


def added_bytes(form):
    """What the broker adds, with a separator behind each; None: not for us."""
    if any("\x01" in value or "\x02" in value or not value for value in form.added.values()):
        return None
    return "".join([f"{name}\x01{value}\x02" for name, value in form.added.items()]).encode()


cdef class SendTopic:
    """A topic that is sent to; what it knows is looked up again in every run."""

    cdef bytes name
    cdef str topic
    cdef object target
    cdef list places  # by queue id; None: not sent to yet
    cdef int64_t run, queues
    cdef int32_t sys_flag

    def __init__(self, bytes name not None):
        self.name, self.topic, self.places = name, name.decode("ascii"), []
        self.run = 0


cdef class PlainSends:
    """Answers plain sends: `take` one frame after the other, then `finish`. The answers are in `out` until then."""

    cdef PlainPuts puts
    cdef object sends, settings, config, flow, find_config, host_of_peer, count, store_stats, stats
    cdef dict targets, unsaved, topics
    cdef SendTopic last
    cdef bytes store_host, born_host, added_old, added_new
    cdef object parts_of_answer, began
    cdef list json_parts
    cdef bytes id_prefix, binary_head, binary_tail
    cdef Py_ssize_t frames, batches, out_bytes
    cdef unsigned char sent[HEADER_MAX]  # properties as a header says them
    cdef unsigned char properties[HEADER_MAX + PROPERTIES_MAX]
    cdef unsigned char shared[HEADER_MAX]  # by the messages of a batch
    cdef unsigned char out[ANSWERS_MAX + REPLY_MAX + ID_BYTES * BATCH_MAX]

    def __init__(self, sends, puts, host_of_peer, parts_of_answer):
        """*sends* is a `handlers.send.Sends`, *puts* a `PlainPuts`; *parts_of_answer* says how answers look."""
        self.sends, self.settings, self.flow = sends, sends._settings, sends._flow
        self.puts, self.host_of_peer, self.parts_of_answer = puts, host_of_peer, parts_of_answer
        self.targets, self.find_config = sends._targets.known, sends._topics.find
        self.unsaved = sends._unsaved_topics
        self.stats = sends.intake._stats
        self.count, self.store_stats = self.stats.put, self.stats.store
        self.config, self.topics, self.last = None, {}, None
        self.frames = self.batches = self.out_bytes = 0

    cdef bint begin(self, connection) except -1:
        """A run begins, with settings in the form in which we need them. False: not now."""
        config = self.settings.broker
        if config is not self.config:
            self.sends._read(config)
            self.config = config
            self.store_host = self.sends._store_host.raw
            self.added_old, self.added_new = added_bytes(self.sends.form_4), added_bytes(self.sends.form_5)
            parts = self.parts_of_answer(self.sends._region, self.sends._trace_on, self.store_host)
            self.id_prefix, self.json_parts, self.binary_head, self.binary_tail = parts or (None, None, None, None)
        if self.flow.busy is not None or config.start_accept_sends_at_ms or self.json_parts is None:
            return False
        if self.added_new is None or self.added_old is None:
            return False
        if len(self.added_old) > HEADER_MAX // 4 or len(self.added_new) > HEADER_MAX // 4:
            return False
        self.born_host = self.host_of_peer(connection.peer)
        if PyBytes_GET_SIZE(self.born_host) != 8 or PyBytes_GET_SIZE(self.store_host) != 8:
            return False
        self.began = perf_counter()
        return self.puts.begin()

    cdef bint take(self, Bytes start, Py_ssize_t frame_bytes, connection) except -1:
        """Do what a frame asks for, and put the answer behind `out`. False: then nothing was done."""
        cdef Py_ssize_t header_bytes, body_at, before
        cdef Header header
        cdef Send send
        cdef Text *fields = send.fields
        cdef int field
        if frame_bytes < 28:
            return False
        header_bytes = start[1] << 16 | start[2] << 8 | start[3]
        body_at = header_bytes + 4
        if body_at >= frame_bytes or header_bytes > HEADER_MAX // 2:
            return False
        if not read_header(start, header_bytes, SEND, BATCH, &header) or not read_send(&header, &send):
            return False

        cdef int64_t queues_wanted, queue_id, sys_flag, born_ms, flag, reconsumed = 0, unused
        for field in range(8):  # a to h must be there
            if fields[field].at == NULL:
                return False
        if (
            not number_in(fields[3], &queues_wanted)
            or not number_in(fields[4], &queue_id)
            or not number_in(fields[5], &sys_flag)
            or not number_in(fields[6], &born_ms)
            or not number_in(fields[7], &flag)
            or (fields[9].at != NULL and not number_in(fields[9], &reconsumed))
            or (fields[11].at != NULL and not (number_in(fields[11], &unused) and is_int32(unused)))
            or not is_false(fields[10])
            or (not is_true(fields[12]) if send.is_batch else not is_false(fields[12]))
            or not is_int32(queues_wanted)
            or not is_int32(sys_flag)
            or not is_int32(flag)
            or not is_int32(reconsumed)
            or not 0 < fields[1].size <= TOPIC_MAX
            or queue_id < 0
            or sys_flag < 0
        ):
            return False
        if not self.puts.is_running and not self.begin(connection):
            return False
        cdef Place place = self.place_of(fields[1], queue_id)
        if place is None or not self.puts.add(place):
            return False
        cdef Message message
        message.sys_flag, message.reconsumed = <int32_t> sys_flag | self.last.sys_flag, <int32_t> reconsumed
        message.born_ms, message.flag = born_ms, <int32_t> flag
        message.born_host = <Bytes> PyBytes_AS_STRING(self.born_host)
        message.store_host = <Bytes> PyBytes_AS_STRING(self.store_host)
        before = self.puts.count
        if not self.put(place, &send, &message, start + body_at, frame_bytes - body_at):
            self.puts.back_to(before)
            return False
        place.times += 1
        self.frames += 1
        self.batches += send.is_batch
        self.reply(&send, before, queue_id, place.next_offset - (self.puts.count - before))
        return True

    cdef Place place_of(self, Text name, int64_t queue_id):
        """The queue that a message is for, if messages may go there at once."""
        cdef SendTopic topic = self.last
        if topic is None or PyBytes_GET_SIZE(topic.name) != name.size or memcmp(
            PyBytes_AS_STRING(topic.name), name.at, name.size
        ):
            key = PyBytes_FromStringAndSize(<const char *> name.at, name.size)
            topic = self.topics.get(key)
            if topic is None:
                if len(self.topics) >= TOPICS_MAX:  # some may have been deleted long ago
                    self.topics.clear()
                topic = self.topics[key] = SendTopic(key)
            self.last = topic
        if topic.run != self.puts.run:
            topic.run, topic.queues = self.puts.run, self.queues_of(topic)
        if queue_id >= topic.queues or queue_id >= QUEUES_MAX:
            return None
        while len(topic.places) <= queue_id:
            topic.places.append(None)
        place = topic.places[queue_id]
        if place is None:
            place = topic.places[queue_id] = Place(topic.topic, queue_id)
        return place

    cdef int64_t queues_of(self, SendTopic topic) except -1:
        """How many queues of it may be sent to without a second look."""
        target = self.targets.get(topic.topic)
        if target is None or target.is_retry or topic.topic in self.unsaved:
            return 0
        config = target.config
        if config is not self.find_config(topic.topic) or config.order:
            return 0
        topic.sys_flag = target.sys_flag
        return target.queues

    cdef bint put(self, Place place, Send *send, Message *message, Bytes body, Py_ssize_t body_bytes) except -1:
        """Put one message, or all of a batch; False where the readable way has more to do."""
        cdef Bytes sent = send.fields[8].at
        cdef Py_ssize_t size = 0
        cdef bint is_new = send.version >= V5_0_0
        cdef Properties properties
        if sent != NULL:
            size = send.fields[8].size
            if send.is_json:
                size, sent = unescape(send.fields[8], self.sent), self.sent
            if size < 0 or has_delay(sent, size):
                return False
        properties.count = 0
        properties.buckets = BUCKETS_5 if is_new else BUCKETS_4
        properties.names_max = NAMES_MAX_5 if is_new else NAMES_MAX_4
        if not read_properties(&properties, sent, size, send.is_batch, self.added_new if is_new else self.added_old):
            return False
        if send.is_batch:
            size = write_properties(&properties, self.shared)
            return self.put_batch(place, message, body, body + body_bytes, size)
        message.body, message.body_bytes = body, body_bytes
        message.properties, message.properties_bytes = self.properties, write_properties(&properties, self.properties)
        return self.puts.put(place, message)

    cdef bint put_batch(self, Place place, Message *message, Bytes at, Bytes end, Py_ssize_t shared_bytes) except -1:
        """As `wire.batch.decode_batch` and `wire.properties.join_properties`."""
        cdef int64_t body_bytes, properties_bytes, size
        cdef Py_ssize_t count = 0
        cdef Bytes properties
        if end - at > <Py_ssize_t> self.settings.store.message_bytes_max:
            return False
        while at < end:
            if end - at < 22 or count == BATCH_MAX:
                return False
            body_bytes = <int32_t> get_32(at + 16)
            if body_bytes <= 0 or body_bytes > end - at - 22:
                return False
            properties_bytes = at[20 + body_bytes] << 8 | at[21 + body_bytes]
            size = 22 + body_bytes + properties_bytes
            if properties_bytes > PROPERTIES_MAX or size > end - at or <int64_t> get_32(at) != size:
                return False
            properties = at + 22 + body_bytes
            if not is_ascii(properties, properties_bytes) or has_delay(properties, properties_bytes):
                return False
            memcpy(self.properties, properties, properties_bytes)
            if properties_bytes and self.properties[properties_bytes - 1] != 2:
                self.properties[properties_bytes] = 2
                properties_bytes += 1
            memcpy(self.properties + properties_bytes, self.shared, shared_bytes)
            message.body, message.body_bytes, message.flag = at + 20, body_bytes, <int32_t> get_32(at + 12)
            message.properties, message.properties_bytes = self.properties, properties_bytes + shared_bytes
            if not self.puts.put(place, message):
                return False
            at += size
            count += 1
        return count > 0

    cdef reply(self, Send *send, Py_ssize_t first, int64_t queue_id, int64_t queue_offset):
        """What `wire.command.encode_reply_head` makes of it, behind `out`."""
        cdef unsigned char *start = self.out + self.out_bytes
        cdef unsigned char *at = start + 8
        cdef unsigned char *fields
        cdef unsigned char *number
        cdef Py_ssize_t ids_bytes = ID_BYTES * (self.puts.count - first) - 1
        if send.is_json:
            at = put_bytes(at, <bytes> self.json_parts[0])
            at = self.add_ids(at, first)
            at = put_digits(put_bytes(at, <bytes> self.json_parts[1]), queue_id)
            at = put_digits(put_bytes(at, <bytes> self.json_parts[2]), queue_offset)
            at = put_digits(put_bytes(at, <bytes> self.json_parts[3]), send.opaque)
            at = put_bytes(at, <bytes> self.json_parts[4])
        else:
            at = put_bytes(at, self.binary_head)
            put_32(start + 8 + 5, <uint32_t> <int32_t> send.opaque)
            fields = at
            at = add_text(at, b"\x00\x05msgId", 7)
            put_32(at, <uint32_t> ids_bytes)
            at = self.add_ids(at + 4, first)
            number = add_text(at, b"\x00\x07queueId", 9)
            at = put_digits(number + 4, queue_id)
            put_32(number, <uint32_t> (at - number - 4))
            number = add_text(at, b"\x00\x0bqueueOffset", 13)
            at = put_digits(number + 4, queue_offset)
            put_32(number, <uint32_t> (at - number - 4))
            at = put_bytes(at, self.binary_tail)
            put_32(fields - 4, <uint32_t> (at - fields))
        cdef Py_ssize_t header_bytes = at - start - 8
        put_32(start, <uint32_t> (4 + header_bytes))
        put_32(start + 4, <uint32_t> header_bytes | (0 if send.is_json else 1 << 24))
        self.out_bytes += 8 + header_bytes

    cdef unsigned char *add_ids(self, unsigned char *at, Py_ssize_t first) noexcept:
        """As `wire.message_id.encode_offset_id` for each record from *first* on, separated by commas."""
        cdef uint64_t left
        cdef Py_ssize_t index
        cdef int digit
        for index in range(first, self.puts.count):
            if index > first:
                at[0] = c","
                at += 1
            memcpy(at, PyBytes_AS_STRING(self.id_prefix), 16)
            left = <uint64_t> self.puts.stored[index].log_offset
            for digit in range(31, 15, -1):
                at[digit] = HEX[left & 15]
                left >>= 4
            at += 32
        return at

    cdef bint is_full(self) noexcept:
        """Whether the run, if there is one, must end before the next frame."""
        return self.puts.is_running and (self.out_bytes > ANSWERS_MAX or self.puts.count > RUN_MAX - BATCH_MAX)

    cdef bytes finish(self):
        """The answers to all that was taken, which is stored now; None: nothing was."""
        if not self.puts.is_running:
            return None
        self.puts.finish()
        if not self.frames:
            return None
        cdef Place place
        for place in self.puts.places:
            if place.times:
                self.count(place.topic, place.next_offset - place.first_offset, place.bytes, place.queue_id, place.times)
        cdef double took = perf_counter() - <double> self.began
        cdef Py_ssize_t sends = self.frames - self.batches
        if sends:  # the time of batches is not counted, see StoreStats
            self.store_stats.put_seconds += took * sends / self.frames
            if took >= 0.001:
                self.stats.put_latency_ms(int(took * 1000))
        answers = PyBytes_FromStringAndSize(<char *> self.out, self.out_bytes)
        self.frames = self.batches = self.out_bytes = 0
        return answers


cdef inline unsigned char *add_text(unsigned char *at, const char *text, Py_ssize_t size) noexcept:
    memcpy(at, text, size)
    return at + size


cdef class Lane:
    """Answers what it can of what was read; see `remoting.dispatch.Express`, which this is."""

    cdef PlainSends sends
    cdef object pull
    cdef readonly tuple codes

    def __init__(self, PlainSends sends, pulls):
        """Each may be None; *pulls* is a `PlainPulls`."""
        self.sends, self.pull = sends, None if pulls is None else pulls.answer
        self.codes = (SEND, BATCH, PULL, LITE_PULL)

    def __call__(self, bytes data not None, connection):
        """The answers to the frames at the start of *data*, how many bytes of it these were, and how many there were of
        each of `codes`. One pull at most, as its answer may be long."""
        cdef Bytes start = <Bytes> PyBytes_AS_STRING(data)
        cdef Py_ssize_t at = 0, end = PyBytes_GET_SIZE(data), size = 0, sends = 0, batches = 0
        answers = None
        if self.sends is not None:
            try:
                while end - at >= 4 and not self.sends.is_full():
                    size = get_32(start + at)
                    if size > end - at - 4 or not self.sends.take(start + at + 4, size, connection):
                        break
                    at += 4 + size
            finally:
                batches = self.sends.batches
                sends = self.sends.frames - batches
                answers = self.sends.finish()
        if self.pull is None or end - at < 4:
            return answers, at, (sends, batches, 0, 0)
        size = get_32(start + at)
        found = self.pull(data, at + 4, size, connection) if size <= end - at - 4 else None
        if found is None:
            return answers, at, (sends, batches, 0, 0)
        code, answer = <tuple> found
        if answers is not None:
            answer = answers + answer
        return answer, at + 4 + size, (sends, batches, 1 if code == PULL else 0, 1 if code == LITE_PULL else 0)
