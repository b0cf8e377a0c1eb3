#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Work of many kinds whose sizes and order a seed decides: a database, dictionaries, threads,
children, compression, a long number, a search. Prints one checksum, the same for the same seed
under any allocator. Usage: seeded.py SEED"""

import decimal
import random
import re
import sqlite3
import subprocess
import sys
import threading
import zlib


def database(draw):
    """Rows that come, change and go, and what is left of them."""
    base = sqlite3.connect(":memory:")
    base.execute("create table t(a integer primary key, b text, c blob)")
    for _ in range(4000):
        kind = draw.random()
        if kind < 0.7:
            base.execute("insert into t(b, c) values(?, ?)",
                         ("x" * draw.randrange(3000), draw.randbytes(draw.randrange(2000))))
        elif kind < 0.9:
            base.execute("delete from t where a = ?", (draw.randrange(1, 4000),))
        else:
            base.execute("update t set b = ? where a % 17 = ?",
                         ("y" * draw.randrange(500), draw.randrange(17)))
    base.commit()
    base.execute("vacuum")
    return base.execute("select count(*), sum(length(b)), sum(length(c)) from t").fetchall()


def dictionary(draw):
    """Values of many sizes that replace each other."""
    values = {}
    for index in range(60000):
        values[draw.randrange(9000)] = (bytes(draw.randrange(4000)) if index % 3
                                        else [draw.random()] * draw.randrange(50))
    return sum(map(len, values.values()))


def buffers(seed, sums, number):
    """One thread's buffers."""
    draw, held = random.Random(seed * 10 + number), []
    for _ in range(6000):
        held.append(bytearray(draw.randrange(1, 30000)))
        if len(held) > 200:
            held.pop(draw.randrange(200))
    sums[number] = sum(map(len, held))


def main():
    seed = int(sys.argv[1])
    draw = random.Random(seed)
    seen = [database(draw), dictionary(draw)]
    sums = [0] * 6
    threads = [threading.Thread(target=buffers, args=(seed, sums, number)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen.append(sums)
    for first in range(5):
        command = f"seq {first} 2000 | sort -R --random-source=/dev/zero | md5sum"
        seen.append(subprocess.run(command, shell=True, capture_output=True, check=True).stdout)
    text = b"".join(draw.randbytes(draw.randrange(4000)) for _ in range(3000))
    seen.append(zlib.crc32(zlib.decompress(zlib.compress(text, 1))))
    decimal.getcontext().prec = 3000
    seen.append(str(decimal.Decimal(seed + 1).sqrt())[-20:])
    seen.append(len(re.findall(r"(a|b)+c", "ab" * 50000 + "c")))
    print(zlib.crc32(repr(seen).encode()))


if __name__ == "__main__":
    main()
