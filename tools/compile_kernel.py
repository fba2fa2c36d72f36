"""Compiles one kernel file with NVRTC for one target: compile_kernel.py KERNEL.cu TARGET OUT.cubin

NVRTC is taken from the folder that RTTS_NVRTC names. Headers are those beside the file.
"""

import ctypes
import os
import pathlib
import sys


def main():
    source, target, out = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
    nvrtc = ctypes.CDLL(os.path.join(os.environ["RTTS_NVRTC"], "libnvrtc.so.13"))
    headers = sorted(source.parent.glob("*.cuh"))
    strings = lambda texts: (ctypes.c_char_p * len(texts))(*[text.encode() for text in texts])
    program = ctypes.c_void_p()
    bodies, names = strings([h.read_text() for h in headers]), strings([h.name for h in headers])
    text = source.read_text().encode()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, source.name.encode(), len(headers), bodies, names)
    options = strings([f"--gpu-architecture={target}", "--std=c++17"])
    failed = nvrtc.nvrtcCompileProgram(program, len(options), options)
    if failed:
        sys.exit(f"{source} for {target}: {read(nvrtc, program, 'ProgramLog').decode(errors='replace')}")
    out.write_bytes(read(nvrtc, program, "CUBIN"))


def read(nvrtc, program, what):
    """What `nvrtcGet<what>` gives."""
    size = ctypes.c_size_t()
    getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    data = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f"nvrtcGet{what}")(program, data)
    return data.raw


main()
