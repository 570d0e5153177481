/* SPDX-License-Identifier: MIT
 *
 * launch.c - hosts, layouts and commands of jobs with several ranks.
 *
 * run-tests: 1 s, asan 1 s
 */
#define _GNU_SOURCE
#include "launch/launch.h"
#include "test.h"

#include <sched.h>
#include <sys/stat.h>

static void test_hosts(void **state)
{
    (void)state;
    struct weft_hosts h;
    check(weft_hosts_parse(&h, "a:2,b,c.d-e:3"));
    assert_int_equal(h.count, 3);
    assert_int_equal(h.slots, 6);
    const int of_rank[] = {0, 0, 1, 2, 2, 2, -1};
    for (int r = 0; r < 7; r++)
        assert_int_equal(weft_hosts_find(&h, r), of_rank[r]);
    assert_int_equal(weft_hosts_find(&h, -1), -1);
    weft_hosts_drop(&h, 1);
    char *text = weft_hosts_print(&h);
    assert_string_equal(text, "a:2,c.d-e:3");
    assert_int_equal(h.slots, 5);
    free(text);
    weft_hosts_release(&h);
    static const char *const wrong[] = {"", "a,", ",a", "a:", "a:0", "a:x", ":2", "a:2x", "a:-1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(weft_hosts_parse(&h, wrong[i]), WEFT_INVALID);
        weft_hosts_release(&h);
    }
    weft_error_clear();
}

static void write_node(const char *sys, int node, const char *list)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/node%d", sys, node);
    assert_int_equal(mkdir(path, 0777), 0);
    snprintf(path, sizeof path, "%s/node%d/cpulist", sys, node);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "%s\n", list);
    fclose(f);
}

static void test_layout(void **state)
{
    (void)state;
    char sys[] = "/tmp/weft-nodes-XXXXXX", remove[64], mine[32];
    struct weft_hosts none = {0}, two;
    struct weft_layout l;
    cpu_set_t usable;
    int first = 0;
    assert_non_null(mkdtemp(sys));
    weft_layout_make(&l, 0, &none, sys); /* the kernel lists no nodes */
    assert_int_equal(l.nodes, 1);
    assert_int_equal(l.ranks, 1);
    assert_int_equal(l.threads, l.cores);
    assert_int_equal(l.per_node, 0);

    /* Nodes without processors, and with such that this process may not use, do not count; numbers may be missing. */
    sched_getaffinity(0, sizeof usable, &usable);
    while (!CPU_ISSET(first, &usable))
        first++;
    snprintf(mine, sizeof mine, "%d", first);
    write_node(sys, 0, mine);
    write_node(sys, 1, "");
    write_node(sys, 2, "1000-1020,1022");
    snprintf(mine, sizeof mine, "1000,%d-%d", first, first);
    write_node(sys, 5, mine);
    weft_layout_make(&l, 0, &none, sys);
    assert_int_equal(l.nodes, 2);
    assert_int_equal(l.ranks, 2);
    assert_int_equal(l.per_node, l.cores >= 2);
    assert_int_equal(l.threads, weft_max(l.cores / 2, 1));
    weft_layout_make(&l, 3, &none, sys); /* no multiple of the nodes */
    assert_int_equal(l.per_node, 0);
    assert_int_equal(l.per_host, 3);

    check(weft_hosts_parse(&two, "a:4,b:4"));
    weft_layout_make(&l, 0, &two, sys);
    assert_int_equal(l.ranks, 8);
    assert_int_equal(l.hosts, 2);
    assert_int_equal(l.per_host, 4);
    weft_layout_make(&l, 5, &two, sys); /* the first host is filled first */
    assert_int_equal(l.per_host, 4);
    weft_hosts_release(&two);
    snprintf(remove, sizeof remove, "rm -r %s", sys);
    assert_int_equal(system(remove), 0);
}

static bool has(const char *const *command, const char *word)
{
    for (int i = 0; command[i]; i++)
        if (strcmp(command[i], word) == 0)
            return true;
    return false;
}

static void test_command(void **state)
{
    (void)state;
    static const char *const words[] = {"train", "gpt2", "--out", "runs/a b", NULL};
    struct weft_layout l = {.ranks = 4, .hosts = 1, .nodes = 2, .cores = 8, .per_host = 4, .threads = 2, .per_node = 2};
    struct weft_mpirun m = {.path = "/bin/true"};
    struct weft_arena arena = {0};
    const char **command;
    check(weft_mpirun_words(&m, &l, NULL, words, false, &arena, &command));
    assert_string_equal(command[0], "/bin/true");
    assert_true(has(command, "ppr:2:numa") && has(command, "WEFT_RANKS") && has(command, "runs/a b"));
    assert_false(has(command, "--resume") || has(command, "--oversubscribe") || has(command, "--host"));
    l.ranks = 16;
    l.per_node = 0;
    check(weft_mpirun_words(&m, &l, NULL, words, true, &arena, &command));
    assert_true(has(command, "--resume") && has(command, "--oversubscribe") && has(command, "none"));
    m.mpich = true;
    check(weft_mpirun_words(&m, &l, "a:8,b:8", words, false, &arena, &command));
    assert_true(has(command, "-hosts") && has(command, "a:8,b:8"));
    assert_false(has(command, "--mca"));
    weft_arena_release(&arena);
    assert_int_equal(weft_mpirun_find(&m, "/nowhere/mpirun"), WEFT_INVALID);
    weft_error_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_command),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
