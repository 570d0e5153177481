# SPDX-License-Identifier: MIT
#
#   make                    the libraries and the program, build/weft; with a .config also the study it describes
#   make build              the libraries and the program alone
#   make defconfig-NAME     write .config from configs/NAME
#   make menuconfig         change .config
#   make savedefconfig      write what .config has besides defaults to defconfig
#   make SET="steps=50"     run the study with other settings than its .config has
#   make BUDGET=60          run it with as many steps as fit into so many minutes
#   make LONG=1             run it although it takes more than a day
#   make STAND_IN=PATH      run it on this text, or folder of token files, instead of the data it names; see docs/data.md
#   make mpi                the modules for many ranks: of Open MPI and MPICH, whichever is installed; see docs/ranks.md
#   make ONEDNN=yes         the program with oneDNN besides (libdnnl): benches compare with it; see src/dnn/dnn.h
#   make check              run every quick test: some 7 minutes on 2 cores
#   make check-quick        run those that take at most 2 s each: for use while editing
#   make check-long         run the slow tests too, in order; long-NAME runs one of them
#   make check-python       check the Python package: style, types, tests
#   make check-install      install into an empty folder and use what is there
#   make asan tsan          run tests under AddressSanitizer, or ThreadSanitizer; long-asan and long-tsan run all
#   make emulated           run the code for AMX on its instructions in C, on any processor with AVX-512
#   make aarch64            run tests of arithmetic and bits on another architecture, in an emulator
#   make check-onednn       with ONEDNN=yes: compare the own products with oneDNN's
#   make coverage           run the quick tests and count lines
#   make fuzz               give hostile inputs to each reader of files for 10 s; fuzz-NAME RUNS=n gives n of them to one
#   make lint               check style and structure
#   make format             format all C files
#   make generated          write docs/options.md, docs/ops.md, configs/Kconfig and docs/api.md from tables and header
#   make man                write man pages of all commands to build/release/man
#   make site               build the documentation as web pages: build/site/index.html
#   make install            install under $(DESTDIR)$(PREFIX), by default /usr/local
#   make install-mpi        install the modules for many ranks
#   make uninstall          remove what was installed
#   make clean              remove build/
#   make help               print this list
#
# BUILD=DIR builds elsewhere; CC, CFLAGS and LDFLAGS are as usual. A flavour is a build directory and its flags:
# $(BUILD)/$(FLAVOUR). Objects are rebuilt when their flags change.
# Sources are found by globbing: a new file needs no line here. Targets for studies, tests and installation are in
# tools/study.mk, tests.mk and install.mk.

# All cores, unless -j says otherwise: on the command line it stands above this, and in the environment it is respected. A
# make within a make shares the jobs of that.
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS) $(shell echo "$$MAKEFLAGS")),0)
MAKEFLAGS += -j$(shell nproc)
endif

FLAVOUR ?= release
BUILD ?= build
VERSION := $(shell sed -n 's/^\#define WEFT_VERSION "\(.*\)"/\1/p' include/weft.h)
SOVERSION := $(firstword $(subst ., ,$(VERSION)))

# ---- flavours

# Full debugging information takes a tenth of the compile time; -g1 is enough for a backtrace.
OPT_release := -O3 -g1
# One build for tests and fuzzers.
OPT_asan := -O1 -g1 -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
OPT_tsan := -O1 -g1 -fsanitize=thread
OPT_emulated := -O2 -g -DWEFT_EMULATE_AMX -Itests/emulated
OPT_aarch64 := -O1
OPT_coverage := -O1 -g --coverage
CC_asan := clang
CC_aarch64 := aarch64-linux-gnu-gcc
AR_aarch64 := aarch64-linux-gnu-ar
override CC := $(or $(CC_$(FLAVOUR)),$(if $(filter default,$(origin CC)),gcc,$(CC)))
override AR := $(or $(AR_$(FLAVOUR)),$(AR))

OUT := $(BUILD)/$(FLAVOUR)
OPT ?= $(OPT_$(FLAVOUR))
WERROR ?= -Werror
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wvla -Wno-psabi -Wno-unused-parameter -Wno-missing-field-initializers $(WERROR)
MATHS := -ffp-contract=off -fno-math-errno -fno-trapping-math
# (weft.map says what libweft.so exports; within it, calls need not be replaceable.)
FLAGS = -std=gnu11 $(OPT) $(WARN) $(MATHS) -fPIC -fno-semantic-interposition -Iinclude -Isrc $(CPPFLAGS) $(CFLAGS)
LIBS := -ljansson -lzstd $(shell pkg-config --libs libpcre2-8 libutf8proc) -lm -lpthread

# ---- oneDNN: compared with by benches and tests, never part of the library; it brings OpenMP's threads along

ONEDNN ?= no
$(if $(filter yes no,$(ONEDNN)),,$(error ONEDNN=$(ONEDNN): expected yes or no))
ONEDNN_LIBS := $(if $(filter yes,$(ONEDNN)),-ldnnl -lgomp)

# ---- instruction-set levels: these sources are compiled once more for each, and one copy is chosen at run time

AMX := $(findstring x86_64,$(shell $(CC) -dumpmachine))
LEVELS := $(and $(AMX),$(filter release emulated,$(FLAVOUR)),v3 v4)
MARCH_v3 := -march=x86-64-v3
# One level only; for sanitizers, which are slow, one with vectors.
ifeq ($(LEVELS),)
FLAGS += -DWEFT_BASE_ONLY $(and $(AMX),$(filter asan tsan,$(FLAVOUR)),$(MARCH_v3))
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

