/* SPDX-License-Identifier: MIT
 *
 * weft.h - the public interface of libweft, for programs that compose, check, train and run models with it.
 *
 * Rules that hold everywhere:
 *  - A function that can fail returns a status. weft_error() is the message of the calling thread's last error. Nothing
 *    here prints or exits.
 *  - Objects are made by a function ..._create, _open or _load, which on failure sets its pointer to NULL, and freed by
 *    ..._free, which accepts NULL. Free what was made from a model before the model.
 *  - Different objects may be used by different threads at the same time; one object by one thread at a time. The
 *    sessions and forward passes of one model only read its weights: they may run side by side.
 *  - Results never depend on the number of threads, on the instruction set, or on other sequences in a batch.
 *  - Texts are UTF-8 and end with 0 unless a length is given. Functions only read what they are given, and keep no
 *    pointer to it.
 */
#ifndef WEFT_H
#define WEFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEFT_API __attribute__((visibility("default")))

/* ## Errors, version, threads */

enum weft_status {
    WEFT_OK = 0,
    WEFT_INVALID,     /* invalid argument: a bad option, shape or combination */
    WEFT_NOMEM,       /* not enough memory, or a size does not fit in 64 bits */
    WEFT_IO,          /* a file could not be read or written */
    WEFT_FORMAT,      /* the contents of a file or request are invalid */
    WEFT_UNSUPPORTED, /* valid, but not supported on this machine or in this build */
    WEFT_CHECK,       /* a check or gate ran and found a defect */
    WEFT_STOPPED,     /* stopped before it was finished, by a signal or a time limit; what was done is saved */
};

/* "major.minor.patch" of this header and its release date; the Makefile reads both. weft_version() is the library's. */
#define WEFT_VERSION "0.1.0"
#define WEFT_RELEASE_DATE "2026-11-15"
WEFT_API const char *weft_version(void);

/* How the library computes here, in one line: the instruction set in use, the product loops, the compiler. */
WEFT_API const char *weft_build_info(void);

/* The message of the calling thread's last error: what is wrong, where, and what to do. Never NULL. Control characters
 * of files and arguments that it quotes are shown as \xNN. */
WEFT_API const char *weft_error(void);

/* The source lines that the error passed through, "at a.c:12, b.c:34", for bug reports. Never NULL. */
WEFT_API const char *weft_error_trace(void);

/* The default number of threads of this process, for what is created later; 0 means one per core that it may use, or
 * fewer if OMP_NUM_THREADS or SLURM_CPUS_PER_TASK says so. Results never depend on it. */
WEFT_API enum weft_status weft_threads_set(int threads);

/* Notices that are not part of a result, one line each, such as a damaged checkpoint that was skipped. Without a
 * receiver they are dropped. It is called by whatever thread has the notice, one at a time; NULL: no receiver. */
typedef void weft_log_fn(void *context, const char *text);
WEFT_API void weft_log_set(weft_log_fn *fn, void *context);

/* ## Configs: which model, and how it is trained */

/* A model's name and settings, as on the command line of `weft train`. */
struct weft_config;

/* `model` is a preset ("gpt2"), a config file, or the folder of a run, a checkpoint or a model. */
WEFT_API enum weft_status weft_config_create(struct weft_config **config, const char *model);
WEFT_API void weft_config_free(struct weft_config *config);

/* Adds a setting, "geom=w2". The last one of a name counts. Names and values are checked when the config is used. */
WEFT_API enum weft_status weft_config_set(struct weft_config *config, const char *setting);

/* The value that an option ends up with, as one would write it in a setting. It is an error if `size` bytes are too
 * few, or if the model has no such option. */
WEFT_API enum weft_status weft_config_value(const struct weft_config *config, const char *name, char *value,
                                            size_t size);

/* ## Models */

/* A model with its weights, and the task and optimiser that its config names. */
struct weft_model;

/* The model of a config, without weights yet: weft_model_init or weft_model_load comes next. What is made from it
 * computes with `threads` threads (0: the default). What is impossible is refused here, with the reason. */
WEFT_API enum weft_status weft_model_create(struct weft_model **model, const struct weft_config *config, int threads);

