#!/usr/bin/env python3
"""Writes stages/corpus/tokenizers/text/unicode_tables.cpp and unicode_golden.json beside this file: which characters
Hugging Face's tokenizers (0.23.3) count to which set where Debian 12's PCRE2 and utf8proc do not know them alike.
usage: make_unicode_tables.py, with a python 3.11 (whose Unicode is 14, as PCRE2's) that has tokenizers; libutf8proc is
loaded as a shared library. Takes some minutes."""
import ctypes, json, pathlib, unicodedata

from tokenizers import Regex, normalizers, pre_tokenizers as pre

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE.parents[2] / "stages/corpus/tokenizers/text/unicode_tables.cpp"
ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cf".split()
# Scripts of which every newer character has a stand-in.
SCRIPTS = "Han Hiragana Katakana Hangul Latin Greek Hebrew Thai".split()
FORMS = ("NFC", "NFD", "NFKC", "NFKD")
MARKS = [chr(c) for c in (0x323, 0x301, 0x334, 0x5B0, 0x3099, 0x345)]
CANDIDATES = 8


def members(regex):
    """The characters that a pattern matches in tokenizers."""
    split, found = pre.Split(Regex(regex), "removed", invert=True), set()
    for i in range(0, len(ALL), 4096):
        for word, _ in split.pre_tokenize_str("".join(map(chr, ALL[i:i + 4096]))):
            found.update(map(ord, word))
    return found


def utf8proc(form):
    """The normal form as utf8proc has it."""
    library, c = ctypes.CDLL("libutf8proc.so.2"), ctypes.CDLL(None)
    library.utf8proc_map.argtypes = [ctypes.c_char_p, ctypes.c_ssize_t, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int]
    library.utf8proc_map.restype = ctypes.c_ssize_t
    c.free.argtypes = [ctypes.c_void_p]
    options = 2 | (8 if form.endswith("C") else 16) | (4 if "K" in form else 0)

    def normalize(text):
        raw, result = text.encode(), ctypes.c_void_p()
        size = library.utf8proc_map(raw, len(raw), ctypes.byref(result), options)
        text = ctypes.string_at(result, size).decode()
        c.free(result)
        return text
    return normalize


def unlike():
    """The characters that the normal forms of both libraries treat in different ways, alone or between marks."""
    found = {0x11930}  # only a newer table composes it with what is before it
    for form in FORMS:
        theirs, ours = getattr(normalizers, form)().normalize_str, utf8proc(form)
        found.update(c for c in ALL if theirs(chr(c)) != ours(chr(c)))
    theirs, ours = normalizers.NFD().normalize_str, utf8proc("NFD")
    for mark in MARKS:
        for text in ("a{}" + mark, "a" + mark + "{}"):
            found.update(c for c in ALL if theirs(text.format(chr(c))) != ours(text.format(chr(c))))
    return found


def ranges(characters):
    result = []
    for c in sorted(characters):
        if result and result[-1][1] == c - 1:
            result[-1][1] = c
        else:
            result.append([c, c])
    return result


def rows(entries):
    """Entries of an initializer, in lines of 98 columns at most."""
    lines = [""]
    for entry in entries:
        if len(lines[-1]) + len(entry) > 96:
            lines.append("")
        lines[-1] += entry + ","
    return "\n".join("  " + line for line in lines)


def table(name, characters):
    entries = [f"{{0x{a:x},0x{b:x}}}" for a, b in ranges(characters)]
    return f"constexpr auto {name} = std::to_array<CharacterRange>({{\n{rows(entries)}\n}});\n"