A := $(OUT)/libweft.a
SO := $(OUT)/libweft.so.$(VERSION)
PROGRAM := $(OUT)/weft

.PHONY: all build mpi help lint format generated site clean FORCE
.DELETE_ON_ERROR:

all: build $(if $(wildcard .config),study)
build: $(A) $(SO) $(PROGRAM) $(if $(filter release,$(FLAVOUR)),$(BUILD)/weft)

help:
	@sed -n 's/^#   make/make/p' $(firstword $(MAKEFILE_LIST))

# ---- compiling

# What depends on one of these files is built again when the settings in it change.
$(OUT)/flags: SETTINGS = $(CC) $(FLAGS) $(LDFLAGS)
$(OUT)/onednn: SETTINGS = $(ONEDNN)
$(OUT)/flags $(OUT)/onednn: FORCE
	@mkdir -p $(@D)
	@echo '$(SETTINGS)' | cmp -s - $@ || echo '$(SETTINGS)' >$@

COMPILE = @mkdir -p $(@D) && echo "  CC $@" && $(CC) $(FLAGS) $(EXTRA) -MMD -MP
$(filter %_amx.o,$(LIB_OBJ)): EXTRA := $(MARCH_amx)

$(OUT)/obj/%.o: src/%.c $(OUT)/flags
	$(COMPILE) -c $< -o $@ $(AFTER)

# The copies for processors older than 2013, which have slow products anyway, need not take the longest to compile.
$(if $(LEVELS),$(LEVEL_SRC:src/%.c=$(OUT)/obj/%.o)): EXTRA := -O2

# What it takes in as bytes the compiler does not tell of.
$(OUT)/obj/report/page/assets.o: $(wildcard src/report/page/*.html src/report/page/*.css src/report/page/*.js third_party/uPlot/*)
$(OUT)/obj/export/hf/hf_own.o $(OUT)/obj/export/torch/print.o $(OUT)/obj/export/parity.o: $(wildcard src/export/*.py src/export/*/*.py)

# An op's file does not depend on all of ops.def, but on ops.rows, whose date changes only if a row changes or goes: a new
# op compiles no other one again.
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
endef
$(foreach level,$(LEVELS),$(eval $(call LEVEL_RULES,$(level))))

-include $(LIB_OBJ:.o=.d) $(ONEDNN_OBJ:.o=.d) $(LEVEL_OBJ:.o=.d) $(CMD_OBJ:.o=.d) $(wildcard $(OUT)/tests/*.d $(OUT)/tests/*/*.d)

# ---- linking

$(A): $(LIB_OBJ) $(LEVEL_OBJ)
	@echo "  AR $@" && rm -f $@ && $(AR) qcs $@ $^

# weft.map is the list of what is exported.
$(SO): $(LIB_OBJ) $(LEVEL_OBJ) weft.map
	@echo "  LD $@" && $(CC) $(OPT) -shared -Wl,-soname,libweft.so.$(SOVERSION) -Wl,--version-script=weft.map -Wl,-z,nodelete \
		$(filter %.o,$^) -o $@ $(LDFLAGS) $(LIBS)
	@ln -sf $(notdir $@) $(OUT)/libweft.so.$(SOVERSION)

# Examples see what an installed library has: the header and the exported symbols.
EXAMPLES := $(patsubst examples/%.c,$(OUT)/examples/%,$(sort $(wildcard examples/*.c)))
$(EXAMPLES): $(OUT)/examples/%: examples/%.c include/weft.h $(SO)
	@mkdir -p $(@D) && echo "  CC $@" && $(CC) -std=c11 -D_DEFAULT_SOURCE $(OPT) $(WARN) -Iinclude $< -o $@ $(SO) \
		-Wl,-rpath,$(abspath $(OUT)) $(LDFLAGS) -lm -lpthread

$(PROGRAM): $(CMD_OBJ) $(ONEDNN_OBJ) $(A) $(OUT)/onednn
	@echo "  LD $@" && $(CC) $(OPT) $(CMD_OBJ) $(ONEDNN_OBJ) $(A) -o $@ $(LDFLAGS) $(ONEDNN_LIBS) $(LIBS)

$(BUILD)/weft: $(BUILD)/release/weft
	@ln -sf release/weft $@

# ---- ranks: a module for each kind of MPI, loaded when ranks are asked for; it needs nothing of the library

mpi: $(MPI_MODULES)
	@test -n "$(MPI_KINDS)" || { echo "there is neither mpicc.openmpi nor mpicc.mpich: run tools/deps.sh" && false; } >&2
$(MPI_MODULES): $(OUT)/weft-%.so: src/comm/mpi/mpi.c src/comm/comm.h $(OUT)/flags
	@echo "  MPICC $@" && OMPI_CC="$(CC)" MPICH_CC="$(CC)" mpicc.$* $(FLAGS) -shared $< -o $@ $(LDFLAGS)

# ---- the tree itself

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

# mkdocs counts no warnings when it is quiet.
site:
	@python=$$(WEFT_BUILD=$(abspath $(BUILD)) tools/venv.sh mkdocs==1.6.1 Pygments==2.21.0) && \
		$$python -m mkdocs build --strict --config-file tools/site/mkdocs.yml --site-dir $(abspath $(BUILD))/site
	@echo "$(BUILD)/site/index.html"

clean:
	rm -rf $(BUILD)

include tools/study.mk tools/tests.mk tools/install.mk