/* The model in a folder, with its weights: a run (its newest good checkpoint), a checkpoint, or a folder with
 * config.json and model.safetensors. Hashes that a checkpoint has are verified. Weights can stay in the file, as a
 * private mapping: replace such a file if need be, but do not change it in place while the model exists. */
WEFT_API enum weft_status weft_model_open(struct weft_model **model, const char *folder, int threads);

/* The same at another context than it was trained with, to read or write longer texts. Weights whose size follows the
 * context are extended: learned positions begin anew, and distances beyond the last share its number. */
WEFT_API enum weft_status weft_model_open_at(struct weft_model **model, const char *folder, int64_t context,
                                             int threads);
WEFT_API void weft_model_free(struct weft_model *model);

/* Draws initial weights: a function of the seed and the weights' names. */
WEFT_API enum weft_status weft_model_init(struct weft_model *model);

/* Loads weights from a folder as above or a safetensors file. Names and shapes must be the model's. */
WEFT_API enum weft_status weft_model_load(struct weft_model *model, const char *path);

/* Writes config.json and model.safetensors into a folder, which is made if it is not there. */
WEFT_API enum weft_status weft_model_save(const struct weft_model *model, const char *folder);

/* Sizes, and what the model takes in memory and FLOPs: predictions, which a gate compares with what happens. */
struct weft_model_info {
    int64_t layers, width, heads, ffn_width, vocab;
    int64_t context;         /* longest sequence, in tokens */
    int64_t batch;           /* sequences in a micro-batch */
    int64_t micro_batches;   /* in a step */
    int64_t params;          /* numbers in all weights */
    int64_t training_bytes;  /* weights, gradients, moments and activations */
    int64_t cache_bytes;     /* of the key-value cache, per token in all layers */
    double flops_train;      /* per trained token */
    double flops_decode;     /* per decoded token, at full context */
    double cache_ratio;      /* of the cache of multi-head attention of this width */
    char weights_sha256[65]; /* "": the model has no weights yet */
};
WEFT_API enum weft_status weft_model_describe(const struct weft_model *model, struct weft_model_info *info);

/* A named weight. Its values may be changed where no session, forward pass or trainer is at work; sessions and forward
 * passes keep those that they were created with. */
struct weft_tensor_view {
    const char *name; /* "blocks.0.attn.wq" */
    int dims;
    int64_t dim[4];
    int64_t count; /* of values */
    float *values; /* row-major; NULL: the model has no weights yet */
};

/* The i-th weight, from 0; WEFT_INVALID past the last, of weft_model_weights(). */
WEFT_API enum weft_status weft_model_weight(struct weft_model *model, int i, struct weft_tensor_view *view);
WEFT_API int weft_model_weights(const struct weft_model *model);

/* ## Checks */

/* One check of a gate: what was measured, against which limit, and where it failed. */
struct weft_check {
    const char *gate;
    char name[160];
    bool passed;
    double figure, limit;
    char where[160]; /* of a failure, such as tensor, position, number of threads */
};
typedef void weft_check_fn(void *context, const struct weft_check *check);

/* Runs a gate ("causal"; NULL: all) as `weft verify` does: on a small copy of the model, and on the model itself as it
 * is trained, whose task's data must exist. Every check is reported to `fn`, which may be NULL. WEFT_CHECK: a check
 * failed. */
WEFT_API enum weft_status weft_model_verify(const struct weft_model *model, const char *gate, weft_check_fn *fn,
                                            void *context);

/* ## Forward passes without a cache, for one's own code */

/* The whole model, from tokens to logits, or some of its blocks, on activations. Uses the weights that the model has
 * when it is created. */
struct weft_forward;

/* The model itself, for at most `sequences` sequences of at most `length` tokens. */
WEFT_API enum weft_status weft_forward_create(struct weft_forward **forward, const struct weft_model *model,
                                              int64_t sequences, int64_t length);

/* `blocks` of its blocks, from number `first` on. Mechanisms that hand something from a block to the next do so within
 * these; a `first` above 0 is refused for such models. */
