# SPDX-License-Identifier: MIT
#
#   make                    the libraries and the program, build/weft; with a .config also the study it describes
#   make build              the libraries and the program alone
#   make defconfig-NAME     write .config from configs/NAME
#   make menuconfig         change .config
#   make savedefconfig      write the values of .config that are not defaults to defconfig
#   make SET="steps=50"     run the study with settings that override its .config
#   make BUDGET=60          run it with as many steps as fit into 60 minutes
#   make LONG=1             run it even if it takes more than a day
#   make STAND_IN=PATH      run it on this text, or folder of token files, instead of the data it names; see docs/data.md
#   make mpi                the modules for many ranks: of Open MPI and MPICH, whichever is installed; see docs/ranks.md
#   make ONEDNN=yes         the program with oneDNN (libdnnl), for comparison in benches; see src/dnn/dnn.h
#   make check              run every quick test: some 7 minutes on 2 cores
#   make check-quick        run the tests that take at most 2 s each: for use while editing
#   make check-long         also run the slow tests, in order; long-NAME runs one of them
#   make check-install      install into an empty folder and use what is there
#   make asan tsan          run tests under AddressSanitizer, or ThreadSanitizer; long-asan and long-tsan run all
#   make emulated           run the code for AMX on its instructions in C, on any processor with AVX-512
#   make aarch64            run tests of arithmetic and bits on a different architecture, in an emulator
#   make check-onednn       with ONEDNN=yes: compare the own products with oneDNN's
#   make coverage           run the quick tests and count lines
#   make fuzz               give hostile inputs to each reader of files for 10 s; fuzz-NAME RUNS=n gives n of them to one
#   make lint               check style and structure
#   make format             format all C files
#   make generated          write docs/options.md, docs/ops.md, configs/Kconfig and docs/api.md from tables and header
#   make man                write man pages of all commands to build/release/man
#   make install            install under $(DESTDIR)$(PREFIX), by default /usr/local
#   make install-mpi        install the modules for many ranks
#   make uninstall          remove what was installed
#   make clean              remove build/
#   make help               print this list
#
# BUILD=DIR builds elsewhere; CC, CFLAGS and LDFLAGS are as usual. A flavour is a build directory and its flags:
# $(BUILD)/$(FLAVOUR). Objects are rebuilt when their flags change.
# Sources are found by globbing: a new file needs no line here.

# Use all cores unless -j is given: on the command line it overrides this, and in the environment it is respected. A
# nested make shares the jobs of its parent.
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS) $(shell echo "$$MAKEFLAGS")),0)
MAKEFLAGS += -j$(shell nproc)
endif

FLAVOUR ?= release
BUILD ?= build
PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
DATADIR ?= $(PREFIX)/share
DOCDIR ?= $(DATADIR)/doc/weft
MANDIR ?= $(DATADIR)/man/man1
VERSION := $(shell sed -n 's/^\#define WEFT_VERSION "\(.*\)"/\1/p' include/weft.h)
RELEASED := $(shell sed -n 's/^\#define WEFT_RELEASE_DATE "\(.*\)"/\1/p' include/weft.h)
SOVERSION := $(firstword $(subst ., ,$(VERSION)))

# ---- flavours

ifeq ($(origin CC),default)
CC := gcc
endif
# Full debugging information takes a tenth of the compile time; -g1 is enough for a backtrace.
OPT_release := -O3 -g1
# One build for tests and fuzzers.
OPT_asan := -O1 -g1 -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
OPT_tsan := -O1 -g1 -fsanitize=thread
OPT_emulated := -O2 -g -DWEFT_EMULATE_AMX -Itests/emulated
OPT_aarch64 := -O1
OPT_coverage := -O1 -g --coverage
# Forks after threads have run are also tested, and a race needs several threads.
ifeq ($(FLAVOUR),tsan)
TEST_ENV := TSAN_OPTIONS=die_after_fork=0 OMP_NUM_THREADS=3
endif

