"""The small Cohere2 of the TinyAya layout: tokens, model, batched sampling, names of the checkpoint."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from nvfp4 import fake

CFG = dict(hidden=384, layers=8, heads=6, kv=2, head_dim=64, inter=896, theta=50000.0, eps=1e-5, codebook=512, q=8,
           max_pos=4096, logit_scale=1.0)
SPECIALS = ["<PAD>", "<MASK_TOKEN>", "<BOS_TOKEN>", "<EOS_TOKEN>", "<UNK>",
            "<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>", "<|USER_TOKEN|>"]
AFTER = ["<text>", "<audio>", "</audio>", "<laugh>", "<chuckle>", "<sigh>"] + [f"<reserved_{i}>" for i in range(6)]
INPUTS = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj")     # all read the normed input
GROUPS = (INPUTS, ("self_attn.o_proj",), ("mlp.down_proj",))       # linears that share an NVFP4 second scale


def byte_alphabet():
    """GPT-2's byte -> character table, and the id of every byte (sorted characters after the specials)."""
    plain = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    char = {b: chr(b) for b in plain}
    for n, b in enumerate(b for b in range(256) if b not in char):
        char[b] = chr(256 + n)
    order = {c: i for i, c in enumerate(sorted(char.values()))}
    return char, [len(SPECIALS) + order[char[b]] for b in range(256)]


BYTE_CHAR, BYTE_ID = byte_alphabet()


class Ids:
    """Token ids: specials, bytes, units (8 c + q), then the audio marks."""

    def __init__(self, c=CFG):
        self.bos, self.first = 2, len(SPECIALS) + 256
        self.last = self.first + c["q"] * c["codebook"] - 1
        self.text, self.audio, self.end = self.last + 1, self.last + 2, self.last + 3
        self.vocab, self.q = self.last + 1 + len(AFTER), c["q"]

    def prompt(self, speaker, description, text):
        d = f'<description="{description}"> ' if description else ""
        return [self.bos, self.text] + [BYTE_ID[b] for b in f"{speaker}: {d}{text}".encode()] + [self.audio]

    def units(self, codes):
        """[F, 8] -> ids [8 F]."""
        return (self.first + self.q * codes.astype(np.int64) + np.arange(self.q)[None]).reshape(-1)

    def frames(self, tokens):
        """Ids up to the end mark -> whole frames [F, 8]; what is out of order is dropped."""
        out, cur = [], []
        for t in tokens:
            if t == self.end:
                break
            c, q = divmod(t - self.first, self.q) if self.first <= t <= self.last else (0, -1)
            cur = cur + [c] if q == len(cur) else [c] if q == 0 else []
            if len(cur) == self.q:
                out.append(cur)
                cur = []
        return np.array(out, dtype=np.int64).reshape(-1, self.q)


def rotate(x, cos, sin):
    """Interleaved rotary embedding; x [B, h, T, D]."""
    a, b = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2).to(x.dtype)


