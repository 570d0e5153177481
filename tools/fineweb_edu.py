#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
#
# fineweb_edu.py SHARD... --out DIR - writes token files from shards of FineWeb-Edu and checks them against the counts in
# the shards.
#
# A shard is a Parquet file of the dataset (needs pyarrow), a file of JSON lines with the same fields, or "-" for such
# lines on standard input. `weft data prepare` receives the texts through a pipe. Then its counts are compared with the
# shards: documents, bytes of text and, with GPT-2's tokenizer, tokens, which the dataset has in `token_count`. If they
# differ, the exit status is 1.
import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile

GPT2 = "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5"  # SHA-256 of OpenAI's vocab.bpe
LEARNED_FROM = 20000  # documents, about 100 MB
VALIDATION = "0.005"  # fraction of the documents


def parquet_rows(path):
    try:
        import pyarrow.parquet
    except ImportError:
        sys.exit(f"{path} is a Parquet file: install pyarrow (pip install pyarrow), or give JSON lines")
    for batch in pyarrow.parquet.ParquetFile(path).iter_batches(1000, columns=["text", "token_count"]):
        yield from zip(batch.column(0).to_pylist(), batch.column(1).to_pylist())


def json_rows(lines):
    for line in lines:
        row = json.loads(line)
        yield row["text"], row["token_count"]


def rows(path):
    if path == "-":
        return json_rows(sys.stdin.buffer)
    with open(path, "rb") as f:
        return parquet_rows(path) if f.read(4) == b"PAR1" else json_rows(open(path, "rb"))


def documents(args):
    left = args.documents
    for path in args.shards:
        for text, tokens in rows(path):
            if left == 0:
                return
            left -= 1
            yield text, tokens


def learn(args, folder):
    """Trains a tokenizer with --vocab tokens on the first documents and returns its path."""
    sample, tokenizer = os.path.join(folder, "sample.txt"), os.path.join(folder, "tokenizer.json")
    with open(sample, "w", encoding="utf-8") as f:
        for (text, _), _ in zip(documents(args), range(LEARNED_FROM)):
            f.write(text + "\n")
    subprocess.run([args.weft, "tokenizer", "train", "--vocab", str(args.vocab), "--special", "<|endoftext|>", "--out",
                    tokenizer, sample], check=True, stdout=subprocess.DEVNULL)
    return tokenizer


def prepare(args, tokenizer):
    """Runs `weft data prepare` on the documents and returns their counts."""
    command = [args.weft, "data", "prepare", "-", "--field", "text", "--val", VALIDATION, "--tokenizer", tokenizer,
               "--out", args.out]
    print(*command, flush=True)
    count = {"documents": 0, "bytes": 0, "tokens": 0, "special": 0}
    with subprocess.Popen(command, stdin=subprocess.PIPE) as weft:
        try:
            for text, tokens in documents(args):
                weft.stdin.write(json.dumps({"text": text}).encode() + b"\n")
                count["documents"] += 1
                count["bytes"] += len(text.encode())
                count["tokens"] += tokens
                count["special"] += "<|endoftext|>" in text
        except BrokenPipeError:  # weft prints the reason
            pass
        try:
            weft.stdin.close()
        except BrokenPipeError:
            pass
    if weft.returncode:
        sys.exit(weft.returncode)
    return count


def check(args, count, tokens_too):
    with open(os.path.join(args.out, "data.json"), encoding="utf-8") as f:
        data = json.load(f)
    splits = [split for split in ("train", "val") if data[split + "_documents"]]
    # An end-of-text token is put between the documents of a split; the dataset does not count it.
    data["tokens"] = sum(data[s + "_tokens"] - data[s + "_documents"] + 1 for s in splits)
    wrong = False
    for name in ("documents", "bytes") + (("tokens",) if tokens_too else ()):
        same = data[name] == count[name]
        wrong |= not same
        print(f"{name:10} {data[name]:15} {'as in the shards' if same else 'but the shards have ' + str(count[name])}")
    if wrong and count["special"]:
        print(f"{count['special']} documents contain <|endoftext|>, which is ordinary text to Weft and may be a token to others")
    if not tokens_too:
        print(f"{'tokens':10} {data['tokens']:15} of a tokenizer of {data['vocab']} tokens: the shards have none to compare")
    return wrong


def main():
    parser = argparse.ArgumentParser(description="token files from shards of FineWeb-Edu, checked against their own counts")
    parser.add_argument("shards", nargs="+", metavar="SHARD", help="Parquet, JSON lines, or - for JSON lines on stdin")
    parser.add_argument("--out", required=True, help="the folder to make")
    parser.add_argument("--documents", type=int, default=-1, metavar="N", help="only the first N")
    parser.add_argument("--weft", default="build/weft", help="the program")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--tokenizer", metavar="FILE", help="such as GPT-2's vocab.bpe")
    which.add_argument("--vocab", type=int, metavar="N", help="learn a tokenizer of N tokens from the text")
    args = parser.parse_args()
    if args.vocab and "-" in args.shards:
        parser.error("--vocab reads the text twice: give files")
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = args.tokenizer or learn(args, folder)
        with open(tokenizer, "rb") as f:
            known = hashlib.sha256(f.read()).hexdigest() == GPT2
        count = prepare(args, tokenizer)
        sys.exit(check(args, count, known))


main()
