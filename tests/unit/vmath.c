/* SPDX-License-Identifier: MIT
 *
 * vmath.c - compares the vector functions with libm in double precision, on a sweep over all floats and at special
 * values, and checks that the bits of a result depend neither on its lane nor on how full the vector is. Compiled once
 * per instruction-set level, to test the rounding of each.
 *
 * run-tests: 8 s, asan 3 s
 */
#include "base/vmath_inl.h"

#include "ops/power_inl.h"

#include "tensor/tensor.h"
#include "test.h"

static vf apply_exp(vf x) { return vexp(x); }
static vf apply_log(vf x) { return vlog(x); }
static vf apply_tanh(vf x) { return vtanh(x); }
static vf apply_sigmoid(vf x) { return vsigmoid(x); }
static double exact_sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* Outside [low, high] the function has reached its limits, which special_values tests. */
static const struct function {
    const char *name;
    vf (*fast)(vf x);
    double (*exact)(double x);
    float low, high;
    double ulps; /* allowed */
} functions[] = {
    {"exp", apply_exp, exp, -87.336f, 88.722f, 1.1},
    {"log", apply_log, log, 1.18e-38f, 3.4e38f, 1.0},
    {"tanh", apply_tanh, tanh, -100, 100, 1.4},
    {"sigmoid", apply_sigmoid, exact_sigmoid, -87.336f, 100, 2.6},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The error in units in the last place of a float near `exact`. */
static double ulps(float got, double exact)
{
    int e;
    frexp(exact, &e);
    return fabs(got - exact) / ldexp(1, (e < -125 ? -125 : e) - 24);
}

static void sweep(void **state)
{
    (void)state;
    for (int f = 0; f < FUNCTIONS; f++) {
        const struct function *fn = &functions[f];
        double worst = 0;
        float where = 0;
        for (uint64_t bits = 0; bits < 1ull << 32; bits += VLANES * 499) {
            vf x;
            for (int i = 0; i < VLANES; i++)
                x[i] = float_of((uint32_t)(bits + (uint64_t)i * 499));
            vf y = fn->fast(x);
            for (int i = 0; i < VLANES; i++) {
                if (!(x[i] >= fn->low && x[i] <= fn->high))
                    continue;
                double error = ulps(y[i], fn->exact(x[i]));
                if (!(error <= worst)) {
                    worst = error;
                    where = x[i];
                }
            }
        }
        printf("# %s: at most %.2f ulp, at %.9g\n", fn->name, worst, where);
        if (!(worst <= fn->ulps))
            fail_msg("%s(%.9g) is off by %.2f ulp, allowed %.2f", fn->name, where, worst, fn->ulps);
    }
}

static void special_values(void **state)
{
    (void)state;
    assert_true(vexp1(0) == 1);
    assert_true(vexp1(-0.0f) == 1);
    assert_true(bits_of(vexp1(-INFINITY)) == 0);
    assert_true(bits_of(vexp1(-88)) == 0);
    assert_true(bits_of(vexp1(-3e38f)) == 0);
    assert_true(vexp1(INFINITY) == INFINITY);
    assert_true(vexp1(89) == INFINITY);
    assert_true(vexp1(3e38f) == INFINITY);
    assert_true(isfinite(vexp1(88.72f)));
    assert_true(isnan(vexp1(NAN)));

    assert_true(vlog1(1) == 0);
    assert_true(vlog1(0) == -INFINITY);
    assert_true(vlog1(-0.0f) == -INFINITY);
    assert_true(vlog1(1e-40f) == -INFINITY);
    assert_true(vlog1(INFINITY) == INFINITY);
    assert_true(isnan(vlog1(-1)));
    assert_true(isnan(vlog1(-INFINITY)));
    assert_true(isnan(vlog1(NAN)));

    assert_true(vtanh(vset(0))[0] == 0 && vtanh(vset(-0.0f))[0] == 0);
    assert_true(vtanh(vset(INFINITY))[0] == 1 && vtanh(vset(-INFINITY))[0] == -1);
    assert_true(vtanh(vset(3e38f))[0] == 1 && vtanh(vset(-3e38f))[0] == -1);
    assert_true(isnan(vtanh(vset(NAN))[0]));

    assert_true(vsigmoid(vset(0))[0] == 0.5f);
    assert_true(vsigmoid(vset(INFINITY))[0] == 1 && vsigmoid(vset(-INFINITY))[0] == 0);
    assert_true(isnan(vsigmoid(vset(NAN))[0]));
}

/* Runs a row of n numbers through a vector loop with a tail: each must have the same bits as when computed alone. The
 * guard bytes after the row must not change. */
static void check_row(const struct function *fn, enum weft_dtype dtype, const float *x, int n)
{
    enum { GUARD = 17 };
    size_t size = weft_dtype_bytes(dtype);
    char in[8 * 64], out[8 * 64], same[8];
    weft_convert(in, dtype, x, WEFT_F32, n);
    memset(out, 0x5a, sizeof out);
    for (int i = 0; i < n; i += VLANES)
        vstore(out, dtype, i, n, fn->fast(vload(in, dtype, i, n)));
    for (int i = 0; i < n; i++) {
        float one;
        weft_convert(&one, WEFT_F32, in + (size_t)i * size, dtype, 1);
        one = fn->fast(vset(one))[0];
        weft_convert(same, dtype, &one, WEFT_F32, 1);
        if (memcmp(same, out + (size_t)i * size, size) != 0)
            fail_msg("%s, %s: element %d of %d has different bits when computed alone", fn->name,
                     weft_dtype_name(dtype), i, n);
    }
    for (size_t i = (size_t)n * size; i < (size_t)n * size + GUARD; i++)
        assert_int_equal(out[i], 0x5a);
}

static void same_bits_everywhere(void **state)
{
    (void)state;
    for (int f = 0; f < FUNCTIONS; f++)
        for (int n = 1; n <= 50; n++)
            for (int shift = 0; shift < 5; shift++) {
                float x[64];
                for (int i = 0; i < n; i++)
                    x[i] = (float)(6 * weft_normal(7, (uint64_t)(i + shift)));
                check_row(&functions[f], WEFT_F32, x, n);
                check_row(&functions[f], WEFT_BF16, x, n);
            }
}

static void narrowing(void **state)
{
    (void)state;
    for (uint64_t bits = 0; bits < 1ull << 32; bits += 32749) {
        float x = float_of((uint32_t)bits);
        vh h = vnarrow(vset(x));
        assert_int_equal(h[0], weft_bf16_from_f32(x));
        assert_int_equal(h[15], h[0]);
        assert_true(bits_of(vwiden(h)[3]) == bits_of(weft_f32_from_bf16(h[0])));
    }
}

static void reductions(void **state)
{
    (void)state;
    vf v;
    for (int i = 0; i < VLANES; i++)
        v[i] = (float)weft_normal(11, (uint64_t)i);
    /* The same tree: add the two halves until one number is left. */
    float s[VLANES];
    memcpy(s, &v, sizeof s);
    for (int width = VLANES / 2; width >= 1; width /= 2)
        for (int i = 0; i < width; i++)
            s[i] += s[i + width];
    assert_true(bits_of(vsum(v)) == bits_of(s[0]));
    for (int i = 0; i < VLANES; i++) {
        vf w = v;
        w[i] = 100;
        assert_true(vhighest(w) == 100);
    }
    assert_true(vsqrt(vset(2))[5] == sqrtf(2));
    assert_true(vmax(vset(-1), vset(2))[0] == 2 && vmin(vset(-1), vset(2))[0] == -1 && vabs(vset(-3))[0] == 3);
}

/* ---- the levels have the same bits: hashes of results, recorded */

static vf apply_power(vf x) { return power(x); }
static vf apply_sqrt(vf x) { return vsqrt(x); }
static vf apply_narrow(vf x) { return vwiden(vnarrow(x)); }

/* One multiply-add of x with numbers of all sizes, denormal ones among them, often such that the sum nearly cancels. */
static vf apply_fma(vf x)
{
    vu word[4], seed = (vu)x;
    vphilox(9, seed, seed >> 7, seed << 5, seed, word);
    vf y = (vf)word[0], close = -(x * y), far = (vf)word[1];
    return vfma(x, y, vpick((vi)(word[2] & 1) == vseti(1), (vf)((vi)close + (vi)(word[3] & 7)), far));
}

static uint64_t hash_of(vf (*apply)(vf x), uint64_t stride)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a, of words */
    for (uint64_t bits = 0; bits < 1ull << 32; bits += VLANES * stride) {
        vf x;
        for (int i = 0; i < VLANES; i++)
            x[i] = float_of((uint32_t)(bits + (uint64_t)i * stride));
        vf y = apply(x);
        for (int i = 0; i < VLANES; i++)
            hash = (hash ^ (isnan(y[i]) ? 0x7fc00000 : bits_of(y[i]))) * 0x100000001b3u;
    }
    return hash;
}

