"""Makes the files in tests/data/pth: small files of `torch.save` in the forms met in the wild, and what they hold.

    python tools/pth_cases.py tests/data/pth

`*.pth` beside `expected.safetensors`, whose tensors are named `file/tensor`. Files that must be refused have no entry
there. Made with torch 2.15.
"""

import os
import sys
from collections import OrderedDict

import torch
from safetensors.torch import save_file
from torch import nn

out = sys.argv[1]
os.makedirs(out, exist_ok=True)
torch.manual_seed(5)
expected = {}


def save(name, what, tensors=None, **options):
    torch.save(what, os.path.join(out, f"{name}.pth"), **options)
    for key, tensor in (tensors or {}).items():
        expected[f"{name}/{key}"] = tensor.detach().clone().contiguous()


state = OrderedDict(a=torch.randn(3, 4), b=torch.randn(5), c=torch.tensor(7.5))
save("plain", dict(state), state)
save("nested", {"state_dict": dict(state), "epoch": 3, "lr": 1e-4, "note": None, "shapes": [1, (2, 3)], "big": 1 << 40}, state)

conv = nn.utils.weight_norm(nn.Conv1d(3, 4, 5))
save("old_weight_norm", {"state_dict": conv.state_dict()}, conv.state_dict())
conv = nn.utils.parametrizations.weight_norm(nn.Conv1d(3, 4, 5))
save("new_weight_norm", conv.state_dict(), conv.state_dict())
save("parameters", {"w": nn.Parameter(torch.randn(2, 3))}, {"w": torch.zeros(0)})
expected["parameters/w"] = torch.load(os.path.join(out, "parameters.pth"), weights_only=True)["w"].detach().clone()

base = torch.arange(60, dtype=torch.float32).reshape(3, 4, 5)
views = {
    "whole": base,
    "transposed": base.transpose(0, 2),
    "slice": base[1:, 1:3, ::2],
    "column": base[:, 2, 3],
    "offset": base[2],
    "odd_strides": base[:, :1].transpose(0, 1),
    "empty": base[:0],
}
save("views", views, views)

kinds = {
    "f16": torch.randn(3).half(),
    "bf16": torch.randn(3).bfloat16(),
    "f64": torch.randn(3).double(),
    "i64": torch.tensor([-1, 1 << 40]),
    "i32": torch.tensor([-1, 7], dtype=torch.int32),
    "i16": torch.tensor([-1, 7], dtype=torch.int16),
    "i8": torch.tensor([-1, 7], dtype=torch.int8),
    "u8": torch.tensor([255, 7], dtype=torch.uint8),
    "bool": torch.tensor([True, False]),
}
save("kinds", kinds, kinds)

# What must be refused.
save("legacy", dict(state), _use_new_zipfile_serialization=False)
save("module", nn.Linear(2, 2))
save("repeated", {"a": torch.randn(1).expand(1000)})
save("protocol4", dict(state), pickle_protocol=4)
save("float8", {"a": torch.zeros(4, dtype=torch.float8_e5m2).view(2, 2), "b": torch.zeros(2, dtype=torch.uint16)})
save("nothing", {"model": {"a": 1}, "epoch": 3})
save("no_dictionary", [torch.zeros(1)])


class Evil:
    def __reduce__(self):
        return os.system, ("echo executed",)


save("evil", {"state_dict": dict(state), "x": Evil()})
torch.jit.script(nn.Linear(1, 1)).save(os.path.join(out, "script.pth"))
save_file(expected, os.path.join(out, "expected.safetensors"))
