#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
#
# api_page.py HEADER - prints the reference page of the public interface as Markdown, from the header's comments: a
# comment "/* ## Title */" begins a section; every other comment describes the declarations that follow it.
import re
import sys


def blocks(text):
    """Comments and code outside of declarations' bodies, in order: ("comment" | "code", text)."""
    text = re.sub(r'^#(if|ifdef|endif|ifndef|include|define WEFT_H|define WEFT_API).*\n(extern "C" \{\n|\}\n)?', "", text, flags=re.M)
    at, code, depth = 0, "", 0
    while at < len(text):
        if text.startswith("/*", at) and depth == 0 and (not code.strip() or code.endswith("\n")):
            if code.strip():
                yield "code", code
            code, end = "", text.index("*/", at) + 2
            yield "comment", text[at:end]
            at = end
            continue
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        code += text[at]
        at += 1
    if code.strip():
        yield "code", code


def prose(comment):
    body = re.sub(r"^ ?\* ?", "", comment[2:-2], flags=re.M).strip()
    body = re.sub(r"^(weft_[a-z_]+\.[ch]|weft\.h) - ", "", re.sub(r"^SPDX.*\n+", "", body))
    return body[:1].upper() + body[1:]


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        parts = list(blocks(f.read()))
    print("# The C interface\n\n<!-- written from include/weft.h by `make generated` -->\n")
    for kind, text in parts:
        if kind == "comment" and prose(text).startswith("## "):
            print(f"{prose(text)}\n")
        elif kind == "comment":
            print(f"{prose(text)}\n")
        else:
            code = re.sub(r"^WEFT_API ", "", text.strip(), flags=re.M)
            code = re.sub(r"\n{3,}", "\n\n", code)
            print(f"```c\n{code}\n```\n")


main()
