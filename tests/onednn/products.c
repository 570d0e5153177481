/* SPDX-License-Identifier: MIT
 *
 * products.c - the tests of products with oneDNN behind the door: the same sums, and bits that know neither rows nor
 * threads.
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
