"""Training of the codec, in three time-boxed stages: phone recogniser, spectral, adversarial."""
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

from dsp import FRAME
from flite import PHONES
from losses import Discriminator, discriminator_loss, generator_loss, spectral_loss
from phones import PhoneNet, phone_loss
from replay import Replay
from speech import LABELS

PIECE = 15                                                         # frames a discriminator sees


class Trainer:
    """What the stages share.  `poll` takes in more speech; `say` logs."""

    def __init__(self, codec, speech, poll, say, batch=48, frames=25):
        self.codec, self.speech, self.poll, self.say, self.batch, self.frames = codec, speech, poll, say, batch, frames
        self.device = speech.device
        self.cuda = self.device == "cuda"
        self.phone_net = PhoneNet().to(self.device)
        self.phone_head = nn.Linear(codec.rvq.table.shape[-1], LABELS * len(PHONES)).to(self.device)
        torch.backends.cudnn.benchmark = True

    def amp(self):
        return torch.autocast(self.device, dtype=torch.bfloat16, enabled=self.cuda, cache_enabled=False)

    def adam(self, parameters, lr):
        fast = dict(fused=True, capturable=True) if self.cuda else {}
        return torch.optim.AdamW(parameters, torch.tensor(lr, device=self.device), betas=(0.8, 0.99), weight_decay=1e-3, **fast)

    def loop(self, name, seconds, body, before, batch, floor=0.04, warm=50):
        """Runs `body(sound, labels)` for `seconds`; `before(step, factor)` sets the rates."""
        replay, start, step = Replay(self.say), time.time(), 0
        while (p := (time.time() - start) / seconds) < 1:
            before(step, min(1, (step + 1) / warm) * (floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * p))))
            out = replay(name, body, *self.speech.crops(batch, self.frames))
            step += 1
            if step % 100 == 0:
                self.poll()
            if step % 50 == 0 and self.cuda:
                torch.cuda.synchronize()                           # keeps the clock honest
            if step % 1000 == 0 or step in (1, 100):
                self.say(f"{name} {step} t={time.time() - start:.1f}", [round(v, 4) for v in out.tolist()], f"hours={self.speech.hours():.1f}")
        return step

    def recognise(self, seconds):
        """Stage P: the recogniser learns the teacher's speech."""
        net = self.phone_net
        ps = list(net.parameters())
        opt = self.adam(ps, 2e-3)

        def body(x, labels):
            for p in ps:
                p.grad = None
            with self.amp():
                logits, _ = net(x)
            loss = F.cross_entropy(logits, labels)
            loss.backward()
            nn.utils.clip_grad_norm_(ps, 5.0)
            opt.step()
            return torch.stack([loss.detach(), (logits.argmax(1) == labels).float().mean()])

        return self.loop("P", seconds, body, lambda step, f: opt.param_groups[0]["lr"].fill_(2e-3 * f), self.batch)

    def first_codebooks(self, steps=300):
        """From scratch: unquantised steps, then k-means."""
        codec, kept = self.codec, []
        opt = torch.optim.AdamW(codec.parameters(), 1e-3, betas=(0.8, 0.99), weight_decay=1e-3)
        for step in range(steps):
            x, _ = self.speech.crops(self.batch, self.frames)
            z = codec.enc(x)
            mel, lin = spectral_loss(codec.dec(codec.rvq(z)[0]), x)
            opt.zero_grad(set_to_none=True)
            (10 * mel + 5 * lin).backward()
            nn.utils.clip_grad_norm_(codec.parameters(), 5.0)
            opt.step()
            if step >= steps - 12:
                kept.append(z.detach().reshape(-1, z.shape[-1]))
        codec.rvq.kmeans(torch.cat(kept))

    def spectral(self, seconds, lr=6e-4, q0=0.3, heard=0.25, felt=0.5):
        """Stage A: everything, on spectral distances, the phones of quantiser 0, and the phones heard in the output."""
        codec, head = self.codec, self.phone_head
        r = codec.rvq
        r.usage.fill_(self.batch * self.frames / r.C)
        r.esum.copy_(r.table * r.usage[..., None])
        codec.train()
        ps = list(codec.parameters()) + list(head.parameters())
        opt = self.adam(ps, lr)

        def body(x, labels):
            for p in ps:
                p.grad = None
            with self.amp():
                z = codec.enc(x)
            zq, commit, _, v = r(z, update=True)
            y = codec.dec(zq)
            mel, lin = spectral_loss(y, x)
            told = F.cross_entropy(head(v).unflatten(-1, (LABELS, -1)).flatten(1, 2).transpose(1, 2), labels)
            with self.amp():
                ce, far = phone_loss(self.phone_net, y, x, labels)
            (10 * mel + 5 * lin + 0.5 * commit + q0 * told + heard * ce + felt * far).backward()
            nn.utils.clip_grad_norm_(ps, 20.0)
            opt.step()
            return torch.stack([mel.detach(), lin.detach(), commit.detach(), told.detach(), ce.detach(), far.detach()])

        return self.loop("A", seconds, body, lambda step, f: opt.param_groups[0]["lr"].fill_(lr * f), self.batch)

    def adversarial(self, seconds, lr=3e-4, heard=0.25, felt=0.5):
        """Stage B: the decoder alone, so the codes stay as they are; its averaged weights are kept."""
        codec = self.codec
        for m in (codec.enc, codec.rvq.in_s, codec.rvq.in_a):
            m.requires_grad_(False)
        codec.train()
        gp = list(codec.dec.parameters()) + list(codec.rvq.out_s.parameters()) + list(codec.rvq.out_a.parameters())
        disc = Discriminator().to(self.device)
        dp = list(disc.parameters())
        og, od = self.adam(gp, lr), self.adam(dp, 5e-4)
        kept = [q.detach().clone() for q in gp]
        ramp, n = torch.zeros((), device=self.device), min(PIECE, self.frames) * FRAME

        def body(x, labels):
            for p in gp + dp:
                p.grad = None
            with torch.no_grad():
                with self.amp():
                    z = codec.enc(x)
                codes = codec.rvq(z)[2]
            y = codec.dec(codec.rvq.lookup(codes))
            i = torch.randint(0, x.shape[1] - n + 1, (1,), device=x.device) + torch.arange(n, device=x.device)
            xs, ys = x.index_select(1, i), y.index_select(1, i)
            with self.amp():
                ld = discriminator_loss(disc(xs), disc(ys.detach()))
            ld.backward()
            nn.utils.clip_grad_norm_(dp, 10.0)
            od.step()
            mel, lin = spectral_loss(y, x)
            disc.requires_grad_(False)
            with self.amp():
                with torch.no_grad():
                    real = disc(xs)
                la, lf = generator_loss(real, disc(ys))
                ce, far = phone_loss(self.phone_net, y, x, labels)
            disc.requires_grad_(True)
            (10 * mel + 4 * lin + ramp * (0.5 * la + lf) + heard * ce + felt * far).backward()
            nn.utils.clip_grad_norm_(gp, 20.0)
            og.step()
            torch._foreach_lerp_(kept, [q.detach() for q in gp], 0.005)
            return torch.stack([mel.detach(), lin.detach(), la.detach(), lf.detach(), ld.detach(), ce.detach()])

        def before(step, f):
            og.param_groups[0]["lr"].fill_(lr * f)
            od.param_groups[0]["lr"].fill_(5e-4 * f)
            ramp.fill_(min(1, step / 150))

        steps = self.loop("B", seconds, body, before, max(1, self.batch * 2 // 3), floor=0.05)
        with torch.no_grad():
            for q, e in zip(gp, kept):
                q.copy_(e)
        return steps

    @torch.no_grad()
    def check(self, index):
        """Held-out utterances: mel distance, phone accuracy of the original, of the reconstruction, and of quantiser 0 alone."""
        torch.backends.cudnn.benchmark = False
        codec, out = self.codec, []
        codec.eval()
        for i in range(0, len(index), 16):
            x, labels, frames = self.speech.utterances(index[i:i + 16])
            z = codec.enc(x)
            zq, _, _, v = codec.rvq(z)
            y = codec.dec(zq)
            real = torch.arange(labels.shape[1], device=x.device)[None] < frames[:, None] * LABELS
            right = [(self.phone_net(s)[0].argmax(1) == labels)[real].float().mean().item() for s in (x, y)]
            told = self.phone_head(v).unflatten(-1, (LABELS, -1)).flatten(1, 2).argmax(-1)
            out.append([spectral_loss(y, x)[0].item(), *right, (told == labels)[real].float().mean().item()])
        torch.backends.cudnn.benchmark = True
        mean = [sum(o[k] for o in out) / len(out) for k in range(4)]
        return "held out: mel {:.4f}, phones right {:.3f} in the original, {:.3f} in the copy, {:.3f} by quantiser 0".format(*mean)
