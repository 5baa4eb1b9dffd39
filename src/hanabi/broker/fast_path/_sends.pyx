# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, embedsignature=True
"""Ordinary sends, compiled: from the bytes of one read of a socket to stored messages and the bytes of the replies.

`handlers.send` is the specification: a frame is answered and stored exactly as by it, or declined before anything of it
is done. Ordinary are SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE with fields in ASCII, to a queue and topic that exist, for
messages without a delay that belong to no transaction or retry.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.time cimport perf_counter
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy, memset

from hanabi.broker.fast_path._admission cimport Admission
from hanabi.broker.fast_path._frames cimport ReplyTemplate
from hanabi.broker.fast_path._header cimport Header, Pair, read_header, read_numbers
from hanabi.store.fast_path._appends cimport RUN_MAX, RunQueue, RunWriter
from hanabi.wire._bytes cimport Bytes, Text, get_32, is_ascii, put_digits
from hanabi.wire.message._record cimport Indexed, Record, find_indexed, note_indexed

from hanabi.broker.send.intake import WORTH_TELLING_SECONDS

cdef enum:
    SEND = 310
    BATCH = 320
    HEADER_MAX = 32768  # longer ones are declined
    TOPIC_MAX = 127
    QUEUES_MAX = 4096
    TOPICS_MAX = 10_000
    V5_0_0 = 413  # see handlers.send
    REPLY_MAX = 2048  # with one id
    BATCH_MAX = 256  # messages
    ID_BYTES = 33  # with a comma
    ANSWERS_MAX = 65536  # bytes, of one run
    PROPERTIES_MAX = 32767
    BUCKETS_4 = 16  # see wire.message.java_hash_map
    BUCKETS_5 = 128
    NAMES_MAX_4 = 12  # more have more buckets
    NAMES_MAX_5 = 40

    # Why a frame is declined: `counts.Declined`
    TAKEN = 0
    HEADER = 1
    CLOSED = 2
    TOPIC = 3
    PROPERTIES = 4
    STORE = 5
    ACCESS = 6
    NO_SEND = 100  # not counted

cdef enum:  # the fields of a send, a to n; those of the first two lines must be there
    GROUP_NAME, TOPIC_NAME, DEFAULT_TOPIC, DEFAULT_QUEUES
    QUEUE_ID, SYS_FLAG, BORN_MS, FLAG
    SENT, RECONSUMED, IS_UNIT, RECONSUMED_MAX, IS_BATCH, BROKER, FIELDS

cdef enum:
    REQUIRED = (1 << SENT) - 1
    NUMERIC = 1 << DEFAULT_QUEUES | 1 << QUEUE_ID | 1 << SYS_FLAG | 1 << BORN_MS | 1 << FLAG | 1 << RECONSUMED | 1 << RECONSUMED_MAX

cdef double SLOW_SECONDS = WORTH_TELLING_SECONDS
cdef tuple NOTHING = (None, 0, (0, 0, 0, 0))
cdef const char *HEX = b"0123456789ABCDEF"


cdef inline bint is_text(Text text, const char *wanted, Py_ssize_t size) noexcept:
    return text.at != NULL and text.size == size and not memcmp(text.at, wanted, size)


cdef inline bint is_false(Text text) noexcept:
    """Not sent, or false."""
    return text.at == NULL or is_text(text, b"false", 5)


cdef Py_ssize_t unescape(Text text, unsigned char *into) noexcept:
    """The ASCII that JSON's *text* means, if it has only the escapes that separate properties, and of quotes and slashes;
    how long it is, or -1."""
    cdef Bytes at = text.at
    cdef Bytes end = at + text.size
    cdef Py_ssize_t size = 0
    while at < end:
        into[size] = at[0]
        if at[0] == c"\\":
            at += 1
            into[size] = at[0]
            if at[0] == c"u":
                if end - at < 5 or memcmp(at, b"u000", 4) or (at[4] != c"1" and at[4] != c"2"):
                    return -1
                into[size] = at[4] - c"0"
                at += 4
            elif at[0] != c'"' and at[0] != c"\\" and at[0] != c"/":
                return -1
        at += 1
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


cdef Py_ssize_t write_properties(Properties *properties, Indexed *indexed, unsigned char *into) noexcept:
    """All of them, and how many bytes that makes. A separator ends each of 5.x's, and stands between those of 4.9."""
    indexed.tags.at = indexed.keys.at = indexed.unique_key.at = NULL
    cdef unsigned char *at = into
    cdef int index
    cdef Property *item
    for index in range(properties.count):
        item = properties.items + index
        if not item.is_left_out:
            note_indexed(indexed, item.at, item.at + item.name_bytes + 1, item.at + item.size)
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
    """A topic that is sent to. What is known of it is looked up again in every run."""

    cdef bytes name
    cdef str topic
    cdef list queues  # by queue id; None: not sent to yet
    cdef int64_t run, queue_count
    cdef int32_t sys_flag

    def __init__(self, bytes name not None):
        self.name, self.topic, self.queues = name, name.decode("ascii"), []
        self.run = 0


