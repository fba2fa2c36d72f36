#!/usr/bin/env python3
"""Speak a list of sentences with a packed checkpoint, on the CPU, into WAVs for wer.py.

    speak.py CHECKPOINT FOLDER --list eval/dev.txt [--form written|spoken] [--temperature 0.5 0.6] [--w4a4] [--codes TEACHER.npz]

Files are named <what>-<voice>_<line>.wav.  `--codes` decodes the teacher's codes instead: the codec alone.  A summary says how many
utterances ended by themselves, and which are silent or far from the length their text calls for.
"""
import argparse
import os
import time

import numpy as np
import torch

import checkpoint as K


def sentences(path, form):
    """Lines of an evaluation file; the spoken form follows ` | ` where it differs."""
    with open(path, encoding="utf8") as f:
        parts = [l.strip().split(" | ") for l in f if l.strip()]
    return [p[-1 if form == "spoken" else 0] for p in parts]


def odd(x, text):
    """What is wrong with the samples of a text, or ''."""
    if not len(x):
        return "empty"
    level = float(np.sqrt(np.mean(np.square(x))))
    pace = len(text) / (len(x) / 24000)
    if level < 0.01:
        return f"silent ({level:.4f})"
    if pace > 30 and len(text) > 12:
        return f"cut? {pace:.0f} characters a second"
    if pace < 5 and len(x) > 24000 * 2.5:
        return f"too long? {pace:.1f} characters a second"
    return ""


@torch.inference_mode()
def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("checkpoint")
    ap.add_argument("folder")
    ap.add_argument("--list", required=True)
    ap.add_argument("--form", choices=["written", "spoken"], default="written")
    ap.add_argument("--temperature", type=float, nargs="+", default=[0.6])
    ap.add_argument("--top-k", type=int, default=30)
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--style", default="")
    ap.add_argument("--voice", nargs="+")
    ap.add_argument("--w4a4", action="store_true")
    ap.add_argument("--codes")
    ap.add_argument("--batch", type=int, default=40)
    ap.add_argument("--threads", type=int, default=2)
    a = ap.parse_args()
    torch.set_num_threads(a.threads)
    os.makedirs(a.folder, exist_ok=True)
    model, cfg, _, most = K.load_backbone(a.checkpoint)
    decode, ids, texts, name = K.load_codec(a.checkpoint), model.ids, sentences(a.list, a.form), os.path.basename(a.list)[:-4]
    linear = K.rounded_inputs(model, most) if a.w4a4 else torch.nn.functional.linear
    for speaker in a.voice or cfg["speakers"]:
        for t in a.temperature if not a.codes else [None]:
            start, frames, ended, partial = time.time(), [], 0, 0
            if a.codes:
                z = np.load(a.codes)
                frames, what = [z[f"{name}-{speaker}_{i:02d}"].astype(np.int64) for i in range(len(texts))], "codec"
                ended = len(frames)
            else:
                what = f"t{t}" + ("-w4a4" if a.w4a4 else "") + f"-s{a.seed}"
                for i in range(0, len(texts), a.batch):
                    for tokens in model.sample([ids.prompt(speaker, a.style, e) for e in texts[i:i + a.batch]], temperature=t, top_k=a.top_k, seed=a.seed, linear=linear):
                        ended += tokens[-1] == ids.end
                        partial += (len(tokens) - (tokens[-1] == ids.end)) % 8 != 0
                        frames.append(ids.frames(tokens))
            for i, f in enumerate(frames):
                x = decode(torch.tensor(f)) if len(f) else torch.zeros(0)
                if wrong := odd(x.numpy(), texts[i]):
                    print(f"  {speaker} {i}: {wrong}: {texts[i]}")
                K.write_wav(os.path.join(a.folder, f"{what}-{speaker}_{i:02d}.wav"), x)
            print(f"{what} {speaker}: ended {ended} of {len(frames)}, partial last frames {partial}, mean {np.mean([len(f) for f in frames]) / 12.5:.2f} s, took {time.time() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
