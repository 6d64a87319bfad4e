#!/usr/bin/env python3
"""Checks that all of a test file stands in a suite, and so in a namespace, of the file's name.

Tests of a folder are one program, of several sources at once: CTest runs a file's tests by the suite's name, and names
of two files cannot clash.
"""
import re

from tree import ROOT, files, finish

SUITE = re.compile(r"^BOOST_AUTO_TEST_SUITE\((\w+)\)$", re.MULTILINE)
# What may stand outside.
OUTSIDE = re.compile(r"\s*(//.*|#include .*|#if.*|#endif.*|namespace troupe[\w:]* \{|\}  // namespace troupe[\w:]*)?")
END = "BOOST_AUTO_TEST_SUITE_END()"
# The tests of the contracts of channels and groups, which headers define for the types that a file names, have programs
# of their own.
CONTRACT = re.compile(r'^#include "tests/contract/(channel|group)_contract.h"$', re.MULTILINE)


def faults_of_file(path):
    text = (ROOT / path).read_text()
    if CONTRACT.search(text):
        return
    suite = SUITE.search(text)
    if not suite or suite[1] != path.stem or END not in text:
        yield f"{path}: put all behind its includes into BOOST_AUTO_TEST_SUITE({path.stem}) ... {END}"
        return
    for line in (text[:suite.start()] + text[text.rindex(END) + len(END):]).splitlines():
        if not OUTSIDE.fullmatch(line):
            yield f"{path}: {line!r} stands outside the suite {path.stem}"


def main():
    tests = (path for path in files(".cpp") if path.parts[0] == "tests" and path.stem.endswith("_test"))
    finish("suites", [fault for path in tests for fault in faults_of_file(path)])


main()
