/* SPDX-License-Identifier: MIT
 *
 * queue_view.c - how far a study is: a table that is rewritten on a terminal, plain lines elsewhere.
 */
#include "study/queue.h"

#include <math.h>
#include <stdio.h>

struct weft_words weft_duration(double seconds)
{
    static const struct {
        double seconds;
        const char *name;
    } units[] = {{86400, "days"}, {3600, "hours"}, {60, "minutes"}};
    struct weft_words w;
    for (int i = 0; i < 3; i++)
        if (seconds >= 2 * units[i].seconds) {
            snprintf(w.text, sizeof w.text, "%.*f %s", seconds < 10 * units[i].seconds, seconds / units[i].seconds,
                     units[i].name);
            return w;
        }
    snprintf(w.text, sizeof w.text, "%.0f seconds", ceil(seconds));
    return w;
}

static double seconds_left(const struct weft_queue_view *v, const struct weft_queue *q)
{
    double done = 0, left = 0, elapsed = weft_seconds() - v->start;
    for (int64_t i = 0; i < q->count; i++) {
        const struct weft_job *job = &q->job[i];
        const struct weft_arm *arm = &q->study->arm[job->run.arm];
        double share = job->state == WEFT_RUNNING ? (double)job->step / (double)arm->recipe.steps
                                                  : job->state == WEFT_DONE || job->state == WEFT_FAILED;
        done += job->done_before ? 0 : share * arm->seconds;
        left += (1 - share) * arm->seconds;
    }
    return done > 0.05 * (done + left) ? elapsed * left / done : left / q->slots;
}

static void draw_arm(const struct weft_queue *q, int arm, FILE *to)
{
    int done = 0, all = 0, running = 0, failed = 0;
    double test = 0, loss = 0;
    int64_t step = 0;
    for (int64_t i = 0; i < q->count; i++) {
        const struct weft_job *job = &q->job[i];
        if (job->run.arm != arm)
            continue;
        all++;
        failed += job->state == WEFT_FAILED;
        if (job->state == WEFT_DONE) {
            done++;
            test += job->finished.test_loss;
        } else if (job->state == WEFT_RUNNING) {
            running++;
            step = job->step;
            loss = job->loss;
        }
    }
    fprintf(to, "%-16.16s %4d/%d done", q->study->arm[arm].name, done, all);
    if (failed)
        fprintf(to, ", %d failed", failed);
    if (done)
        fprintf(to, "  test loss %.4g", test / done);
    if (running)
        fprintf(to, "  %d running", running);
    if (running && step)
        fprintf(to, ": step %lld/%lld, loss %.4g", (long long)step, (long long)q->study->arm[arm].recipe.steps, loss);
    fputs("\033[K\n", to);
}

static void draw(struct weft_queue_view *v, const struct weft_queue *q)
{
    FILE *to = v->to;
    if (v->drawn)
        fprintf(to, "\033[%dA", q->study->arm_count + 1);
    v->drawn = true;
    v->said = weft_seconds();
    for (int i = 0; i < q->study->arm_count; i++)
        draw_arm(q, i, to);
    fprintf(to, "%lld of %lld runs done, about %s left\033[K\n", (long long)weft_queue_count(q, WEFT_DONE),
            (long long)q->count, weft_duration(seconds_left(v, q)).text);
}

static void say(const struct weft_queue_view *v, const struct weft_queue *q, const struct weft_job *job)
{
    FILE *to = v->to;
    static const char *const states[] = {"stopped", "started", "done", "FAILED"};
    fprintf(to, "%s lr %g seed %lld: %s", q->study->arm[job->run.arm].name, job->run.lr, (long long)job->run.seed,
            states[job->state]);
    if (job->state == WEFT_DONE)
        fprintf(to, ", test loss %.4g; %lld of %lld, about %s left", job->finished.test_loss,
                (long long)weft_queue_count(q, WEFT_DONE), (long long)q->count, weft_duration(seconds_left(v, q)).text);
    fprintf(to, "%s%s\n", job->state == WEFT_FAILED ? ": " : "", job->state == WEFT_FAILED ? job->message : "");
}

void weft_queue_view(void *context, const struct weft_queue *q, const struct weft_job *job)
{
    struct weft_queue_view *v = context;
    if (!v->terminal) {
        if (job)
            say(v, q, job);
        return;
    }
    if (job && job->state == WEFT_FAILED) {
        say(v, q, job);
        v->drawn = false; /* below what was said */
    }
    if (!job && weft_seconds() - v->said > 0.2)
        draw(v, q);
}
