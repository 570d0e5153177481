/* SPDX-License-Identifier: MIT
 *
 * weft.h - the public interface of libweft, for programs that compose, check, train and run models.
 *
 * General rules:
 *  - Functions that can fail return a status. weft_error() returns the message of the calling thread's last error. No
 *    function prints or exits.
 *  - Objects are created by functions named ..._create, _open or _load, which set the pointer to NULL on failure, and
 *    freed by ..._free, which accepts NULL. Free the objects created from a model before the model itself.
 *  - Different threads may use different objects concurrently, but two threads must not use the same object at the same
 *    time. Sessions and forward passes only read the weights of their model, so several of them may run concurrently on
 *    one model.
 *  - Results never depend on the number of threads, the instruction set or the other sequences in a batch.
 *  - Strings are UTF-8 and NUL-terminated unless a length is given. Functions do not modify their inputs and keep no
 *    pointers to them.
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
    WEFT_NOMEM,       /* out of memory, or a size does not fit in 64 bits */
    WEFT_IO,          /* a file could not be read or written */
    WEFT_FORMAT,      /* invalid contents of a file or request */
    WEFT_UNSUPPORTED, /* valid, but not supported on this machine or in this build */
    WEFT_CHECK,       /* a check or gate ran and found a defect */
    WEFT_STOPPED,     /* stopped early by a signal or a time limit; progress is saved if the run has a folder */
};

/* Version of this header, "major.minor.patch", and its release date; the Makefile reads both. weft_version() returns
 * the version of the library. */
#define WEFT_VERSION "0.1.0"
#define WEFT_RELEASE_DATE "2026-11-15"
WEFT_API const char *weft_version(void);

/* Returns one line that describes how the library computes on this machine: instruction set, GEMM kernels, compiler. */
WEFT_API const char *weft_build_info(void);

/* Returns the message of the calling thread's last error: what is wrong, where, and what to do. Never NULL. Control
 * characters in quoted files and arguments are shown as \xNN. */
WEFT_API const char *weft_error(void);

/* Returns the source lines that the error passed through, such as "at a.c:12, b.c:34", for bug reports. Never NULL. */
WEFT_API const char *weft_error_trace(void);

/* Sets the default number of threads of this process, for objects created later; 0: one per core that the process may
 * use, or fewer if OMP_NUM_THREADS or SLURM_CPUS_PER_TASK is lower. Results never depend on it. */
WEFT_API enum weft_status weft_threads_set(int threads);

/* Sets the receiver of notices: one-line messages that are not part of a result, for example that a damaged checkpoint
 * was skipped. It is called from the thread that issues the notice, never concurrently. NULL: notices are dropped. */
typedef void weft_log_fn(void *context, const char *text);
WEFT_API void weft_log_set(weft_log_fn *fn, void *context);

/* ## Configs: a model and how it is trained */

/* A model's name and settings, as on the command line of `weft train`. */
struct weft_config;

/* `model` is a preset ("gpt2"), a config file, or the folder of a run, a checkpoint or a model. */
WEFT_API enum weft_status weft_config_create(struct weft_config **config, const char *model);
WEFT_API void weft_config_free(struct weft_config *config);

/* Adds a setting such as "geom=w2", which overrides earlier settings of the same name. Names and values are checked
 * when the config is used. */
WEFT_API enum weft_status weft_config_set(struct weft_config *config, const char *setting);

/* Writes the resolved value of an option in the form used in a setting. Fails if the value needs more than `size` bytes
 * or if the model has no such option. */
WEFT_API enum weft_status weft_config_value(const struct weft_config *config, const char *name, char *value,
                                            size_t size);

/* ## Models */

/* A model, its weights, and the task and optimiser named in its config. */
struct weft_model;

/* Creates the model of a config, without weights: call weft_model_init or weft_model_load next. Objects created from
 * the model compute with `threads` threads (0: the default). An impossible combination of settings is an error, and the
 * message gives the reason. */
WEFT_API enum weft_status weft_model_create(struct weft_model **model, const struct weft_config *config, int threads);

