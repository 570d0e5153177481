"""events.py EVENTS LOG - the events of a run are the numbers of its log.jsonl, each under its tag, in the same order.

Reads TFRecords of protocol buffers by itself, with their checksums; `expected` also serves other readers.
"""
import json
import math
import struct
import sys


def tag(record, key):
    if "params" in record or record.get("environment") == "program":
        return "run/" + key
    if "total" in record or record.get("environment") == "time":
        return "train/" + ("loss" if key == "total" else key)
    return key.replace("_", "/", 1) if "val_loss" in record else "diagnostics/" + key


def expected(log):
    """(step, tag, value) of every number of a log's lines."""
    for record in map(json.loads, log):
        for key, value in record.items():
            if key not in ("step", "threads") and not isinstance(value, str):
                yield record["step"], tag(record, key), value


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    while data:
        length, crc = struct.unpack("<QI", data[:12])
        event, tail = data[12 : 12 + length], data[12 + length : 16 + length]
        assert masked_crc(data[:8]) == crc and masked_crc(event) == struct.unpack("<I", tail)[0], "checksum"
        yield event
        data = data[16 + length :]


def fields(message):
    """(number, value) of a message's fields; the types that events have."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        kind, number = key & 7, key >> 3
        if kind == 0:
            yield number, varint()
            continue
        size = {1: 8, 2: None, 5: 4}[kind] or varint()
        value, at = message[at : at + size], at + size
        yield number, struct.unpack("<d" if kind == 1 else "<f", value)[0] if kind != 2 else value


def main(events, log):
    first, *rest = (dict(fields(event)) for event in records(open(events, "rb").read()))
    wanted = list(expected(open(log)))
    assert first[3] == b"brain.Event:2" and first[1] > 1e9
    assert len(rest) == len(wanted), f"{len(rest)} events, {len(wanted)} numbers in the log"
    for event, (step, name, value) in zip(rest, wanted):
        scalar = dict(fields(dict(fields(event[5]))[1]))
        assert (event[2], scalar[1].decode()) == (step, name), (event, scalar, step, name)
        assert math.isclose(scalar[2], value, rel_tol=2e-7) and event[1] > 1e9, (scalar, value)
    print(len(rest))


if __name__ == "__main__":
    main(*sys.argv[1:])
