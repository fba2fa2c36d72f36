"""Training of the backbone: sequences on the device, the loss, the time-boxed loop."""
import math
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from flite import PHONES
from muon import Muon
from replay import Replay

BUCKETS = [96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448, 512, 576, 640, 704, 768, 896, 1024, 1280, 1536, 1792]
SHORT = 320                                                        # longest bucket of the first steps: the alignment comes sooner
QUANTISER_WEIGHTS = (2.2, 1.6, 1.25, 1.0, 0.75, 0.65, 0.55, 0.45)


class Sequences:
    """Prompts with their units, and for every unit the phone of its eighth of the frame; all on the device."""

    def __init__(self, ids, device, room, longest=BUCKETS[-1]):
        self.ids, self.device, self.longest = ids, device, longest
        self.tokens = torch.zeros(room, dtype=torch.int16, device=device)
        self.phones = torch.zeros(room, dtype=torch.uint8, device=device)
        self.n, self.frames, self.off, self.len, self.start = 0, 0, [], [], []

    def add(self, items, encoded):
        tokens, phones, at = [], [], self.n
        for item, (codes, labels) in zip(items, encoded):
            prompt = self.ids.prompt(item["speaker"], item["desc"], item["text"])
            s = np.concatenate([np.array(prompt), self.ids.units(codes), [self.ids.end]])
            if len(s) > self.longest or at + len(s) > self.tokens.numel():
                continue
            self.off.append(at)
            self.len.append(len(s))
            self.start.append(len(prompt))
            self.frames += len(codes)
            tokens.append(s)
            phones.append(np.concatenate([np.zeros(len(prompt), np.uint8), labels.reshape(-1), [0]]))
            at += len(s)
        if tokens:
            x = np.concatenate(tokens).astype(np.int16)
            self.tokens[self.n: self.n + len(x)] = torch.from_numpy(x).to(self.device)
            self.phones[self.n: self.n + len(x)] = torch.from_numpy(np.concatenate(phones).astype(np.uint8)).to(self.device)
            self.n += len(x)
        length = np.array(self.len)
        self.order = np.argsort(length, kind="stable")
        self.t_off, self.t_len, self.t_start = (torch.tensor(v, device=self.device) for v in (self.off, self.len, self.start))
        ends = np.searchsorted(length[self.order], np.array(BUCKETS), side="right")
        self.bucket = np.concatenate([[0], ends[:-1]]), ends       # utterances of every bucket, in `order`
        self.mass = (ends - self.bucket[0]) * np.array(BUCKETS, float)

    def draw(self, rng, tokens, short):
        """A bucket by its share of all tokens, then random utterances of it."""
        w = self.mass * (np.array(BUCKETS) <= SHORT) if short else self.mass
        b = int(rng.choice(len(w), p=w / w.sum()))
        return BUCKETS[b], self.gather(self.order[rng.integers(self.bucket[0][b], self.bucket[1][b], max(1, tokens // BUCKETS[b]))], BUCKETS[b])

    def gather(self, index, T):
        """inputs, targets, used positions, phone of the target, phone a frame later; each [B, T]."""
        i = torch.as_tensor(index, device=self.device)
        t = torch.arange(T, device=self.device)[None]
        at, L = self.t_off[i][:, None] + t, self.t_len[i][:, None]
        last = self.tokens.numel() - 1
        x = self.tokens[at.clamp(max=last)].long() * (t < L)
        target = self.tokens[(at + 1).clamp(max=last)].long() * (t + 1 < L)
        used = (t >= self.t_start[i][:, None] - 1) & (t < L - 1)   # positions that predict a unit or the end
        now = self.phones[(at + 1).clamp(max=last)].long() * (t + 1 < L)
        later = self.phones[(at + 9).clamp(max=last)].long() * (t + 9 < L)
        return x, target, used, now, later


class Step:
    """The training forward pass in bfloat16; `compiled` fuses its elementwise parts."""

    def __init__(self, model, drop, noise, compiled):
        self.m, self.drop, self.noise = model, drop, noise
        device = model.embed.device
        self.phone_head = nn.Linear(model.c["hidden"], 2 * len(PHONES)).to(device)
        self.weights_q = torch.tensor(QUANTISER_WEIGHTS, device=device)
        rows = model.ids.last - model.ids.first + 2
        self.pad = -rows % 64                                      # an aligned matrix product is faster
        self.bias = torch.cat([torch.zeros(rows), torch.full((self.pad,), -1e4)]).to(device)
        wrap = torch.compile if compiled else (lambda f: f)           # batch and length turn symbolic at the second bucket
        self.before, self.after, self.loss_of = wrap(self.before), wrap(self.after), wrap(self.loss_of)

    def before(self, x, ln, wi, cos, sin, turn):
        """Norm, the five projections, positions; cos and sin [T, D] carry the signs of the pairs."""
        c, (B, T, H) = self.m.c, x.shape
        q, k, v, g, u = F.linear(F.layer_norm(x, (H,), ln, None, c["eps"]), wi).split(self.m.split, -1)
        q, k, v = (t.reshape(B, T, -1, c["head_dim"]).transpose(1, 2) for t in (q, k, v))
        if turn:
            q, k = (t * cos + t.unflatten(-1, (-1, 2)).flip(-1).flatten(-2) * sin for t in (q, k))
        return q.contiguous(), k.contiguous(), v.contiguous(), F.silu(g) * u

    def after(self, x, o, m, wo, wd):
        B, T, _ = x.shape
        y = F.linear(o.transpose(1, 2).reshape(B, T, -1), wo) + F.linear(m, wd)
        return x + (F.dropout(y, self.drop) if self.drop else y)

    def hidden(self, ids):
        m = self.m
        dt = torch.bfloat16 if ids.is_cuda else torch.float32
        E = m.embed.to(dt)
        x = F.embedding(ids, E)
        cos, sin = m.rope(ids.shape[1], ids.device)
        cos, sin = cos.repeat_interleave(2, -1).to(dt), torch.stack([-sin, sin], -1).flatten(-2).to(dt)
        wi, wo, wd = (w.to(dt) for w in m.weights())
        ln = m.ln.to(dt)
        for l in range(m.c["layers"]):
            q, k, v, g = self.before(x, ln[l], wi[l], cos, sin, l % 4 != 3)
            o = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            x = self.after(x, o, g, wo[l], wd[l])
        return F.layer_norm(x, x.shape[-1:], m.norm.to(dt), None, m.c["eps"]), E

    def loss_of(self, h, rows, bias, classes, w, used, now, later, phone_w, phone_b):
        logits = F.linear(h, rows, bias)
        ce = F.cross_entropy(logits.float().flatten(0, 1), classes.flatten(), reduction="none")
        p = F.linear(h, phone_w, phone_b).float().flatten(0, 1).chunk(2, -1)
        n = used.sum()
        ph = [(F.cross_entropy(a, b.flatten(), reduction="none") * used.flatten()).sum() / n for a, b in zip(p, (now, later))]
        return (ce * w.flatten()).sum() / w.sum(), *ph

    def __call__(self, x, target, used, now, later, phone_weight=0.15):
        """(total, unit, stop, phone, later phone)."""
        m, I = self.m, self.m.ids
        if self.noise:                                             # some units are wrong, as they will be when it speaks
            r = I.first + I.q * torch.randint(0, m.c["codebook"], x.shape, device=x.device) + (x - I.first) % I.q
            x = torch.where((x >= I.first) & (x <= I.last) & (torch.rand(x.shape, device=x.device) < self.noise), r, x)
        h, E = self.hidden(x)
        end = target == I.end
        classes = torch.where(used, torch.where(end, I.last - I.first + 1, target - I.first), 0)
        q = torch.where(end, 0, (target - I.first) % I.q)
        rows = torch.cat([E[I.first: I.last + 1], E[I.end: I.end + 1], E.new_zeros(self.pad, E.shape[1])])
        unit, ph, ph2 = self.loss_of(h, rows, self.bias.to(h.dtype), classes, self.weights_q[q] * used, used, now, later,
                                     self.phone_head.weight.to(h.dtype), self.phone_head.bias.to(h.dtype))
        z = m.stop(h.float())[..., 0]
        sb = F.binary_cross_entropy_with_logits(z, end.float(), reduction="none")
        at0 = (q == 0) & used                                      # frame boundaries matter most
        stop = (sb * used).sum() / used.sum() + (sb * at0).sum() / at0.sum()
        return unit + 0.5 * stop + phone_weight * (ph + ph2), unit, stop, ph, ph2


@torch.no_grad()
def validate(model, held, n=384):
    """Mean cross-entropy of every quantiser, and how the stop head does, on held-out utterances."""
    I, device = model.ids, model.embed.device
    ce, count = torch.zeros(I.q + 1, device=device), torch.zeros(I.q + 1, device=device)
    hit = ends = false = 0
    index = held.order[:: max(1, len(held.order) // n)]
    for i in range(0, len(index), 32):
        s = index[i: i + 32]
        T = -(-int(np.array(held.len)[s].max()) // 64) * 64
        x, target, used, _, _ = held.gather(s, T)
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda"):
            h = model.hidden(x)[used]
            logits = F.linear(h, model.rows()).float()
        t = target[used]
        end = t == I.end
        classes = torch.where(end, I.last - I.first + 1, t - I.first)
        q = torch.where(end, I.q, (t - I.first) % I.q)
        ce.index_add_(0, q, F.cross_entropy(logits, classes, reduction="none"))
        count.index_add_(0, q, torch.ones_like(q, dtype=ce.dtype))
        z = model.stop(h.float())[:, 0] > 0
        hit, ends, false = hit + (z & end).sum().item(), ends + end.sum().item(), false + (z & ~end).sum().item()
    per = (ce / count.clamp(min=1)).tolist()
    return "held out: " + " ".join(f"{v:.3f}" for v in per[:-1]) + f" | q0+q1 {per[0] + per[1]:.3f} | end {per[-1]:.3f} | stops {hit}/{ends}, false {false}"


def faster_step(model, data, drop, noise, tokens, say, modes=(False, True), T=320, other=192):
    """The plain and the compiled step, timed on one bucket: the faster one."""
    best = None
    for compiled in modes:
        try:
            step = Step(model, drop, noise, compiled)
            parameters = list(model.parameters()) + list(step.phone_head.parameters())

            def body(*batch):
                for p in parameters:
                    p.grad = None
                total, *_ = step(*batch)
                total.backward()
                return total.detach()

            small, large = (data.gather(np.arange(tokens // t) % len(data.off), t) for t in (other, T))
            body(*small)
            replay = Replay(say)
            float(replay(T, body, *large))
            start = time.time()
            for _ in range(20):
                out = replay(T, body, *large)
            float(out)
            took = (time.time() - start) / 20
            say("step compiled" if compiled else "step plain", f"{took * 1000:.1f} ms, {tokens / took / 1e6:.2f} Mtok/s")
            if best is None or took < best[0]:
                best = took, step
        except Exception as e:                                     # no compiler, say: the plain step stays
            say("step not used:", repr(e)[:300])
    return best[1]


def train(model, data, held, seconds, say, tokens=65536, lr_matrices=3e-3, lr_rest=2e-3, decay=0.1, floor=0.02, warm=150, noise=0.03, drop=0.05,
          round_at=0.7, grow=None, hooks=(), seed=0, validations=14, long_at=0.08):
    """Time-boxed.  `grow()` adds data now and then, `hooks` [(part of the time, function)] run once.  Returns (steps, tokens, rate)."""
    begun = time.time()
    step_fn = faster_step(model, data, drop, noise, tokens, say)
    seconds -= time.time() - begun
    rest = [p for p in model.parameters() if all(p is not m for m in (model.w_in, model.w_o, model.w_d))] + list(step_fn.phone_head.parameters())
    opt = Muon([(model.w_in, model.split), (model.w_o, model.w_o.shape[1]), (model.w_d, model.w_d.shape[1])], rest, lr_matrices, lr_rest, decay)
    replay, rng, hooks = Replay(say), np.random.default_rng(seed), sorted(hooks, key=lambda h: h[0])
    cuda = model.embed.is_cuda
    start, step, seen = time.time(), 0, 0
    validated = grown = start
    mark = (start, 0)
    model.gate.zero_()

    def body(x, target, used, now, later):
        for p in opt.all:
            p.grad = None
        total, *parts = step_fn(x, target, used, now, later)
        total.backward()
        norm = nn.utils.clip_grad_norm_(opt.all, 1.0)
        opt.step()
        return torch.stack([p.detach() for p in parts] + [norm.detach()])

    while (p := (time.time() - start) / seconds) < 1:
        opt.factor(min(1, (step + 1) / warm) * (floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * p))))
        if p >= round_at:
            model.gate.fill_(1)
        T, batch = data.draw(rng, tokens, p < long_at)
        out = replay(T, body, *batch)
        step, seen = step + 1, seen + batch[0].numel()
        if step % 20 == 0 and cuda:
            torch.cuda.synchronize()                               # keeps the clock honest
        now = time.time()
        if grow is not None and now - grown > 12:
            grow()
            grown = time.time()
        if step % 500 == 0 or step in (1, 20, 100):
            o = out.tolist()
            rate = (seen - mark[1]) / (now - mark[0]) / 1e6
            say(f"backbone {step} t={now - start:.0f} unit={o[0]:.3f} stop={o[1]:.4f} phone={o[2]:.3f} later={o[3]:.3f} norm={o[4]:.2f}",
                f"Mtok/s={rate:.2f} frames={data.frames / 1e6:.2f}M rounded={int(model.gate)} T={T}")
            mark = (now, seen)
            if not math.isfinite(o[0]):
                raise RuntimeError("the loss is not finite")
        if held is not None and now - validated > max(10, seconds / validations):
            say("  ", validate(model, held))
            validated = time.time()
        while hooks and p >= hooks[0][0]:
            hooks.pop(0)[1]()
    if held is not None:
        say("   end", step, validate(model, held))
    return step, seen, seen / (time.time() - start)