/* Opens the model in a folder, with its weights: a run (its newest valid checkpoint), a checkpoint, or a folder with
 * config.json and model.safetensors. The hashes in a checkpoint are verified. The weights may be a private mapping of
 * the file, so the file may be replaced while the model exists, but must not be modified in place. */
WEFT_API enum weft_status weft_model_open(struct weft_model **model, const char *folder, int threads);

/* Like weft_model_open, but with a different context length, for example for longer texts. Weights whose shape depends
 * on the context are extended or truncated: learned positions repeat, and distances longer than any learned one use the
 * bias of the longest. */
WEFT_API enum weft_status weft_model_open_at(struct weft_model **model, const char *folder, int64_t context,
                                             int threads);
WEFT_API void weft_model_free(struct weft_model *model);

/* Initialises every weight randomly, as a function of the seed and the weight's name. */
WEFT_API enum weft_status weft_model_init(struct weft_model *model);

/* Loads weights from a folder, as weft_model_open does, or from a safetensors file. Names and shapes must match the
 * model. */
WEFT_API enum weft_status weft_model_load(struct weft_model *model, const char *path);

/* Writes config.json and model.safetensors to a folder, which is created if necessary. */
WEFT_API enum weft_status weft_model_save(const struct weft_model *model, const char *folder);

/* Sizes of a model and its predicted memory and FLOPs. The `accounted` gate compares the predictions with
 * measurements. */
struct weft_model_info {
    int64_t layers, width, heads, ffn_width, vocab;
    int64_t context;         /* maximum sequence length, in tokens */
    int64_t batch;           /* number of sequences per micro-batch */
    int64_t micro_batches;   /* number of micro-batches per step */
    int64_t params;          /* number of parameters */
    int64_t training_bytes;  /* bytes of weights, gradients, moments and activations */
    int64_t cache_bytes;     /* bytes of the key-value cache per token, over all layers */
    double flops_train;      /* FLOPs per trained token */
    double flops_decode;     /* FLOPs per decoded token, at full context */
    double cache_ratio;      /* cache_bytes relative to multi-head attention of the same width */
    char weights_sha256[65]; /* SHA-256 of the weights; "": the model has no weights yet */
};
WEFT_API enum weft_status weft_model_describe(const struct weft_model *model, struct weft_model_info *info);

/* A named weight. Its values may be changed while no session, forward pass or trainer of the model is running. Existing
 * sessions and forward passes keep the values they were created with. */
struct weft_tensor_view {
    const char *name; /* "blocks.0.attn.wq" */
    int dims;
    int64_t dim[4];
    int64_t count; /* number of values */
    float *values; /* row-major; NULL: the model has no weights yet */
};

/* Describes the i-th weight, 0 <= i < weft_model_weights(model). weft_model_weights returns the number of weights. */
WEFT_API enum weft_status weft_model_weight(struct weft_model *model, int i, struct weft_tensor_view *view);
WEFT_API int weft_model_weights(const struct weft_model *model);

/* ## Checks */

/* One check of a gate: the measured figure, its limit and the place of a failure. */
struct weft_check {
    const char *gate;
    char name[160];
    bool passed;
    double figure, limit;
    char where[160]; /* place of a failure, such as tensor, position or number of threads */
};
typedef void weft_check_fn(void *context, const struct weft_check *check);

/* Runs a gate ("causal"; NULL: all) as `weft verify` does, on a small copy of the model and on the full model. The data
 * of the model's task must exist. `fn`, which may be NULL, is called for every check. Returns WEFT_CHECK if a check
 * failed. */
WEFT_API enum weft_status weft_model_verify(const struct weft_model *model, const char *gate, weft_check_fn *fn,
                                            void *context);

/* ## Forward passes without a cache */

/* A forward pass of the whole model, from tokens to logits, or of some of its blocks, on activations. It uses the
 * weights that the model has when the forward pass is created. */
struct weft_forward;

/* Creates a forward pass of the whole model, for at most `sequences` sequences of at most `length` tokens. */
WEFT_API enum weft_status weft_forward_create(struct weft_forward **forward, const struct weft_model *model,
                                              int64_t sequences, int64_t length);