WEFT_API enum weft_status weft_forward_create_blocks(struct weft_forward **forward, const struct weft_model *model,
                                                     int64_t sequences, int64_t length, int64_t first, int64_t blocks);
WEFT_API void weft_forward_free(struct weft_forward *forward);

/* tokens [sequences, length] -> logits [sequences, length, vocab] */
WEFT_API enum weft_status weft_forward_tokens(struct weft_forward *forward, int64_t sequences, int64_t length,
                                              const int32_t *tokens, float *logits);

/* x [sequences, length, width] -> y [sequences, length, width]: the residual stream before and after the blocks */
WEFT_API enum weft_status weft_forward_activations(struct weft_forward *forward, int64_t sequences, int64_t length,
                                                   const float *x, float *y);

/* ## Tokenizers */

struct weft_tokenizer;

/* Reads tokenizer.json or GPT-2's vocab.bpe (with encoder.json beside it). `path` is the file or its folder. */
WEFT_API enum weft_status weft_tokenizer_load(struct weft_tokenizer **tokenizer, const char *path);

/* One token per byte (0 to 255), and 256 for end of text. */
WEFT_API enum weft_status weft_tokenizer_bytes(struct weft_tokenizer **tokenizer);
WEFT_API enum weft_status weft_tokenizer_save(const struct weft_tokenizer *tokenizer, const char *path);
WEFT_API void weft_tokenizer_free(struct weft_tokenizer *tokenizer);

/* The number of tokens; the token that a text begins with, as Llama's <s>, and the end-of-text token, or -1. */
WEFT_API int weft_tokenizer_vocab(const struct weft_tokenizer *tokenizer);
WEFT_API int32_t weft_tokenizer_begin(const struct weft_tokenizer *tokenizer);
WEFT_API int32_t weft_tokenizer_end(const struct weft_tokenizer *tokenizer);

/* Writes at most `room` tokens; `count` is the full number: at most `bytes`, unless the tokenizer normalizes texts.
 * Special tokens in the text are recognised only if `specials` is true. The token of weft_tokenizer_begin is not added.
 */
WEFT_API enum weft_status weft_tokenizer_encode(const struct weft_tokenizer *tokenizer, const char *text, size_t bytes,
                                                bool specials, int32_t *tokens, size_t room, size_t *count);

/* Writes at most `room` bytes, without a 0 at the end; `bytes` is the full number. */
WEFT_API enum weft_status weft_tokenizer_decode(const struct weft_tokenizer *tokenizer, const int32_t *tokens,
                                                size_t count, char *text, size_t room, size_t *bytes);

/* ## Training step by step */

/* Gradients, moments and steps of a model, whose weights it changes. One trainer per model at a time. */
struct weft_trainer;

/* `length` above 0: the caller gives the samples, of so many tokens each. 0: they are those of the config's task. The
 * model needs weights. */
WEFT_API enum weft_status weft_trainer_create(struct weft_trainer **trainer, struct weft_model *model, int64_t length);
WEFT_API void weft_trainer_free(struct weft_trainer *trainer);

/* The terms of a step's loss, each weighted as it counts in the first, which is their sum: "total", "main"
 * (cross-entropy), then those of the model's parts. */
struct weft_loss_terms {
    int count;
    struct {
        char name[32];
        double value;
    } term[12];
};

/* The gradient of the next step, of `samples` = batch x micro_batches samples of `length` tokens and targets (a target
 * of -1 is not scored). Both are NULL where the samples are the task's. Every value is checked. */
WEFT_API enum weft_status weft_trainer_gradient(struct weft_trainer *trainer, int64_t samples, const int32_t *tokens,
                                                const int32_t *targets, struct weft_loss_terms *losses);

/* The gradient of the i-th weight (weft_model_weight), as weft_trainer_gradient left it. It may be changed before the
 * update. */
WEFT_API enum weft_status weft_trainer_weight(struct weft_trainer *trainer, int i, struct weft_tensor_view *view);

/* Moves the weights by that gradient: the config's optimiser, schedule and clip. What is not finite is refused, and the
 * weights stay as they were. */
WEFT_API enum weft_status weft_trainer_update(struct weft_trainer *trainer);

