// Asks a name server for routes over many connections, each with several questions in flight.
//
//   route HOST PORT CONNECTIONS IN_FLIGHT SECONDS PREFIX TOPICS BODY_MIN QUERIES_MAX
//
// Asks for the topics PREFIX0 ... PREFIX<TOPICS-1> in turn, in the JSON form that Java's clients send, until SECONDS are
// over or QUERIES_MAX (0: any number) are answered. An answer is an
// error when its code is not 0, its opaque number is not one that waits on its connection, or its body has fewer than
// BODY_MIN bytes. Prints one line: answers errors seconds p50_us p99_us. Ends with 0 only when there was no error.
#define _GNU_SOURCE  // memmem
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { READ_BYTES = 1 << 20, LATENCIES_MAX = 1 << 23 };

struct connection {
  int fd;
  int filled;      // bytes in buffer
  char *buffer;
  double *asked;   // when the question with this opaque number left; 0 when none waits
};

static const char *prefix;
static int topics, body_min, in_flight;
static long next_topic, answers, errors, latency_count;
static double *latencies;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

static uint32_t read_u32(const char *p) {
  uint32_t v;
  memcpy(&v, p, 4);
  return ntohl(v);
}

static int append_question(char *out, int opaque) {
  int size = sprintf(out + 8,
                     "{\"code\":105,\"extFields\":{\"topic\":\"%s%ld\"},\"flag\":0,\"language\":\"JAVA\",\"opaque\":%d,"
                     "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":409}",
                     prefix, next_topic++ % topics, opaque);
  uint32_t length = htonl(4 + size), header = htonl(size);  // form 0, JSON, in the top byte
  memcpy(out, &length, 4);
  memcpy(out + 4, &header, 4);
  return 8 + size;
}

static void write_all(int fd, const char *data, int size) {
  while (size) {
    ssize_t n = write(fd, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) { perror("write"); exit(1); }
    data += n;
    size -= n;
  }
}

static long number_after(const char *header, int size, const char *key) {
  const char *p = memmem(header, size, key, strlen(key));
  return p ? strtol(p + strlen(key), NULL, 10) : -1;
}

// Checks every whole answer in the buffer and sends as many new questions, in one write.
static void turn(struct connection *c, double time, int asking) {
  static char out[1 << 20];
  int used = 0, size = 0;
  while (c->filled - used >= 8) {
    const char *frame = c->buffer + used;
    int length = read_u32(frame);
    if (c->filled - used < length + 4) break;
    int header_size = read_u32(frame + 4) & 0xffffff, body_size = length - 4 - header_size;
    long code = number_after(frame + 8, header_size, "\"code\":");
    long opaque = number_after(frame + 8, header_size, "\"opaque\":");
    int expected = opaque >= 0 && opaque < in_flight && c->asked[opaque] > 0;
    if (code != 0 || !expected || body_size < body_min) errors++;
    answers++;
    if (expected) {
      if (latency_count < LATENCIES_MAX) latencies[latency_count++] = time - c->asked[opaque];
      c->asked[opaque] = 0;
      if (asking) {
        size += append_question(out + size, opaque);
        c->asked[opaque] = time;
      }
    }
    used += length + 4;
    if (size > (int)sizeof out - 1024) { write_all(c->fd, out, size); size = 0; }
  }
  if (size) write_all(c->fd, out, size);
  memmove(c->buffer, c->buffer + used, c->filled - used);
  c->filled -= used;
}

static int ascending(const void *a, const void *b) {
  double d = *(const double *)a - *(const double *)b;
  return (d > 0) - (d < 0);
}

int main(int count, char **args) {
  if (count != 10) { fprintf(stderr, "usage: see the head of route.c\n"); return 2; }
  int connections = atoi(args[3]);
  double seconds = atof(args[5]);
  in_flight = atoi(args[4]);
  prefix = args[6];
  topics = atoi(args[7]);
  body_min = atoi(args[8]);
  long queries_max = atol(args[9]);
  latencies = malloc(sizeof(double) * LATENCIES_MAX);
  int poll = epoll_create1(0);
  struct connection *all = calloc(connections, sizeof *all);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(args[2]))};
  inet_pton(AF_INET, args[1], &address.sin_addr);
  for (int i = 0; i < connections; i++) {
    struct connection *c = all + i;
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    c->buffer = malloc(READ_BYTES);
    c->asked = calloc(in_flight, sizeof(double));
    if (connect(c->fd, (struct sockaddr *)&address, sizeof address)) { perror("connect"); return 1; }
    int one = 1;
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(poll, EPOLL_CTL_ADD, c->fd, &event);
  }
  double began = now();
  for (int i = 0; i < connections; i++) {
    char out[1024];
    for (int k = 0; k < in_flight; k++) {
      all[i].asked[k] = now();
      write_all(all[i].fd, out, append_question(out, k));
    }
  }
  double time = began;
  while (time - began < seconds && (!queries_max || answers < queries_max)) {
    struct epoll_event events[64];
    int n = epoll_wait(poll, events, 64, 100);
    for (int i = 0; i < n; i++) {
      struct connection *c = events[i].data.ptr;
      ssize_t got = read(c->fd, c->buffer + c->filled, READ_BYTES - c->filled);
      if (got <= 0) { fprintf(stderr, "the server closed a connection\n"); return 1; }
      c->filled += got;
      time = now();
      turn(c, time, 1);
    }
    time = now();
  }
  qsort(latencies, latency_count, sizeof *latencies, ascending);
  double p50 = latency_count ? latencies[latency_count / 2] * 1e6 : 0;
  double p99 = latency_count ? latencies[(long)(latency_count * 0.99)] * 1e6 : 0;
  printf("%ld %ld %.6f %.1f %.1f\n", answers, errors, time - began, p50, p99);
  return errors || !answers ? 3 : 0;
}
