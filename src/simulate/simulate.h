/* SPDX-License-Identifier: MIT
 *
 * simulate.h - simulated studies with known answers, which test the code that runs and reports real studies: the plan,
 * the queue, the ledger, looks, pairing and the report (weft verify --study).
 *
 * Nothing is trained. A run writes the files of a trained run, with losses that are a known function of study, arm,
 * learning rate and seed (studies.c, runs.c). The results of the queue and the report are compared with a plain
 * computation from the same function (expected.c, naive.c), which shares no code with the queue, the statistics or the
 * report.
 */
#ifndef WEFT_SIMULATE_H
#define WEFT_SIMULATE_H

#include "study/study.h"

/* Simulates all studies in a temporary folder and reports every check, as gates do. A defect is counted as a failed
 * check; it does not make this function fail. */
enum weft_status weft_simulate(struct weft_gates *report);

/* Runs weft_simulate before a study is trained, once per program and study folder (once.c). Skips this if the folder
 * has a record that this program passed, or if gates are skipped (weft_gates_skipped); *s then has no checks. Returns
 * WEFT_CHECK if a check failed; the message names the first one. With `unsafe`, prints a notice instead of failing.
 * Writes nothing. */
enum weft_status weft_simulate_once(const char *folder, bool unsafe, struct weft_simulated *s);
/* Writes the record into the study's folder if checks were run. Only the process that owns the folder may call it. */
enum weft_status weft_simulate_record(const char *folder, const struct weft_simulated *s);

#endif
