/* SPDX-License-Identifier: MIT
 *
 * session.c - decodes with a cache, using the decoder of src/infer.
 */
#include "api/api.h"
#include "infer/infer.h"

#include <stdlib.h>

enum { CHUNK = 256 };

struct weft_session {
    const struct weft_model *model;
    int64_t sequences;
    struct weft_decoder *decoder;
};

static struct weft_decoder_size fill_in(const struct weft_model *model, const struct weft_session_size *size)
{
    int64_t chunk = size->chunk ? size->chunk : weft_max(CHUNK, size->sequences);
    return (struct weft_decoder_size){.sequences = size->sequences,
                                      .length = size->length ? size->length : model->resolved.spec.context,
                                      .chunk = chunk,
                                      .pages = size->pages,
                                      .last = !size->every};
}

enum weft_status weft_session_create(struct weft_session **session, const struct weft_model *model,
                                     const struct weft_session_size *size)
{
    GIVEN(session);
    *session = NULL;
    GIVEN(model);
    GIVEN(size);
    TRY(weft_model_has_weights(model));
    struct weft_session *s = calloc(1, sizeof *s);
    if (!s)
        return FAIL(WEFT_NOMEM, "not enough memory for a session");
    s->model = model;
    s->sequences = size->sequences;
    struct weft_threads_scope scope;
    weft_threads_enter(&scope, model->threads);
    enum weft_status status = weft_decoder_create(&s->decoder, model->nn, fill_in(model, size));
    weft_threads_leave(&scope);
    if (status == WEFT_OK)
        *session = s;
    else
        weft_session_free(s);
    return status;
}

void weft_session_free(struct weft_session *s)
{
    if (!s)
        return;
    weft_decoder_free(s->decoder);
    free(s);
}

enum weft_status weft_session_feed(struct weft_session *session, const struct weft_feed *feeds, int count,
                                   const float **logits)
{
    const float *result;
    GIVEN(session);
    GIVEN(feeds);
    if (count < 1 || count > session->sequences)
        return FAIL(WEFT_INVALID, "%d feeds: pass 1 to %lld, at most one for each sequence", count,
                    (long long)session->sequences);
    for (int i = 0; i < count; i++)
        GIVEN(feeds[i].tokens);
    TRY(weft_decoder_run(session->decoder, feeds, count, &result));
    if (logits)
        *logits = result;
    return WEFT_OK;
}

enum weft_status weft_session_fork(struct weft_session *session, int64_t from, int64_t to)
{
    GIVEN(session);
    TRY(weft_decoder_fork(session->decoder, from, to));
    return WEFT_OK;
}

enum weft_status weft_session_reset(struct weft_session *session, int64_t sequence)
{
    GIVEN(session);
    TRY(weft_decoder_reset(session->decoder, sequence));
    return WEFT_OK;
}

int64_t weft_session_length(const struct weft_session *session, int64_t sequence)
{
    bool known = session && sequence >= 0 && sequence < session->sequences;
    return known ? weft_decoder_length(session->decoder, sequence) : -1;
}

enum weft_status weft_session_describe(const struct weft_session *session, struct weft_session_memory *memory)
{
    GIVEN(session);
    GIVEN(memory);
    struct weft_cache_bytes cache = weft_decoder_cache_bytes(session->decoder);
    *memory = (struct weft_session_memory){
        .cache_bytes = (int64_t)(cache.store + cache.rings + cache.states),
        .cache_token_bytes = (int64_t)cache.token * session->model->resolved.spec.layers,
        .bytes = (int64_t)weft_decoder_bytes(session->decoder),
        .free_pages = weft_decoder_free_pages(session->decoder),
    };
    return WEFT_OK;
}
