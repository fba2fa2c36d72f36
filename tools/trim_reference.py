#!/usr/bin/env python3
"""Cut a tiny checkpoint with its recorded reference outputs down to a test fixture.

    trim_reference.py CHECKPOINT FIXTURE

CHECKPOINT is a folder with config, weights, tokenizer, codec/ and reference.npz, as recorded from the official
packages on random weights. FIXTURE gets the checkpoint's own files unchanged and `reference.safetensors`, which holds
what the parity tests read: token ids, codes, stop logits and samples of every run and prompt, logits of every fourth
step, and the whole prefill of prompt 0. Needs numpy and safetensors.
"""
import pathlib
import shutil
import sys

import numpy as np
from safetensors.numpy import save_file

EXACT = ("prompt_ids", "tokens", "codes", "stop_logit", "margin", "wav")
RUNS = ("f32", "w4a4", "w4a16")


def keep(name):
    """Whether a test reads the array."""
    parts = name.split("/")
    if parts[0] in ("linear", "resync", "sampling") or parts[-1] == "prompt_ids":
        return True
    return parts[0] in RUNS and (parts[-1] in EXACT or parts[-1] in ("logits", "prefill_hidden", "prefill_residual"))


def main():
    source, target = map(pathlib.Path, sys.argv[1:3])
    target.mkdir(parents=True, exist_ok=True)
    for path in sorted(source.rglob("*")):
        if path.is_dir() or path.name.startswith("reference"):
            continue
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    arrays = {}
    for name, value in np.load(source / "reference.npz").items():
        if not keep(name):
            continue
        if name.endswith("/logits") and not name.startswith("sampling"):
            value = value[::4]
        if value.dtype == np.float64 and not name.startswith("sampling"):
            value = value.astype(np.float32)
        arrays[name] = np.ascontiguousarray(value)
    save_file(arrays, target / "reference.safetensors")


if __name__ == "__main__":
    main()
