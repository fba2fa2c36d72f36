#!/usr/bin/env python3
"""Train the built-in voice on one GPU, in one go.

    train.py INPUTS OUT [--budget 1475] [--spectral 390] [--adversarial 150] [--tiny]

INPUTS holds corpus.txt.gz and lib/ (fetch_inputs.sh), and optionally codec_dec.pt and codec_enc.pt to go on with a codec.
The synthesiser runs beside the training.  OUT gets codec_dec.pt, codec_enc.pt, teacher.npz (codes of the teacher's evaluation
sentences), backbone_0.pt, backbone_1.pt, backbone_packed.pt and train.log, each saved early and again.
`--tiny` runs every stage on a CPU in a minute.
"""
import argparse
import glob
import importlib
import os
import shutil
import subprocess
import sys
import time
import traceback

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
HELD = 400                                                         # first lines of the corpus, for validation


class Run:
    """One training: its options, clock, log and speech."""

    def __init__(self, a):
        self.a, self.start = a, time.time()
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        os.makedirs(a.out, exist_ok=True)
        self.log = open(os.path.join(a.out, "train.log"), "a", encoding="utf8")
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        torch.manual_seed(1)
        np.random.seed(1)
        self.shards = a.shards
        shutil.rmtree(self.shards, ignore_errors=True)
        os.makedirs(self.shards)
        self.synthesiser = subprocess.Popen([sys.executable, os.path.join(HERE, "synth.py"), os.path.join(a.inputs, "lib"), os.path.join(a.inputs, "corpus.txt.gz"),
                                             self.shards, "--workers", str(a.workers), "--seconds", str(a.budget * 0.8)])

    def say(self, *x):
        line = f"[{time.time() - self.start:.0f}s] " + " ".join(map(str, x))
        print(line, flush=True)
        self.log.write(line + "\n")
        self.log.flush()

    def left(self):
        """Seconds left; a number in OUT/budget replaces --budget, to shorten or lengthen a training under way."""
        f = self.path("budget")
        return (float(open(f).read()) if os.path.exists(f) else self.a.budget) - (time.time() - self.start)

    def path(self, name):
        return os.path.join(self.a.out, name)

    def save(self, name, value):
        """Written beside, then renamed: whoever copies OUT meanwhile gets a whole file."""
        torch.save(value, self.path(name + ".part"))
        os.replace(self.path(name + ".part"), self.path(name))


def evaluation_codes(run, codec):
    """The teacher's own speech of the evaluation sentences, through the codec: how well it can sound at best."""
    import flite
    import speech
    teacher, store, names = flite.Flite(os.path.join(run.a.inputs, "lib")), speech.Speech(run.device, 0.6), []
    for f in sorted(glob.glob(os.path.join(HERE, "eval", "*.txt"))):
        lines = [l.split(" | ")[0].strip() for l in open(f, encoding="utf8") if l.strip()]
        for s in flite.SPEAKERS:
            for i, line in enumerate(lines[: 2 if run.a.tiny else 64]):
                store.add(*flite.trim(*teacher.say(line, s)), {"line": i})
                names.append(f"{os.path.basename(f)[:-4]}-{s}_{i:02d}")
    store.index()
    np.savez_compressed(run.path("teacher.npz"), **{n: c for n, (c, _) in zip(names, speech.encode(codec, store, 0, len(names)))})


def train_codec(run):
    """Speech store and codec."""
    import codec as codec_module
    import speech as speech_module
    import train_codec as stage
    a, say = run.a, run.say
    speech = speech_module.Speech(run.device, 0.5 if a.tiny else a.hours)
    while speech.hours() < (0.005 if a.tiny else 1.2) and run.left() > a.budget / 2:
        time.sleep(0.3)
        speech.poll(run.shards)
    say("speech to start with:", f"{speech.hours():.2f} h")
    codec = codec_module.Codec().to(run.device)
    t = stage.Trainer(codec, speech, lambda: speech.poll(run.shards, 14), say, batch=2 if a.tiny else 48)
    held = [i for i, item in enumerate(speech.items) if item["line"] < HELD][:2 if a.tiny else 96]
    say("recogniser steps", t.recognise(a.recogniser))
    if os.path.exists(os.path.join(a.inputs, "codec_dec.pt")):
        codec.load(torch.load(os.path.join(a.inputs, "codec_dec.pt"), weights_only=False), torch.load(os.path.join(a.inputs, "codec_enc.pt")))
    else:
        t.first_codebooks(4 if a.tiny else 300)
    say(t.check(held))

    def save():
        run.save("codec_dec.pt", {k: v.to(torch.float32) for k, v in codec.flat().items()})
        run.save("codec_enc.pt", codec.encoder_state())
        evaluation_codes(run, codec)
        say(t.check(held))

    say("spectral steps", t.spectral(a.spectral))
    save()
    say("adversarial steps", t.adversarial(a.adversarial))
    save()
    return codec, speech


