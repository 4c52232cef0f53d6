"""Makes a CUDA library small enough to be sent: `slim.py LIBRARY.so SMALL.so ARCHITECTURE`, such as 90 for sm_90.

A library has its kernels for many architectures, in containers that the driver reads ("fatbin"). The code for all architectures but
one is overwritten with zeros, which compress to nothing; nothing moves, so that the library is loaded as before. The driver takes
what is for its device and never looks at the rest.
"""

from __future__ import annotations

import struct
import sys

#: What a container begins with: this number, a version, the length of its header, and the length
#: of what follows it.
MAGIC = 0xBA55ED50
CONTAINER = struct.Struct("<IHHQ")
#: An entry's kind, version, length of header, and length of payload.
ENTRY = struct.Struct("<HHIQ")
#: Where in an entry's header the architecture is, and how long a header is that has one.
ARCHITECTURE, SHORTEST = 28, 32
#: Kinds of entries: text that the driver compiles, and code.
TEXT, CODE = 1, 2


def slim(data: bytearray, architecture: int) -> dict[int, list[int]]:
    """Overwrites the code for other architectures. Says for each architecture how many bytes were kept and overwritten."""
    found: dict[int, list[int]] = {}
    magic = struct.pack("<I", MAGIC)
    at = data.find(magic)
    while at >= 0:
        end = container(data, at, architecture, found)
        at = data.find(magic, max(end, at + 4))
    return found


def container(data, at, architecture, found):
    """One container; returns where it ends, or where it begins if it is none."""
    if at + CONTAINER.size > len(data):
        return at
    _, version, header, size = CONTAINER.unpack_from(data, at)
    end = at + header + size
    if version != 1 or header < CONTAINER.size or end > len(data):
        return at
    entries, entry = [], at + header
    while entry < end:
        if entry + SHORTEST > end:
            return at
        kind, _, header, size = ENTRY.unpack_from(data, entry)
        [of] = struct.unpack_from("<I", data, entry + ARCHITECTURE)
        payload = entry + header
        # What is not as expected is left as it is.
        if kind not in (TEXT, CODE) or header < SHORTEST or payload + size > end:
            return at
        entries.append((payload, size, kind, of))
        entry = payload + size
    for payload, size, kind, of in entries:
        kept = kind == CODE and of == architecture
        counts = found.setdefault(of, [0, 0])
        counts[0 if kept else 1] += size
        if not kept:
            data[payload:payload + size] = bytes(size)
    return end


def main():
    library, small, architecture = sys.argv[1:]
    with open(library, "rb") as file:
        data = bytearray(file.read())
    found = slim(data, int(architecture))
    kept = found.get(int(architecture), [0, 0])[0]
    if not kept:
        print(f"{library} has no code for sm_{architecture}: {found}", file=sys.stderr)
        return 1
    with open(small, "wb") as file:
        file.write(data)
    for of, (kept, zeroed) in sorted(found.items()):
        print(f"sm_{of}: {kept} bytes kept, {zeroed} bytes overwritten")
    return 0


if __name__ == "__main__":
    sys.exit(main())
