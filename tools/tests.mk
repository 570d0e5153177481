# SPDX-License-Identifier: MIT
#
# tests.mk - included by Makefile: test programs, the targets that run tests, slow tests, fuzzing.

# ---- what is tested: comments in the tests say in which flavours they run, see tools/run_tests.py

KIND := $(if $(filter release coverage,$(FLAVOUR)),check,$(FLAVOUR))
# ALL=yes takes all that can run there. The list is only made for targets that need it.
ALL ?= no
SELECT = $(if $(filter $(1),$(MAKECMDGOALS)),$(shell tools/run_tests.py list $(2)))
SELECTED := $(call SELECT,check long-levels long-valgrind,$(KIND) $(if $(filter yes,$(ALL)),--all))
QUICK := $(call SELECT,check-quick,check --quick)
# What forks after threads ran is tested too; and threads that race must be several.
ENV_tsan := TSAN_OPTIONS=die_after_fork=0 OMP_NUM_THREADS=3
# The loader and the libraries of Debian's arm64: those of the cross compiler are of another version, and threads hang.
ENV_aarch64 := WEFT_WRAP=qemu-aarch64
RUN = $(ENV_$(FLAVOUR)) WEFT=$(abspath $(OUT)/weft) WEFT_BUILD=$(abspath $(BUILD)) tools/run_tests.py run --flavour \
	$(KIND)

# ---- programs: every C file of tests/ is one; LEVEL_TEST, which tests what a header compiles to, is one per level too

