// Signatures of requests, as Apache's clients make them: base64 of HMAC-SHA1 over all values, then the body. The hash
// is OpenSSL's, loaded when it is needed: one written here would cost more than the broker does.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sha1 { uint32_t words[24]; };  // SHA_CTX

static int (*begin_hash)(struct sha1 *), (*add_bytes)(struct sha1 *, const void *, size_t);
static int (*end_hash)(unsigned char *, struct sha1 *);
static struct sha1 inner_start, outer_start, running;

static void use_secret(const char *secret) {  // of at most 64 bytes
  void *library = dlopen("libcrypto.so.3", RTLD_NOW);
  if (!library) library = dlopen("libcrypto.so.1.1", RTLD_NOW);
  if (!library) { fprintf(stderr, "signing needs libcrypto: %s\n", dlerror()); exit(1); }
  begin_hash = dlsym(library, "SHA1_Init");
  add_bytes = dlsym(library, "SHA1_Update");
  end_hash = dlsym(library, "SHA1_Final");
  unsigned char inner[64], outer[64];
  memset(inner, 0x36, 64);
  memset(outer, 0x5C, 64);
  for (int i = 0; secret[i] && i < 64; i++) { inner[i] ^= secret[i]; outer[i] ^= secret[i]; }
  begin_hash(&inner_start);
  add_bytes(&inner_start, inner, 64);
  begin_hash(&outer_start);
  add_bytes(&outer_start, outer, 64);
}
static void begin_signature(void) { running = inner_start; }
static void sign(const void *data, int size) { add_bytes(&running, data, size); }
static const char *end_signature(void) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  static char text[29];
  unsigned char digest[21] = {0};
  end_hash(digest, &running);
  struct sha1 outer = outer_start;
  add_bytes(&outer, digest, 20);
  end_hash(digest, &outer);
  for (int i = 0; i < 7; i++) {
    uint32_t three = digest[3 * i] << 16 | digest[3 * i + 1] << 8 | digest[3 * i + 2];
    for (int n = 0; n < 4; n++) text[4 * i + n] = digits[three >> (18 - 6 * n) & 63];
  }
  text[27] = '=';
  return text;
}
