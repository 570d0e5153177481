/* SPDX-License-Identifier: MIT
 *
 * vary.c - a spec read back as settings, and so the same model with one thing changed.
 */
#include "nn/nn.h"

static void add_owner(struct weft_settings *s, const struct weft_owner *owner, const void *target)
{
    s->owner[s->owner_count++] = (struct weft_taken){owner, target};
}

void weft_spec_each(const struct weft_spec *spec, void *context,
                    void (*visit)(void *context, const struct weft_opt *opt, const char *value))
{
    struct weft_settings s = {0};
    add_owner(&s, weft_nn_owner_at(0), spec);
    for (int part = 0; part < WEFT_PART_COUNT; part++)
        add_owner(&s, &spec->part[part]->owner, spec->options[part]);
    for (int i = 0; i < WEFT_RECIP_COUNT; i++)
        if (spec->recip[i])
            add_owner(&s, &spec->recip[i]->owner, spec->recip_options[i]);
    weft_settings_each(&s, context, visit);
}

struct rewriting {
    struct weft_settings settings;
    enum weft_status status;
};

static void rewrite(void *context, const struct weft_opt *opt, const char *value)
{
    struct rewriting *r = context;
    char text[128];
    snprintf(text, sizeof text, "%s=%s", opt->name, value);
    if (r->status == WEFT_OK)
        r->status = weft_settings_add(&r->settings, text);
}

enum weft_status weft_spec_vary(struct weft_spec *other, const struct weft_spec *spec, const char *setting)
{
    struct rewriting r = {.status = WEFT_OK};
    *other = (struct weft_spec){0};
    weft_spec_each(spec, &r, rewrite);
    if (r.status == WEFT_OK)
        r.status = weft_settings_add(&r.settings, setting);
    if (r.status == WEFT_OK)
        r.status = weft_spec_init(other, spec->preset, &r.settings);
    weft_settings_release(&r.settings);
    return r.status;
}
