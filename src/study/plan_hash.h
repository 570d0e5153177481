/* SPDX-License-Identifier: MIT
 *
 * plan_hash.h - the hash that identifies a plan (plan_hash.c).
 */
#ifndef WEFT_PLAN_HASH_H
#define WEFT_PLAN_HASH_H

#include "base/base.h"

#include <jansson.h>

/* Computes the hash of the content of a study.json from any release; invalid content is harmless. */
void weft_plan_hash(const json_t *study, char hash[65]);
/* Describes the first value that is part of the hash and differs between two such contents: "seeds is now [1,2,3,4],
 * was [1,2,3]". */
void weft_plan_difference(const json_t *study, const json_t *other, char *text, size_t size);

#endif