ifeq ($(FLAVOUR),asan)
override CC := clang
endif

ifeq ($(FLAVOUR),aarch64)
override CC := aarch64-linux-gnu-gcc
override AR := aarch64-linux-gnu-ar
# Uses the loader and libraries of Debian's arm64: the cross compiler's have a different version, and threads hang.
TEST_ENV := WEFT_WRAP=qemu-aarch64
endif

OUT := $(BUILD)/$(FLAVOUR)
OPT ?= $(OPT_$(FLAVOUR))
WERROR ?= -Werror
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wvla -Wno-psabi -Wno-unused-parameter -Wno-missing-field-initializers $(WERROR)
MATHS := -ffp-contract=off -fno-math-errno -fno-trapping-math
# (weft.map lists the symbols that libweft.so exports; calls within the library need not be replaceable.)
FLAGS = -std=gnu11 $(OPT) $(WARN) $(MATHS) -fPIC -fno-semantic-interposition -Iinclude -Isrc $(CPPFLAGS) $(CFLAGS)
LIBS := -ljansson -lzstd $(shell pkg-config --libs libpcre2-8 libutf8proc) -lm -lpthread

# ---- oneDNN: compared with by benches and tests, never part of the library; it brings OpenMP's threads along

ONEDNN ?= no
ifeq ($(filter yes no,$(ONEDNN)),)
$(error ONEDNN=$(ONEDNN): give yes or no)
endif
ONEDNN_LIBS := $(if $(filter yes,$(ONEDNN)),-ldnnl -lgomp)

# ---- instruction-set levels: these sources are compiled once more for each, and one copy is chosen at run time

LEVELS :=
ifneq ($(findstring x86_64,$(shell $(CC) -dumpmachine)),)
LEVELS := $(if $(filter release emulated,$(FLAVOUR)),v3 v4)
AMX := yes
endif
MARCH_v3 := -march=x86-64-v3
# One level only; for sanitizers, which are slow, one with vectors.
ifeq ($(LEVELS),)
FLAGS += -DWEFT_BASE_ONLY $(if $(AMX),$(if $(filter asan tsan,$(FLAVOUR)),$(MARCH_v3)))
endif
MARCH_v4 := -march=x86-64-v4 -mprefer-vector-width=512
MARCH_amx := $(MARCH_v4) -mamx-tile -mamx-bf16 -mavx512bf16

# ---- sources and objects

