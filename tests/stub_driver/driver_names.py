#!/usr/bin/env python3
"""Writes ANSWER(name) for each function that a shared library (the toolkit's stub of the driver) exports and a C file
does not define. Arguments: the library, the C file, the header to write."""
import pathlib
import re
import subprocess
import sys

library, source, header = sys.argv[1:]
table = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
exported = [line.split()[-1] for line in table.splitlines() if line.split()[-2] == "T"]
defined = set(re.findall(r"^int (\w+)\(", pathlib.Path(source).read_text(), flags=re.M))
pathlib.Path(header).write_text("".join(f"ANSWER({name})\n" for name in exported if name not in defined))
