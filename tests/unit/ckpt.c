/* SPDX-License-Identifier: MIT
 *
 * ckpt.c - files are read back as written, by PyTorch as well; every flipped bit, swapped block, truncation and hostile
 * header is detected; folders are saved and removed atomically. fault/save.c tests failing calls and power failures.
 *
 * run-tests: 2 s, asan 3 s
 */
#include "ckpt/ckpt.h"
#include "test.h"

#include <dirent.h>
#include <sys/stat.h>

static char file[128];

static int make_file(void **state)
{
    int status = make_scratch(state);
    snprintf(file, sizeof file, "%s", in_scratch("x"));
    return status;
}

/* ---- checksums */

static void checksums(void **state)
{
    (void)state;
    unsigned char data[1100] = {0};
    uint64_t of_zeros[300];
    for (size_t n = 0; n < 300; n++) {
        of_zeros[n] = weft_checksum(0, data, n);
        for (size_t m = 0; m < n; m++)
            assert_true(of_zeros[n] != of_zeros[m]);
    }
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * i >> 3);
    uint64_t sum = weft_checksum(7, data, sizeof data);
    assert_true(sum != weft_checksum(8, data, sizeof data));
    for (size_t bit = 0; bit < 8 * sizeof data; bit++) {
        data[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_true(sum != weft_checksum(7, data, sizeof data));
        data[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    /* Old files must stay readable, so this value must not change. */
    assert_true(weft_checksum(1, "The quick brown fox jumps over the lazy dog", 43) == UINT64_C(0x149bf848b1f35b28));
}

/* ---- files */

static float f32_data[5 * 7];
static uint16_t bf16_data[3];
static double f64_data[2];
static int32_t i32_data[3] = {1, -2, 1 << 30};
static const struct weft_entry entries[] = {
    {"odd", WEFT_BF16, 2, {1, 3}, bf16_data, 0, NULL},     {"blocks.0.attn.q", WEFT_F32, 2, {5, 7}, f32_data, 0, NULL},
    {"nothing", WEFT_F32, 3, {0, 5, 7}, NULL, 0, NULL},    {"scalar", WEFT_F64, 0, {0}, f64_data, 0, NULL},
    {"ids", WEFT_I32, 4, {1, 1, 3, 1}, i32_data, 0, NULL},
};
enum { ENTRIES = sizeof entries / sizeof entries[0] };
static const char *const metadata[] = {"step", "100", "note", "a \"quoted\" \xc3\xa9\n", NULL};

static void write_sample(const char *path)
{
    for (int i = 0; i < 35; i++)
        f32_data[i] = (float)i / 7 - 2;
    for (int i = 0; i < 3; i++)
        bf16_data[i] = weft_bf16_from_f32((float)i - 0.3f);
    f64_data[0] = 0.1;
    assert_int_equal(weft_safetensors_write(path, entries, ENTRIES, metadata), WEFT_OK);
}

static void reads_what_it_writes(void **state)
{
    (void)state;
    struct weft_safetensors *f;
    write_sample(file);
    assert_int_equal(weft_safetensors_open(&f, file), WEFT_OK);
    assert_int_equal(weft_safetensors_count(f), ENTRIES);
    for (int i = 0; i < ENTRIES; i++) {
        const struct weft_entry *e = weft_safetensors_find(f, entries[i].name);
        assert_non_null(e);
        assert_true(e->dtype == entries[i].dtype && e->ndim == entries[i].ndim && !e->foreign);
        assert_memory_equal(e->dim, entries[i].dim, sizeof e->dim);
        if (e->bytes)
            assert_memory_equal(e->data, entries[i].data, e->bytes);
        assert_int_equal((uintptr_t)e->data % weft_dtype_bytes(e->dtype), 0);
        if (i)
            assert_true(strcmp(weft_safetensors_at(f, i - 1)->name, weft_safetensors_at(f, i)->name) < 0);
    }
    assert_null(weft_safetensors_find(f, "other"));
    assert_string_equal(weft_safetensors_metadata(f, "note"), metadata[3]);
    assert_null(weft_safetensors_metadata(f, "other"));
    assert_int_equal(weft_safetensors_verify(f, NULL), WEFT_OK);
    weft_safetensors_close(f);
    assert_int_equal(weft_safetensors_check(file), WEFT_OK);
}

static void copies_and_converts(void **state)
{
    (void)state;
    struct weft_safetensors *f;
    uint16_t rounded[35];
    float whole[35], scalar;
    write_sample(file);
    assert_int_equal(weft_safetensors_open(&f, file), WEFT_OK);
    struct weft_tensor to = {whole, WEFT_F32, 2, {5, 7}}, half = {rounded, WEFT_BF16, 2, {5, 7}};
    assert_int_equal(weft_safetensors_read(f, entries[1].name, &to), WEFT_OK);
    assert_memory_equal(whole, f32_data, sizeof whole);
    assert_int_equal(weft_safetensors_read(f, entries[1].name, &half), WEFT_OK);
    for (int i = 0; i < 35; i++)
        assert_int_equal(rounded[i], weft_bf16_from_f32(f32_data[i]));
    assert_int_equal(weft_safetensors_read(f, "scalar", &(struct weft_tensor){&scalar, WEFT_F32, 0, {0}}), WEFT_OK);
    assert_true(scalar == 0.1f);

    to.dim[0] = 7, to.dim[1] = 5;
    assert_int_equal(weft_safetensors_read(f, entries[1].name, &to), WEFT_FORMAT);
    assert_non_null(strstr(weft_error(), "[5, 7], but the model needs [7, 5]"));
    assert_int_equal(weft_safetensors_read(f, "other", &to), WEFT_FORMAT);
    assert_non_null(strstr(weft_error(), "no tensor other"));
    struct weft_tensor ids = {whole, WEFT_F32, 4, {1, 1, 3, 1}};
    assert_int_equal(weft_safetensors_read(f, "ids", &ids), WEFT_UNSUPPORTED);
    weft_safetensors_close(f);
}

static void invalid_entries_are_rejected(void **state)
{
    (void)state;
    struct weft_entry twice[2] = {entries[0], entries[0]}, bad = entries[0];
    char longer[600] = {0};
    memset(longer, 'x', sizeof longer - 1);
    static const char *const reserved[] = {"weft.checksum.odd", "0", NULL};
    const char *names[] = {"\xff", "a\nb", "__metadata__", longer};
    assert_int_equal(weft_safetensors_write(file, twice, 2, NULL), WEFT_INVALID);
    assert_int_equal(weft_safetensors_write(file, entries, ENTRIES, reserved), WEFT_INVALID);
    for (int i = 0; i < 4; i++) {
        bad.name = names[i];
        assert_int_equal(weft_safetensors_write(file, &bad, 1, NULL), WEFT_INVALID);
    }
    bad = entries[1];
    bad.dim[0] = bad.dim[1] = INT64_MAX / 2;
    assert_int_equal(weft_safetensors_write(file, &bad, 1, NULL), WEFT_NOMEM);
    assert_int_equal(weft_safetensors_write("/nowhere/x", entries, ENTRIES, NULL), WEFT_IO);
    assert_true(access(file, F_OK));
}

/* ---- damage */

static void all_damage_is_detected(void **state)
{
    (void)state;
    size_t header;
    write_sample(file);
    struct text all = read_file(file);
    unsigned char *bytes = (unsigned char *)all.bytes;
    const size_t size = all.size;
    memcpy(&header, bytes, sizeof header);
    assert_int_equal(header % 8, 0);
    for (size_t bit = 0; bit < 8 * size; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        write_file(file, bytes, size);
        if (weft_safetensors_check(file) == WEFT_OK)
            fail_msg("bit %zu of byte %zu", bit % 8, bit / 8);
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    for (size_t cut = 0; cut < size; cut++) {
        write_file(file, bytes, cut);
        assert_true(weft_safetensors_check(file) != WEFT_OK);
    }
    write_file(file, bytes, size + 1);
    assert_int_equal(weft_safetensors_check(file), WEFT_FORMAT);
    for (size_t block = 2; block <= 32; block *= 2)
        for (unsigned char *a = bytes + 8 + header; a + 2 * block <= bytes + size; a += block) {
            unsigned char kept[64];
            memcpy(kept, a, 2 * block);
            memcpy(a, kept + block, block);
            memcpy(a + block, kept, block);
            write_file(file, bytes, size);
            if (memcmp(a, kept, block))
                assert_int_equal(weft_safetensors_check(file), WEFT_FORMAT);
            memcpy(a, kept, 2 * block);
        }
    write_file(file, bytes, size);
    assert_int_equal(weft_safetensors_check(file), WEFT_OK);
    free(bytes);
}

/* Checks a file with this header and `data` zero bytes after it. */
static enum weft_status try_header(const char *header, size_t data)
{
    char bytes[4096] = {0};
    size_t length = strlen(header);
    memcpy(bytes, &length, sizeof length);
    memcpy(bytes + 8, header, length);
    write_file(file, bytes, 8 + length + data);
    return weft_safetensors_check(file);
}
#define T(shape, from, to) "{\"dtype\":\"F32\",\"shape\":[" shape "],\"data_offsets\":[" #from "," #to "]}"

static void foreign_files_open(void **state)
{
    (void)state;
    struct weft_safetensors *f;
    assert_int_equal(try_header("{}", 0), WEFT_OK);
    assert_int_equal(try_header("{\"b\":" T("2", 4, 12) ",\"a\":" T("", 0, 4) "}     ", 12), WEFT_OK);
    assert_int_equal(try_header("{\"z\":" T("0,3", 4, 4) ",\"a\":" T("1", 0, 4) ",\"b\":" T("1", 4, 8) "}", 8),
                     WEFT_OK);
    assert_int_equal(try_header("{\"__metadata__\":{\"format\":\"pt\"},\"h\":{\"dtype\":\"F16\",\"shape\":[3],"
                                "\"data_offsets\":[0,6]}}",
                                6),
                     WEFT_OK);
    assert_int_equal(weft_safetensors_open(&f, file), WEFT_OK);
    assert_string_equal(weft_safetensors_find(f, "h")->foreign, "F16");
    float to[3];
    assert_int_equal(weft_safetensors_read(f, "h", &(struct weft_tensor){to, WEFT_F32, 1, {3}}), WEFT_UNSUPPORTED);
    weft_safetensors_close(f);
    /* Unaligned values. */
    assert_int_equal(try_header("{\"a\":" T("3", 0, 12) "} ", 12), WEFT_OK);
    assert_int_equal(weft_safetensors_open(&f, file), WEFT_OK);
    double wide[3];
    assert_int_equal(weft_safetensors_read(f, "a", &(struct weft_tensor){wide, WEFT_F64, 1, {3}}), WEFT_OK);
    weft_safetensors_close(f);
}

static void hostile_headers_are_rejected(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t data;
    } bad[] = {
        {"", 0},
        {" {}", 0},
        {"[]", 0},
        {"{", 0},
        {"{}x", 0},
        {"{\"a\":" T("1", 0, 4) ",\"a\":" T("1", 4, 8) "}", 8},
        {"{\"a\":" T("1", 0, 4) ",\"b\":" T("1", 0, 4) "}", 4},
        {"{\"a\":" T("2", 0, 8) ",\"b\":" T("1", 4, 8) "}", 8},
        {"{\"a\":" T("1", 0, 4) ",\"b\":" T("1", 8, 12) "}", 12},
        {"{\"a\":" T("1", 4, 8) "}", 8},
        {"{\"a\":" T("1", 0, 4) "}", 8},
        {"{\"a\":" T("2", 0, 4) "}", 4},
        {"{\"a\":" T("1", 0, 8) "}", 8},
        {"{\"a\":" T("2", 0, 8) "}", 7},
        {"{\"a\":" T("1", -4, 0) "}", 4},
        {"{\"a\":" T("1", 4, 0) "}", 4},
        {"{\"a\":" T("-1", 0, 4) "}", 4},
        {"{\"a\":" T("1.0", 0, 4) "}", 4},
        {"{\"a\":" T("1,1,1,1,1", 0, 4) "}", 4},
        {"{\"a\":" T("4611686018427387904,4", 0, 0) "}", 0},
        {"{\"a\":" T("9223372036854775808", 0, 4) "}", 4},
        {"{\"a\":" T("1", 0, 9223372036854775807) "}", 4},
        {"{\"a\":{\"dtype\":\"F31\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4},
        {"{\"a\":{\"dtype\":4,\"shape\":[1],\"data_offsets\":[0,4]}}", 4},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":4,\"data_offsets\":[0,4]}}", 4},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 4},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4},
        {"{\"a\":7}", 4},
        {"{\"a\\u001b\":" T("1", 0, 4) "}", 4},
        {"{\"a\\u0000\":" T("1", 0, 4) "}", 4},
        {"{\"__metadata__\":[]}", 0},
        {"{\"__metadata__\":{\"a\":1}}", 0},
        {"{\"__metadata__\":{\"weft.checksum\":\"0\"}}", 0},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (try_header(bad[i].header, bad[i].data) != WEFT_FORMAT)
            fail_msg("%s", bad[i].header);
    assert_int_equal(weft_safetensors_check(scratch), WEFT_IO);
    assert_int_equal(weft_safetensors_check("/nowhere/x"), WEFT_IO);
}

/* ---- other programs */

static void pytorch_reads_the_same(void **state)
{
    (void)state;
    char command[512], out[160];
    size_t at = 0;
    write_sample(file);
    snprintf(out, sizeof out, "%s/out", scratch);
    snprintf(command, sizeof command, "/usr/bin/python3 tests/unit/safetensors_bytes.py '%s' >'%s'", file, out);
    int status = system(command);
    if (status == 77 << 8)
        skip();
    assert_int_equal(status, 0);
    struct text all = read_file(out);
    unsigned char *bytes = (unsigned char *)all.bytes;
    const size_t size = all.size;
    struct weft_safetensors *f;
    assert_int_equal(weft_safetensors_open(&f, file), WEFT_OK);
    for (int i = 0; i < ENTRIES; i++) {
        const struct weft_entry *e = weft_safetensors_at(f, i);
        assert_true(at + e->bytes <= size);
        if (e->bytes)
            assert_memory_equal(bytes + at, e->data, e->bytes);
        at += e->bytes;
    }
    assert_int_equal(at, size);
    weft_safetensors_close(f);
    free(bytes);
}

static void a_hugging_face_file_opens(void **state)
{
    (void)state;
    struct weft_safetensors *f;
    char path[512];
    if (!getenv("WEFT_DATA"))
        skip();
    snprintf(path, sizeof path, "%s/tiny-gpt2-hf/model.safetensors", getenv("WEFT_DATA"));
    assert_int_equal(weft_safetensors_open(&f, path), WEFT_OK);
    assert_int_equal(weft_safetensors_verify(f, NULL), WEFT_OK);
    assert_string_equal(weft_safetensors_metadata(f, "format"), "pt");
    float *weight = malloc(32 * 96 * sizeof *weight), sum = 0;
    struct weft_tensor to = {weight, WEFT_F32, 2, {32, 96}};
    assert_int_equal(weft_safetensors_read(f, "transformer.h.0.attn.c_attn.weight", &to), WEFT_OK);
    for (int i = 0; i < 32 * 96; i++)
        sum += weight[i] * weight[i];
    assert_true(sum > 0 && sum < 1e4f);
    free(weight);
    weft_safetensors_close(f);
}

/* ---- folders */

static enum weft_status verify(const char *path, void *context)
{
    char name[4200];
    (void)context;
    snprintf(name, sizeof name, "%s/model.safetensors", path);
    return weft_safetensors_check(name);
}

static enum weft_status save(int64_t step, int keep)
{
    char path[256], name[300];
    TRY(weft_ckpt_begin(file, step, path, sizeof path));
    snprintf(name, sizeof name, "%s/model.safetensors", path);
    write_sample(name);
    snprintf(name, sizeof name, "%s/config.json", path);
    TRY(weft_file_replace(name, "{}\n", 3));
    TRY(weft_ckpt_commit(file, step, keep));
    return WEFT_OK;
}

static int64_t latest(void)
{
    char path[256];
    int64_t step;
    assert_int_equal(weft_ckpt_latest(file, verify, NULL, &step, path, sizeof path), WEFT_OK);
    return step;
}

static int names_in(const char *path)
{
    int n = -2;
    DIR *dir = opendir(path);
    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static void the_newest_are_kept(void **state)
{
    (void)state;
    char path[256];
    assert_int_equal(latest(), -1);
    for (int64_t step = 0; step < 40; step += 10) {
        assert_int_equal(save(step, 2), WEFT_OK);
        assert_int_equal(latest(), step);
    }
    assert_int_equal(names_in(file), 2);
    /* A run that was reset to an earlier step: newer checkpoints stay. */
    assert_int_equal(save(25, 1), WEFT_OK);
    assert_int_equal(latest(), 30);
    assert_int_equal(names_in(file), 2);
    assert_int_equal(save(30, 5), WEFT_OK);
    assert_int_equal(names_in(file), 2);
    assert_int_equal(save(INT64_C(12345678901), 1), WEFT_OK);
    assert_int_equal(latest(), INT64_C(12345678901));
    assert_int_equal(names_in(file), 1);
    snprintf(path, sizeof path, "%s/step-12345678901", file);
    assert_int_equal(names_in(path), 2);
}

static void leftovers_are_removed(void **state)
{
    (void)state;
    char path[300];
    assert_int_equal(save(10, 3), WEFT_OK);
    assert_int_equal(weft_ckpt_begin(file, 20, path, sizeof path), WEFT_OK);
    strcat(path, "/model.safetensors");
    write_sample(path);
    assert_int_equal(latest(), 10);
    snprintf(path, sizeof path, "%s/.removing-000000005", file);
    assert_int_equal(mkdir(path, 0777), 0);
    snprintf(path, sizeof path, "%s/step-7", file); /* not a name that Weft writes */
    assert_int_equal(mkdir(path, 0777), 0);
    assert_int_equal(save(30, 3), WEFT_OK);
    assert_int_equal(latest(), 30);
    assert_int_equal(names_in(file), 3);
    assert_int_equal(save(40, 0), WEFT_INVALID);
    assert_int_equal(save(-1, 1), WEFT_INVALID);
    assert_int_equal(weft_ckpt_begin(file, 50, path, 10), WEFT_INVALID);
}

static void damaged_checkpoints_are_skipped(void **state)
{
    (void)state;
    char path[300];
    for (int64_t step = 1; step <= 3; step++)
        assert_int_equal(save(step, 3), WEFT_OK);
    snprintf(path, sizeof path, "%s/step-000000003/model.safetensors", file);
    assert_int_equal(truncate(path, 100), 0);
    assert_int_equal(latest(), 2);
    snprintf(path, sizeof path, "%s/step-000000002/model.safetensors", file);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(latest(), 1);
    assert_int_equal(save(3, 3), WEFT_OK); /* replaces the damaged one */
    assert_int_equal(latest(), 3);
}

static void a_file_is_replaced(void **state)
{
    (void)state;
    assert_int_equal(weft_file_replace(file, "first", 5), WEFT_OK);
    assert_int_equal(weft_file_replace(file, "second", 6), WEFT_OK);
    struct text all = read_file(file);
    assert_int_equal(all.size, 6);
    assert_memory_equal(all.bytes, "second", 6);
    free(all.bytes);
    assert_int_equal(names_in(scratch), 1);
    assert_int_equal(weft_file_replace("/nowhere/x", "", 0), WEFT_IO);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, make_file, remove_scratch)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(checksums),
        CASE(reads_what_it_writes),
        CASE(copies_and_converts),
        CASE(invalid_entries_are_rejected),
        CASE(all_damage_is_detected),
        CASE(foreign_files_open),
        CASE(hostile_headers_are_rejected),
        CASE(pytorch_reads_the_same),
        CASE(a_hugging_face_file_opens),
        CASE(the_newest_are_kept),
        CASE(leftovers_are_removed),
        CASE(damaged_checkpoints_are_skipped),
        CASE(a_file_is_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