/* Creates a forward pass of `blocks` consecutive blocks, starting at block `first`. Models with mechanisms, which pass
 * values from block to block, require `first` = 0. */
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

/* Loads tokenizer.json or GPT-2's vocab.bpe (with encoder.json in the same folder). `path` is the file or its folder.
 */
WEFT_API enum weft_status weft_tokenizer_load(struct weft_tokenizer **tokenizer, const char *path);

/* Creates a tokenizer with one token per byte (0 to 255) and 256 for end of text. */
WEFT_API enum weft_status weft_tokenizer_bytes(struct weft_tokenizer **tokenizer);
WEFT_API enum weft_status weft_tokenizer_save(const struct weft_tokenizer *tokenizer, const char *path);
WEFT_API void weft_tokenizer_free(struct weft_tokenizer *tokenizer);

/* Return the vocabulary size, the token that begins a text (such as Llama's <s>; -1: none) and the end-of-text token
 * (-1: none). */
WEFT_API int weft_tokenizer_vocab(const struct weft_tokenizer *tokenizer);
WEFT_API int32_t weft_tokenizer_begin(const struct weft_tokenizer *tokenizer);
WEFT_API int32_t weft_tokenizer_end(const struct weft_tokenizer *tokenizer);

/* Writes up to `room` tokens. `count` is the total number of tokens, at most `bytes` unless the tokenizer normalises
 * text. Special tokens in the text are recognised only if `specials` is true. The token of weft_tokenizer_begin is not
 * added. */
WEFT_API enum weft_status weft_tokenizer_encode(const struct weft_tokenizer *tokenizer, const char *text, size_t bytes,
                                                bool specials, int32_t *tokens, size_t room, size_t *count);

/* Writes up to `room` bytes, not NUL-terminated. `bytes` is the total number of bytes. */
WEFT_API enum weft_status weft_tokenizer_decode(const struct weft_tokenizer *tokenizer, const int32_t *tokens,
                                                size_t count, char *text, size_t room, size_t *bytes);

/* ## Training step by step */

/* The training state of a model: gradients, optimiser moments and step count. A trainer updates the weights of its
 * model. A model can have only one trainer at a time. */
struct weft_trainer;

/* Creates a trainer. `length` > 0: the caller passes samples of `length` tokens. 0: the config's task supplies the
 * samples. The model must have weights. */
WEFT_API enum weft_status weft_trainer_create(struct weft_trainer **trainer, struct weft_model *model, int64_t length);
WEFT_API void weft_trainer_free(struct weft_trainer *trainer);

/* Loss terms of a step: "total", then its summands, each multiplied by its coefficient: "main" (cross-entropy) and the
 * auxiliary losses of the model's parts. */
struct weft_loss_terms {
    int count;
    struct {
        char name[32];
        double value;
    } term[12];
};

/* Computes the gradient of the next step from `samples` = batch x micro_batches samples, each of `length` tokens and
 * `length` targets (a target of -1 is not scored). Tokens and targets must be NULL if the task supplies the samples.
 * All tokens and targets are checked. `losses` may be NULL. */
WEFT_API enum weft_status weft_trainer_gradient(struct weft_trainer *trainer, int64_t samples, const int32_t *tokens,
                                                const int32_t *targets, struct weft_loss_terms *losses);

/* Describes the gradient of the i-th weight (see weft_model_weight) that weft_trainer_gradient computed. The caller may
 * change the gradient before the update. */
WEFT_API enum weft_status weft_trainer_weight(struct weft_trainer *trainer, int i, struct weft_tensor_view *view);

/* Updates the weights with the computed gradient and the config's optimiser, schedule and clipping. A non-finite loss
 * or gradient is an error and leaves the weights unchanged. */
WEFT_API enum weft_status weft_trainer_update(struct weft_trainer *trainer);

/* Computes the gradient and updates the weights. `losses` may be NULL. */
WEFT_API enum weft_status weft_trainer_step(struct weft_trainer *trainer, int64_t samples, const int32_t *tokens,
                                            const int32_t *targets, struct weft_loss_terms *losses);

