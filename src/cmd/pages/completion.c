/* SPDX-License-Identifier: MIT
 *
 * completion.c - prints the possible completions of a command line's last argument, for shells (src/cmd/shell/).
 */
#include "cmd/cmd.h"
#include "study/study.h"

#include <string.h>

struct completing {
    const char *head; /* prefix that is repeated before the word: "--set=" of --set=attn */
    const char *word; /* the part typed so far */
    FILE *to;
};

static bool begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

/* Offers first + second if that continues the word. */
static void offer(const struct completing *c, const char *first, const char *second, const char *help)
{
    char text[512];
    snprintf(text, sizeof text, "%s%s", first, second);
    if (begins(text, c->word))
        fprintf(c->to, "%s%s%s%s\n", c->head, text, help ? "\t" : "", help ? help : "");
}

/* ---- settings */

/* Returns settable option i; NULL past the last. */
static const struct weft_opt *option_at(bool of_study, int i)
{
    const struct weft_owner *owner;
    for (int o = 0; of_study && o < weft_study_owner.count; o++)
        if (i-- == 0)
            return &weft_study_owner.options[o];
    for (int room = 0; room < 2; room++)
        for (int o = 0; (owner = room ? weft_train_owner_at(o) : weft_nn_owner_at(o)); o++) {
            if (i < owner->count)
                return &owner->options[i];
            i -= owner->count;
        }
    return NULL;
}

/* Returns whether option i is the first of its name: several owners may have options of the same name. */
static bool is_first(bool of_study, int i)
{
    const char *name = option_at(of_study, i)->name;
    for (int k = 0; k < i; k++)
        if (strcmp(option_at(of_study, k)->name, name) == 0)
            return false;
    return true;
}

static void offer_values(const struct completing *c, const struct weft_opt *opt)
{
    char name[128];
    snprintf(name, sizeof name, "%s=", opt->name);
    for (int i = 0; opt->type == WEFT_OPT_CHOICE && weft_opt_choice(opt, i); i++)
        offer(c, name, weft_opt_choice(opt, i), NULL);
    for (int i = 0; opt->type == WEFT_OPT_BOOL && i < 2; i++)
        offer(c, name, i ? "yes" : "no", NULL);
    if (opt->type == WEFT_OPT_TEXT)
        fputs(":files\n", c->to);
}

static void offer_settings(const struct completing *c, bool of_study)
{
    const struct weft_opt *opt;
    size_t n = strcspn(c->word, "=");
    for (int i = 0; (opt = option_at(of_study, i)); i++)
        if (is_first(of_study, i) && !c->word[n])
            offer(c, opt->name, "=", opt->help);
        else if (is_first(of_study, i) && strlen(opt->name) == n && begins(c->word, opt->name))
            offer_values(c, opt);
}

/* ---- a command's words */

static void offer_value(const struct completing *c, const struct weft_arg *arg)
{
    const char *choice;
    for (int i = 0; (choice = weft_arg_choice(arg, i)); i++)
        offer(c, choice, "", NULL);
    if (arg->type == WEFT_ARG_FILE)
        fputs(":files\n", c->to);
    if (arg->type == WEFT_ARG_FOLDER)
        fputs(":folders\n", c->to);
    if ((arg->type == WEFT_ARG_SETTING || arg->type == WEFT_ARG_STUDY_SETTING) && !arg->sets)
        offer_settings(c, arg->type == WEFT_ARG_STUDY_SETTING);
}

static void offer_options(const struct completing *c, const struct weft_cmd *cmd, const char *verb)
{
    const struct weft_arg *arg;
    for (int i = 0; (arg = weft_arg_at(cmd, i)); i++)
        if (arg->name && weft_arg_fits(arg, verb))
            offer(c, "--", arg->name, arg->help);
}

/* Returns the option "--name" or "-x" if its value is the next argument. */
static const struct weft_arg *option_of(const struct weft_cmd *cmd, const char *word)
{
    const struct weft_arg *arg;
    for (int i = 0; (arg = weft_arg_at(cmd, i)); i++)
        if (arg->name && arg->type != WEFT_ARG_FLAG &&
            (word[1] == '-' ? strcmp(word + 2, arg->name) == 0 : arg->letter == word[1] && !word[2]))
            return arg;
    return NULL;
}

static void offer_assigned(struct completing *c, const struct weft_cmd *cmd)
{
    char head[128];
    const char *is = strchr(c->word, '=');
    snprintf(head, sizeof head, "%.*s", (int)(is - c->word), c->word);
    const struct weft_arg *arg = option_of(cmd, head);
    snprintf(head, sizeof head, "%.*s=", (int)(is - c->word), c->word);
    c->head = head;
    c->word = is + 1;
    if (arg)
        offer_value(c, arg);
}

static void complete(struct completing *c, const struct weft_cmd *cmd, const char *const *words, int count)
{
    const struct weft_arg *pending = NULL, *arg;
    const char *verb = NULL;
    int arguments = 0;
    bool ended = false; /* after "--", no options follow */
    for (int i = 0; i < count; i++) {
        if (pending) {
            pending = NULL;
        } else if (!ended && words[i][0] == '-' && words[i][1]) {
            ended = strcmp(words[i], "--") == 0;
            pending = option_of(cmd, words[i]);
        } else {
            verb = !arguments && weft_arg_verb(cmd) ? words[i] : verb;
            arguments++;
        }
    }
    if (pending)
        offer_value(c, pending);
    else if (!ended && begins(c->word, "--") && strchr(c->word, '='))
        offer_assigned(c, cmd);
    else if (!ended && c->word[0] == '-')
        offer_options(c, cmd, verb);
    else if ((arg = weft_arg_positional(cmd, verb, arguments)))
        offer_value(c, arg);
}

void weft_completion_print(const char *const *words, int count, FILE *to)
{
    const struct weft_cmd *cmd;
    for (; count > 1 && strcmp(words[0], "--verbose") == 0; words++)
        count--;
    struct completing c = {"", count > 0 ? words[count - 1] : "", to};
    if (count > 1) {
        if ((cmd = weft_cmd_find(words[0])))
            complete(&c, cmd, words + 1, count - 2);
        return;
    }
    for (int i = 0; (cmd = weft_cmd_at(i)); i++)
        offer(&c, cmd->name, "", cmd->summary);
    for (int i = 0; c.word[0] == '-' && i < 3; i++)
        offer(&c, "--", (const char *const[]){"help", "version", "verbose"}[i], NULL);
}