cdef class FastSends:
    """Answers ordinary sends. All sends of one read are one run of appends."""

    cdef RunWriter writer
    cdef object rules, targets, count_slow, host_of_peer, config, reply_template, peer
    cdef readonly int64_t taken  # frames
    cdef readonly dict declined  # frames at which it stopped, by reason
    cdef list uncounted  # queues, for `collect`
    cdef double seconds
    cdef dict topics
    cdef SendTopic last
    cdef ReplyTemplate template
    cdef Admission admission  # with access control
    cdef bytes store_host, born_host, id_prefix, added_old, added_new
    cdef double began
    cdef Header header  # of the frame that is being taken, as the next two
    cdef Text fields[FIELDS]
    cdef int64_t numbers[FIELDS]
    cdef Py_ssize_t sent_index  # of its properties among the fields of the header
    cdef Py_ssize_t sends, batches, out_bytes
    cdef unsigned char sent[HEADER_MAX]  # properties as a header has them
    cdef unsigned char properties[HEADER_MAX + PROPERTIES_MAX]
    cdef unsigned char shared[HEADER_MAX]  # by the messages of a batch
    cdef unsigned char ids[ID_BYTES * BATCH_MAX]
    cdef unsigned char out[ANSWERS_MAX + REPLY_MAX + ID_BYTES * BATCH_MAX]

    def __init__(self, RunWriter writer not None, rules, targets, intake, host_of_peer, reply_template):
        self.writer, self.rules, self.targets, self.count_slow = writer, rules, targets, intake.count_slow
        self.uncounted, self.seconds = [], 0
        intake.count_runs_of(self.collect)
        self.host_of_peer, self.reply_template = host_of_peer, reply_template
        self.topics, self.last, self.config, self.peer = {}, None, None, None
        self.taken, self.declined = 0, {}

    def guard(self, Admission admission not None):
        """Take only frames that *admission* admits."""
        self.admission = admission

    def answer(self, bytes data not None, connection):
        """Answer the sends at the start of *data*; see `contract.SendPath`."""
        cdef Bytes start = <Bytes> PyBytes_AS_STRING(data)
        cdef Py_ssize_t at = 0, end = PyBytes_GET_SIZE(data), size
        cdef int outcome = TAKEN
        self.sends = self.batches = self.out_bytes = 0
        try:
            while end - at >= 4 and not self.is_full():
                size = get_32(start + at)
                if size > end - at - 4:
                    break
                outcome = self.take(start + at + 4, size, connection)
                if outcome != TAKEN:
                    break
                at += 4 + size
        finally:
            if self.writer.is_running:
                self.finish()
        if outcome != TAKEN and outcome != NO_SEND:
            self.declined[outcome] = self.declined.get(outcome, 0) + 1
        if not at:
            return NOTHING
        self.taken += self.sends + self.batches
        answers = PyBytes_FromStringAndSize(<char *> self.out, self.out_bytes)
        return answers, at, (self.sends, self.batches, 0, 0)

    cdef bint is_full(self) noexcept:
        """Whether the run, if there is one, must end before the next frame."""
        return self.writer.is_running and (self.out_bytes > ANSWERS_MAX or self.writer.count > RUN_MAX - BATCH_MAX)

    cdef finish(self):
        """Store what was taken, and note it for `collect`."""
        cdef RunQueue queue
        cdef double seconds
        self.writer.end()
        for queue in self.writer.queues:
            if queue.next_offset > queue.first_offset:
                if not queue.all_messages:
                    self.uncounted.append(queue)
                queue.all_messages += queue.next_offset - queue.first_offset
                queue.all_bytes += queue.size
                queue.all_frames += queue.frames
        if self.sends:  # the time of batches is not counted, see StoreStats
            seconds = (perf_counter() - self.began) * self.sends / (self.sends + self.batches)
            self.seconds += seconds
            if seconds >= SLOW_SECONDS:
                self.count_slow(int(seconds * 1000))

    def collect(self):
        """Return what was stored since the last call, see `BrokerStats.put_run`."""
        cdef RunQueue queue
        cdef list stored = []
        for queue in self.uncounted:
            stored.append((queue.topic, queue.all_messages, queue.all_bytes, queue.queue_id, queue.all_frames))
            queue.all_messages = queue.all_bytes = queue.all_frames = 0
        seconds, self.seconds, self.uncounted = self.seconds, 0, []
        return stored, seconds

    cdef int begin(self, connection) except -1:
        """Begin a run, with the rules in force."""
        if not self.rules.is_open():
            return CLOSED
        if self.rules.config is not self.config:
            self.use_rules()
        if self.template is None or self.added_new is None or self.added_old is None:
            return CLOSED
        peer = connection.peer
        if peer is not self.peer:
            self.peer, self.born_host = peer, self.host_of_peer(peer)
        if PyBytes_GET_SIZE(self.born_host) != 8 or PyBytes_GET_SIZE(self.store_host) != 8:
            return CLOSED
        if self.admission is not None and not self.admission.meet(connection):
            return ACCESS
        self.began = perf_counter()
        return TAKEN if self.writer.begin() else STORE

    cdef use_rules(self):
        rules = self.rules
        self.config, self.store_host = rules.config, rules.store_host.raw
        self.id_prefix = self.store_host.hex().upper().encode()
        self.added_old, self.added_new = added_bytes(rules.form_4), added_bytes(rules.form_5)
        self.template = self.reply_template(rules.region, rules.trace_on)

    cdef int take(self, Bytes start, Py_ssize_t frame_bytes, connection) except -1:
        """Do what a frame asks for, and put the reply behind `out`. If it is declined, nothing was done."""
        cdef Py_ssize_t header_bytes, body_at, before
        cdef Header *header = &self.header
        cdef int64_t *numbers = self.numbers
        cdef int outcome
        if frame_bytes < 28:
            return NO_SEND
        header_bytes = start[1] << 16 | start[2] << 8 | start[3]
        body_at = header_bytes + 4
        if body_at > frame_bytes:
            return NO_SEND
        if not read_header(start, header_bytes, SEND, BATCH, header):
            return HEADER if header.code == SEND or header.code == BATCH else NO_SEND
        if body_at == frame_bytes or header_bytes > HEADER_MAX // 2 or not self.read_fields():
            return HEADER
        if not self.writer.is_running:
            outcome = self.begin(connection)
            if outcome != TAKEN:
                return outcome
        cdef RunQueue queue = self.queue_of(self.fields[TOPIC_NAME], numbers[QUEUE_ID])
        if queue is None or not self.writer.add(queue):
            return TOPIC
        if self.header.is_json and self.fields[SENT].at != NULL and not self.unescape_sent():
            return PROPERTIES
        if self.admission is not None and not self.admits(start + body_at, frame_bytes - body_at):
            return ACCESS
        cdef Record record
        record.sys_flag, record.reconsumed = <int32_t> numbers[SYS_FLAG] | self.last.sys_flag, <int32_t> numbers[RECONSUMED]
        record.born_ms, record.flag = numbers[BORN_MS], <int32_t> numbers[FLAG]
        record.born_host = <Bytes> PyBytes_AS_STRING(self.born_host)
        record.store_host = <Bytes> PyBytes_AS_STRING(self.store_host)
        before = self.writer.count
        outcome = self.put(queue, &record, start + body_at, frame_bytes - body_at)
        if outcome != TAKEN:
            if self.writer.count > before:
                self.writer.undo(before)
            return outcome
        queue.frames += 1
        if self.admission is not None:
            self.admission.settle(0)
        if header.code == BATCH:
            self.batches += 1
        else:
            self.sends += 1
        self.reply(before, queue.next_offset - (self.writer.count - before))
        return TAKEN

    cdef bint read_fields(self) noexcept:
        """Read what the header says; False if it is unusual. Fields of more than a letter are not ours, and passed. Only
        properties may have escapes."""
        cdef Pair *pair
        cdef Py_ssize_t index
        cdef bint is_letter
        memset(self.fields, 0, sizeof(self.fields))
        for index in range(self.header.count):
            pair = self.header.pairs + index
            is_letter = pair.name.size == 1 and c"a" <= pair.name.at[0] <= c"n"
            if pair.is_escaped and not (is_letter and pair.name.at[0] == c"a" + SENT):
                return False
            if is_letter:
                self.fields[pair.name.at[0] - c"a"] = pair.value
                if pair.name.at[0] == c"a" + SENT:
                    self.sent_index = index
        return (
            read_numbers(self.fields, FIELDS, NUMERIC, 1 << BORN_MS, REQUIRED, self.numbers)
            and is_false(self.fields[IS_UNIT])
            and (is_text(self.fields[IS_BATCH], b"true", 4) if self.header.code == BATCH else is_false(self.fields[IS_BATCH]))
            and 0 < self.fields[TOPIC_NAME].size <= TOPIC_MAX
            and self.numbers[SYS_FLAG] >= 0
        )

    cdef bint unescape_sent(self) noexcept:
        """Replace the properties of a JSON header by what they mean; False if they have other escapes than is usual."""
        cdef Pair *pair = self.header.pairs + self.sent_index
        pair.value.size, pair.value.at = unescape(pair.value, self.sent), self.sent
        pair.is_escaped = False
        self.fields[SENT] = pair.value
        return pair.value.size >= 0

    cdef bint admits(self, Bytes body, Py_ssize_t body_bytes) except -1:
        cdef Text content, no_group
        content.at, content.size = body, body_bytes
        no_group.at, no_group.size = NULL, 0
        return self.admission.admits(&self.header, content, self.fields[TOPIC_NAME], no_group)

    cdef RunQueue queue_of(self, Text name, int64_t queue_id):
        """The queue that a message is for, if messages may go there without another check."""
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
        if topic.run != self.writer.run:
            target = self.targets.ordinary(topic.topic)
            topic.run, topic.queue_count = self.writer.run, 0 if target is None else target.queues
            topic.sys_flag = 0 if target is None else target.sys_flag
        if not 0 <= queue_id < min(topic.queue_count, QUEUES_MAX):
            return None
        while len(topic.queues) <= queue_id:
            topic.queues.append(None)
        queue = topic.queues[queue_id]
        if queue is None:
            queue = topic.queues[queue_id] = RunQueue(topic.topic, queue_id)
        return queue

    cdef int put(self, RunQueue queue, Record *record, Bytes body, Py_ssize_t body_bytes) except -1:
        """Put one message, or all of a batch."""
        cdef Bytes sent = self.fields[SENT].at
        cdef Py_ssize_t size = 0
        cdef bint is_new = self.header.version >= V5_0_0, is_batch = self.header.code == BATCH
        cdef Properties properties
        cdef Indexed indexed
        if sent != NULL:
            size = self.fields[SENT].size
            if has_delay(sent, size):
                return PROPERTIES
        properties.count = 0
        properties.buckets = BUCKETS_5 if is_new else BUCKETS_4
        properties.names_max = NAMES_MAX_5 if is_new else NAMES_MAX_4
        if not read_properties(&properties, sent, size, is_batch, self.added_new if is_new else self.added_old):
            return PROPERTIES
        if is_batch:
            size = write_properties(&properties, &indexed, self.shared)
            return self.put_batch(queue, record, body, body + body_bytes, size)
        record.body, record.body_bytes = body, body_bytes
        record.properties, record.properties_bytes = self.properties, write_properties(&properties, &indexed, self.properties)
        return TAKEN if self.writer.put(queue, record, &indexed) else STORE

    cdef int put_batch(self, RunQueue queue, Record *record, Bytes at, Bytes end, Py_ssize_t shared_bytes) except -1:
        """As `wire.record.batch.decode_batch` and `wire.record.properties.join_properties`."""
        cdef int64_t body_bytes, properties_bytes, size
        cdef Py_ssize_t count = 0
        cdef Bytes properties
        cdef Indexed indexed
        if end - at > self.writer.body_bytes_max:
            return STORE
        while at < end:
            if end - at < 22 or count == BATCH_MAX:
                return PROPERTIES
            body_bytes = <int32_t> get_32(at + 16)
            if body_bytes <= 0 or body_bytes > end - at - 22:
                return PROPERTIES
            properties_bytes = at[20 + body_bytes] << 8 | at[21 + body_bytes]
            size = 22 + body_bytes + properties_bytes
            if properties_bytes > PROPERTIES_MAX or size > end - at or <int64_t> get_32(at) != size:
                return PROPERTIES
            properties = at + 22 + body_bytes
            if not is_ascii(properties, properties_bytes) or has_delay(properties, properties_bytes):
                return PROPERTIES
            memcpy(self.properties, properties, properties_bytes)
            if properties_bytes and self.properties[properties_bytes - 1] != 2:
                self.properties[properties_bytes] = 2
                properties_bytes += 1
            memcpy(self.properties + properties_bytes, self.shared, shared_bytes)
            record.body, record.body_bytes, record.flag = at + 20, body_bytes, <int32_t> get_32(at + 12)
            record.properties, record.properties_bytes = self.properties, properties_bytes + shared_bytes
            find_indexed(record.properties, record.properties + record.properties_bytes, &indexed)
            if not self.writer.put(queue, record, &indexed):
                return STORE
            at += size
            count += 1
        return TAKEN if count else PROPERTIES

    cdef void reply(self, Py_ssize_t first, int64_t queue_offset) noexcept:
        """Put the reply for the records from *first* on behind `out`."""
        cdef Text values[3]
        cdef unsigned char numbers[2][24]
        cdef unsigned char *start = self.out + self.out_bytes
        values[0].at, values[0].size = self.ids, self.write_ids(first)
        values[1].at, values[1].size = numbers[0], put_digits(numbers[0], self.numbers[QUEUE_ID]) - numbers[0]
        values[2].at, values[2].size = numbers[1], put_digits(numbers[1], queue_offset) - numbers[1]
        self.out_bytes += self.template.write(start, self.header.is_json, self.header.opaque, values, 0) - start

    cdef Py_ssize_t write_ids(self, Py_ssize_t first) noexcept:
        """Write `encode_offset_id` of each record from *first* on, separated by commas; return how many bytes."""
        cdef unsigned char *at = self.ids
        cdef uint64_t left
        cdef Py_ssize_t index
        cdef int digit
        for index in range(first, self.writer.count):
            memcpy(at, PyBytes_AS_STRING(self.id_prefix), 16)
            left = <uint64_t> self.writer.stored[index].log_offset
            for digit in range(31, 15, -1):
                at[digit] = HEX[left & 15]
                left >>= 4
            at[32] = c","
            at += ID_BYTES
        return at - self.ids - 1
