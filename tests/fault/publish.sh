#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# publish.sh - a published study has the same bytes when it is published again, can be read by tar and sha256sum, and can
# be reported and audited elsewhere, without its original folders and at a different instruction-set level.
# run-tests: 30 s
set -u
source tests/fault/tiny

unpack() { rm -rf there && mkdir there && tar --zstd -xf "$1" -C there; }
checks_out() { # NAME ARGUMENTS-OF-AUDIT...
    (cd there/"$1" && sha256sum --quiet --check MANIFEST && "$weft" report . >/dev/null && cmp report.md ../../"$1"/report.md &&
        WEFT_ISA=v3 "$weft" audit . --threads 1 --json "${@:2}" 2>err) >json && [[ $(field failed <json) == 0 && $(field runs <json) == 4 ]]
}

study recall 20 SEEDS=2 CHECKPOINT_EVERY=5 RECALL_LENGTH=8
json=$("$weft" publish recall --out one.tar.zst --json) && [[ $(field runs <<<"$json") == 4 && $(field checkpoints <<<"$json") == 4 &&
    $(field data <<<"$json") == none && $(field sha256 <<<"$json") == $(sha256sum one.tar.zst | cut -d ' ' -f 1) ]]
result $? "a study is published: $json"
cp -r recall kept && find kept -exec touch -d 2001-01-01 {} + && mv kept recall2 && rm -rf recall && mv recall2 recall
"$weft" publish recall --out two.tar.zst >/dev/null && cmp one.tar.zst two.tar.zst
result $? "published again, from a copy with other times, it has the same bytes"
unpack one.tar.zst && grep -q 'weft audit \.' there/recall/AUDIT.md && ! grep -rq "$scratch" there/recall/AUDIT.md
result $? "tar unpacks it; a page explains how to audit it"
checks_out recall
result $? "elsewhere its files are whole, its report the same, and an audit passes: $(cat json)"
"$weft" publish recall --out all.tar.zst --all-checkpoints >/dev/null && unpack all.tar.zst && checks_out recall --segments 1 &&
    [[ $(field segments <json) -gt 4 ]]
result $? "with all checkpoints, segments can be audited: $(cat json)"

seq 3000 >input.txt && "$weft" data prepare input.txt --tokenizer char --out tokens >/dev/null 2>&1
study text 20 SEEDS=2 TASK='"text"' DATA='"tokens"' VOCAB=16
json=$("$weft" publish text --out text.tar.zst --json) && [[ $(field data <<<"$json") == included ]]
result $? "small data go along: $json"
cp -r tokens more && echo secret | tee more/secret.bin more/notes.txt >/dev/null && mv tokens aside && mv more tokens &&
    "$weft" publish text --out same.tar.zst >/dev/null && cmp text.tar.zst same.tar.zst && rm -r tokens
result $? "other files in the data folder are not packed"
seq 4000 >other.txt && "$weft" data prepare other.txt --tokenizer char --out tokens >/dev/null 2>&1 &&
    json=$("$weft" publish text --out other.tar.zst --json 2>err) && [[ $(field data <<<"$json") == "fingerprint only" ]] &&
    grep -q 'tokens does not contain the data that the runs were trained on' err && rm -r tokens && mv aside tokens
result $? "a folder with different data is not packed"
unpack text.tar.zst && mv tokens gone && ! (cd there/text && "$weft" audit . >/dev/null 2>err) && checks_out text --data data
result $? "an audit takes them from there"
printf X | dd of=there/text/data/train_000000.bin bs=1 seek=2000 conv=notrunc 2>/dev/null
! checks_out text --data data 2>/dev/null && ! (cd there/text && "$weft" audit . --data data >/dev/null 2>err)
result $? "different data is rejected"

forged=$(echo recall/runs/w2/*seed-1/log.jsonl) && sed -i "3,9s/: 0[.]/: 1./" "$forged"
cp one.tar.zst before && ! "$weft" publish recall --out one.tar.zst >/dev/null 2>err && cmp -s one.tar.zst before && [[ ! -e one.tar.zst.writing ]]
result $? "a study whose log was edited is not published, and the file that was there stays"
publish_refuses() { refuses "$1" publish "${@:2}"; } # TEXT ARGUMENTS...
fails 2 'ends in .tar.zst' publish text --out text.tar
publish_refuses 'is not the folder of a study' there --out x.tar.zst
publish_refuses 'cannot be written' text --out none/x.tar.zst
for name in '' .. a/b; do
    rm -rf named && cp -r text named && sed -i "s|\"name\": \"text\"|\"name\": \"$name\"|" named/study.json && forger plan named
    publish_refuses 'cannot be the name of a folder' named --out x.tar.zst
done
finish