/* The gradient, then the update. `losses` may be NULL. */
WEFT_API enum weft_status weft_trainer_step(struct weft_trainer *trainer, int64_t samples, const int32_t *tokens,
                                            const int32_t *targets, struct weft_loss_terms *losses);

/* Steps done. */
WEFT_API int64_t weft_trainer_steps(const struct weft_trainer *trainer);

/* Writes a checkpoint, folder/step-N, with which training can continue: weights, moments, steps done. Those before the
 * newest `keep` (a setting) are removed. Loading takes the newest good one, or a checkpoint itself. */
WEFT_API enum weft_status weft_trainer_save(const struct weft_trainer *trainer, const char *folder);
WEFT_API enum weft_status weft_trainer_load(struct weft_trainer *trainer, const char *folder);

/* ## Runs: what `weft train` does */

/* Stops what it is given to, from any thread or a signal handler. */
struct weft_cancel;
WEFT_API enum weft_status weft_cancel_create(struct weft_cancel **cancel);
WEFT_API void weft_cancel_free(struct weft_cancel *cancel);
WEFT_API void weft_cancel_set(struct weft_cancel *cancel);

struct weft_train_progress {
    int64_t step, steps; /* done, to do */
    int64_t tokens;      /* read so far */
    double loss;         /* of the last step */
    double tokens_per_s, seconds_left;
};
typedef void weft_train_progress_fn(void *context, const struct weft_train_progress *now);

/* Zero what is not wanted. */
struct weft_train_options {
    const char *folder;         /* for config, log and checkpoints; NULL: nothing is written */
    bool resume;                /* continue the run in the folder; begin one if there is none */
    bool unsafe;                /* train even if a gate fails; the record says so */
    int threads;                /* 0: the default */
    double seconds;             /* save and stop before so many seconds have passed; 0: no limit */
    struct weft_cancel *cancel; /* save and stop when it is set */
    void *context;              /* of the callbacks, which are called by the calling thread */
    weft_check_fn *on_failed_check;
    weft_train_progress_fn *on_progress; /* after every step */
};

struct weft_train_result {
    bool finished; /* all steps are done and scored */
    int64_t steps; /* done */
    double loss, seconds;
    double val_loss, val_accuracy, test_loss, test_accuracy; /* where finished */
    int gates_checks, gates_failed;
    char weights_sha256[65], chain[65];
};

/* Checks the gates, then trains and scores. WEFT_STOPPED: it was cancelled or out of time, and is saved where there is
 * a folder. `options` and `result` may be NULL. */
WEFT_API enum weft_status weft_train(const struct weft_config *config, const struct weft_train_options *options,
                                     struct weft_train_result *result);

/* ## Studies: what `weft ablate` and `weft report` do */

/* Sets the program whose processes train the runs of a study, the path of `weft`. It holds for the whole process;
 * weft_ablate is an error until it is set. */
WEFT_API enum weft_status weft_program_set(const char *path);

/* Zero what is not wanted. */
struct weft_ablate_options {
    const char *const *settings; /* that override the config's, up to a NULL */
    bool unsafe;                 /* train even if a gate, a simulated study or the comparison of first samples fails */
    struct weft_cancel *cancel;
    void *context;
    void (*on_progress)(void *context, int64_t runs_done, int64_t runs); /* several times a second */
};

/* Runs the study of a config in Kconfig's format into a folder, and writes its report there. Runs that are done are not
 * done again. The rungs of a ladder are studies in FOLDER/rung-1 and so on, beside the page FOLDER/ladder.html. */
WEFT_API enum weft_status weft_ablate(const char *config, const char *folder,
                                      const struct weft_ablate_options *options);

/* An arm of a study, and how it compares with the first arm, the baseline. */
struct weft_arm_result {
    const char *name, *settings;
    int64_t params;
    int seeds;                    /* finished, at the learning rate that validation chose */
    double lr, loss, loss_sd;     /* test loss: mean and standard deviation over seeds */
    double difference, low, high; /* of the mean loss from the baseline's, paired by seed, with its interval */
    const char *verdict;          /* "better", "worse", "not resolved" ... see docs/report.md */
    const char *text;             /* the same in a sentence */
};
typedef void weft_arm_fn(void *context, const struct weft_arm_result *arm);

