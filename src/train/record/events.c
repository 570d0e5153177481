/* SPDX-License-Identifier: MIT
 *
 * events.c - writes the run's metrics for TensorBoard: a file of TFRecords, each an Event of protocol buffers.
 *
 *     TFRecord  u64 length, u32 masked CRC-32C of it, the bytes, u32 masked CRC-32C of them; little-endian
 *     Event     1: double wall_time, 2: int64 step, 3: string file_version (in the first) or 5: Summary
 *     Summary   1: Value { 1: string tag, 2: float simple_value }
 *
 * Every message is shorter than 128 bytes, so every length takes one byte.
 */
#include "train/record/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { HEAD = 12, MOST = 127, TAIL = 4, STEP_AT = 9 /* offset of the step, after the wall time */ };

struct bytes {
    unsigned char data[HEAD + 2 * MOST + TAIL];
    size_t count;
};

static void put(struct bytes *b, const void *data, size_t n)
{
    memcpy(b->data + b->count, data, n);
    b->count += n;
}

static void put_number(struct bytes *b, uint64_t x, int bytes)
{
    for (int i = 0; i < bytes; i++)
        b->data[b->count++] = (unsigned char)(x >> (8 * i));
}

static void put_varint(struct bytes *b, uint64_t x)
{
    for (; x >= 128; x >>= 7)
        b->data[b->count++] = (unsigned char)(x | 128);
    b->data[b->count++] = (unsigned char)x;
}

/* Appends field `number` of a message: bytes, preceded by their length. */
static void put_field(struct bytes *b, int number, const void *data, size_t n)
{
    put_varint(b, (uint64_t)number << 3 | 2);
    put_varint(b, n);
    put(b, data, n);
}

static uint32_t masked_crc(const void *data, size_t n)
{
    const unsigned char *at = data;
    uint32_t crc = ~0u;
    for (; n; n--) {
        crc ^= *at++;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static enum weft_status add(struct weft_record *record, int64_t step, int field, const void *data, size_t n)
{
    struct timespec now;
    struct bytes event = {.count = 0}, framed = {.count = 0};
    clock_gettime(CLOCK_REALTIME, &now);
    double seconds = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    uint64_t wall;
    memcpy(&wall, &seconds, sizeof wall);
    put_varint(&event, 1 << 3 | 1);
    put_number(&event, wall, 8);
    put_varint(&event, 2 << 3);
    put_varint(&event, (uint64_t)step);
    put_field(&event, field, data, n);
    put_number(&framed, event.count, 8);
    put_number(&framed, masked_crc(framed.data, 8), 4);
    put(&framed, event.data, event.count);
    put_number(&framed, masked_crc(event.data, event.count), 4);
    if (fwrite(framed.data, 1, framed.count, record->events) != framed.count || fflush(record->events))
        return FAIL(WEFT_IO, "%s/%s cannot be written: the disk may be full", record->folder, WEFT_EVENTS);
    return WEFT_OK;
}

enum weft_status weft_events_add(struct weft_record *record, int64_t step, const char *tag, double value)
{
    struct bytes scalar = {.count = 0}, summary = {.count = 0};
    float x = (float)value;
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    put_field(&scalar, 1, tag, strlen(tag));
    put_varint(&scalar, 2 << 3 | 5);
    put_number(&scalar, bits, 4);
    put_field(&summary, 1, scalar.data, scalar.count);
    TRY(add(record, step, 5, summary.data, summary.count));
    return WEFT_OK;
}

/* Returns the size of the next record if it is complete and its step is not later than this one, else 0. */
static long next_record(FILE *f, int64_t step)
{
    unsigned char head[HEAD], event[MOST + TAIL];
    if (fread(head, 1, HEAD, f) != HEAD || head[0] > MOST || head[0] <= STEP_AT + 1)
        return 0;
    size_t n = head[0];
    if (fread(event, 1, n + TAIL, f) != n + TAIL)
        return 0;
    uint64_t of = 0;
    for (size_t i = STEP_AT + 1, shift = 0; i < n && shift < 64; i++, shift += 7) {
        of |= (uint64_t)(event[i] & 127) << shift;
        if (event[i] < 128)
            break;
    }
    return step >= 0 && of <= (uint64_t)step ? (long)(HEAD + n + TAIL) : 0;
}

enum weft_status weft_events_open(struct weft_record *record, int64_t step)
{
    static const char version[] = "brain.Event:2";
    const char *path = weft_arena_print(&record->arena, "%s/%s", record->folder, WEFT_EVENTS);
    int fd = path ? open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666) : -1;
    if (fd < 0 || !(record->events = fdopen(fd, "a+")))
        return FAIL(WEFT_IO, "%s/%s cannot be opened: %s", record->folder, WEFT_EVENTS, strerror(errno));
    long kept = 0, n;
    while ((n = next_record(record->events, step)))
        kept += n;
    if (ftruncate(fd, kept) || fseek(record->events, 0, SEEK_END))
        return FAIL(WEFT_IO, "%s/%s cannot be truncated: %s", record->folder, WEFT_EVENTS, strerror(errno));
    if (kept == 0)
        TRY(add(record, 0, 3, version, sizeof version - 1));
    return WEFT_OK;
}
