/* SPDX-License-Identifier: MIT
 *
 * publish - packs a study into one file that anyone can audit.
 */
#include "report/publish.h"
#include "base/json.h"
#include "cmd/cmd.h"

struct args {
    struct weft_common common;
    const char *folder, *out;
    bool all;
};

static const struct weft_arg table[] = {
    {NULL, 0, "DIR", WEFT_ARG_FOLDER, offsetof(struct args, folder), .help = "Folder of the study",
     .missing = "no study given: pass the folder that `weft ablate --out` created"},
    {"out", 'o', "FILE", WEFT_ARG_FILE, offsetof(struct args, out),
     .help = "Write this file, whose name ends in .tar.zst",
     .missing = "no output file given: pass --out FILE.tar.zst"},
    {"all-checkpoints", 0, NULL, WEFT_ARG_FLAG, offsetof(struct args, all),
     .help = "Include every checkpoint, not only the newest of every run, so that segments can be audited"},
    {0},
};

static enum weft_status check(const void *args)
{
    const struct args *a = args;
    if (!weft_ends_in(a->out, ".tar.zst"))
        return FAIL(WEFT_INVALID, "--out %s is invalid: expected a name that ends in .tar.zst", a->out);
    return WEFT_OK;
}

static enum weft_status run(void *args)
{
    const struct args *a = args;
    struct weft_publish p = {.folder = a->folder, .file = a->out, .all_checkpoints = a->all};
    TRY(weft_publish(&p));
    struct weft_result *r = weft_result_create();
    weft_result_text(r, "file", p.file);
    weft_result_text(r, "sha256", p.sha256);
    weft_result_int(r, "runs", p.runs);
    weft_result_int(r, "files", p.files);
    weft_result_int(r, "checkpoints", p.checkpoints);
    weft_result_text(r, "data", !p.data_needed ? "none" : p.data_included ? "included" : "fingerprint only");
    return weft_result_finish(r, stdout, a->common.json);
}

const struct weft_cmd weft_cmd_publish = {
    .name = "publish",
    .summary = "pack a study so that anyone can audit it",
    .doc = "Writes one file with everything that an audit of the study needs: its plan, ledger and report, every run's "
           "config, log and newest checkpoint, the data if it is small, a manifest of hashes, and AUDIT.md, a page "
           "that explains how to check them. The same study gives the same bytes.",
    .notes = "Unpack it with `tar --zstd -xf FILE`.",
    .args = table,
    .check = check,
    .takes = WEFT_TAKES_JSON,
    .args_bytes = sizeof(struct args),
    .run = run,
};
