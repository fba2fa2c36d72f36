"""The synthesised speech on the device: random crops for the codec, whole utterances for encoding."""
import glob
import json
import os

import numpy as np
import torch

from dsp import FRAME, to_24k
from flite import LABEL, RATE

FRAME_16K = FRAME * 2 // 3
LABELS = FRAME_16K // LABEL                                        # phone labels of a frame: 8


class Speech:
    """int16 samples at 16 kHz and phone labels at 100 Hz; grows while the synthesiser runs."""

    def __init__(self, device, hours):
        self.sound = torch.empty(int(hours * 3600 * RATE), dtype=torch.int16, device=device)
        self.phones = torch.zeros(int(hours * 3600 * 110), dtype=torch.uint8, device=device)
        self.n, self.m, self.items, self.device, self.full = 0, 0, [], device, False

    def poll(self, folder, limit=10 ** 9):
        """Takes over up to `limit` finished shards and deletes them; returns how many."""
        new = 0
        for f in sorted(glob.glob(os.path.join(folder, "*.json")), key=lambda f: f[-9:]):
            if new >= limit or self.full:
                break
            sound, phones = np.fromfile(f[:-5] + ".i16", np.int16), np.fromfile(f[:-5] + ".u8", np.uint8)
            if self.n + len(sound) > self.sound.numel():
                self.full = True
                break
            self.sound[self.n: self.n + len(sound)] = torch.from_numpy(sound).to(self.device)
            self.phones[self.m: self.m + len(phones)] = torch.from_numpy(phones).to(self.device)
            with open(f) as file:
                for i in json.load(file):
                    i["off"], i["loff"] = self.n, self.m
                    self.n += i["n"]
                    self.m += -(-i["n"] // LABEL)
                    self.items.append(i)
            for ending in (".json", ".i16", ".u8"):
                os.remove(f[:-5] + ending)
            new += 1
        if new:
            self.index()
        return new

    def index(self):
        self.off, self.loff, self.len = (torch.tensor([i[k] for i in self.items], device=self.device) for k in ("off", "loff", "n"))

    def add(self, sound, phones, item):
        """One utterance from memory."""
        self.sound[self.n: self.n + len(sound)] = torch.from_numpy(sound).to(self.device)
        self.phones[self.m: self.m + len(phones)] = torch.from_numpy(phones).to(self.device)
        self.items.append({**item, "n": len(sound), "off": self.n, "loff": self.m})
        self.n, self.m = self.n + len(sound), self.m + len(phones)

    def hours(self):
        return self.n / RATE / 3600

    def at(self, i, start, n):
        """Samples [B, n] of utterances i from `start` (may lie outside: zeros) and their labels."""
        L = self.len[i][:, None]
        t = start[:, None] + torch.arange(n, device=self.device)[None]
        x = self.sound[(self.off[i][:, None] + t).clamp(0, self.n - 1)].float() / 32768 * ((t >= 0) & (t < L))
        t = (start // LABEL)[:, None] + torch.arange(n // LABEL, device=self.device)[None]
        p = self.phones[(self.loff[i][:, None] + t).clamp(0, self.m - 1)].long() * ((t >= 0) & (t * LABEL < L))
        return to_24k(x), p

    def crops(self, B, frames):
        """Random pieces: sound [B, 1920 frames], labels [B, 8 frames].  One in seven begins at the start of an utterance."""
        n = frames * FRAME_16K
        i = torch.randint(0, self.off.numel(), (B,), device=self.device)
        u = torch.rand(B, device=self.device) * (self.len[i] - n * 0.6).clamp(min=2001) - 2000
        start = torch.where(torch.rand(B, device=self.device) < 0.15, torch.zeros_like(u), u).div(LABEL).round().long() * LABEL
        return self.at(i, start, n)

    def utterances(self, index):
        """Whole utterances padded to the longest: sound, labels, frames [B]."""
        i = torch.as_tensor(index, device=self.device)
        frames = (self.len[i] + FRAME_16K - 1) // FRAME_16K
        x, p = self.at(i, torch.zeros_like(i), int(frames.max()) * FRAME_16K)
        return x, p, frames


@torch.no_grad()
def encode(codec, speech, first, last, samples=24000 * 1600):
    """[(codes int16 [frames, 8], labels uint8 [frames, 8])] of utterances first..last."""
    codec.eval()
    torch.backends.cudnn.benchmark = False                         # every batch has another shape
    order = sorted(range(first, last), key=lambda i: speech.items[i]["n"])
    out, at = {}, 0
    while at < len(order):
        n = 1
        while at + n < len(order) and (n + 1) * speech.items[order[at + n]]["n"] * 1.5 < samples:
            n += 1
        index = order[at: at + n]
        at += n
        x, p, frames = speech.utterances(index)
        with torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=x.is_cuda):
            z = codec.enc(x)
        c, p, frames = codec.rvq(z)[2].to(torch.int16).cpu().numpy(), p.to(torch.uint8).cpu().numpy(), frames.tolist()
        for j, i in enumerate(index):
            out[i] = c[j, : frames[j]], p[j, : frames[j] * LABELS].reshape(-1, LABELS)
    torch.backends.cudnn.benchmark = True
    return [out[i] for i in range(first, last)]
