/* SPDX-License-Identifier: MIT
 *
 * plan_hash.h - the hash that identifies a plan (plan_hash.c).
 */
#ifndef WEFT_PLAN_HASH_H
#define WEFT_PLAN_HASH_H

#include "base/base.h"

#include <jansson.h>

/* Computes the hash of the content of a study.json, written by any release; any content is safe. */
void weft_plan_hash(const json_t *study, char hash[65]);
/* Writes the first value by which two such contents have different hashes: "seeds is [1,2,3], not [1,2]". */
void weft_plan_difference(const json_t *study, const json_t *other, char *text, size_t size);

#endif
