#!/usr/bin/env python3
"""Speak corpus lines with flite into shards of 16 kHz samples and phone labels.

    synth.py LIBRARIES CORPUS.txt.gz FOLDER --workers 15 --seconds 460

Worker w speaks lines w, w + workers, ... and writes FOLDER/s_<w>_<k>.i16 and .u8, complete when its .json (written last) exists.
Speaker, description and pace follow from the line's number, so a corpus is always spoken the same way.
"""
import argparse
import gzip
import json
import os
import random
import time
from multiprocessing import Process

import numpy as np

from flite import LABEL, RATE, SPEAKERS, Flite, trim

PACES = {"steady": 1.0, "slow": 1.25, "fast": 0.82}
TONES = ["happy", "sad", "angry", "excited", "professional"]
ACCENTS = ["Hindi", "Telugu", "Tamil", "Kannada", "Bengali", "Punjabi", "Indian English", "American", "British"]
SHORTEST, LONGEST = 0.3, 15.6                                      # seconds of an utterance
SHARD = 240                                                        # seconds of a shard


def delivery(rng):
    """(speaker, description or '', pace).  Only the pace is heard; tone and accent words are there to be ignored."""
    speaker = rng.choice(list(SPEAKERS))
    if rng.random() < 0.55:
        return speaker, "", "steady"
    pace = rng.choices(list(PACES), [.4, .3, .3])[0]
    parts = []
    if rng.random() < .35:
        parts.append(rng.choice(TONES))
    if rng.random() < .3:
        parts.append(rng.choice(ACCENTS) + " accent")
    if pace != "steady" or rng.random() < .6 or not parts:
        parts.append(pace + " pace")
    return speaker, ", ".join(parts), pace


def worker(w, a, lines, deadline):
    os.nice(10)
    flite, items, sound, phones, shard, n = Flite(a.libraries), [], [], [], 0, 0
    for i in range(w, len(lines), a.workers):
        speaker, description, pace = delivery(random.Random(i * 7919))
        spoken = trim(*flite.say(lines[i], speaker, PACES[pace]))
        if spoken is not None and SHORTEST * RATE < len(spoken[0]) < LONGEST * RATE:
            items.append({"line": i, "text": lines[i], "speaker": speaker, "desc": description, "n": len(spoken[0])})
            sound.append(spoken[0])
            phones.append(spoken[1])
            n += len(spoken[0])
            assert len(spoken[1]) == -(-len(spoken[0]) // LABEL)
        stop = time.time() > deadline
        if items and (n > RATE * (SHARD if shard else SHARD / 8) or stop):          # a small first shard: training starts early
            base = os.path.join(a.folder, f"s_{w:02d}_{shard:04d}")
            np.concatenate(sound).tofile(base + ".i16")
            np.concatenate(phones).tofile(base + ".u8")
            with open(base + ".tmp", "w") as f:
                json.dump(items, f)
            os.replace(base + ".tmp", base + ".json")
            items, sound, phones, n, shard = [], [], [], 0, shard + 1
        if stop:
            break


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("libraries")
    ap.add_argument("corpus")
    ap.add_argument("folder")
    ap.add_argument("--workers", type=int, default=15)
    ap.add_argument("--seconds", type=float, default=460)
    a = ap.parse_args()
    os.makedirs(a.folder, exist_ok=True)
    with gzip.open(a.corpus, "rt", encoding="utf8") as f:
        lines = f.read().splitlines()
    deadline = time.time() + a.seconds
    processes = [Process(target=worker, args=(w, a, lines, deadline), daemon=True) for w in range(a.workers)]
    for p in processes:
        p.start()
    for p in processes:
        p.join()


if __name__ == "__main__":
    main()