SRC := $(sort $(wildcard src/*/*.c src/*/*/*.c))
SRC := $(if $(AMX),$(SRC),$(filter-out %_amx.c,$(SRC)))
CMD_SRC := src/main.c $(filter src/cmd/%,$(SRC))
ONEDNN_SRC := $(filter src/dnn/onednn/%,$(SRC))
LIB_SRC := $(filter-out src/cmd/% src/comm/mpi/% $(ONEDNN_SRC),$(SRC))
LEVEL_SRC := $(filter-out src/ops/registry.c,$(filter src/ops/%.c src/dnn/loop%.c,$(LIB_SRC)))
LIB_OBJ := $(LIB_SRC:src/%.c=$(OUT)/obj/%.o)
LEVEL_OBJ := $(foreach level,$(LEVELS),$(LEVEL_SRC:src/%.c=$(OUT)/obj-$(level)/%.o))
CMD_OBJ := $(CMD_SRC:src/%.c=$(OUT)/obj/%.o)
ONEDNN_OBJ := $(if $(filter yes,$(ONEDNN)),$(ONEDNN_SRC:src/%.c=$(OUT)/obj/%.o))

MPI_KINDS := $(if $(filter release,$(FLAVOUR)),$(foreach kind,openmpi mpich,$(if $(shell command -v mpicc.$(kind)),$(kind))))
MPI_MODULES := $(MPI_KINDS:%=$(OUT)/weft-%.so)

# Every C file of tests/ is a program; LEVEL_TESTS, which test the code of a header, are one program per level.
# Comments in the tests declare the flavours they run in, see tools/run_tests.py; ALL=yes runs all that can run there.
FUZZ := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/*.c))
ALL ?= no
SELECT = $(shell tools/run_tests.py list $(1))
SELECTED = $(call SELECT,$(if $(filter release coverage,$(FLAVOUR)),check,$(FLAVOUR)) $(if $(filter yes,$(ALL)),--all))
QUICK = $(call SELECT,check --quick)
ONEDNN_TESTS := $(if $(filter yes,$(ONEDNN)),$(patsubst %.c,$(OUT)/%,$(wildcard tests/onednn/*.c)))
LEVEL_TESTS := tests/unit/vmath.c
PROGRAMS = $(patsubst %.c,$(OUT)/%,$(filter %.c,$(1))) $(foreach level,$(LEVELS),$(patsubst %.c,$(OUT)/%_$(level),$(filter $(LEVEL_TESTS),$(1))))
TESTS = $(call PROGRAMS,$(SELECTED))

A := $(OUT)/libweft.a
SO := $(OUT)/libweft.so.$(VERSION)
# All of the library, for tests: a program that is linked with it need not be linked again when the library changes.
TEST_SO := $(OUT)/libweft-test.so
PROGRAM := $(OUT)/weft

.PHONY: all build mpi help study menuconfig savedefconfig check check-quick check-long lint format generated man asan tsan aarch64 coverage install install-mpi \
	uninstall clean FORCE
.DELETE_ON_ERROR:

all: build $(if $(wildcard .config),study)
build: $(A) $(SO) $(PROGRAM) $(if $(filter release,$(FLAVOUR)),$(BUILD)/weft)

help:
	@sed -n 's/^#   make/make/p' $(firstword $(MAKEFILE_LIST))

# ---- compiling

$(OUT)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(FLAGS) $(LDFLAGS)' | cmp -s - $@ || echo '$(CC) $(FLAGS) $(LDFLAGS)' >$@

$(OUT)/onednn: FORCE
	@mkdir -p $(@D)
	@echo $(ONEDNN) | cmp -s - $@ || echo $(ONEDNN) >$@

COMPILE = @mkdir -p $(@D) && echo "  CC $@" && $(CC) $(FLAGS) $(EXTRA) -MMD -MP
$(filter %_amx.o,$(LIB_OBJ)): EXTRA := $(MARCH_amx)

$(OUT)/obj/%.o: src/%.c $(OUT)/flags
	$(COMPILE) -c $< -o $@ $(AFTER)

LINK_TEST = $(TEST_SO) -Wl,-rpath,$(abspath $(OUT)) $(LDFLAGS) -lcmocka $(LIBS)

# The copies for processors older than 2013, which have slow products anyway, need not take the longest to compile.
ifneq ($(LEVELS),)
$(filter $(patsubst src/%.c,$(OUT)/obj/%.o,$(LEVEL_SRC)),$(LIB_OBJ)): EXTRA := -O2
endif

# The compiler does not list the files that these embed as bytes.
$(OUT)/obj/report/page/assets.o: $(wildcard src/report/page/*.html src/report/page/*.css src/report/page/*.js third_party/uPlot/*)
$(OUT)/obj/export/hf/hf_code.o $(OUT)/obj/export/parity.o: $(wildcard src/export/*.py src/export/*/*.py)

# An op's file does not depend on all of ops.def, but on ops.rows, whose date changes only if a row is changed or
# removed, so a new op recompiles no other.
OP_OBJ := $(filter-out %/registry.o,$(filter $(OUT)/obj/ops/% $(LEVELS:%=$(OUT)/obj-%/ops/%),$(LIB_OBJ) $(LEVEL_OBJ)))
$(OUT)/ops.rows: src/ops/ops.def
	@mkdir -p $(@D) && tr -d '\n' <$< | sed 's/OP(/\nOP(/g' | grep '^OP(' | sort >$@.new
	@test ! -e $@ || test -n "$$(comm -23 $@ $@.new)" || touch -r $@ $@.new
	@mv $@.new $@
$(OP_OBJ): $(OUT)/ops.rows
$(OP_OBJ): AFTER = && sed -i 's| src/ops/ops.def||' $(@:.o=.d)

# A level's copy keeps only the names that carry its suffix; its builders and helpers would clash with the base's.
define LEVEL_RULES
$(OUT)/obj-$(1)/%.o: src/%.c $(OUT)/flags
	$$(COMPILE) $(MARCH_$(1)) -DWEFT_LEVEL=$(1) -MF $$(@:.o=.d) -MT $$@ -c $$< -o $$@.whole
	@objcopy --wildcard --keep-global-symbol='*_$(1)' $$@.whole $$@ && rm $$@.whole $$(AFTER)
$(OUT)/tests/%_$(1): tests/%.c $(OUT)/flags | $(TEST_SO)
	$$(COMPILE) $(MARCH_$(1)) -DWEFT_LEVEL=$(1) $$< -o $$@ $(LINK_TEST)
endef
$(foreach level,$(LEVELS),$(eval $(call LEVEL_RULES,$(level))))

$(OUT)/tests/%: tests/%.c $(OUT)/flags | $(TEST_SO)
	$(COMPILE) $< -o $@ $(filter %.o,$^) $(LINK_TEST) $(if $(filter %.o,$^),$(ONEDNN_LIBS))
$(ONEDNN_TESTS): $(ONEDNN_OBJ)

# (Private, or the library would be compiled with it.)
$(FUZZ:%=$(OUT)/tests/fuzz/%): private EXTRA := -fsanitize=fuzzer

# The shim is preloaded; it has no sanitizers, because these intercept calls themselves. Programs with sanitizers start
# slowly, so they try only every seventh call.
$(OUT)/tests/fault/save: private EXTRA := -DSTRIDE=$(if $(filter release,$(FLAVOUR)),1,7)
$(OUT)/tests/fault/save: | $(OUT)/tests/fault/shim.so
$(OUT)/tests/fault/shim.so: tests/fault/shim.c
	@mkdir -p $(@D) && echo "  CC $@" && $(CC) -std=gnu11 -O2 -g $(WARN) -fPIC -shared $< -o $@

-include $(LIB_OBJ:.o=.d) $(ONEDNN_OBJ:.o=.d) $(LEVEL_OBJ:.o=.d) $(CMD_OBJ:.o=.d) $(wildcard $(OUT)/tests/*.d $(OUT)/tests/*/*.d)

# ---- linking

$(A): $(LIB_OBJ) $(LEVEL_OBJ)
	@echo "  AR $@" && rm -f $@ && $(AR) qcs $@ $^

# weft.map is the list of what is exported.
$(SO): $(LIB_OBJ) $(LEVEL_OBJ) weft.map
	@echo "  LD $@" && $(CC) $(OPT) -shared -Wl,-soname,libweft.so.$(SOVERSION) -Wl,--version-script=weft.map -Wl,-z,nodelete \
		$(filter %.o,$^) -o $@ $(LDFLAGS) $(LIBS)
	@ln -sf $(notdir $@) $(OUT)/libweft.so.$(SOVERSION)

$(TEST_SO): $(LIB_OBJ) $(LEVEL_OBJ)
	@echo "  LD $@" && $(CC) $(OPT) -shared $^ -o $@ $(LDFLAGS) $(LIBS)

# Examples see what an installed library has: the header and the exported symbols.
EXAMPLES := $(patsubst examples/%.c,$(OUT)/examples/%,$(sort $(wildcard examples/*.c)))
$(EXAMPLES): $(OUT)/examples/%: examples/%.c include/weft.h $(SO)
	@mkdir -p $(@D) && echo "  CC $@" && $(CC) -std=c11 -D_DEFAULT_SOURCE $(OPT) $(WARN) -Iinclude $< -o $@ $(SO) \
		-Wl,-rpath,$(abspath $(OUT)) $(LDFLAGS) -lm -lpthread

$(PROGRAM): $(CMD_OBJ) $(ONEDNN_OBJ) $(A) $(OUT)/onednn
	@echo "  LD $@" && $(CC) $(OPT) $(CMD_OBJ) $(ONEDNN_OBJ) $(A) -o $@ $(LDFLAGS) $(ONEDNN_LIBS) $(LIBS)

# ---- ranks: a module for each MPI implementation, loaded when ranks are requested; it uses nothing from the library

mpi: $(MPI_MODULES)
	@test -n "$(MPI_KINDS)" || { echo "there is neither mpicc.openmpi nor mpicc.mpich: run tools/deps.sh" && false; } >&2
$(MPI_MODULES): $(OUT)/weft-%.so: src/comm/mpi/mpi.c src/comm/comm.h $(OUT)/flags
	@echo "  MPICC $@" && OMPI_CC="$(CC)" MPICH_CC="$(CC)" mpicc.$* $(FLAGS) -shared $< -o $@ $(LDFLAGS)

$(BUILD)/weft: $(BUILD)/release/weft
	@ln -sf release/weft $@

# ---- studies: configs/NAME -> .config -> studies/NAME

STUDY = $(or $(shell sed -n 's/^CONFIG_WEFT_STUDY="\([A-Za-z0-9_-]*\)"$$/\1/p' .config 2>/dev/null),study)
KCONFIG := KCONFIG_CONFIG=.config kconfig
SET :=
BUDGET :=
LONG :=
STAND_IN :=
ifneq ($(SET)$(BUDGET)$(LONG)$(STAND_IN),)
ifeq ($(wildcard .config),)
$(error SET, BUDGET, LONG and STAND_IN are for the study of a .config, and there is none: run `make defconfig-NAME`, for NAME see configs/)
endif
endif

# A text that replaces the study's data is converted to token files with TOKENIZER; a folder already contains them.
TOKENIZER := bytes
STAND_IN_TEXT := $(if $(wildcard $(STAND_IN)/.),,$(STAND_IN))
STAND_IN_DATA := $(if $(STAND_IN_TEXT),data/stand-in/$(notdir $(STAND_IN))-$(notdir $(TOKENIZER)),$(STAND_IN))
ifneq ($(STAND_IN_TEXT),)
$(STAND_IN_DATA)/data.json: $(STAND_IN_TEXT) | build
	rm -rf $(@D)
	$(PROGRAM) data prepare $< --out $(@D) --tokenizer $(TOKENIZER)
study: $(STAND_IN_DATA)/data.json
endif

STUDY_OPTIONS := $(strip $(SET:%=--set %) $(BUDGET:%=--budget %) $(LONG:%=--long) $(STAND_IN_DATA:%=--stand-in %))
study: build
	$(PROGRAM) ablate --config .config --out studies/$(STUDY) $(STUDY_OPTIONS)

# Kconfig silently ignores values that it cannot use, so the program checks the request and the result. An invalid
# request leaves no .config, so that `make` does not run the previous study instead.
defconfig-%: build
	@test -f configs/$* || { echo "there is no configs/$*; there are: $(filter-out Kconfig,$(notdir $(wildcard configs/*)))" && false; } >&2
	@command -v kconfig-conf >/dev/null || { echo "kconfig-conf is missing: run tools/deps.sh" && false; } >&2
	@rm -f .config
	@$(KCONFIG)-conf --defconfig=configs/$* configs/Kconfig >/dev/null 2>&1
	@$(PROGRAM) config configs/$* --kept .config || { rm -f .config && false; }
	@sed -i 's/^CONFIG_WEFT_STUDY=""$$/CONFIG_WEFT_STUDY="$*"/' .config

menuconfig: build
	@test -t 0 || { echo "menuconfig needs a terminal" && false; } >&2
	@$(KCONFIG)-mconf configs/Kconfig
	@$(PROGRAM) config .config

savedefconfig: build
	@$(PROGRAM) config .config >/dev/null
	@$(KCONFIG)-conf --savedefconfig=defconfig configs/Kconfig >/dev/null
	@echo "defconfig contains the values of .config that are not defaults: name it configs/NAME"

# ---- checking

RUN = $(TEST_ENV) WEFT=$(abspath $(OUT)/weft) WEFT_BUILD=$(abspath $(BUILD)) tools/run_tests.py run --flavour \
	$(if $(filter release coverage,$(FLAVOUR)),check,$(FLAVOUR))
LONG_SCRIPTS := $(sort $(wildcard tests/long/*.sh))
LONG_TARGETS := long-whole emulated long-levels long-aarch64 long-clang long-valgrind long-asan long-tsan $(FUZZ:%=long-fuzz-%) $(LONG_SCRIPTS:tests/long/%.sh=long-%)
.PHONY: check-install check-onednn $(LONG_TARGETS)

# The list of tests is computed only for targets that need it.
.SECONDEXPANSION:
check: build $(MPI_MODULES) $$(TESTS) $$(if $$(filter tests/cli/examples.sh,$$(SELECTED)),$(EXAMPLES))
	@$(RUN) $(filter %.sh,$(SELECTED)) $(TESTS)

check-quick: build $$(call PROGRAMS,$$(QUICK))
	@$(RUN) $(filter %.sh,$(QUICK)) $(call PROGRAMS,$(QUICK))

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

# One at a time: some of them measure.
check-long:
	@for target in check check-install asan tsan $(LONG_TARGETS); do $(MAKE) --no-print-directory $$target || exit 1; done

long-resume: $(OUT)/tests/fault/shim.so
long-plan long-ranks long-rank-faults long-slurm: $(MPI_MODULES)
long-verdicts: $(OUT)/tests/unit/looks $(OUT)/tests/unit/ladder
long-hashes: $(OUT)/tests/unit/products $(OUT)/tests/unit/attention
$(LONG_SCRIPTS:tests/long/%.sh=long-%): long-%: build
	@WEFT_TEST_TIMEOUT=$${WEFT_TEST_TIMEOUT:-3600} $(RUN) tests/long/$*.sh

# `check` with all cases of the tests that otherwise take a sample.
long-whole:
	@WEFT_EVERY=1 WEFT_TEST_TIMEOUT=3600 $(MAKE) --no-print-directory check

# The paths below the best one of this machine.
long-levels: build $$(TESTS)
	@for isa in base v3 v4; do echo "WEFT_ISA=$$isa" && WEFT_ISA=$$isa $(RUN) $(TESTS) || exit 1; done

long-asan long-tsan: long-%:
	@WEFT_EVERY=1 WEFT_TEST_TIMEOUT=3600 $(MAKE) --no-print-directory FLAVOUR=$* ALL=yes check

long-aarch64:
	@WEFT_EVERY=2 WEFT_MODELS=w2 WEFT_TEST_TIMEOUT=3600 $(MAKE) --no-print-directory aarch64

long-clang:
	@$(MAKE) --no-print-directory CC=clang BUILD=$(BUILD)/clang check

# Values that were never set, which the sanitizers do not see. (Valgrind knows no AVX-512.)
long-valgrind: build $$(TESTS)
	@WEFT_ISA=v3 WEFT_WRAP="valgrind -q --error-exitcode=9" $(RUN) $(filter $(OUT)/tests/unit/%,$(TESTS))

# Hostile inputs: one harness is tests/fuzz/NAME.c, its seeds are tests/fuzz/corpus/NAME, and NAME.dict, if there is one,
# has words to build inputs from. Inputs that reached new code are kept in $(BUILD)/fuzz/corpus, inputs that broke something
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

lint:
	@tools/lint.sh

format:
	clang-format -i $$(find src include tests -name '*.[ch]')

generated: $(PROGRAM)
	@mkdir -p docs configs
	$(PROGRAM) help options --as markdown >docs/options.md
	$(PROGRAM) help ops --as markdown >docs/ops.md
	$(PROGRAM) help options --as kconfig >configs/Kconfig
	tools/api_page.py include/weft.h >docs/api.md

# Man pages are generated from the commands' own tables and have the date of the release.
COMMANDS := $(shell sed -n "s/^CMD(\(.*\))/\1/p" src/cmd/cmds.def 2>/dev/null)
MAN := $(OUT)/man/weft.1 $(COMMANDS:%=$(OUT)/man/weft-%.1)
man: $(MAN)
$(MAN): $(OUT)/man/%.1: $(PROGRAM)
	@mkdir -p $(@D)
	@$(PROGRAM) help $(patsubst weft-%,%,$(filter-out weft,$*)) --as scdoc | SOURCE_DATE_EPOCH=$$(date -u -d $(RELEASED) +%s) scdoc >$@

# ---- installing

D := $(DESTDIR)
COMPLETIONS := bash-completion/completions/weft zsh/site-functions/_weft fish/vendor_completions.d/weft.fish
install: build man
	install -d $(D)$(BINDIR) $(D)$(LIBDIR)/pkgconfig $(D)$(INCLUDEDIR) $(D)$(DOCDIR) $(D)$(MANDIR) \
		$(dir $(addprefix $(D)$(DATADIR)/,$(COMPLETIONS)))
	install -m 755 $(OUT)/weft $(D)$(BINDIR)/weft
	install -m 644 $(A) $(SO) $(D)$(LIBDIR)
	ln -sf libweft.so.$(VERSION) $(D)$(LIBDIR)/libweft.so.$(SOVERSION)
	ln -sf libweft.so.$(SOVERSION) $(D)$(LIBDIR)/libweft.so
	install -m 644 include/weft.h $(D)$(INCLUDEDIR)/weft.h
	sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@INCLUDEDIR@|$(INCLUDEDIR)|; s|@VERSION@|$(VERSION)|' \
		weft.pc.in >$(D)$(LIBDIR)/pkgconfig/weft.pc
	install -m 644 LICENSE $(D)$(DOCDIR)/LICENSE
	install -m 644 third_party/uPlot/LICENSE $(D)$(DOCDIR)/LICENSE.uPlot
	install -m 644 $(MAN) $(D)$(MANDIR)
	install -m 644 src/cmd/shell/weft.bash $(D)$(DATADIR)/$(word 1,$(COMPLETIONS))
	install -m 644 src/cmd/shell/weft.zsh $(D)$(DATADIR)/$(word 2,$(COMPLETIONS))
	install -m 644 src/cmd/shell/weft.fish $(D)$(DATADIR)/$(word 3,$(COMPLETIONS))

# The modules are a package of their own: nothing else depends on MPI.
install-mpi: mpi
	install -d $(D)$(LIBDIR)/weft
	install -m 644 $(MPI_MODULES) $(D)$(LIBDIR)/weft

uninstall:
	rm -f $(addprefix $(D)$(LIBDIR)/weft/,weft-openmpi.so weft-mpich.so)
	-test ! -d $(D)$(LIBDIR)/weft || rmdir $(D)$(LIBDIR)/weft
	rm -f $(addprefix $(D)$(MANDIR)/,$(notdir $(MAN))) $(addprefix $(D)$(DATADIR)/,$(COMPLETIONS))
	rm -f $(D)$(BINDIR)/weft $(D)$(INCLUDEDIR)/weft.h $(D)$(LIBDIR)/pkgconfig/weft.pc $(addprefix $(D)$(DOCDIR)/,LICENSE LICENSE.uPlot)
	rm -f $(addprefix $(D)$(LIBDIR)/libweft,.a .so .so.$(SOVERSION) .so.$(VERSION))
	-rmdir $(D)$(DOCDIR)

clean:
	rm -rf $(BUILD)
