#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# deps.sh [--golden] - installs the packages needed to build and test, on Debian 12 and its derivatives.
# --golden adds PyTorch and mpmath, which only the generators of tests/golden and the long tests need.
set -eu

packages=(
    gcc libc6-dev make binutils pkg-config                              # building
    libjansson-dev libpcre2-dev libzstd-dev librandom123-dev            # linked, or included (Random123)
    libcmocka-dev libdnnl-dev                                           # unit tests; make ONEDNN=yes
    clang clang-format clang-tidy libclang-rt-14-dev llvm-14            # lint, and the second compiler with its sanitizers
    valgrind gcovr graphviz python3 python3-venv zstd kconfig-frontends scdoc zsh fish
)
[ "${1-}" != --golden ] || packages+=(python3-torch libopenblas0-pthread python3-mpmath)

sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update
$sudo apt-get install -y --no-install-recommends "${packages[@]}"
