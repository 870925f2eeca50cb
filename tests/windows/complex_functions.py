"""Completes Wine's C library: NumPy calls four functions that Wine 10 has as stubs, which end the process.

    python complex_functions.py FROM TO

Copies ucrtbase.dll with creal, cimag, crealf and cimagf written as the few instructions that they are. By the
x86-64 calling convention of Windows a float complex comes in rcx and a double complex by its address in rcx;
the result goes to xmm0.
"""

import struct
import sys
from pathlib import Path

CODE = {
    b"crealf": "66 0F 6E C1 C3",  # movd xmm0, ecx; ret
    b"cimagf": "48 C1 E9 20 66 0F 6E C1 C3",  # shr rcx, 32; movd xmm0, ecx; ret
    b"creal": "F2 0F 10 01 C3",  # movsd xmm0, [rcx]; ret
    b"cimag": "F2 0F 10 41 08 C3",  # movsd xmm0, [rcx + 8]; ret
}


class Library:
    """A Portable Executable file, of which addresses in memory are found in the file."""

    def __init__(self, data: bytes) -> None:
        self.data = bytearray(data)
        header = self.unpack("<I", 0x3C)[0]
        count, optional = self.unpack("<H", header + 6)[0], self.unpack("<H", header + 20)[0]
        first = header + 24 + optional
        self.sections = [self.unpack("<IIII", first + 40 * index + 8) for index in range(count)]
        self.exports = self.offset(self.unpack("<I", header + 24 + 112)[0])

    def unpack(self, form: str, offset: int) -> tuple[int, ...]:
        return struct.unpack_from(form, self.data, offset)

    def offset(self, address: int) -> int:
        """Where a relative virtual address lies in the file."""
        for virtual_size, start, raw_size, raw_start in self.sections:
            if start <= address < start + max(virtual_size, raw_size):
                return address - start + raw_start
        raise ValueError(f"found the address {address:#x}, which no section holds")

    def exported(self) -> dict[bytes, int]:
        """The exported functions' names, with where their code begins in the file."""
        count, functions, names, ordinals = self.unpack("<IIII", self.exports + 24)
        found = {}
        for index in range(count):
            at = self.offset(self.unpack("<I", self.offset(names) + 4 * index)[0])
            ordinal = self.unpack("<H", self.offset(ordinals) + 2 * index)[0]
            address = self.unpack("<I", self.offset(functions) + 4 * ordinal)[0]
            found[bytes(self.data[at : self.data.index(0, at)])] = address
        return {name: self.offset(found[name]) for name in CODE}


def main() -> None:
    """Write the completed copy."""
    source, target = map(Path, sys.argv[1:])
    library = Library(source.read_bytes())
    for name, start in library.exported().items():
        code = bytes.fromhex(CODE[name])
        library.data[start : start + len(code)] = code
    target.write_bytes(library.data)


if __name__ == "__main__":
    main()
