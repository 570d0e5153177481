#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# deps.sh [--golden | --aarch64 | --slurm] - installs the packages needed to build and test, on Debian 12 and its derivatives.
# --golden adds PyTorch and mpmath, which only the generators of tests/golden and the long tests need; --aarch64 the
# compiler, emulator and libraries of `make aarch64`; --slurm what `make long-slurm` needs.
set -eu

packages=(
    gcc g++ libc6-dev make binutils pkg-config                          # building; weft.h is also used from C++
    libjansson-dev libpcre2-dev libutf8proc-dev libzstd-dev librandom123-dev # linked, or included (Random123)
    libcmocka-dev libdnnl-dev                                           # unit tests; make ONEDNN=yes
    clang clang-format clang-tidy libclang-rt-14-dev llvm-14            # lint, and the second compiler with its sanitizers
    openmpi-bin libopenmpi-dev mpich libmpich-dev                       # make mpi, and tests of ranks
    iproute2                                                            # tests of two hosts, as network namespaces
    valgrind gcovr graphviz python3 python3-venv zstd kconfig-frontends scdoc zsh fish
)
[ "${1-}" != --slurm ] || packages+=(slurm-wlm munge)
[ "${1-}" != --golden ] || packages+=(python3-torch libopenblas0-pthread python3-mpmath)

sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
export DEBIAN_FRONTEND=noninteractive
if [ "${1-}" = --aarch64 ]; then
    $sudo dpkg --add-architecture arm64
    packages+=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user)
    packages+=(libjansson-dev:arm64 libpcre2-dev:arm64 libutf8proc-dev:arm64 libzstd-dev:arm64 libcmocka-dev:arm64)
fi
$sudo apt-get update
$sudo apt-get install -y --no-install-recommends "${packages[@]}"
