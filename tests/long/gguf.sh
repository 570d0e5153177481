#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# gguf.sh - models trained by Weft have the same tokens, perplexities and greedy texts in llama.cpp
# (tests/export/gguf_llama.py). Compiles llama-cpp-python once, which takes a few minutes, unless WEFT_LLAMA_PYTHON names
# a python that has it. Needs WEFT_DATA.
set -u
[[ -n ${WEFT_DATA:-} ]] || { echo "skip: WEFT_DATA is not set"; exit 77; }

version=0.3.36
folder=$(realpath -m "${WEFT_BUILD:-build}/venv/llama-cpp-python-$version")
# Only what computes: no tools, no pictures, no downloads, and the same instructions on every machine.
off=(LLAVA_BUILD LLAMA_CURL LLAMA_BUILD_TOOLS LLAMA_BUILD_EXAMPLES LLAMA_BUILD_TESTS LLAMA_BUILD_SERVER LLAMA_BUILD_COMMON
    GGML_NATIVE GGML_OPENMP GGML_LLAMAFILE)
compile() {
    python3 -m venv "$folder" &&
        CMAKE_ARGS="$(printf -- '-D%s=OFF ' "${off[@]}")" CMAKE_BUILD_PARALLEL_LEVEL=$(nproc) "$folder/bin/python" -m pip install \
            --quiet --no-input --disable-pip-version-check --no-binary llama-cpp-python "llama-cpp-python==$version" numpy==2.2.6
}
python=${WEFT_LLAMA_PYTHON:-$folder/bin/python}
if ! "$python" -c 'import llama_cpp' 2>/dev/null; then
    mkdir -p "${folder%/*}"
    compile >"$folder.log" 2>&1 || { echo "skip: cannot compile llama-cpp-python: $(tail -n 1 "$folder.log")"; exit 77; }
fi
PYTHON=$python exec tests/export/run gguf_llama.py
