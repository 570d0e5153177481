#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tokens.py LIBRARY DATA FOLDER [NAME...] - tokenizers as Hugging Face's models have them, against PyPI's tokenizers.

Trains a small tokenizer for every family of models, with the normalizer, pre_tokenizer, decoder and post_processor that
the family publishes, and compares all token ids, with and without special tokens, and all decoded texts: on prose, on texts that
are rich in Unicode, and on every code point. Without WEFT_EVERY=1 it takes a sample of all of these. Prints TAP. Needs tokenizers
and numpy.
"""
import ctypes
import json
import os
import random
import struct
import sys
import time
import unicodedata

import numpy
from common import FOLDER, finish, result
from common import library as weft
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

DATA, NAMES = os.environ["WEFT_DATA"], sys.argv[4:]
EVERY = int(os.environ.get("WEFT_EVERY", 30))  # sampling interval of texts and code points; 1: all (make long-whole)
PROSE = 10_000_000 // EVERY
PART = 1 if EVERY == 1 else 6  # divisor of the number of training texts of tokenizers and of random texts


# ---- Weft, through its library

class Weft:
    def __init__(self, path):
        self.t = ctypes.c_void_p()
        if weft.weft_tokenizer_load(ctypes.byref(self.t), path.encode()):
            raise RuntimeError(weft.weft_error().decode())

    def encode(self, data, specials):
        room = 2 * len(data) + 64
        while True:
            ids, count = numpy.empty(room, numpy.int32), ctypes.c_size_t()
            if weft.weft_tokenizer_encode(self.t, data, ctypes.c_size_t(len(data)), ctypes.c_bool(specials),
                                          ids.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(room), ctypes.byref(count)):
                raise RuntimeError(weft.weft_error().decode())
            if count.value <= room:
                return ids[:count.value]
            room = count.value

    def decode(self, ids):
        ids = numpy.ascontiguousarray(ids, numpy.int32)
        size = ctypes.c_size_t()
        args = (self.t, ids.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(len(ids)))
        if weft.weft_tokenizer_decode(*args, None, ctypes.c_size_t(0), ctypes.byref(size)):
            raise RuntimeError(weft.weft_error().decode())
        text = ctypes.create_string_buffer(size.value + 1)
        weft.weft_tokenizer_decode(*args, text, size, ctypes.byref(size))
        return text.raw[:size.value]

    def save(self, path):
        if weft.weft_tokenizer_save(self.t, path.encode()):
            raise RuntimeError(weft.weft_error().decode())


# ---- texts

def prose(size):
    with open(os.path.join(DATA, "se-prose/train.txt"), "rb") as f:
        return f.read(size).decode(errors="ignore")


SCRIPTS = [(0x20, 0x7e), (0xa0, 0x17f), (0x300, 0x36f), (0x370, 0x3ff), (0x400, 0x4ff), (0x591, 0x5f4), (0x600, 0x6ff),
           (0x900, 0x97f), (0xe00, 0xe5b), (0x1100, 0x11ff), (0x1ab0, 0x1abe), (0x1e00, 0x1fff), (0x2000, 0x206f),
           (0x20d0, 0x20f0), (0x2100, 0x21ff), (0x2460, 0x24ff), (0x2e80, 0x2fd5), (0x3000, 0x30ff), (0x4e00, 0x9fa5),
           (0xac00, 0xd7a3), (0xf900, 0xfad9), (0xfb00, 0xfb4f), (0xff00, 0xffef), (0x10330, 0x1034a), (0x11080, 0x110c1),
           (0x1d100, 0x1d1e8), (0x1d400, 0x1d7ff), (0x1f300, 0x1f64f), (0x1f900, 0x1f9ff), (0x2f800, 0x2fa1d)]
PIECES = ["\r\n", "\n\n", "\n", "\r", "\t", " ", "  ", "    ", " " * 17, "\u00a0", "\u3000", "\u200b", "\u180e", "\u2581", "\u2581\u2581",
          "'s", "'S", "'ll", "'LL", "'Re", "'ve", "\u2019s", "'\u017f", "\u212a", "\u00df", "\ufb06", "1", "12", "123", "1234", "3.14", "\u00bd", "\u0663\u0664",
          "\u2167", "e\u0301", "\u00e9", "a\u0323\u0302", "\u1e63\u0307", "\u0915\u093c", "\u0958", "\u1100\u1161\u11a8", "\uac01", "\u212b",
          "\U0001f9f5", "\U0001f469\u200d\U0001f469\u200d\U0001f466", "\U0001f1e9\U0001f1ea", "...", "?!", "=====", "/* x */", "<s>", "</s>", "<unk>",
          "<|endoftext|>", "<|im_start|>", "<|begin_of_text|>", "<pad>", "hello world", "<0x41>", "helloworld", "the", " the", "don't", "DON'T", "x_y", "\x00", "\x7f"]


def rich(seed, count):
    """Scripts, marks, emoji, runs of spaces and digits, contractions, the texts of added tokens."""
    r = random.Random(seed)
    parts = []
    for _ in range(count):
        if r.random() < 0.6:
            parts.append(r.choice(PIECES))
        else:
            low, high = r.choice(SCRIPTS)
            parts.append("".join(chr(r.randint(low, high)) for _ in range(r.randint(1, 6))))
    return "".join(parts)


def any_text(seed, count):
    """Any code points."""
    r = random.Random(seed)
    codes = (r.randint(0, 0x10ffff) for _ in range(count))
    return "".join(chr(c) for c in codes if not 0xd800 <= c <= 0xdfff)


# ---- families of models, with small vocabularies

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
VOCAB = 2000


def byte_level(pre, normalizer=None, specials=(), post=None, ignore_merges=False, sample=None):
    t = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer:
        t.normalizer = normalizer
    t.pre_tokenizer = pre
    t.decoder = decoders.ByteLevel(add_prefix_space=True, trim_offsets=True, use_regex=True)
    t.train_from_iterator(sample, trainers.BpeTrainer(vocab_size=VOCAB, special_tokens=list(specials), show_progress=False,
                                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.post_processor = post or processors.ByteLevel(trim_offsets=False)
    return t


def gpt2(sample):
    return byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), sample=sample,
                      specials=[AddedToken("<|endoftext|>", normalized=True, special=True)])


def gpt2_prefix(sample):
    t = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True), sample=sample, specials=["<|endoftext|>"])
    t.add_tokens(["hello world", "helloworld", "  ", "    "])
    return t


def smollm2(sample):
    t = byte_level(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]),
                   sample=sample, specials=["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    return t


def llama3(sample):
    t = byte_level(pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
                                            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]),
                   sample=sample, ignore_merges=True)
    t.add_special_tokens([AddedToken(x, normalized=False, special=True) for x in ("<|begin_of_text|>", "<|end_of_text|>")])
    begin = t.token_to_id("<|begin_of_text|>")
    t.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|>:1 $B:1",
                                      special_tokens=[("<|begin_of_text|>", begin)])])
    return t


def qwen2(sample):
    t = byte_level(pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN2), "isolated"),
                                            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]),
                   normalizer=normalizers.NFC(), sample=sample)
    t.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    t.add_tokens([AddedToken("<tool_call>", normalized=False), AddedToken("hello world", normalized=True),
                  AddedToken("helloworld", normalized=False), AddedToken("\u1e69", normalized=True)])
    return t


def sentencepiece(sample, words=True, byte_fallback=True, metaspace=None, fuse_unk=True, normalized=False):
    """Llama 2 and TinyLlama: merges over characters, bytes for what is not in the vocabulary."""
    trained = Tokenizer(models.BPE(unk_token="<unk>"))
    if words:
        trained.pre_tokenizer = pre_tokenizers.Metaspace()
    else:
        trained.normalizer = normalizers.Replace(" ", "\u2581")
    specials = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256) if byte_fallback]
    text = [line[:2000].replace("z", "") for line in sample]  # "z" is not in the vocabulary
    trained.train_from_iterator(text, trainers.BpeTrainer(vocab_size=VOCAB + 256, special_tokens=specials, show_progress=False))
    model = json.loads(trained.to_str())["model"]
    t = Tokenizer(models.BPE(vocab=model["vocab"], merges=[tuple(m) for m in model["merges"]], unk_token="<unk>",
                             fuse_unk=fuse_unk, byte_fallback=byte_fallback))
    if metaspace:
        t.pre_tokenizer = pre_tokenizers.Metaspace(**metaspace)
    else:
        t.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    t.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                   decoders.Strip(" ", 1, 0)])
    t.add_special_tokens([AddedToken(x, normalized=normalized, special=True) for x in ("<unk>", "<s>", "</s>")])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    return t


def llama2(sample):
    return sentencepiece(sample)


def tinyllama(sample):
    t = sentencepiece(sample)
    t.add_tokens([AddedToken("<pad>", normalized=False), AddedToken("hello world", normalized=True)])
    return t


def llama2_first(sample):
    t = sentencepiece(sample, metaspace={"prepend_scheme": "first", "split": False})
    t.add_tokens([AddedToken("<pad>", normalized=False)])
    return t


def metaspace(sample):
    t = sentencepiece(sample, metaspace={"prepend_scheme": "always", "split": True})
    t.decoder = decoders.Metaspace()
    return t


def across_words(sample):
    return sentencepiece(sample, words=False, normalized=True)


def unknown(sample):
    return sentencepiece(sample, byte_fallback=False)


def unknown_each(sample):
    return sentencepiece(sample, byte_fallback=False, fuse_unk=False, metaspace={"prepend_scheme": "never", "split": True})


def split(base, pattern, behavior, invert=False, digits=None):
    t = Tokenizer.from_str(base)
    some = [pre_tokenizers.Split(pattern, behavior, invert)]
    if digits is not None:
        some.append(pre_tokenizers.Digits(individual_digits=digits))
    t.pre_tokenizer = pre_tokenizers.Sequence([*some, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return t


FAMILIES = {f.__name__: f for f in (gpt2, smollm2, llama3, qwen2, llama2)}
OTHERS = {f.__name__: f for f in (gpt2_prefix, tinyllama, llama2_first, metaspace, across_words, unknown, unknown_each)}
SPLITS = [(name, pattern, digits, behavior, invert)
          for name, pattern, digits in (("spaces", Regex(r"\s+"), None), ("comma", ", ", False), ("words", Regex(r"\w+|[^\w\s]"), True),
                                        ("lines", Regex(r"^[^\n]+$|(?<=e)\n(?=\S)"), None))
          for behavior in ("isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous")
          for invert in (False, True)]


# ---- every code point

BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
MANY = (range(0x3400, 0xa000), range(0xac00, 0xd7a4), range(0xe000, 0xf900), range(0x20000, 0x32400))  # alike: every 16th
CODES = [c for c in [*range(0x32400), *range(0xe0000, 0xe0200), 0xf0000, 0x10fffd]
         if not 0xd800 <= c <= 0xdfff and (c % 16 == 0 or not any(c in r for r in MANY))]
CODES = [c for c in CODES if c < 0x250 or c % EVERY == EVERY // 2]
KNOWN = [c for c in CODES if unicodedata.category(chr(c)) != "Cn"]  # in Unicode 14, the version in PCRE2 10.42 and Python 3.11


def visible(pre, normalizer=None, joined=True):
    """Merges x, 1, ' and a space with any byte after them, and y with any before it, so the ids show where a text is split."""
    merges = dict.fromkeys([(a, b) for a in "x1'\u0120" for b in BYTES] + [(b, "y") for b in BYTES]) if joined else {}
    vocab = {name: i for i, name in enumerate(BYTES)}
    for a, b in merges:
        vocab.setdefault(a + b, len(vocab))
    t = Tokenizer(models.BPE(vocab=vocab, merges=list(merges)))
    t.pre_tokenizer = pre
    t.decoder = decoders.ByteLevel()
    if normalizer:
        t.normalizer = normalizer
    return t