class Backbone(nn.Module):
    """Linears are stacked over the layers: w_in = q|k|v|gate|up, w_o, w_d; `gate` 1 rounds them to NVFP4 in the forward pass."""

    def __init__(self, c=CFG):
        super().__init__()
        self.c, self.ids = c, Ids(c)
        H, L, I = c["hidden"], c["layers"], c["inter"]
        nq, nk = c["heads"] * c["head_dim"], c["kv"] * c["head_dim"]
        self.split = [nq, nk, nk, I, I]
        self.w_in = nn.Parameter(torch.randn(L, sum(self.split), H) / math.sqrt(H))
        self.w_o = nn.Parameter(torch.randn(L, H, nq) / math.sqrt(nq) / math.sqrt(2 * L))
        self.w_d = nn.Parameter(torch.randn(L, H, I) / math.sqrt(I) / math.sqrt(2 * L))
        self.embed = nn.Parameter(torch.randn(self.ids.vocab, H) * 0.05)
        self.ln, self.norm = nn.Parameter(torch.ones(L, H)), nn.Parameter(torch.ones(H))
        n = max(64, H // 4)
        self.stop = nn.Sequential(nn.LayerNorm(H), nn.Linear(H, n), nn.GELU(), nn.Linear(n, 1))
        self.register_buffer("gate", torch.zeros(()), persistent=False)
        self.tables = {}

    def weights(self):
        """(w_in, w_o, w_d), rounded straight through when the gate is open."""
        out = []
        for w in (self.w_in, self.w_o, self.w_d):
            with torch.no_grad():
                d = self.gate * (fake(w, w.abs().amax((1, 2))[:, None, None] / 2688.0) - w)
            out.append(w + d)
        return out

    def rope(self, T, device):
        """cos, sin [T, D/2].  One table a device, never replaced: captured graphs point at it."""
        if device not in self.tables:
            D = self.c["head_dim"]
            inv = 1.0 / self.c["theta"] ** (torch.arange(0, D, 2, device=device).float() / D)
            a = torch.arange(self.c["max_pos"], device=device).float()[:, None] * inv
            self.tables[device] = (a.cos(), a.sin())
        cos, sin = self.tables[device]
        return cos[:T], sin[:T]

    def layer(self, l, x, w, cos, sin, attend, linear=F.linear):
        """One parallel block; every fourth layer sees everything and has no positions."""
        B, T, H = x.shape
        h = F.layer_norm(x, (H,), self.ln[l].to(x.dtype), None, self.c["eps"])
        q, k, v, g, u = linear(h, w[0][l]).split(self.split, -1)
        q, k, v = (t.reshape(B, T, -1, self.c["head_dim"]).transpose(1, 2) for t in (q, k, v))
        if l % 4 != 3:
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        o = attend(q, k, v).transpose(1, 2).reshape(B, T, -1)
        return x + linear(o, w[1][l]) + linear(F.silu(g) * u, w[2][l])

    def hidden(self, ids, linear=F.linear):
        """ids [B, T] -> final hidden states (right padding is harmless: attention is causal)."""
        x = F.embedding(ids, self.embed)
        cos, sin = self.rope(ids.shape[1], ids.device)
        w = self.weights()
        for l in range(self.c["layers"]):
            x = self.layer(l, x, w, cos, sin, lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True), linear)
        return F.layer_norm(x, x.shape[-1:], self.norm, None, self.c["eps"])

    def rows(self):
        """The head's rows: units, then the end mark."""
        i = self.ids
        return torch.cat([self.embed[i.first: i.last + 1], self.embed[i.end: i.end + 1]])

    @torch.no_grad()
    def sample(self, prompts, longest=1600, temperature=0.6, top_k=30, seed=0, linear=F.linear):
        """Token lists, each with its end mark unless it was cut at `longest`."""
        device, I = self.embed.device, self.ids
        self.eval()
        B, P, D, L = len(prompts), max(map(len, prompts)), self.c["head_dim"], self.c["layers"]
        ids = torch.zeros(B, P, dtype=torch.long, device=device)
        n = torch.tensor([len(p) for p in prompts], device=device)
        for b, p in enumerate(prompts):
            ids[b, : len(p)] = torch.tensor(p, device=device)
        K = torch.zeros(L, B, self.c["kv"], P + longest, D, device=device)
        V = torch.zeros_like(K)
        w, rows = self.weights(), self.rows()
        cos_all, sin_all = self.rope(P + longest, device)
        g = torch.Generator(device=device).manual_seed(seed)
        ar, out, done = torch.arange(B, device=device), [], torch.zeros(B, dtype=torch.bool, device=device)
        x_ids, pos = ids, None
        for step in range(longest):
            first = step == 0
            cos, sin = (cos_all[:P], sin_all[:P]) if first else (cos_all[pos][:, None, None], sin_all[pos][:, None, None])
            x = F.embedding(x_ids, self.embed)
            for l in range(L):
                def attend(q, k, v, l=l):
                    if first:
                        K[l, :, :, :P], V[l, :, :, :P] = k, v
                        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
                    K[l, ar, :, pos], V[l, ar, :, pos] = k[:, :, 0], v[:, :, 0]
                    end = P + step
                    mask = (torch.arange(end, device=device)[None] <= pos[:, None])[:, None, None]
                    return F.scaled_dot_product_attention(q, K[l, :, :, :end], V[l, :, :, :end], attn_mask=mask, enable_gqa=True)
                x = self.layer(l, x, w, cos, sin, attend, linear)
            f = x[ar, n - 1] if first else x[:, 0]
            f = F.layer_norm(f, f.shape[-1:], self.norm, None, self.c["eps"])
            logits = (f @ rows.T) * self.c["logit_scale"]
            if step < 8:
                logits[:, -1] = -math.inf
            if temperature > 0:
                top, index = (logits / temperature).topk(top_k, -1)
                pick = index.gather(1, torch.multinomial(top.softmax(-1), 1, generator=g))[:, 0]
            else:
                pick = logits.argmax(-1)
            token = torch.where(pick == rows.shape[0] - 1, I.end, I.first + pick)
            if step >= 8:
                token = torch.where(self.stop(f)[:, 0] > 0, I.end, token)
            token = torch.where(done, I.end, token)
            out.append(token)
            done = done | (token == I.end)
            if step % 16 == 15 and bool(done.all()):
                break
            pos, x_ids = n + step, token[:, None]
        rows_out = torch.stack(out, 1).cpu().tolist()
        return [s[: s.index(I.end) + 1] if I.end in s else s for s in rows_out]

    def named(self):
        """float32 tensors under the checkpoint's names; linears are the unrounded master weights."""
        def g(t):
            return t.detach().float().cpu().clone()
        w = {"model.embed_tokens.weight": g(self.embed), "model.norm.weight": g(self.norm)}
        for l in range(self.c["layers"]):
            p = f"model.layers.{l}."
            w[p + "input_layernorm.weight"] = g(self.ln[l])
            for name, t in zip(INPUTS, self.w_in[l].split(self.split)):
                w[p + name + ".weight"] = g(t)
            w[p + "self_attn.o_proj.weight"], w[p + "mlp.down_proj.weight"] = g(self.w_o[l]), g(self.w_d[l])
        for k, v in self.stop.state_dict().items():
            w["stop_predictor." + k] = g(v)
        return w
