"""The small Mimi: a non-causal mel encoder (training only), split residual quantisers, and the causal decoder that ships."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from dsp import magnitude, mel_bank

CFG = dict(hidden=192, filters=20, ratios=(8, 6, 5, 4), layers=3, heads=3, head_dim=64, inter=512, window=32,
           vq_dim=48, codebook=512, quantizers=8, theta=10000.0, eps=1e-5)


class Block(nn.Module):
    """ConvNeXt over time."""

    def __init__(self, d, k=7):
        super().__init__()
        self.dw = nn.Conv1d(d, d, k, padding=k // 2, groups=d)
        self.ln = nn.LayerNorm(d)
        self.a, self.b = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
        self.g = nn.Parameter(torch.full((d,), 0.1))

    def forward(self, x):
        y = self.ln(self.dw(x).transpose(1, 2))
        return x + (self.g * self.b(F.gelu(self.a(y)))).transpose(1, 2)


class Encoder(nn.Module):
    """Mel and low linear spectrum at 100 Hz, down to one vector a frame."""

    BANDS, BINS = 100, 192

    def __init__(self, out, d=256):
        super().__init__()
        self.inp = nn.Conv1d(self.BANDS + self.BINS, d, 5, padding=2)
        self.net = nn.Sequential(Block(d), Block(d), nn.Conv1d(d, d, 4, 2, 1), Block(d), Block(d), nn.Conv1d(d, d, 4, 2, 1),
                                 Block(d), Block(d), nn.Conv1d(d, d, 4, 2, 1), Block(d, 5), Block(d, 5), Block(d, 5))
        self.ln, self.out = nn.LayerNorm(d), nn.Linear(d, out)

    def features(self, x):
        """[B, n], n whole frames -> [B, BANDS + BINS, n/240]."""
        with torch.autocast(x.device.type, enabled=False):
            n = x.shape[1] // 240
            mel = (mel_bank(1024, self.BANDS, x.device) @ magnitude(x, 1024, 240))[..., :n]
            low = magnitude(x, 2048, 240)[:, :self.BINS, :n]       # 0 to 2.25 kHz in 11.7 Hz bins: the pitch
            return (torch.cat([mel, low], 1).clamp(min=1e-5).log() + 6) / 3

    def forward(self, x):
        h = self.net(self.inp(self.features(x)))
        return self.out(self.ln(h.transpose(1, 2))).float()        # [B, T, hidden]


class Quantisers(nn.Module):
    """Quantiser 0 has its own projections ("semantic"); 1..7 quantise what it leaves."""

    def __init__(self, c=CFG):
        super().__init__()
        h, d, self.Q, self.C = c["hidden"], c["vq_dim"], c["quantizers"], c["codebook"]
        self.in_s, self.in_a = nn.Linear(h, d), nn.Linear(h, d)
        self.out_s, self.out_a = nn.Linear(d, h, bias=False), nn.Linear(d, h, bias=False)
        self.register_buffer("table", torch.randn(self.Q, self.C, d) * 0.1)
        self.register_buffer("usage", torch.ones(self.Q, self.C))
        self.register_buffer("esum", self.table.clone())
        self.on = False                                            # plain projections until k-means has made codebooks

    def near(self, i, y):
        """[N, d] -> the nearest codes [N]."""
        t = self.table[i]
        return (y @ t.T * 2 - (t * t).sum(-1)).argmax(-1)

    @torch.no_grad()
    def average(self, i, y, c, decay=0.99):
        """Exponential averages of the code vectors; codes hardly used move to a random input."""
        hits = torch.zeros(self.C, device=y.device).index_add_(0, c, torch.ones_like(c, dtype=y.dtype))
        total = torch.zeros_like(self.table[i]).index_add_(0, c, y)
        self.usage[i].mul_(decay).add_(hits, alpha=1 - decay)
        self.esum[i].mul_(decay).add_(total, alpha=1 - decay)
        u = self.usage[i]
        p = (u + 1e-3) / (u.sum() + self.C * 1e-3) * u.sum()
        dead = u < 0.03 * u.mean()
        pick = y[torch.randint(0, y.shape[0], (self.C,), device=y.device)]      # for all codes, so that nothing waits for the host
        self.table[i].copy_(torch.where(dead[:, None], pick, self.esum[i] / p[:, None]))
        mean = u.mean().expand_as(u)
        self.esum[i].copy_(torch.where(dead[:, None], pick * mean[:, None], self.esum[i]))
        self.usage[i].copy_(torch.where(dead, mean, u))

    def forward(self, z, update=False):
        """z [B, T, hidden] -> (quantised z, commitment loss, codes [B, T, Q], vector of quantiser 0 [B, T, d])."""
        B, T, _ = z.shape
        ys = self.in_s(z)
        if not self.on:
            es = self.out_s(ys)
            return es + self.out_a(self.in_a(z - es)), z.new_zeros(()), None, ys
        f = ys.reshape(B * T, -1)
        c = self.near(0, f.detach())
        q = self.table[0][c]
        loss = F.mse_loss(f, q)
        if update:
            self.average(0, f.detach(), c)
        q0 = (f + (q - f).detach()).reshape(B, T, -1)
        es = self.out_s(q0)
        codes = [c]
        ya = self.in_a(z - es.detach()).reshape(B * T, -1)
        r, acc = ya, 0
        for i in range(1, self.Q):
            c = self.near(i, r.detach())
            q = self.table[i][c]
            loss = loss + F.mse_loss(r, q)
            if update:
                self.average(i, r.detach(), c)
            acc, r = acc + q, r - q
            codes.append(c)
        ea = self.out_a((ya + (acc - ya).detach()).reshape(B, T, -1))
        return es + ea, loss, torch.stack(codes, -1).reshape(B, T, self.Q), q0

    def lookup(self, codes):
        """[B, T, Q] -> [B, T, hidden]."""
        a = sum(self.table[i][codes[..., i]] for i in range(1, self.Q))
        return self.out_s(self.table[0][codes[..., 0]]) + self.out_a(a)

    @torch.no_grad()
    def kmeans(self, z, rounds=12):
        """First codebooks from z [N, hidden]."""
        def fit(i, y):
            t = y[torch.randint(0, y.shape[0], (self.C,), device=y.device)].clone()
            for _ in range(rounds):
                c = (y @ t.T * 2 - (t * t).sum(-1)).argmax(-1)
                n = torch.zeros(self.C, device=y.device).index_add_(0, c, torch.ones_like(c, dtype=y.dtype))
                s = torch.zeros_like(t).index_add_(0, c, y)
                t = torch.where(n[:, None] > 0, s / n.clamp(min=1)[:, None], y[torch.randint(0, y.shape[0], (self.C,), device=y.device)])
            self.table[i].copy_(t)
            self.usage[i].fill_(y.shape[0] / self.C / 20)
            self.esum[i].copy_(t * self.usage[i][:, None])
            return t[(y @ t.T * 2 - (t * t).sum(-1)).argmax(-1)]

        r = self.in_a(z - self.out_s(fit(0, self.in_s(z))))
        for i in range(1, self.Q):
            r = r - fit(i, r)
        self.on = True


class Named(nn.Module):
    """A convolution under the name the library gives it."""

    def __init__(self, conv):
        super().__init__()
        self.conv = conv


class Causal(Named):
    def forward(self, x):
        return self.conv(F.pad(x, (self.conv.kernel_size[0] - 1, 0)))


class CausalT(Named):
    def forward(self, x):
        return self.conv(x)[..., : x.shape[-1] * self.conv.stride[0]]


class Residual(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.block = nn.ModuleList([nn.ELU(), Causal(nn.Conv1d(d, d // 2, 3)), nn.ELU(), Causal(nn.Conv1d(d // 2, d, 1))])

    def forward(self, x):
        y = x
        for m in self.block:
            y = m(y)
        return x + y


class Scale(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.scale = nn.Parameter(torch.full((d,), 0.1))


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        n = c["heads"] * c["head_dim"]
        for k in "qkv":
            setattr(self, k + "_proj", nn.Linear(c["hidden"], n, bias=False))
        self.o_proj = nn.Linear(n, c["hidden"], bias=False)


class Mlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.fc1 = nn.Linear(c["hidden"], c["inter"], bias=False)
        self.fc2 = nn.Linear(c["inter"], c["hidden"], bias=False)


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        h, self.c = c["hidden"], c
        self.self_attn, self.mlp = Attention(c), Mlp(c)
        self.input_layernorm, self.post_attention_layernorm = nn.LayerNorm(h, eps=c["eps"]), nn.LayerNorm(h, eps=c["eps"])
        self.self_attn_layer_scale, self.mlp_layer_scale = Scale(h), Scale(h)

    def forward(self, x, cos, sin, mask):
        B, T, _ = x.shape
        H, D, a = self.c["heads"], self.c["head_dim"], self.self_attn
        y = self.input_layernorm(x)
        q, k, v = (p(y).reshape(B, T, H, D).transpose(1, 2) for p in (a.q_proj, a.k_proj, a.v_proj))

        def rotate(t):
            return t * cos + torch.cat([-t[..., D // 2:], t[..., : D // 2]], -1) * sin

        o = F.scaled_dot_product_attention(rotate(q), rotate(k), v, attn_mask=mask).transpose(1, 2).reshape(B, T, H * D)
        x = x + self.self_attn_layer_scale.scale * a.o_proj(o)
        return x + self.mlp_layer_scale.scale * self.mlp.fc2(F.gelu(self.mlp.fc1(self.post_attention_layernorm(x))))


class Layers(nn.Module):
    def __init__(self, l):
        super().__init__()
        self.layers = nn.ModuleList(l)


class Decoder(nn.Module):
    """Its tensor names are those of a Mimi checkpoint, without the quantiser."""

    def __init__(self, c=CFG):
        super().__init__()
        self.c = c
        h, d = c["hidden"], c["filters"] * 2 ** len(c["ratios"])
        self.upsample = Named(nn.ConvTranspose1d(h, h, 4, 2, groups=h, bias=False))
        with torch.no_grad():
            self.upsample.conv.weight.copy_(torch.tensor([1., 1., 0., 0.]).expand(h, 1, 4) + 0.02 * torch.randn(h, 1, 4))
        self.decoder_transformer = Layers([Layer(c) for _ in range(c["layers"])])
        l = [Causal(nn.Conv1d(h, d, 7))]
        for r in c["ratios"]:
            l += [nn.ELU(), CausalT(nn.ConvTranspose1d(d, d // 2, 2 * r, r)), Residual(d // 2)]
            d //= 2
        self.decoder = Layers(l + [nn.ELU(), Causal(nn.Conv1d(d, 1, 3))])

    def forward(self, z):
        """[B, T, hidden] -> [B, 1920 T]."""
        c, D = self.c, self.c["head_dim"]
        x = self.upsample.conv(z.transpose(1, 2))[..., : 2 * z.shape[1]].transpose(1, 2)
        p = torch.arange(x.shape[1], device=x.device)
        angle = p[:, None].float() * c["theta"] ** (-torch.arange(0, D, 2, device=x.device).float() / D)
        angle = torch.cat([angle, angle], -1)
        back = p[:, None] - p[None]
        mask = (back >= 0) & (back < c["window"])
        for l in self.decoder_transformer.layers:
            x = l(x, angle.cos(), angle.sin(), mask)
        x = x.transpose(1, 2)
        for m in self.decoder.layers:
            x = m(x)
        return x[:, 0]


class Codec(nn.Module):
    def __init__(self, c=CFG):
        super().__init__()
        self.enc, self.rvq, self.dec = Encoder(c["hidden"]), Quantisers(c), Decoder(c)

    PARTS = (("semantic", "out_s", 0, 1), ("acoustic", "out_a", 1, None))

    def flat(self):
        """The tensors of a Mimi checkpoint's decode side, float32."""
        out = {k: v.detach().float().cpu() for k, v in self.dec.state_dict().items()}
        for part, projection, first, last in self.PARTS:
            p = f"quantizer.{part}_residual_vector_quantizer."
            out[p + "output_proj.weight"] = getattr(self.rvq, projection).weight.detach().float().cpu()[:, :, None]
            for j, table in enumerate(self.rvq.table[first:last]):
                out[p + f"layers.{j}.codebook.embed_sum"] = table.detach().float().cpu()
                out[p + f"layers.{j}.codebook.cluster_usage"] = torch.ones(self.rvq.C)
                out[p + f"layers.{j}.codebook.initialized"] = torch.ones(1)
        return out

    def load(self, flat, encoder):
        """Continue from `flat()` and the encoder's state."""
        flat = {k: v.float() for k, v in flat.items()}
        self.dec.load_state_dict({k: v for k, v in flat.items() if not k.startswith("quantizer.")})
        for part, projection, first, last in self.PARTS:
            p = f"quantizer.{part}_residual_vector_quantizer."
            getattr(self.rvq, projection).weight.data.copy_(flat[p + "output_proj.weight"][:, :, 0])
            for j, table in enumerate(self.rvq.table[first:last]):
                table.copy_(flat[p + f"layers.{j}.codebook.embed_sum"])
        wrong = self.load_state_dict({k: v.float() for k, v in encoder.items()}, strict=False).unexpected_keys
        assert not wrong, wrong
        self.rvq.on = True

    def encoder_state(self):
        """What `flat()` leaves out, in half precision."""
        return {k: v.half().cpu() for k, v in self.state_dict().items() if k.startswith(("enc.", "rvq.in_"))}