static void same_on_all_levels(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        vf (*apply)(vf x);
        uint64_t hash;
    } rows[] = {
        {"exp", apply_exp, 0x57688d6a4bb472bc},       {"log", apply_log, 0x0a4d66ccfa5c01dd},
        {"tanh", apply_tanh, 0xca3e0b9f7bedf2d8},     {"sigmoid", apply_sigmoid, 0x91fc3a71bb535c02},
        {"power", apply_power, 0x88a260ec8f9be1c8},   {"sqrt", apply_sqrt, 0xdf2edd181c965750},
        {"narrow", apply_narrow, 0xe38d300381ce44e5}, {"fma", apply_fma, 0xe028c029ed1a42b5},
    };
    int differ = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t hash = hash_of(rows[i].apply, 499);
        bool same = hash == rows[i].hash;
        differ += !same;
        printf("# %s: 0x%016llx%s\n", rows[i].name, (unsigned long long)hash, same ? "" : ", which is not recorded");
    }
    assert_int_equal(differ, 0);
}

int main(void)
{
#ifdef WEFT_LEVEL
    enum weft_isa v3 = WEFT_ISA_V3, v4 = WEFT_ISA_V4;
    (void)v3, (void)v4;
    if (weft_isa() < WEFT_LEVEL) {
        puts("skipped: this processor does not support the level, or WEFT_ISA is lower");
        return 77;
    }
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sweep),     cmocka_unit_test(special_values), cmocka_unit_test(same_bits_everywhere),
        cmocka_unit_test(narrowing), cmocka_unit_test(reductions),     cmocka_unit_test(same_on_all_levels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
