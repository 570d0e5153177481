# SPDX-License-Identifier: MIT
#
# study.mk - included by Makefile: configs/NAME -> .config -> studies/NAME.
.PHONY: study menuconfig savedefconfig

STUDY = $(or $(shell sed -n 's/^CONFIG_WEFT_STUDY="\([A-Za-z0-9_-]*\)"$$/\1/p' .config 2>/dev/null),study)
KCONFIG := KCONFIG_CONFIG=.config kconfig
SET :=
BUDGET :=
LONG :=
STAND_IN :=
ifneq ($(if $(wildcard .config),,$(SET)$(BUDGET)$(LONG)$(STAND_IN)),)
$(error SET, BUDGET, LONG and STAND_IN are for the study of a .config, and there is none: run `make defconfig-NAME`, for NAME see configs/)
endif

# A text that stands in for the study's data becomes token files, with TOKENIZER; a folder has them.
TOKENIZER := bytes
STAND_IN_TEXT := $(if $(wildcard $(STAND_IN)/.),,$(STAND_IN))
STAND_IN_DATA := $(if $(STAND_IN_TEXT),data/stand-in/$(notdir $(STAND_IN))-$(notdir $(TOKENIZER)),$(STAND_IN))
data/stand-in/%/data.json: $(STAND_IN_TEXT) | build
	rm -rf $(@D)
	$(PROGRAM) data prepare $< --out $(@D) --tokenizer $(TOKENIZER)

STUDY_OPTIONS := $(strip $(SET:%=--set %) $(BUDGET:%=--budget %) $(LONG:%=--long) $(STAND_IN_DATA:%=--stand-in %))
study: build $(if $(STAND_IN_TEXT),$(STAND_IN_DATA)/data.json)
	$(PROGRAM) ablate --config .config --out studies/$(STUDY) $(STUDY_OPTIONS)

# Kconfig takes what it cannot use for nothing and is content: the program checks what it was asked for, and what it made
# of that. What is refused leaves no .config, so that `make` does not run the study before it instead.
ifneq ($(filter defconfig-% menuconfig savedefconfig,$(MAKECMDGOALS)),)
ifeq ($(wildcard $(PROGRAM)),)
$(info Weft checks the config, so it is built first. This takes minutes, but only once.)
endif
endif
defconfig-%: build
	@test -f configs/$* || { echo "there is no configs/$*; there are: $(filter-out Kconfig,$(notdir $(wildcard configs/*)))" && false; } >&2
	@command -v kconfig-conf >/dev/null || { echo "kconfig-conf is missing: run tools/deps.sh" && false; } >&2
	@rm -f .config
	@$(KCONFIG)-conf --defconfig=configs/$* configs/Kconfig >/dev/null 2>&1
	@$(PROGRAM) config configs/$* --kept .config || { rm -f .config && false; }
	@sed -i 's/^CONFIG_WEFT_STUDY=""$$/CONFIG_WEFT_STUDY="$*"/' .config
	@echo ".config has the study configs/$*: run it with make"

menuconfig: build
	@test -t 0 || { echo "menuconfig needs a terminal" && false; } >&2
	@$(KCONFIG)-mconf configs/Kconfig
	@$(PROGRAM) config .config

savedefconfig: build
	@$(PROGRAM) config .config >/dev/null
	@$(KCONFIG)-conf --savedefconfig=defconfig configs/Kconfig >/dev/null
	@echo "defconfig holds what .config has besides defaults: name it configs/NAME"
