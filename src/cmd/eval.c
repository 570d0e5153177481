/* SPDX-License-Identifier: MIT
 *
 * eval - scores a trained model: on the held-out samples of its own task, on text (loss, perplexity and bits per byte),
 * or on items (the fraction of correct answers).
 */
#include "base/json.h"
#include "cmd/cmd.h"
#include "cmd/kit/eval_items.h"
#include "cmd/kit/progress.h"
#include "dnn/dnn.h"
#include "text/text.h"
#include "train/record/record.h"
#include "train/score/score.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

static const char *const splits[] = {"train", "val", "test", NULL};

struct args {
    struct weft_common common;
    const char *data, *tokenizer, *items, *against;
    int split;
    int64_t batch; /* 0: the model's batch */
    bool by_position;
};

static const struct weft_arg table[] = {
    {"data", 'd', "PATH", WEFT_ARG_FILE, offsetof(struct args, data),
     .help = "Score on token files or a folder of them, a text, or JSONL items (default: the run's own task)"},
    {"batch", 'b', "N", WEFT_ARG_INT, offsetof(struct args, batch),
     .help = "Score N sequences at a time (default: the model's batch). Results do not depend on it", .min = 1,
     .max = 4096},
    {"split", 0, "NAME", WEFT_ARG_CHOICE, offsetof(struct args, split),
     .help = "Score on these files of a folder (default: val)", .choices = splits},
    {"tokenizer", 0, "FILE|bytes", WEFT_ARG_FILE, offsetof(struct args, tokenizer),
     .help = "Use this tokenizer instead of the tokenizer.json next to the weights", .choices = weft_tokenizer_choices},
    {"by-position", 0, NULL, WEFT_ARG_FLAG, offsetof(struct args, by_position),
     .help = "For text: also print the loss by position in the window, in ranges that double in length"},
    {"items", 0, "FILE", WEFT_ARG_FILE, offsetof(struct args, items),
     .help = "Write the cost of every item to FILE, for --against"},
    {"against", 0, "FILE", WEFT_ARG_FILE, offsetof(struct args, against),
     .help = "Print the difference, paired by item, from the model whose --items wrote this file"},
    {0},
};

static enum weft_status check(const void *args)
{
    const struct args *a = args;
    if (!a->data && !weft_model_is_folder(a->common.model))
        return FAIL(WEFT_INVALID, "nothing to score on: pass --data=PATH, because only a run has a task of its own");
    return WEFT_OK;
}

/* ---- the model */

/* Settings of training are ignored in a config file, but are an error on the command line. */
static enum weft_status check_settings(const struct weft_settings *s)
{
    for (int i = 0; i < s->count; i++)
        if (!s->setting[i].file && !s->setting[i].taken)
            return FAIL(WEFT_INVALID,
                        "--set %s=%s: the model has no such option; `weft help options` lists all options",
                        s->setting[i].name, s->setting[i].value);
    return WEFT_OK;
}

static bool has_setting(const struct weft_settings *s, const char *name)
{
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->setting[i].name, name) == 0)
            return true;
    return false;
}

static bool is_set_here(const struct weft_settings *s, const char *name)
{
    for (int i = 0; i < s->count; i++)
        if (!s->setting[i].file && strcmp(s->setting[i].name, name) == 0)
            return true;
    return false;
}

/* Resolves the model and, if it is scored on its own task, the recipe. */
static enum weft_status read_settings(struct args *a)
{
    struct weft_common *c = &a->common;
    TRY(weft_spec_init(&c->spec, c->model, &c->settings));
    if (a->data)
        return check_settings(&c->settings);
    if (!has_setting(&c->settings, "task"))
        return FAIL(WEFT_INVALID, "%s/config.json names no task: pass --data PATH or --set task=NAME", c->model);
    TRY(weft_recipe_init(&c->recipe, &c->spec, &c->settings));
    return WEFT_OK;
}

/* Weights whose shape depends on the context are resized to the context that was set here. */
static enum weft_status load(const struct weft_settings *settings, struct weft_nn *model, const char *folder)
{
    struct weft_fits fits = {0};
    if (!is_set_here(settings, "context"))
        return weft_weights_open(model, folder);
    TRY(weft_nn_load_at(model, folder, weft_fits_add, &fits));
    if (!fits.count[WEFT_FIT_EXTENDED])
        return weft_state_verify(folder, &model->params);
    weft_note_once("extended", "%s: resized to a context of %lld tokens, for which the model was not trained",
                   fits.names[WEFT_FIT_EXTENDED], (long long)model->spec->context);
    return WEFT_OK;
}