def newer_tables(category, script):
    """Characters that PCRE2 has in no category or another one, each with the number of its kind; and for each kind some
    characters that PCRE2 knows and that are as many bytes in UTF-8."""
    old = {c: unicodedata.category(chr(c)) for c in ALL}
    kind = lambda c: (category[c], script.get(c, ""), len(chr(c).encode()))
    newer = [c for c in sorted(category) if old[c] != category[c]]
    kinds = sorted({kind(c) for c in newer})
    places = []
    for c in newer:
        if places and places[-1][1] == c - 1 and places[-1][2] == kinds.index(kind(c)):
            places[-1][1] = c
        else:
            places.append([c, c, kinds.index(kind(c))])
    entries = [f"{{0x{a:x},0x{b:x},{k}}}" for a, b, k in places]
    stand_ins = []
    for k in kinds:
        known = [c for c in sorted(category) if old[c] == category[c] and kind(c) == k]
        step = max(1, len(known) // CANDIDATES)
        some = known[::step][:CANDIDATES]
        assert some, k
        stand_ins.append("{" + ",".join(f"0x{c:x}" for c in (some * CANDIDATES)[:CANDIDATES]) + "}")
    return ("constexpr auto kNewer = std::to_array<NewerRange>({\n" + rows(entries) + "\n});\n"
            f"constexpr std::array<StandIns, {len(kinds)}> kStandIns{{{{\n" + rows(stand_ins) + "\n}};\n"), newer


def fnv(data, h=0xCBF29CE484222325):
    for byte in data:
        h = (h ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{h:016x}"


def digest(characters):
    return fnv(b"".join(c.to_bytes(4, "little") for c in sorted(characters)))


def lowercase_rows():
    """Simple mappings that utf8proc lacks, as (first, last, step, what is added)."""
    library = ctypes.CDLL("libutf8proc.so.2")
    theirs = normalizers.Lowercase().normalize_str
    found = [(c, ord(t) - c) for c in ALL
             if len(t := theirs(chr(c))) == 1 and ord(t) != library.utf8proc_tolower(c)]
    result = []
    for c, delta in found:
        if result and result[-1][2] == delta and result[-1][1] == c - 1:
            result[-1][1] = c
        else:
            result.append([c, c, delta])
    return [f"{{0x{a:x},0x{b:x},{d}}}" for a, b, d in result]


def between(text, clean):
    return {c for c in ALL if clean(text + chr(c)) == text}


def golden(sets):
    forms = {}
    left_out = ((0x3400, 0xA000), (0xAC00, 0xD7A4), (0x20000, 0x2F800), (0xE0200, 0x110000))
    some = [c for c in ALL if not any(first <= c < end for first, end in left_out)]
    for form in FORMS:
        normalize = getattr(normalizers, form)().normalize_str
        text = "".join(normalize("".join(f"{chr(c)}a{chr(c)}\u0323\u0301{chr(c)}\u0323b" for c in some[i:i + 512]))
                       for i in range(0, len(some), 512))
        forms[form] = fnv(text.encode())
    return dict(sets={name: [len(s), digest(s)] for name, s in sets.items()}, forms=forms)


def main():
    sets = {rf"\p{{{c}}}": members(rf"\p{{{c}}}") for c in CATEGORIES + SCRIPTS + ["L", "M", "N", "P", "S", "Z"]}
    category = {c: name for name in CATEGORIES for c in sets[rf"\p{{{name}}}"]}
    script = {c: name for name in SCRIPTS for c in sets[rf"\p{{{name}}}"]}
    for regex in (r"\d", r"\s", r"\P{L}", r"[^\s\p{L}\p{N}]", r"[^\r\n\p{L}\p{N}]", r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]",
                  r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]", r"[^\p{L}&&[\p{Han}\p{N}]]", r"[\p{Greek}[\p{Thai}a-c]]"):
        sets[regex] = members(regex)
    newer, _ = newer_tables(category, script)
    punctuation = {c for c in ALL if len(pre.Punctuation("isolated").pre_tokenize_str(f"a{chr(c)}b")) == 3}
    bert = lambda **on: normalizers.BertNormalizer(**{**dict.fromkeys(
        ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase"), False), **on}).normalize_str
    parts = ['// Written by tests/stages/tokenizers/make_unicode_tables.py.\n#include "stages/corpus/tokenizers/text/'
             'unicode_tables.h"\n\nnamespace troupe::stages {\n\n// clang-format off\nnamespace {\n\n', newer,
             table("kPunctuation", punctuation), table("kCleaned", between("a", bert(clean_text=True))),
             table("kMarks", between("a", normalizers.StripAccents().normalize_str)),
             table("kBertMarks", between("a", bert(strip_accents=True))), table("kUnlike", unlike()),
             "constexpr auto kLowercase = std::to_array<LowercaseRange>({\n" + rows(lowercase_rows()) + "\n});\n",
             "\n}  // namespace\n// clang-format on\n\nconst UnicodeTables& unicode_tables() {\n"
             "  static constexpr UnicodeTables kTables{kNewer, kStandIns,  kPunctuation, kCleaned,\n"
             "                                         kMarks, kBertMarks, kUnlike,      kLowercase};\n"
             "  return kTables;\n}\n\n}  // namespace troupe::stages\n"]
    OUT.write_text("".join(parts))
    (HERE / "unicode_golden.json").write_text(json.dumps(golden(sets), indent=1) + "\n")


if __name__ == "__main__":
    main()
