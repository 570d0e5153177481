#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
#
# lint_circles.py - finds circles between the sources in the current folder: files of src/ that use each other's
# functions, directly or through others, and headers that include each other. It reads only the sources, so it needs no
# build.
#
# A .c file uses another if it names a function defined there, as a call or as a pointer. An _inl.h file is
# code, used by every file that includes it. Descriptors are data, so naming a table or an object does not count as use.
import os
import re
import sys

NOISE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.M)
# At the beginning of a line: what it returns, the name, the parameters and the body's brace.
DEFINITION = re.compile(r"^(?!static\b)[A-Za-z_][\w \t*]*?\b(weft_\w+)[ \t]*\(([^;{}]*)\)\s*\{", re.M)
NAME = re.compile(r"\bweft_\w+")
# An op's cases are tests, so they may use any op, even one that uses this op.
CASES = re.compile(r"^static void build\(struct weft_graph \*\w+, const struct weft_case \*\w+\)\n\{.*?^\}", re.S | re.M)
TAG = re.compile(r"\b(?:struct|enum|union)\s+weft_\w+") # may have the name of a function


def read_sources():
    sources = {}
    for folder, _, names in os.walk("src"):
        for name in names:
            if name.endswith((".c", ".h")):
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8", errors="replace") as f:
                    sources[path] = f.read()
    return sources


def find_uses(sources):
    """{file: {other file: the reason for the edge}} of code, and the same of headers that include each other."""
    plain = {path: CASES.sub(" ", NOISE.sub(" ", text)) for path, text in sources.items()}
    home, twice = {}, set()
    for path, text in plain.items():
        for name in DEFINITION.findall(text) if path.endswith(".c") else []:
            if home.setdefault(name[0], path) != path:
                twice.add(name[0])
    code, headers = {}, {}
    for path, text in sources.items():
        is_code = path.endswith((".c", "_inl.h"))
        for include in INCLUDE.findall(text):
            other = "src/" + include
            if other in sources:
                if is_code and other.endswith("_inl.h"):
                    code.setdefault(path, {})[other] = "includes it"
                if path.endswith(".h"):
                    headers.setdefault(path, {})[other] = "includes it"
        for name in NAME.findall(TAG.sub(" ", plain[path])) if is_code else []:
            other = home.get(name)
            if other and other != path and name not in twice:
                code.setdefault(path, {}).setdefault(other, "uses " + name)
    return code, headers


def find_circles(graph):
    """The strongly connected components of more than one file (Tarjan)."""
    index, low, stack, circles = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph.get(node, {})):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                circles.append(set(stack[at:]))
            del stack[at:]

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return circles


def shortest_circle(graph, files):
    """From one of the files back to it, by the fewest steps."""
    best = None
    for start in sorted(files):
        paths = [[start]]
        seen = {start}
        while paths and (not best or len(paths[0]) < len(best)):
            path = paths.pop(0)
            for other in sorted(graph.get(path[-1], {})):
                if other == start:
                    best = path
                    paths = []
                    break
                if other in files and other not in seen:
                    seen.add(other)
                    paths.append([*path, other])
    return best


def main():
    sys.setrecursionlimit(10000)
    for graph in find_uses(read_sources()):
        for files in find_circles(graph):
            circle = shortest_circle(graph, files)
            steps = [f"{a} {graph[a][b].replace('it', b) if graph[a][b] == 'includes it' else graph[a][b] + ' of ' + b}"
                     for a, b in zip(circle, circle[1:] + circle[:1])]
            more = f" ({len(files)} files are part of circles with these)" if len(files) > len(circle) else ""
            print(f"{circle[0]}: circle of {len(circle)} files: {'; '.join(steps)}{more}")


main()