/* Opens the model and sets `folder` to the folder of its weights; empty: no weights. */
static enum weft_status open_model(struct args *a, char *folder, size_t room, struct weft_nn **model)
{
    struct weft_common *c = &a->common;
    folder[0] = 0;
    if (weft_model_is_folder(c->model)) {
        TRY(weft_nn_folder(c->model, folder, room));
        c->model = folder;
    }
    TRY(read_settings(a));
    TRY(weft_nn_create(model, &c->spec));
    if (folder[0])
        return load(&c->settings, *model, folder);
    weft_note_once("untrained", "%s has no weights: the scores are those of its initial, untrained weights", c->model);
    TRY(weft_nn_init(*model));
    return WEFT_OK;
}

/* Fails if the tokenizers of the token files and of the model are both known but differ. */
static enum weft_status open_shards(const struct args *a, const char *folder, struct weft_shards **s)
{
    char path[4200], hex[65];
    TRY(weft_shards_open(s, a->data, a->split < 0 ? "val" : splits[a->split]));
    if (!weft_shards_tokenizer(*s)[0] || !weft_tokenizer_find(folder, path))
        return WEFT_OK;
    TRY(weft_sha256_file(path, hex));
    if (strcmp(hex, weft_shards_tokenizer(*s)))
        return FAIL(WEFT_INVALID, "%s was not prepared with the model's tokenizer %s: prepare it again", a->data, path);
    return WEFT_OK;
}

/* ---- the data */

enum kind { SHARDS, TEXT, ITEMS };

/* An option that has no effect is an error. */
static enum weft_status check_kind(const struct args *a, enum kind kind)
{
    if (kind == SHARDS && a->tokenizer)
        return FAIL(WEFT_INVALID, "--tokenizer has no effect on %s, which already consists of tokens", a->data);
    if (kind == ITEMS && a->by_position)
        return FAIL(WEFT_INVALID, "--by-position has no effect on %s, which is not text", a->data);
    if (kind != SHARDS && a->split >= 0)
        return FAIL(WEFT_INVALID, "--split has no effect on %s, which is not a folder of token files", a->data);
    return WEFT_OK;
}

/* Raw token files are recognised only by name; JSONL begins with an object that has a field. */
static enum weft_status find_kind(const char *path, enum kind *kind)
{
    char head[256];
    size_t got, i;
    struct stat st;
    if (stat(path, &st))
        return FAIL(WEFT_IO, "%s cannot be read: %s", path, strerror(errno));
    *kind = SHARDS;
    if (S_ISDIR(st.st_mode) || weft_ends_in(path, ".bin"))
        return WEFT_OK;
    TRY(weft_read_head(path, head, sizeof head - 1, &got));
    head[got] = 0;
    i = strspn(head, " \t\r\n");
    *kind = head[i] == '{' && head[i + 1 + strspn(head + i + 1, " \t")] == '"' ? ITEMS : TEXT;
    return WEFT_OK;
}

struct view {
    struct weft_line line;
    int64_t tokens; /* number of tokens in all data; 0: unknown before encoding */
    struct weft_items items;
};

static void print_progress(void *context, int64_t scored)
{
    struct view *v = context;
    weft_line_show(&v->line, (double)scored, (double)v->tokens, "%lld tokens scored  %.0f tokens/s", (long long)scored,
                   (double)scored / (weft_seconds() - v->line.start));
}

/* ---- results */

static enum weft_status refuse_not_finite(void)
{
    return FAIL(WEFT_CHECK, "the model's loss is not finite: its weights are damaged, or its training diverged");
}

static void add_positions(const struct weft_text_score *s, struct weft_result *r)
{
    char name[64];
    for (int i = 0; i < WEFT_POSITION_RANGES && s->range[i].tokens; i++) {
        long long first = i ? 1LL << (i - 1) : 0, last = i ? 2 * first - 1 : 0;
        snprintf(name, sizeof name, first == last ? "loss_at_%lld" : "loss_at_%lld_%lld", first, last);
        weft_result_real(r, name, s->range[i].nll / (double)s->range[i].tokens);
    }
}

static enum weft_status add_text(const struct args *a, const struct weft_text_score *s, const struct weft_items *items,
                                 struct weft_result *r)
{
    double loss = s->nll / (double)s->tokens, per_byte = (double)s->tokens / M_LN2 / (double)weft_max(1, s->bytes);
    struct weft_item_figure figures[] = {{"loss", 1, false, false}, {"bits_per_byte", per_byte, false, false}, {NULL}};
    weft_result_int(r, "bytes", s->bytes);
    weft_result_real(r, "loss", loss);
    weft_result_real(r, "ppl", exp(loss));
    if (s->bytes)
        weft_result_real(r, "bits_per_byte", s->nll / M_LN2 / (double)s->bytes);
    else
        figures[1] = figures[2];
    if (a->by_position)
        add_positions(s, r);
    weft_result_int(r, "items", items->count);
    weft_result_text(r, "item", items->kind);
    return weft_eval_items(items, a->items, a->against, figures, r);
}

