/* SPDX-License-Identifier: MIT
 *
 * products.c - runs the tests of matmuls with oneDNN as the engine: the same sums, and bits that depend on neither the
 * number of rows nor the number of threads.
 */
#define main test_products
#include "../unit/dnn.c"
#undef main

#include <stdio.h>

int main(void)
{
    if (weft_isa() < WEFT_ISA_V4) {
        puts("skip: oneDNN has no bf16 on this processor");
        return 77;
    }
    setenv("WEFT_ENGINE", "onednn", 1);
    return test_products();
}
