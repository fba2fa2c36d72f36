#!/usr/bin/env python3
"""Write the training sentences, one a line, from unpacked free Debian packages and templates.

    build_corpus.py ROOT OUT.txt.gz [--seed 1]

ROOT holds `dpkg -x` of the packages in fetch_inputs.sh; missing ones are skipped.  The first HELD lines are for validation and
are never trained on.  No sentence of eval/ gets in, nor one that shares six words in a row with it.
"""
import argparse
import glob
import gzip
import os
import random
import re
from collections import Counter

import sources
from templates import Templates

HERE = os.path.dirname(os.path.abspath(__file__))
HELD = 400
QUOTA = {"wordnet-example": 60000, "wordnet-gloss": 75000, "wordnet-definition": 40000, "austen": 58000, "fortunes": 20000,
         "documents": 6000, "words": 55000, "numeric": 75000, "plain": 65000}


def key(s):
    """What two lines share when they are the same sentence."""
    return re.sub(r"[^a-z0-9]+", " ", s.lower()).strip()


def six_grams(k):
    """All runs of six words; a shorter sentence has none."""
    w = k.split()
    return {tuple(w[i:i + 6]) for i in range(len(w) - 5)}


def reserved():
    """Keys and six-grams of every evaluation sentence, written and spoken form."""
    keys = set()
    for f in glob.glob(os.path.join(HERE, "eval", "*.txt")):
        for line in open(f, encoding="utf8"):
            keys |= {key(part) for part in line.split(" | ") if part.strip()}
    return keys, set().union(*(six_grams(k) for k in keys)) if keys else set()


def word_lines(rng, common, everything):
    """Carriers that bring every word of the lists in a few times."""
    for pool, n in ((common, 26000), (everything, 29000)):
        for _ in range(n if pool else 0):
            x, y, z = rng.choice(pool), rng.choice(pool), rng.choice(pool)
            yield rng.choice([
                " ".join(rng.choice(pool) for _ in range(rng.randint(1, 6))), f"the word {x} comes before {y}", f"say {x} again", f"{x}, {y} and {z}",
                f"he wrote {x} and {y} on the paper", f"what does {x} mean?", f"they spoke about {x} and {y}", f"I like the {x}, but not the {y}", f"{x} or {y}?",
                f"a {x} {y} with {z}", f"she said {x}", f"the {x} of {y}", f"{x} is not {y}"])


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("root")
    ap.add_argument("out")
    ap.add_argument("--seed", type=int, default=1)
    a = ap.parse_args()
    rng = random.Random(a.seed)
    keys, grams = reserved()
    seen, lines = set(keys), {}

    def add(source, s, low=1, high=22, raw=False):
        s = s if raw else sources.finish(s)
        k = key(s)
        if k in seen or not (raw or sources.usable(s, low, high)) or six_grams(k) & grams:
            return
        seen.add(k)
        lines.setdefault(source, []).append(s)

    for kind, s in sources.wordnet(a.root):
        add("wordnet-" + kind, s, 2 if kind == "example" else 3, 18)
    for s in sources.austen(a.root):
        add("austen", s, 2, 18)
    for s in sources.fortunes(a.root):
        add("fortunes", s, 2, 20)
    for s in sources.documents(a.root):
        add("documents", s, 3, 20)
    for s in word_lines(rng, *sources.words(a.root)):
        add("words", s)
    templates = Templates(rng)
    for source, share in (("numeric", 1.0), ("plain", 0.0)):
        for _ in range(int(QUOTA[source] * 1.25)):
            add(source, templates.sentence(share), raw=True)

    for l in lines.values():
        rng.shuffle(l)
    pool = [s for source, l in lines.items() for s in l[:QUOTA[source]]]
    held_from = {s for source, l in lines.items() for s in rng.sample(l[:QUOTA[source]], HELD * 2 * min(len(l), QUOTA[source]) // len(pool))}
    held = sorted(held_from)
    rng.shuffle(held)
    pool = [s for s in pool if s not in held_from]
    pool += [s for s in lines.get("wordnet-example", []) if s not in held_from]     # natural sentences twice: another voice, another pace
    rng.shuffle(pool)
    for i, s in enumerate(pool):
        x = rng.random()
        if x < 0.05:
            pool[i] = s.lower().rstrip(".")                                           # careless typing
        elif x < 0.07:
            pool[i] = s.rstrip(".")
        elif x < 0.08:
            pool[i] = s.upper()
    whole = [s for s in pool if s[-1] in ".!?" and not s.isupper()]
    for _ in range(len(pool) // 11):                                                  # utterances of several sentences, up to 15 s
        parts, limit = [rng.choice(whole)], rng.choice([100, 160, 200, 220])
        while len(" ".join(parts)) < limit - 40:
            parts.append(rng.choice(whole))
        text = " ".join(parts if len(" ".join(parts)) <= 225 else parts[:-1])
        if not six_grams(key(text)) & grams:
            pool.append(text)
    rng.shuffle(pool)
    with gzip.open(a.out, "wt", encoding="utf8") as f:
        f.write("\n".join(held[:HELD] + pool) + "\n")
    with open(os.path.splitext(os.path.splitext(a.out)[0])[0] + ".held.txt", "w", encoding="utf8") as f:
        f.write("\n".join(held[HELD:]) + "\n")
    counts = Counter(w for s in pool for w in key(s).split())
    print({s: len(l) for s, l in lines.items()})
    print(len(pool), "lines", sum(map(len, pool)) / 1e6, "MB", sum(counts.values()) / len(pool), "words a line", len(counts), "distinct words")


if __name__ == "__main__":
    main()