FUZZ := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/*.c))
ONEDNN_TESTS := $(if $(filter yes,$(ONEDNN)),$(patsubst %.c,$(OUT)/%,$(wildcard tests/onednn/*.c)))
LEVEL_TEST := tests/unit/vmath
LEVEL_TESTS := $(LEVELS:%=$(OUT)/$(LEVEL_TEST)_%)
PROGRAMS = $(patsubst %.c,$(OUT)/%,$(filter %.c,$(1))) $(if $(filter $(LEVEL_TEST).c,$(1)),$(LEVEL_TESTS))
TESTS := $(call PROGRAMS,$(SELECTED))

# All of the library: a program that is linked with it need not be linked again when the library changes.
TEST_SO := $(OUT)/libweft-test.so
LINK_TEST = $(TEST_SO) -Wl,-rpath,$(abspath $(OUT)) $(LDFLAGS) -lcmocka $(LIBS)
$(TEST_SO): $(LIB_OBJ) $(LEVEL_OBJ)
	@echo "  LD $@" && $(CC) $(OPT) -shared $^ -o $@ $(LDFLAGS) $(LIBS)

$(LEVEL_TESTS): $(OUT)/$(LEVEL_TEST)_%: $(LEVEL_TEST).c $(OUT)/flags | $(TEST_SO)
	$(COMPILE) $(MARCH_$*) -DWEFT_LEVEL=$* $< -o $@ $(LINK_TEST)

$(OUT)/tests/%: tests/%.c $(OUT)/flags | $(TEST_SO)
	$(COMPILE) $< -o $@ $(filter %.o,$^) $(LINK_TEST) $(if $(filter %.o,$^),$(ONEDNN_LIBS))
$(ONEDNN_TESTS): $(ONEDNN_OBJ)

# (Private, or the library would be compiled with it.)
$(FUZZ:%=$(OUT)/tests/fuzz/%): private EXTRA := -fsanitize=fuzzer

# The shim is preloaded; it has no sanitizers, which have calls of their own to stand before. Their programs start
# slowly: they try every seventh call.
$(OUT)/tests/fault/save: private EXTRA := -DSTRIDE=$(if $(filter release,$(FLAVOUR)),1,7)
$(OUT)/tests/fault/save: | $(OUT)/tests/fault/shim.so
$(OUT)/tests/fault/shim.so: tests/fault/shim.c
	@mkdir -p $(@D) && echo "  CC $@" && $(CC) -std=gnu11 -O2 -g $(WARN) -fPIC -shared $< -o $@

# ---- quick tests

.PHONY: check check-quick check-python check-onednn check-install asan tsan emulated aarch64 coverage
check: build $(MPI_MODULES) $(TESTS) $(if $(filter tests/cli/examples.sh,$(SELECTED)),$(EXAMPLES))
	@$(RUN) $(filter %.sh,$(SELECTED)) $(TESTS)

check-quick: build $(call PROGRAMS,$(QUICK))
	@$(RUN) $(filter %.sh,$(QUICK)) $(call PROGRAMS,$(QUICK))

# The Python package: style, types, tests.
check-python:
	@python/check.sh

# Needs ONEDNN=yes: the own products against oneDNN's, and training with them.
check-onednn: build $(ONEDNN_TESTS)
	@test $(ONEDNN) = yes || { echo "make ONEDNN=yes $@" && false; } >&2
	@$(RUN) $(ONEDNN_TESTS) tests/onednn/*.sh

check-install: build
	@$(RUN) tests/install/*.sh

aarch64: build
asan tsan emulated aarch64:
	@$(MAKE) --no-print-directory FLAVOUR=$@ check

coverage:
	@$(MAKE) --no-print-directory FLAVOUR=$@ check
	gcovr --root . --filter src/ $(BUILD)/coverage --txt --html-details $(BUILD)/coverage/report.html

# ---- slow tests

LONG_SCRIPTS := $(patsubst tests/long/%.sh,long-%,$(sort $(wildcard tests/long/*.sh)))
LONG_TARGETS := long-whole emulated long-levels long-aarch64 long-clang long-valgrind long-asan long-tsan $(FUZZ:%=long-fuzz-%) $(LONG_SCRIPTS)
.PHONY: check-long $(LONG_TARGETS)

# One at a time: some of them measure.
check-long:
	@for target in check check-install asan tsan $(LONG_TARGETS); do $(MAKE) --no-print-directory $$target || exit 1; done

long-resume: $(OUT)/tests/fault/shim.so
long-plan long-ranks long-rank-faults long-slurm: $(MPI_MODULES)
long-verdicts: $(OUT)/tests/unit/looks $(OUT)/tests/unit/ladder
long-hashes: $(OUT)/tests/unit/products $(OUT)/tests/unit/attention
long-forms: $(OUT)/tests/long/forms
$(LONG_SCRIPTS): long-%: build
	@WEFT_TEST_TIMEOUT=$${WEFT_TEST_TIMEOUT:-3600} $(RUN) tests/long/$*.sh

# `check` with all cases of the tests that otherwise take a sample.
long-whole:
	@WEFT_EVERY=1 WEFT_TEST_TIMEOUT=3600 $(MAKE) --no-print-directory check

# The paths below the best one of this machine.
long-levels: build $(TESTS)
	@for isa in base v3 v4; do echo "WEFT_ISA=$$isa" && WEFT_ISA=$$isa $(RUN) $(TESTS) || exit 1; done

long-asan long-tsan: long-%:
	@WEFT_EVERY=1 WEFT_TEST_TIMEOUT=3600 $(MAKE) --no-print-directory FLAVOUR=$* ALL=yes check

long-aarch64:
	@WEFT_EVERY=2 WEFT_MODELS=w2 WEFT_TEST_TIMEOUT=3600 $(MAKE) --no-print-directory aarch64

long-clang:
	@$(MAKE) --no-print-directory CC=clang BUILD=$(BUILD)/clang check

# Values that were never set, which the sanitizers do not see. (Valgrind knows no AVX-512.)
long-valgrind: build $(TESTS)
	@WEFT_ISA=v3 WEFT_WRAP="valgrind -q --error-exitcode=9" $(RUN) $(filter $(OUT)/tests/unit/%,$(TESTS))

# ---- fuzzing

# Hostile inputs: one harness is tests/fuzz/NAME.c, its seeds are tests/fuzz/corpus/NAME, and NAME.dict, if there is one,
# has words to build inputs from. Inputs that reached new code are kept in $(BUILD)/fuzz/corpus, those that broke something
# in $(BUILD)/fuzz/found. SEED=0 draws a seed. One thread: inputs are small, and threads that wait for them would spin.
RUNS ?=
FUZZ_SECONDS ?= 10
SEED ?= 1
.PHONY: fuzz long-fuzz fuzz-programs $(FUZZ:%=fuzz-%)
fuzz: $(FUZZ:%=fuzz-%)
long-fuzz: $(FUZZ:%=long-fuzz-%)
fuzz-programs:
	@$(MAKE) --no-print-directory FLAVOUR=asan $(FUZZ:%=$(BUILD)/asan/tests/fuzz/%)
$(FUZZ:%=fuzz-%): fuzz-%: fuzz-programs
	@mkdir -p $(BUILD)/fuzz/corpus/$* $(BUILD)/fuzz/found
	OMP_NUM_THREADS=1 $(BUILD)/asan/tests/fuzz/$* $(if $(RUNS),-runs=$(RUNS),-max_total_time=$(FUZZ_SECONDS)) -seed=$(SEED) -timeout=10 \
		-verbosity=0 -print_final_stats=1 $(patsubst %,-dict=%,$(wildcard tests/fuzz/$*.dict)) \
		-artifact_prefix=$(BUILD)/fuzz/found/$*- $(BUILD)/fuzz/corpus/$* tests/fuzz/corpus/$*
$(FUZZ:%=long-fuzz-%): long-fuzz-%:
	@$(MAKE) --no-print-directory fuzz-$* RUNS=5000000