static void add_share(struct weft_result *r, const char *const names[3], int64_t right, int64_t items)
{
    double low, high;
    weft_wilson(right, items, &low, &high);
    weft_result_real(r, names[0], (double)right / (double)items);
    weft_result_real(r, names[1], low);
    weft_result_real(r, names[2], high);
}

static enum weft_status add_items(const struct args *a, const struct weft_items_score *s,
                                  const struct weft_scorer *scorer, struct weft_result *r)
{
    struct weft_item_figure figures[] = {{"accuracy", -1, false, true}, {"accuracy_norm", -1, true, true}, {NULL}};
    if (s->pairs)
        figures[1] = figures[2];
    weft_result_int(r, "items", s->items);
    add_share(r, (const char *const[]){"accuracy", "ci_low", "ci_high"}, s->right, s->items);
    if (!s->pairs)
        add_share(r, (const char *const[]){"accuracy_norm", "ci_norm_low", "ci_norm_high"}, s->right_norm, s->items);
    weft_result_int(r, "longer_than_context", scorer->cut);
    return weft_eval_items(scorer->items, a->items, a->against, figures, r);
}

static enum weft_status score(const struct args *a, const char *folder, enum kind kind, struct weft_scorer *s,
                              struct view *v, struct weft_result *r)
{
    struct weft_tokenizer *tokenizer = NULL;
    struct weft_shards *shards = NULL;
    struct weft_text_score text;
    struct weft_items_score items = {0};
    enum weft_status status = kind == SHARDS
                                  ? open_shards(a, folder, &shards)
                                  : weft_tokenizer_open(a->tokenizer, folder, a->common.spec.vocab, &tokenizer);
    v->tokens = shards ? weft_shards_tokens(shards) - 1 : 0;
    if (status == WEFT_OK)
        status = kind == SHARDS ? weft_score_shards(s, shards, &text)
                 : kind == TEXT ? weft_score_text(s, tokenizer, a->data, &text)
                                : weft_score_items(s, tokenizer, a->data, &items);
    if (status == WEFT_OK && s->not_finite)
        status = refuse_not_finite();
    if (status == WEFT_OK) {
        weft_result_text(r, "kind", kind != ITEMS ? "text" : items.pairs ? "pairs" : "choices");
        weft_result_int(r, "tokens", s->scored);
        status = kind == ITEMS ? add_items(a, &items, s, r) : add_text(a, &text, s->items, r);
    }
    weft_shards_close(shards);
    weft_tokenizer_free(tokenizer);
    return status;
}

static enum weft_status print(const struct args *a, const struct weft_nn *model, double seconds, int64_t tokens,
                              struct weft_result *r)
{
    char hash[65];
    weft_params_hash(&model->params, hash);
    if (a->data)
        weft_result_text(r, "data", a->data);
    weft_result_text(r, "model", a->common.model);
    weft_result_int(r, "context", model->spec->context);
    weft_result_real(r, "seconds", seconds);
    weft_result_real(r, "tokens_per_s", (double)tokens / seconds);
    weft_result_int(r, "threads", weft_threads());
    weft_result_text(r, "isa", weft_dnn_path());
    weft_result_text(r, "weights_sha256", hash);
    TRY(weft_result_print(r, stdout, a->common.json));
    return WEFT_OK;
}

static int64_t batch_of(const struct args *a) { return a->batch ? a->batch : a->common.spec.batch; }

/* ---- data */

static enum weft_status score_data(const struct args *a, const struct weft_nn *model, const char *folder,
                                   struct weft_scorer **s, struct view *v, struct weft_result *r)
{
    enum kind kind = TEXT;
    TRY(find_kind(a->data, &kind));
    TRY(check_kind(a, kind));
    TRY(weft_scorer_create(s, model, batch_of(a)));
    (*s)->report = print_progress;
    (*s)->context = v;
    (*s)->items = &v->items;
    TRY(score(a, folder, kind, *s, v, r));
    return WEFT_OK;
}

static enum weft_status evaluate(const struct args *a, const struct weft_nn *model, const char *folder)
{
    struct weft_scorer *s = NULL;
    struct view view = {.tokens = 0};
    struct weft_result *r = weft_result_create();
    weft_line_init(&view.line, 0);
    enum weft_status status = score_data(a, model, folder, &s, &view, r);
    weft_line_end(&view.line);
    if (status == WEFT_OK)
        status = print(a, model, weft_seconds() - view.line.start, s->scored, r);
    weft_result_free(r);
    weft_scorer_free(s);
    weft_items_release(&view.items);
    return status;
}