/* Returns the number of completed steps. */
WEFT_API int64_t weft_trainer_steps(const struct weft_trainer *trainer);

/* weft_trainer_save writes the checkpoint folder/step-N, from which training can resume: weights, moments and step
 * count. Only the newest checkpoints are kept; the setting `keep` is their number. weft_trainer_load loads the newest
 * valid checkpoint of a folder, or the folder of one checkpoint. */
WEFT_API enum weft_status weft_trainer_save(const struct weft_trainer *trainer, const char *folder);
WEFT_API enum weft_status weft_trainer_load(struct weft_trainer *trainer, const char *folder);

/* ## Runs: like `weft train` */

/* A flag that stops every run or study started with it. weft_cancel_set may be called from any thread or signal
 * handler. */
struct weft_cancel;
WEFT_API enum weft_status weft_cancel_create(struct weft_cancel **cancel);
WEFT_API void weft_cancel_free(struct weft_cancel *cancel);
WEFT_API void weft_cancel_set(struct weft_cancel *cancel);

struct weft_train_progress {
    int64_t step, steps; /* completed steps, total steps */
    int64_t tokens;      /* tokens trained on so far */
    double loss;         /* loss of the last step */
    double tokens_per_s, seconds_left;
};
typedef void weft_train_progress_fn(void *context, const struct weft_train_progress *now);

/* Zero means the default for every member. */
struct weft_train_options {
    const char *folder;         /* folder for config, log and checkpoints; NULL: write nothing */
    bool resume;                /* resume the run in the folder; start one if there is none */
    bool unsafe;                /* train even if a gate fails; the failure is recorded */
    int threads;                /* number of threads; 0: the default */
    double seconds;             /* time limit in seconds, before which the run saves and stops; 0: none */
    struct weft_cancel *cancel; /* saves and stops the run when set */
    void *context;              /* passed to the callbacks, which run in the calling thread */
    weft_check_fn *on_failed_check;
    weft_train_progress_fn *on_progress; /* called after every step */
};

struct weft_train_result {
    bool finished; /* all steps are completed and the model is scored */
    int64_t steps; /* number of completed steps */
    double loss, seconds;
    double val_loss, val_accuracy, test_loss, test_accuracy; /* valid only if finished */
    int gates_checks, gates_failed;
    char weights_sha256[65], chain[65]; /* hash of the final weights; last hash of the log's chain */
};

/* Checks the gates, then trains and scores the model. Returns WEFT_STOPPED if the run was cancelled or reached its time
 * limit; its state is saved if `folder` is set. `options` and `result` may be NULL. */
WEFT_API enum weft_status weft_train(const struct weft_config *config, const struct weft_train_options *options,
                                     struct weft_train_result *result);

/* ## Studies: like `weft ablate` and `weft report` */

/* Sets the path of the program `weft`, which weft_ablate starts to train the runs of a study. The path applies to the
 * whole process and must be set before weft_ablate is called. */
WEFT_API enum weft_status weft_program_set(const char *path);

/* Zero means the default for every member. */
struct weft_ablate_options {
    const char *const *settings; /* NULL-terminated list of settings that override the config */
    bool unsafe;                 /* train even if a gate, a simulated study or the comparison of first samples fails */
    struct weft_cancel *cancel;
    void *context;
    void (*on_progress)(void *context, int64_t runs_done, int64_t runs); /* called several times a second */
};

/* Runs the study of a config in Kconfig format and writes the runs and the report to `folder`. Finished runs are not
 * repeated. The rungs of a ladder are studies in FOLDER/rung-1, FOLDER/rung-2 and so on; FOLDER/ladder.html summarises
 * them. `options` may be NULL. */
WEFT_API enum weft_status weft_ablate(const char *config, const char *folder,
                                      const struct weft_ablate_options *options);

