#!/usr/bin/env python3
"""The loss of a bigram model, which sees only the byte before, on a text, in nats per byte: the baseline to beat.

usage: bigram.py TRAINING-TEXT VALIDATION-TEXT
"""
import collections
import math
import pathlib
import sys


def bigram_loss(train, validation):
    """The mean of -log p(byte | byte before). The counts of pairs are smoothed by the frequencies of single bytes, with
    the weight of one pair, and these by one additional count for each of the 256 bytes."""
    pairs = collections.Counter(zip(train, train[1:]))
    firsts = collections.Counter(train[:-1])
    singles = collections.Counter(train)

    def probability(first, second):
        alone = (singles[second] + 1) / (len(train) + 256)
        return (pairs[first, second] + alone) / (firsts[first] + 1)

    seen = collections.Counter(zip(validation, validation[1:]))
    total = sum(count * -math.log(probability(*pair)) for pair, count in seen.items())
    return total / (len(validation) - 1)


def main():
    train, validation = (pathlib.Path(path).read_bytes() for path in sys.argv[1:])
    print(f"loss {bigram_loss(train, validation):.4f} over {len(validation) - 1} tokens")


main()
