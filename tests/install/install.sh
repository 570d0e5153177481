#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# install.sh - installs into an empty folder, builds programs against the installed library with pkg-config, shared and
# static, and uninstalls without a trace.
set -u
source tests/tap

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
version=$(sed -n 's/^#define WEFT_VERSION "\(.*\)"/\1/p' include/weft.h)

quiet() { "$@" >"$root.log" 2>&1 || { cat "$root.log" && rm -f "$root.log" && false; }; }

make_install() { make --no-print-directory BUILD="${WEFT_BUILD:-build}" DESTDIR="$root" PREFIX=/usr "$@"; }

quiet make_install install
result $? "make install"

for file in bin/weft lib/libweft.a lib/libweft.so lib/libweft.so."${version%%.*}" lib/libweft.so."$version" \
    include/weft.h lib/pkgconfig/weft.pc share/doc/weft/LICENSE share/doc/weft/LICENSE.uPlot \
    share/man/man1/weft.1 share/man/man1/weft-train.1 share/bash-completion/completions/weft \
    share/zsh/site-functions/_weft share/fish/vendor_completions.d/weft.fish; do
    [[ -s $root/usr/$file ]]
    result $? "there is $file"
done

[[ $("$root/usr/bin/weft" version) == *"$version"* ]]
result $? "the installed program prints its version"

bash -n "$root/usr/share/bash-completion/completions/weft"
result $? "bash reads the completion"
PATH=$root/usr/bin:$PATH bash -c 'source "$1" && COMP_WORDS=(weft tra) COMP_CWORD=1 && _weft && [[ ${COMPREPLY[*]} == train ]]' - \
    "$root/usr/share/bash-completion/completions/weft"
result $? "the completion of \"weft tra\" is train"

[[ $(head -n 1 "$root/usr/share/zsh/site-functions/_weft") == "#compdef weft" ]]
result $? "zsh will find the completion"

released=$(sed -n 's/^#define WEFT_RELEASE_DATE "\(.*\)"/\1/p' include/weft.h)
dates=$(grep -h '^\.TH' "$root"/usr/share/man/man1/*.1 | grep -o '[0-9-]\{10\}' | sort -u)
[[ -n $released && $dates == "$released" ]]
result $? "the man pages have the date of the release, $released: $dates"

# Three lists: what the header declares, what weft.map records, what the library has, each under its version.
sed -nE 's/^WEFT_API .*\<(weft_[a-z_]+)\(.*/\1/p' include/weft.h | sort >"$root/declared"
sed -nE 's/^ +(weft_[a-z_]+);/\1/p' weft.map | sort >"$root/recorded"
nm -D --defined-only --with-symbol-versions "$root/usr/lib/libweft.so" |
    awk '$2 == "T" { sub("@@WEFT_0$", "", $3); print $3 }' | sort >"$root/exported"
difference=$(diff "$root/declared" "$root/recorded")
[[ -s $root/declared && -z $difference ]]
result $? "weft.map lists the $(wc -l <"$root/declared") functions that weft.h declares: $difference"
difference=$(diff "$root/recorded" "$root/exported")
[[ -z $difference ]]
result $? "the library exports these, nothing else: $difference"

linked=$(objdump -p "$root/usr/bin/weft" "$root/usr/lib/libweft.so" | grep -E 'NEEDED.*(dnnl|omp)')
[[ -z $linked ]]
result $? "program and library need neither oneDNN nor OpenMP: $linked"

cat >"$root/user.c" <<'END'
#include <weft.h>

#include <stdio.h>
#include <string.h>

int main(void)
{
    if (weft_threads_set(-1) != WEFT_INVALID || !strstr(weft_error(), "-1") || strcmp(weft_version(), WEFT_VERSION))
        return 1;
    puts(weft_version());
    return weft_threads_set(1) != WEFT_OK;
}
END
export PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_PATH=$root/usr/lib/pkgconfig
# shellcheck disable=SC2046 # flags are words
quiet cc "$root/user.c" -o "$root/shared" $(pkg-config --cflags --libs weft) &&
    [[ $(LD_LIBRARY_PATH=$root/usr/lib "$root/shared") == "$version" ]]
result $? "a program links with libweft.so and runs"
# shellcheck disable=SC2046
quiet cc $(pkg-config --cflags weft) "$root/user.c" -o "$root/static" "$root/usr/lib/libweft.a" \
    $(pkg-config --static --libs-only-l weft | sed 's/-lweft//') && [[ $("$root/static") == "$version" ]]
result $? "a program links with libweft.a and runs"

cat >"$root/user.cc" <<'END'
#include <weft.h>

#include <cstring>
#include <iostream>
#include <memory>

int main()
{
    weft_config *config;
    weft_model *model;
    weft_model_info info;
    if (weft_config_create(&config, "gpt2") != WEFT_OK || weft_config_set(config, "layers=1") != WEFT_OK ||
        weft_model_create(&model, config, 1) != WEFT_OK || weft_model_init(model) != WEFT_OK ||
        weft_model_describe(model, &info) != WEFT_OK)
        return 1;
    std::unique_ptr<weft_model, void (*)(weft_model *)> owner(model, weft_model_free);
    std::unique_ptr<weft_config, void (*)(weft_config *)> other(config, weft_config_free);
    std::cout << info.layers << '\n';
    return std::strlen(info.weights_sha256) != 64;
}
END
# shellcheck disable=SC2046
quiet c++ -std=c++11 -Wall -Wextra -Werror -pedantic "$root/user.cc" -o "$root/cxx" $(pkg-config --cflags --libs weft) &&
    [[ $(LD_LIBRARY_PATH=$root/usr/lib "$root/cxx") == 1 ]]
result $? "a C++ program includes weft.h, links with the library and runs"

if command -v mpirun.openmpi >/dev/null && command -v mpicc.openmpi >/dev/null; then
    quiet make_install install-mpi && OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 quiet mpirun.openmpi \
        --oversubscribe -n 2 "$root/usr/bin/weft" train gpt2 --set layers=1 --set width=32 --set heads=2 --set steps=1 \
        --set micro_batches=2 --set eval_samples=4
    result $? "make install-mpi: two ranks find the module and train"
else
    skip "make install-mpi" "there is no Open MPI"
fi

quiet make_install uninstall
[[ -z $(find "$root/usr" ! -type d) ]]
result $? "make uninstall leaves nothing"

rm -f "$root.log"
finish