/* An arm of a study, compared with the first arm, the baseline. */
struct weft_arm_result {
    const char *name, *settings;
    int64_t params;
    int seeds;                    /* number of finished seeds at `lr` */
    double lr, loss, loss_sd;     /* learning rate chosen by validation; mean and standard deviation of the test loss */
    double difference, low, high; /* test loss minus the baseline's, paired by seed, and its confidence interval */
    const char *verdict;          /* "better", "worse", "not resolved" and so on, see docs/report.md */
    const char *text;             /* the verdict as a sentence */
};
typedef void weft_arm_fn(void *context, const struct weft_arm_result *arm);

/* Reads the results in a study's folder and calls `fn` for each arm. */
WEFT_API enum weft_status weft_study_results(const char *folder, weft_arm_fn *fn, void *context);

/* ## Sessions: decoding with a cache */

struct weft_session;

struct weft_session_size {
    int64_t sequences; /* maximum number of concurrent sequences */
    int64_t length;    /* maximum tokens per sequence; 0: the model's context */
    int64_t chunk;     /* maximum new tokens per call, over all sequences; 0: 256 or `sequences`, whichever is larger */
    int64_t pages;     /* cache pages of 64 tokens, shared by all sequences; 0: enough for all at full length */
    bool every;        /* compute logits for every token fed, not only the last of each feed */
};

/* Creates a session that uses the current weights of the model. All memory is allocated here. */
WEFT_API enum weft_status weft_session_create(struct weft_session **session, const struct weft_model *model,
                                              const struct weft_session_size *size);
WEFT_API void weft_session_free(struct weft_session *session);

/* `n` tokens to append to a sequence. */
struct weft_feed {
    int64_t sequence;
    const int32_t *tokens;
    int64_t n;
};

/* Appends each feed to its sequence; a sequence may occur only once per call. *logits [feeds, vocab] are the logits of
 * each feed's last token (with `every`: [tokens, vocab], in the order of the feeds), valid until the next call. The
 * logits are bit-identical regardless of how the tokens are divided into calls and what the other sequences are, with
 * one exception: with latent attention, feeds of one token use absorbed decoding, which rounds differently. A call that
 * fails changes nothing. `logits` may be NULL. */
WEFT_API enum weft_status weft_session_feed(struct weft_session *session, const struct weft_feed *feeds, int count,
                                            const float **logits);

/* Copies the state of sequence `from` to the empty sequence `to`. Their common tokens share memory. */
WEFT_API enum weft_status weft_session_fork(struct weft_session *session, int64_t from, int64_t to);

/* Empties a sequence. */
WEFT_API enum weft_status weft_session_reset(struct weft_session *session, int64_t sequence);

/* Returns the number of tokens in a sequence; -1: there is no such sequence. */
WEFT_API int64_t weft_session_length(const struct weft_session *session, int64_t sequence);

struct weft_session_memory {
    int64_t cache_bytes;       /* bytes of the keys, values and states of all sequences */
    int64_t cache_token_bytes; /* bytes per token, over all layers */
    int64_t bytes;             /* bytes of cache, packed weights and activations, without the model's weights */
    int64_t free_pages;        /* unused cache pages of 64 tokens */
};
WEFT_API enum weft_status weft_session_describe(const struct weft_session *session, struct weft_session_memory *memory);

/* ## Samplers: the next token from logits */

/* Settings of a sampler, applied in this order. Logits of past tokens are divided (if positive, otherwise multiplied)
 * by `repetition`, and all logits are divided by `temperature`. The `top_k` most likely tokens are kept, from these the
 * smallest set whose probabilities sum to at least `top_p`, and from these the tokens with at least `min_p`
 * times the largest probability. One of the remaining tokens is drawn. Ties go to the lower token id. Zero disables a
 * setting; temperature 0 selects the most likely token. */
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

/* Draws the next token as a function of the logits, `past` (the tokens whose repetition is penalised; may be empty),
 * key and counter only. *logprob, if not NULL, is the log probability of the token under the original logits. */
WEFT_API enum weft_status weft_sampler_draw(struct weft_sampler *sampler, const float *logits, const int32_t *past,
                                            int64_t past_count, uint64_t key, uint64_t counter, int32_t *token,
                                            double *logprob);

#ifdef __cplusplus
}
#endif
#endif