def train_backbone(run, codec, speech):
    """Encodes what there is, trains, and goes on encoding what comes."""
    for name in ("nvfp4", "backbone", "muon", "replay", "train_backbone"):
        if name in sys.modules:
            importlib.reload(sys.modules[name])                    # a second try reads repaired files
    import backbone
    import nvfp4
    import speech as speech_module
    import train_backbone as stage
    a, say = run.a, run.say
    if a.tiny:
        backbone.CFG.update(hidden=128, layers=4, heads=2, kv=1, inter=256)
    torch.manual_seed(2)
    model = backbone.Backbone().to(run.device)
    data = stage.Sequences(model.ids, run.device, 2_000_000 if a.tiny else 260_000_000)
    held = stage.Sequences(model.ids, run.device, 600_000)
    done = [0]

    def take(limit):
        speech.poll(run.shards, limit)
        n = len(speech.items)
        if n > done[0]:
            new = speech.items[done[0]:n]
            codes = speech_module.encode(codec, speech, done[0], n)
            for where, kept in ((held, True), (data, False)):
                pairs = [(i, c) for i, c in zip(new, codes) if (i["line"] < (HELD, 5)[a.tiny]) == kept]
                if pairs:
                    where.add(*zip(*pairs))
            done[0] = n

    take(10 ** 9)
    say("encoded", done[0], "utterances,", f"{speech.hours():.1f} h, {data.frames} frames; held out {len(held.off)}")

    def save():
        state = {k: v.detach().to(torch.bfloat16).cpu() for k, v in model.state_dict().items()}
        run.save("backbone_0.pt", {"w_in": state.pop("w_in")})
        run.save("backbone_1.pt", {**state, "cfg": backbone.CFG})
        w, packed = model.named(), {}
        for l in range(model.c["layers"]):
            for group in backbone.GROUPS:
                names = [f"model.layers.{l}.{n}" for n in group]
                ws2 = nvfp4.second_scale([w[n + ".weight"] for n in names])
                packed.update({n: (*nvfp4.pack(w[n + ".weight"], ws2), ws2) for n in names})
        run.save("backbone_packed.pt", packed)
        say("saved")

    until = time.time() + (run.left() - 12) * 0.62
    r = stage.train(model, data, held, run.left() - 12, say, tokens=2048 if a.tiny else 65536, drop=a.drop, noise=a.noise,
                    grow=lambda: take(70) if time.time() < until else None, hooks=[(0.5, save), (0.88, save)])
    say("backbone steps, tokens, tokens a second:", r, f"{speech.hours():.1f} h, {data.frames} frames")
    save()


def warm_compiler(tiny):
    """Beside the codec's training: compiles the backbone's step on random units, so that its own stage finds it done."""
    import backbone
    import train_backbone as stage
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if tiny:
        backbone.CFG.update(hidden=128, layers=4, heads=2, kv=1, inter=256)
    rng = np.random.default_rng(0)
    model = backbone.Backbone().to(device)
    data = stage.Sequences(model.ids, device, 3_000_000)
    n = rng.integers(6, 30, 60)
    data.add([{"speaker": "Clara", "desc": "", "text": "x" * int(k)} for k in n], [(rng.integers(0, 512, (k, 8)), rng.integers(0, 40, (k, 8))) for k in n])
    stage.faster_step(model, data, 0.05, 0.03, 2048 if tiny else 65536, lambda *x: print("beside:", *x, flush=True), modes=(True,))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("inputs")
    ap.add_argument("out")
    for name, default in (("budget", 1475), ("recogniser", 5), ("spectral", 390), ("adversarial", 150), ("hours", 420), ("drop", 0.05), ("noise", 0.03)):
        ap.add_argument("--" + name, type=float, default=default)
    ap.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    ap.add_argument("--shards", default="/tmp/builtin_voice_shards", help="scratch folder of the synthesiser; emptied first")
    ap.add_argument("--tiny", action="store_true")
    ap.add_argument("--warm-compiler", action="store_true", help=argparse.SUPPRESS)
    a = ap.parse_args()
    if a.warm_compiler:
        return warm_compiler(a.tiny)
    run = Run(a)
    run.say("torch", torch.__version__, run.device, "processors", os.cpu_count())
    trial = subprocess.Popen([sys.executable, os.path.abspath(__file__), a.inputs, a.out, "--warm-compiler"] + ["--tiny"] * a.tiny)
    codec, speech = train_codec(run)
    trial.wait()
    while True:
        try:
            train_backbone(run, codec, speech)
            break
        except Exception:                                          # the speech and the codec are worth keeping: repair, then `touch OUT/again`
            run.say(traceback.format_exc())
            while not os.path.exists(run.path("again")) and run.left() > 60:
                time.sleep(1)
            if run.left() <= 60:
                raise
            os.remove(run.path("again"))
    run.synthesiser.terminate()
    run.say("done")


if __name__ == "__main__":
    main()