def parts(*pre):
    return pre_tokenizers.Sequence([*pre, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def around(c):
    return f"x{c}y {c}{c} 1{c}'{c}y"


def marks(c):
    d = unicodedata.normalize("NFD", c)
    return f"{c} a{c}\u0301 \u0345{c} {c}\u0334 \u0301{c}\u093c\u0334 {d} {d}\u0323 {d[0]}\u0323{d[1:]} \U00011935{c}"


CHARACTERS = {
    "GPT-2's pattern": (visible(pre_tokenizers.ByteLevel(add_prefix_space=False)), around),
    "Llama 3's pattern": (visible(parts(pre_tokenizers.Split(Regex(LLAMA3), "isolated"))), around),
    "Digits": (visible(parts(pre_tokenizers.Digits(individual_digits=True))), around),
    r"\w": (visible(parts(pre_tokenizers.Split(Regex(r"\w"), "isolated"))), around),
    r"\p{M}, \p{Lu}, \p{Han}": (visible(parts(pre_tokenizers.Split(Regex(r"\p{M}|\p{Lu}|\p{Han}"), "isolated"))), around),
    "(?i: )": (visible(parts(pre_tokenizers.Split(Regex(r"(?i:'s|'t|'re|'ve|'m|'ll|'d|'k)"), "isolated"))),
               lambda c: f"'{c} '{c}l 'l{c} '{c}e 'r{c}y"),
    "NFC": (visible(pre_tokenizers.ByteLevel(add_prefix_space=False), normalizers.NFC(), joined=False), marks),
}


def each_character(name, theirs, text_of):
    path = os.path.join(FOLDER, "characters.json")
    theirs.save(path)
    ours = Weft(path)
    different = []
    codes = CODES if name == "NFC" else KNOWN

    def test(codes):
        text = "\n".join(text_of(chr(c)) for c in codes)
        a = numpy.array(theirs.encode_batch_fast([text], add_special_tokens=False)[0].ids, numpy.int32)
        if numpy.array_equal(a, ours.encode(text.encode(), True)):
            return
        if len(codes) == 1:
            different.append(codes[0])
        else:
            test(codes[:len(codes) // 2])
            test(codes[len(codes) // 2:])

    for i in range(0, len(codes), 2000):
        test(codes[i:i + 2000])
    if different:
        print("#", " ".join(f"{c:x}" for c in different[:100]))
    result(not different, f"{name}: {len(codes)} code points, of which {len(different)} differ")


# ---- comparing

def first_difference(a, b):
    n = min(len(a), len(b))
    different = numpy.flatnonzero(a[:n] != b[:n])
    return int(different[0]) if len(different) else n


def same_ids(theirs, ours, text, specials):
    theirs.encode_special_tokens = not specials
    start = time.time()
    a = numpy.array(theirs.encode_batch_fast([text], add_special_tokens=False)[0].ids, numpy.int32)
    middle = time.time()
    b = ours.encode(text.encode(), specials)
    seconds = middle - start, time.time() - middle
    if numpy.array_equal(a, b):
        return True, a, seconds
    i = first_difference(a, b)
    where = theirs.decode(a[max(0, i - 8):i].tolist(), skip_special_tokens=False)
    print(f"# {len(a)} and {len(b)} tokens differ at {i}, after {where!r}: theirs "
          f"{[theirs.id_to_token(int(x)) for x in a[i:i + 8]]}, ours {[theirs.id_to_token(int(x)) for x in b[i:i + 8]]}")
    return False, a, seconds


def same_text(theirs, ours, ids):
    a = theirs.decode(ids.tolist(), skip_special_tokens=False)
    b = ours.decode(ids).decode(errors="replace")
    if a == b:
        return True
    i = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    print(f"# texts differ at {i}: theirs {a[max(0, i - 9):i + 9]!r}, ours {b[max(0, i - 9):i + 9]!r}")
    return False


def same_random_text(theirs, ours):
    """Random ids, without half characters: after ByteFallback they are replaced differently."""
    r = numpy.random.default_rng(5)
    fallback = theirs.token_to_id("<0x41>") is not None
    for _ in range(100):
        ids = r.integers(0, theirs.get_vocab_size(), 12)
        if fallback and "\ufffd" in theirs.decode(ids.tolist(), skip_special_tokens=False):
            continue
        if not same_text(theirs, ours, ids):
            return False
    return True


def compare(name, theirs, texts):
    path = os.path.join(FOLDER, f"{name}.json")
    theirs.save(path)
    ours = Weft(path)
    ours.save(path + ".saved")
    again = Weft(path + ".saved")
    good, said = same_random_text(theirs, ours), ""
    for what, text in texts:
        for specials in (True,) if len(text) > 2_000_000 else (True, False):
            same, ids, seconds = same_ids(theirs, ours, text, specials)
            good = good and same and same_text(theirs, ours, ids)
            good = good and numpy.array_equal(again.encode(text.encode(), specials), ids)
            if what == "prose" and specials:
                said = f"{len(text.encode()) / 1e6:.1f} MB in {seconds[1]:.2f} s, tokenizers {seconds[0]:.2f} s, {len(ids)} tokens"
            if not same:
                print(f"# {name}: {what}, specials {specials}")
    result(good, f"{name}: {said}")


# ---- stories260K, a trained model of llama2.c: a list of pieces and scores

def stories():
    with open(os.path.join(DATA, "stories260k/tok512.bin"), "rb") as f:
        data = f.read()
    pieces, at = [], 4
    while at < len(data):
        score, size = struct.unpack_from("<fi", data, at)
        pieces.append((data[at + 8:at + 8 + size].decode().strip("\n").replace(" ", "\u2581"), score))
        at += 8 + size
    pieces = [(piece or "\n", score) for piece, score in pieces]
    vocab = {piece: i for i, (piece, _) in enumerate(pieces)}
    merges = [(piece[:k], piece[k:]) for piece, score in sorted(pieces[259:], key=lambda x: -x[1])
              for k in range(1, len(piece)) if piece[:k] in vocab and piece[k:] in vocab]
    t = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    t.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                   decoders.Strip(" ", 1, 0)])
    t.add_special_tokens([AddedToken(x, normalized=False, special=True) for x in ("<unk>", "<s>", "</s>")])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return t


def check_stories():
    """Checks the text that the model's author published."""
    path = os.path.join(FOLDER, "stories.json")
    stories().save(path)
    ours = Weft(path)
    with open(os.path.join(DATA, "stories260k/greedy_256.txt"), "rb") as f:
        text = f.read().rstrip(b"\n")
    with open(os.path.join(DATA, "stories260k/greedy_256_ids.txt")) as f:
        ids = [int(x) for x in f.read().split()]
    result(ours.decode(ids) == text, f"stories260K: {len(ids)} tokens decode to what was published")
    ids = [x for x in ids if x > 2]
    result(ours.encode(text, False).tolist() == ids and ours.decode(ids) == text, "stories260K: and are encoded again")


def main():
    text = prose(PROSE)
    sample = text[:2_000_000 // PART].split("\n") + [rich(1, 3000).replace("\x00", "")]
    small = [("rich", rich(2, 40000 // PART)), ("any", any_text(3, 60000 // PART)), ("empty", ""), ("one", "a"), ("space", " "), ("spaces", "  a"),
             ("begin", "<s>a"), ("two", "<s></s> x</s>")]
    small += [(f"short {i}", rich(100 + i, 3)) for i in range(200)]
    for name, make in FAMILIES.items():
        if not NAMES or name in NAMES:
            compare(name, make(sample), [("prose", text)] + small)
    for name, make in OTHERS.items():
        if not NAMES or name in NAMES:
            compare(name, make(sample), [("prose", text[:1_000_000])] + small)
    base = byte_level(parts(), sample=sample).to_str()  # merges cross words
    for name, pattern, digits, behavior, invert in SPLITS[::1 if PART == 1 else 3]:
        if not NAMES or "split" in NAMES:
            compare(f"split_{name}_{behavior}{'_inverted' * invert}", split(base, pattern, behavior, invert, digits),
                    [("prose", text[:50_000]), ("rich", rich(4, 4000)), ("any", any_text(5, 4000))])
    if not NAMES or "stories" in NAMES:
        compare("stories", stories(), [("prose", text[:1_000_000])] + small)
        check_stories()
    for name, (theirs, text_of) in CHARACTERS.items():
        if not NAMES or name in NAMES:
            each_character(name, theirs, text_of)
    finish()


if __name__ == "__main__":
    main()
