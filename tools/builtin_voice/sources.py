"""Free English text from unpacked Debian packages, sentence by sentence."""
import glob
import gzip
import os
import re
import struct
import zlib


def clean(s):
    """Plain ASCII punctuation, no brackets or quotes, single spaces."""
    for a, b in (("\u2019", "'"), ("\u2018", "'"), ("\u201c", '"'), ("\u201d", '"'), ("\u2014", ", "), ("\u2013", "-"), ("--", ", "),
                 ("_", ""), ("`", "'"), ("*", "")):
        s = s.replace(a, b)
    s = re.sub(r'["\[\]{}|<>\\^~#=@$%&+/()]', " ", s)
    s = re.sub(r"\s+", " ", s).strip(" -;:,'")
    s = re.sub(r"\s+([,.!?;:])", r"\1", s)
    return re.sub(r"([,;:])[,;: ]*\1", r"\1", s)


def finish(s):
    """A cleaned sentence with a capital and a full stop."""
    s = clean(s)
    if not s:
        return s
    s = s[0].upper() + s[1:]
    if s[-1] in ";:,":
        s = s[:-1]
    return s if s[-1] in ".!?" else s + "."


def usable(s, low, high):
    """Whether a sentence of `low`..`high` words is worth speaking."""
    if not s.isascii() or not 2 <= len(s) <= 170 or not low <= len(s.split()) <= high:
        return False
    if re.search(r"[^A-Za-z0-9 ,.!?;:'-]", s):
        return False
    if re.search(r"\.\.|,,|--|\d{5}|\w{19}|[A-Z]{4}|[a-z][A-Z]|\w\.\w|''|::|- ", s):
        return False
    return sum(c.isalpha() for c in s) >= 0.7 * len(s)


def split(text):
    """Sentences and semicolon clauses."""
    return re.split(r"(?<=[.!?;])\s+(?=[A-Z\"'a-z])", re.sub(r"\s+", " ", text))


def austen(root):
    """Jane Austen's novels (janeaustenr); long sentences are cut at commas."""
    for f in glob.glob(root + "/usr/lib/R/site-library/janeaustenr/data/Rdata.rdb"):
        b, i, lines = open(f, "rb").read(), 0, []
        while i + 6 < len(b):
            d = zlib.decompressobj()
            try:
                x = d.decompress(b[i + 4:])
            except zlib.error:
                break
            i = len(b) - len(d.unused_data)
            for m in re.finditer(rb"\x00\x04\x00\x09(....)", x, re.S):   # R strings: type and length words before the bytes
                n = struct.unpack(">I", m.group(1))[0]
                if n < 300:
                    lines.append(x[m.end():m.end() + n].decode("utf8", "ignore"))
        for paragraph in "\n".join(lines).split("\n\n"):
            for s in split(paragraph.replace("\n", " ")):
                if len(s.split()) <= 20:
                    yield s
                    continue
                part = []
                for piece in re.split(r"(?<=[,:])\s+", s):
                    part += piece.split()
                    if len(part) >= 7:
                        yield " ".join(part)
                        part = []
                if len(part) > 2:
                    yield " ".join(part)


def wordnet(root):
    """(kind, text): example sentences, glosses, and `word means gloss`."""
    for p in ("noun", "verb", "adj", "adv"):
        f = f"{root}/usr/share/wordnet/data.{p}"
        if not os.path.exists(f):
            continue
        for line in open(f, encoding="latin-1"):
            if " | " not in line or line.startswith("  "):
                continue
            head, gloss = line.split(" | ", 1)
            for e in re.findall(r'"([^"]+)"', gloss):
                yield "example", e
            g = re.sub(r'"[^"]*".*', "", gloss).strip(" ;\n")
            g = re.sub(r"\([^)]*\)", "", g).split(";")[0].strip()
            w = head.split()[4].replace("_", " ")
            if g and not re.search(r"\d", w):
                yield "gloss", g
                if len(g.split()) < 12:
                    yield "definition", f"to {w} is to {g}" if p == "verb" else f"{w} means {g}"


def fortunes(root):
    """Fortune cookies, without the collections that are not for every ear."""
    skip = ("ascii-art", "drugs", "ethnic", "men-women", "translate", "zippy", "perl", "off/")
    for f in sorted(glob.glob(root + "/usr/share/games/fortunes/*")):
        if "." in os.path.basename(f) or any(k in f for k in skip):
            continue
        for b in open(f, encoding="utf8", errors="ignore").read().split("\n%\n"):
            yield from split(re.sub(r"\n\s*--.*", "", b, flags=re.S).replace("\n", " "))


def documents(root):
    """Debian's manuals and the Jargon File."""
    files = (glob.glob(root + "/usr/share/doc/debian/**/*.txt*", recursive=True) + glob.glob(root + "/usr/share/debian-reference/*.txt.gz")
             + glob.glob(root + "/usr/share/dictd/jargon*.dict.dz"))
    for f in files:
        opener = gzip.open if f.endswith(("gz", "dz")) else open
        for paragraph in re.split(r"\n\s*\n", opener(f, "rt", encoding="utf8", errors="ignore").read()):
            for s in split(paragraph):
                if re.match(r"[A-Z]", s) and s.endswith((".", "!", "?")):
                    yield s


def words(root):
    """Common words, and all words with names among them."""
    out = []
    for name in ("american-english-small", "american-english"):
        f = f"{root}/usr/share/dict/{name}"
        lines = [x.strip() for x in open(f, encoding="utf8")] if os.path.exists(f) else []
        out.append([x for x in lines if re.fullmatch(r"[a-z]+('s)?|[A-Z][a-z]+", x) and 2 < len(x) < 15])
    return out
