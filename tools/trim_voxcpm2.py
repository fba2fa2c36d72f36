#!/usr/bin/env python3
"""Cut a tiny VoxCPM2 checkpoint pair with its recorded reference outputs down to test fixtures.

    trim_voxcpm2.py RECORDED FIXTURES

RECORDED is the folder that the maker of tiny checkpoints fills: bf16/, nvfp4/, audio/, ref_{bf16,nvfp4}_float32/*.npz,
tokenizer_cases.json and manifest.json. FIXTURES gets voxcpm2-bf16 and voxcpm2-nvfp4: the checkpoint's own files unchanged
and `reference.safetensors` with what the parity tests read of the float32 runs, by `CASE/NAME`. Of the samples every
seventh is kept: 7 divides no stride of the decoder, so all of its phases are among them. The BF16 fixture also gets the
recordings and the tokenizer's cases. Needs numpy and safetensors.

The tokenizer's cases are those of transformers 4, which reads tokenizer.json as it is: transformers 5 puts a normaliser of
its own in the place of the file's, and so loses one space at the beginning of a text.
"""
import pathlib
import shutil
import sys

import numpy as np
from safetensors.numpy import save_file

# Of every case.
KEPT = (
    "text_token", "audio_mask", "audio_feat", "noise", "patches", "lm_hidden", "residual_hidden", "stop_logits",
    "prefill_base", "prefill_residual", "wav",
)
# Of one case that has every part of a prefill: reference, text and prompt.
KEPT_ONCE = (
    "mu", "curr_embed", "prefill_feat_embed", "prefill_fsq_mixed", "dit_x", "dit_t", "dit_v", "t_span", "euler_t",
    "euler_dt", "base_k_l0", "base_v_l0", "res_k_l1", "res_v_l1",
)
FULL_CASE = "combined"
EVERY = 7


def main():
    source, target = map(pathlib.Path, sys.argv[1:3])
    for packing in ("bf16", "nvfp4"):
        fixture = target / f"voxcpm2-{packing}"
        fixture.mkdir(parents=True, exist_ok=True)
        for path in sorted((source / packing).iterdir()):
            shutil.copyfile(path, fixture / path.name)
        arrays = {}
        for path in sorted((source / f"ref_{packing}_float32").glob("*.npz")):
            recorded = np.load(path)
            for name in KEPT + (KEPT_ONCE if path.stem == FULL_CASE else ()):
                value = recorded[name]
                if name == "wav":
                    value = value[::EVERY]
                if name == "audio_feat":  # only the positions that hold audio
                    value = value[recorded["audio_mask"] == 1]
                arrays[f"{path.stem}/{name}"] = np.ascontiguousarray(value)
        save_file(arrays, fixture / "reference.safetensors")
    shutil.copytree(source / "audio", target / "voxcpm2-bf16" / "audio", dirs_exist_ok=True)
    shutil.copyfile(source / "tokenizer_cases.json", target / "voxcpm2-bf16" / "tokenizer_cases.json")


if __name__ == "__main__":
    main()
