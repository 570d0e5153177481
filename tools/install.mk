# SPDX-License-Identifier: MIT
#
# install.mk - included by Makefile: man pages, and what is installed where.
PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
DATADIR ?= $(PREFIX)/share
DOCDIR ?= $(DATADIR)/doc/weft
MANDIR ?= $(DATADIR)/man/man1
D := $(DESTDIR)
.PHONY: man install install-mpi uninstall

# Man pages come from the commands' own tables, and have the date of the release.
RELEASED := $(shell sed -n 's/^\#define WEFT_RELEASE_DATE "\(.*\)"/\1/p' include/weft.h)
COMMANDS := $(shell sed -n "s/^CMD(\(.*\))/\1/p" src/cmd/cmds.def 2>/dev/null)
MAN := $(OUT)/man/weft.1 $(COMMANDS:%=$(OUT)/man/weft-%.1)
man: $(MAN)
$(MAN): $(OUT)/man/%.1: $(PROGRAM)
	@mkdir -p $(@D)
	@$(PROGRAM) help $(patsubst weft-%,%,$(filter-out weft,$*)) --as scdoc | SOURCE_DATE_EPOCH=$$(date -u -d $(RELEASED) +%s) scdoc >$@

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
