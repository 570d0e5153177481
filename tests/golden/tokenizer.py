#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
#
# tokenizer.py - writes tokenizer.json and tokenizer_vectors.jsonl to its own folder: a small byte-level BPE tokenizer and
# the tokens of some texts. It implements the published definitions in the plainest way: pieces by a walk over
# characters instead of a pattern, merges by looking through the whole list again for every merge.
import json
import os
import random
import unicodedata

END = "<|endoftext|>"
TEXT = """The loom was warm before the weaver came. She'd thrown the shuttle ten thousand times and didn't count;
the weft remembered for her. "We'll see," they've said, "we're weaving what we'd meant to weave, aren't we?" It's 1804,
it's 1904, it's 2004: the patterns stay. Der Weber webt, die Weberin wägt; там ткут, тут ткут, и нить тянется.
織機は織り、織り手は歌う。織機は織り、織り手は歌う。      indented      and    spaced ... --- ===== !!! ???
"""
SPACE = set("\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000") | {chr(c) for c in range(0x2000, 0x200B)}


def kind(c):
    if c in SPACE:
        return "space"
    return {"L": "letter", "N": "number"}.get(unicodedata.category(c)[0], "other")


def pieces(s):
    i = 0
    while i < len(s):
        j = i
        for ending in ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d"):
            if s.startswith(ending, i):
                j = i + len(ending)
                break
        if j == i:
            start = i + 1 if s[i] == " " and i + 1 < len(s) and kind(s[i + 1]) != "space" else i
            j = start
            while j < len(s) and kind(s[j]) == kind(s[start]):
                j += 1
            if kind(s[start]) == "space" and j < len(s) and j - i > 1:
                j -= 1
        yield s[i:j]
        i = j


def runs(data):
    """Whole characters and single bytes that are none, as (text or None, bytes)."""
    good, i = b"", 0
    while i < len(data):
        for n in range(1, 5):
            try:
                char = data[i:i + n].decode()
            except UnicodeDecodeError:
                continue
            if len(char) == 1 and len(data[i:i + n]) == n:
                good += data[i:i + n]
                i += n
                break
        else:
            if good:
                yield good.decode(), good
            yield None, data[i:i + 1]
            good, i = b"", i + 1
    if good:
        yield good.decode(), good


def split(data):
    for text, raw in runs(data):
        if text is None:
            yield raw
        else:
            yield from (p.encode() for p in pieces(text))


def join(word, pair):
    out, i = [], 0
    while i < len(word):
        if tuple(word[i:i + 2]) == pair:
            out.append(word[i] + word[i + 1])
            i += 2
        else:
            out.append(word[i])
            i += 1
    return out


def train(data, vocab):
    words, merges, tokens = [[bytes([b]) for b in p] for p in split(data)], [], set()
    while len(tokens) < vocab - 257:
        counts = {}
        for w in words:
            for pair in zip(w, w[1:]):
                counts[pair] = counts.get(pair, 0) + 1
        best = max(counts, key=lambda pair: (counts[pair], pair))
        merges.append(best)
        tokens.add(best[0] + best[1])
        words = [join(w, best) for w in words]
    return merges


def encode(data, merges, ids, specials):
    out = []
    parts = data.split(END.encode()) if specials else [data]
    for n, part in enumerate(parts):
        if n:
            out.append(ids[END])
        for p in split(part):
            word = [bytes([b]) for b in p]
            for pair in merges:
                word = join(word, pair)
            out += [ids[t] for t in word]
    return out


def names():
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [b for b in range(256) if b not in visible]
    return {**{b: chr(b) for b in visible}, **{b: chr(256 + i) for i, b in enumerate(hidden)}}


def texts():
    yield from ("", " ", "  ", "\n", " \n", "\n ", "a", " a", "  a", "\t\ta", "a \n b", "a  ", "it's", "IT'S", "'s", "''s", " 's",
                "'ll'll", "we'd've", "12ab34", "½ ² Ⅷ", "x\u180ey", "x\u00a0y", "x\u3000 y", "\u2003\u2003a", "e\u0301e\u0301",
                "織機は織り", "там ткут", "🧵🧶 loom", "a\u200db", "---===", "the weft remembered", "aaaaaaaaaaaaaaaaaaaaa",
                "\x00\x1f\x7f", "\x1c\x1d", END, "a" + END + "b", END + END + " ", "<|endoftext", "<|" + END + "|>",
                "thetheththeth" * 12, "  " * 70, "=" * 100, "織り" * 40, "Don't stop")
    draw = random.Random(1)
    for _ in range(60):
        yield "".join(draw.choice("aet hw'.\n  é織0²\u3000Т🧵st") for _ in range(draw.randint(1, 100)))


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    name = names()
    merges = train(TEXT.encode(), 400)
    written = lambda t: "".join(name[b] for b in t)
    order = [END] + [bytes([b]) for b in name] + list(dict.fromkeys(a + b for a, b in merges))
    ids = {t: i for i, t in enumerate(order)}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": 0, "content": END, "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True}],
        "normalizer": None, "pre_tokenizer": level, "post_processor": level, "decoder": level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None,
                  "vocab": {t if t == END else written(t): i for t, i in ids.items()},
                  "merges": [written(a) + " " + written(b) for a, b in merges]},
    }
    with open(os.path.join(here, "tokenizer.json"), "w") as f:
        json.dump(tokenizer, f, ensure_ascii=False, indent=1)
        f.write("\n")
    draw = random.Random(2)
    inputs = [t.encode() for t in texts()]
    inputs += [bytes(draw.choice(b"a \xc3\xa9\xe7\xb9\x94\xff\x80\xf0\xed\xa0\x80\xc0\n'") for _ in range(draw.randint(1, 40)))
               for _ in range(60)]
    with open(os.path.join(here, "tokenizer_vectors.jsonl"), "w") as f:
        f.write(json.dumps({"train": TEXT.encode().hex()}) + "\n")
        for data in inputs:
            vector = {"hex": data.hex(), "ids": encode(data, merges, ids, False)}
            if END.encode() in data:
                vector["ids_special"] = encode(data, merges, ids, True)
            f.write(json.dumps(vector, separators=(",", ":")) + "\n")


main()