/* ---- the run's own task */

/* Opens the task's data, which must be the run's data. */
static enum weft_status open_task(struct args *a, const char *folder)
{
    char now[65];
    struct weft_origin origin;
    struct weft_common *c = &a->common;
    const char *idle = a->split >= 0 ? "split" : a->tokenizer ? "tokenizer" : a->by_position ? "by-position" : NULL;
    if (idle)
        return FAIL(WEFT_INVALID, "--%s has no effect without --data", idle);
    TRY(weft_recipe_open(&c->recipe, &c->spec));
    TRY(weft_state_origin(folder, &origin));
    weft_origin_data(&c->recipe, now);
    if (*origin.text[WEFT_ORIGIN_DATA] && strcmp(origin.text[WEFT_ORIGIN_DATA], now) != 0)
        return FAIL(WEFT_INVALID, "the data is not the data that %s was trained on: restore that data, or pass --data",
                    c->model);
    return WEFT_OK;
}

static enum weft_status score_task(struct args *a, const struct weft_nn *model, struct weft_items *items)
{
    static const struct weft_item_figure figures[] = {{"test_loss", 1, false, false}, {NULL}};
    struct weft_scores scores;
    const struct weft_recipe *recipe = &a->common.recipe;
    double start = weft_seconds();
    TRY(weft_evaluate(model, recipe, NULL, batch_of(a), WEFT_HELD_OUT, &scores.val));
    TRY(weft_evaluate_test(model, recipe, NULL, batch_of(a), &scores.test, items));
    if (!isfinite(scores.val.loss) || !isfinite(scores.test.loss))
        return refuse_not_finite();
    struct weft_result *r = weft_result_create();
    weft_result_text(r, "kind", "task");
    weft_result_text(r, "task", recipe->task->name);
    weft_result_int(r, "samples", weft_recipe_held_out(recipe, WEFT_HELD_OUT, recipe->eval_samples));
    weft_result_int(r, "test_samples", weft_recipe_held_out(recipe, WEFT_TEST, recipe->eval_samples));
    weft_result_int(r, "tokens", scores.val.tokens + scores.test.tokens);
    weft_scores_add(r, &scores, &a->common.spec, recipe);
    enum weft_status status = weft_eval_items(items, a->items, a->against, figures, r);
    if (status == WEFT_OK)
        status = print(a, model, weft_seconds() - start, scores.val.tokens + scores.test.tokens, r);
    weft_result_free(r);
    return status;
}

static enum weft_status evaluate_task(struct args *a, const struct weft_nn *model, const char *folder)
{
    struct weft_items items = {0};
    TRY(open_task(a, folder));
    enum weft_status status = score_task(a, model, &items);
    weft_items_release(&items);
    return status;
}

static enum weft_status run(void *args)
{
    struct args *a = args;
    char folder[4096];
    struct weft_nn *model = NULL;
    TRY(weft_eval_check(a->against));
    enum weft_status status = open_model(a, folder, sizeof folder, &model);
    if (status == WEFT_OK)
        status = a->data ? evaluate(a, model, folder) : evaluate_task(a, model, folder);
    weft_nn_free(model);
    return status;
}

const struct weft_cmd weft_cmd_eval = {
    .name = "eval",
    .summary = "score a trained model on its task, text or items",
    .doc = "Scores MODEL, which is the folder of a checkpoint or of a run; for a run, the newest valid checkpoint is "
           "used. A preset or a config file is scored with its initial, untrained weights.",
    .notes = "Without --data the model is scored on its own task, as at the end of training: on the samples held out "
             "for validation and testing. Text is scored in consecutive windows as long as the context: every "
             "token except the very first is scored once, given the preceding tokens of its window. JSONL is "
             "recognised by its first bytes: {query, choices, gold}, or BLiMP's {sentence_good, sentence_bad}. A "
             "choice follows its query and a space; accuracy selects the choice with the highest likelihood, "
             "accuracy_norm the choice with the highest likelihood per byte. Intervals are 95 % Wilson intervals. "
             "--items writes the cost of every item: documents of token files, or windows if there are no documents; "
             "lines of JSONL; samples of the run's own task, which a run's folder also has as items.safetensors. "
             "--against prints the difference from such a file as diff_NAME, with its 95 % interval over items.",
    .args = table,
    .check = check,
    .takes = WEFT_TAKES_WEIGHTS | WEFT_TAKES_SET | WEFT_TAKES_THREADS | WEFT_TAKES_JSON,
    .args_bytes = sizeof(struct args),
    .run = run,
};
