#!/usr/bin/env python3
"""Find silent, endless and cut utterances: every WAV of a folder against the teacher's own length of its line.

    lengths.py LIBRARIES FOLDER --list eval/many.txt [--only t0.6]

LIBRARIES is the lib/ of fetch_inputs.sh.  Files are named <group>-<voice>_<line>.wav, at normal pace.
"""
import argparse
import collections
import os
import re
import wave

import numpy as np

from flite import RATE, SPEAKERS, Flite, trim

SHORT, LONG, QUIET = 0.72, 1.45, 0.02                              # against the teacher's length; RMS of full scale


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("libraries")
    ap.add_argument("folder")
    ap.add_argument("--list", required=True)
    ap.add_argument("--only", default="")
    a = ap.parse_args()
    with open(a.list, encoding="utf8") as f:
        lines = [l.strip().split(" | ")[0] for l in f if l.strip()]
    teacher, ratios, faults = Flite(a.libraries), collections.defaultdict(list), collections.Counter()
    for name in sorted(os.listdir(a.folder)):
        m = re.fullmatch(r"(.+-(\w+))_(\d+)\.wav", name)
        if not m or a.only not in name or m[2] not in SPEAKERS:
            continue
        with wave.open(os.path.join(a.folder, name)) as f:
            x, rate = np.frombuffer(f.readframes(f.getnframes()), np.int16) / 32768, f.getframerate()
        line = lines[int(m[3])]
        want = len(trim(*teacher.say(line, m[2]))[0]) / RATE
        seconds, level = len(x) / rate, float(np.sqrt(np.mean(x ** 2))) if len(x) else 0.0
        ratio = seconds / want
        ratios[m[1]].append(ratio)
        slack = 0.12 / want                                        # a frame and a half, which counts in one word
        fault = "silent" if level < QUIET else "cut" if ratio < SHORT - slack else "too long" if ratio > LONG + slack else "clipped" if np.abs(x).max() >= 0.999 else ""
        if fault:
            faults[m[1], fault] += 1
            print(f"  {name}: {fault}: {seconds:.2f} s for {want:.2f} s, level {level:.3f}: {line}")
    for group, r in ratios.items():
        q = np.percentile(r, [0, 5, 50, 95, 100])
        print(f"{group}: {len(r)} utterances, length over the teacher's: least {q[0]:.2f}, 5 % {q[1]:.2f}, median {q[2]:.2f}, 95 % {q[3]:.2f}, most {q[4]:.2f}; "
              f"faults {({f: n for (g, f), n in faults.items() if g == group}) or 'none'}")


if __name__ == "__main__":
    main()
