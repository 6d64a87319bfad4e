#!/usr/bin/env python3
"""Compiles each header that no source of its name includes first (check_includes.py checks those).

usage: check_headers.py COMPILER BUILD_FOLDER [CUDA_HEADERS]

Headers of kernels compile as C++ where there are CUDA's headers; without, they are left out.
"""
import concurrent.futures
import os
import subprocess
import sys

from tree import ROOT, files, finish

CUDA = ("tensor", "cuda")


def compile_alone(compiler, build, cuda, header):
    """The compiler's complaint about a source that includes nothing but the header; empty if none."""
    command = [compiler, "-std=c++20", "-fsyntax-only", "-x", "c++", "-I", str(ROOT), "-I", build]
    if header.parts[:2] == CUDA:
        command += ["-I", str(ROOT / "tests/emulated_grid"), "-isystem", *cuda]
    source = f'#include "{header}"\n'
    done = subprocess.run([*command, "-"], input=source, capture_output=True, text=True, cwd=build)
    return f"{header} does not compile alone:\n{done.stderr}" if done.returncode else ""


def main():
    compiler, build, *cuda = sys.argv[1:]
    headers = [path for path in files(".h")
               if path.parts[0] != "tests" and not path.name.endswith("-inl.h")
               and not (ROOT / path.with_suffix(".cpp")).exists()
               and not (ROOT / path.with_suffix(".cu")).exists()
               and (cuda or path.parts[:2] != CUDA)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        complaints = pool.map(lambda header: compile_alone(compiler, build, cuda, header), headers)
    finish("headers", [complaint for complaint in complaints if complaint])


main()