/* Reads the results from a study's folder, arm by arm. */
WEFT_API enum weft_status weft_study_results(const char *folder, weft_arm_fn *fn, void *context);

/* ## Sessions: decoding with a cache */

struct weft_session;

struct weft_session_size {
    int64_t sequences; /* at most so many at a time */
    int64_t length;    /* tokens of the longest; 0: the model's context */
    int64_t chunk;     /* new tokens in one call, over all sequences; 0: 256, or as many as there are sequences */
    int64_t pages;     /* of 64 tokens, for all sequences together; 0: enough for all of them at full length */
    bool every;        /* logits of every token that is fed, not only of the last of each sequence */
};

/* Uses the weights that the model has now. All memory is allocated here. */
WEFT_API enum weft_status weft_session_create(struct weft_session **session, const struct weft_model *model,
                                              const struct weft_session_size *size);
WEFT_API void weft_session_free(struct weft_session *session);

/* n tokens to append to a sequence. */
struct weft_feed {
    int64_t sequence;
    const int32_t *tokens;
    int64_t n;
};

/* Appends each feed to its sequence; a sequence can occur once in a call. *logits [feeds, vocab] are those of each
 * feed's last token (`every`: [tokens, vocab], in the order of the feeds), valid until the next call. They have the
 * same bits however the tokens are divided into calls and whatever other sequences are fed; but absorbed decoding of
 * latent key-values, for feeds of one token, rounds otherwise than longer feeds do. A call that fails changes
 * nothing. */
WEFT_API enum weft_status weft_session_feed(struct weft_session *session, const struct weft_feed *feeds, int count,
                                            const float **logits);

/* Makes the empty sequence `to` continue from where `from` is. Their common tokens share memory. */
WEFT_API enum weft_status weft_session_fork(struct weft_session *session, int64_t from, int64_t to);

/* Empties a sequence. */
WEFT_API enum weft_status weft_session_reset(struct weft_session *session, int64_t sequence);

/* Tokens in a sequence; -1: there is no such sequence. */
WEFT_API int64_t weft_session_length(const struct weft_session *session, int64_t sequence);

struct weft_session_memory {
    int64_t cache_bytes;       /* of the keys, values and states of all sequences */
    int64_t cache_token_bytes; /* of one token, in all layers */
    int64_t bytes;             /* of the session: cache, packed weights, activations; without the model's own weights */
    int64_t free_pages;        /* of 64 tokens */
};
WEFT_API enum weft_status weft_session_describe(const struct weft_session *session, struct weft_session_memory *memory);

/* ## Samplers: the next token from logits */

/* In this order: the logits of tokens that occurred are divided (if positive; else multiplied) by `repetition`; all are
 * divided by `temperature`; then the most likely remain: `top_k` of them, then the fewest whose probabilities add up to
 * `top_p`, then those of at least `min_p` times the largest probability. One is drawn from what remains. Of equal
 * logits, the smaller token comes first. Zero what is not wanted; temperature 0 takes the most likely token. */
struct weft_sampling {
    double temperature; /* 0 to 100 */
    int64_t top_k;      /* 0: all */
    double top_p;       /* 0 to 1; 0: all */
    double min_p;       /* 0 to 1 */
    double repetition;  /* 0 to 100; 0 and 1: none */
};

struct weft_sampler;
WEFT_API enum weft_status weft_sampler_create(struct weft_sampler **sampler, const struct weft_sampling *sampling,
                                              int64_t vocab);
WEFT_API void weft_sampler_free(struct weft_sampler *sampler);

/* Draws the next token: a function of the logits, `past` (the tokens whose repetition is penalised; may be empty), key
 * and counter alone. *logprob, if not NULL, is the token's log probability under the logits as they were given. */
WEFT_API enum weft_status weft_sampler_draw(struct weft_sampler *sampler, const float *logits, const int32_t *past,
                                            int64_t past_count, uint64_t key, uint64_t counter, int32_t *token,
                                            double *logprob);

#ifdef __cplusplus
}
#endif
#endif
