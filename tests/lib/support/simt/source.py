"""CUDA C++ as TVM writes it, made C++ of this machine: arrays that know their bounds.

float* __restrict__ x_ptr          -> simt::Array<float> x_ptr
__shared__ float s_ptr[64];        -> the same, of memory of the block
*(float4*)(x_ptr + n)              -> simt::vector<float4>(x_ptr + n)
"""

from __future__ import annotations

import re

_MOST_SHARED = 227 << 10  # bytes of a block: sm_90
_KERNEL = re.compile(r"__global__ void\s+(?:__launch_bounds__\(\d+\) )?(\w+)\(([^)]*)\)\s*\{")
_HEAD = r'extern "C" __global__ void\s+(?:__launch_bounds__\(\d+\) )?(\w+)\([^)]*\)'
_DECLARATION, _DEFINITION = re.compile(_HEAD + r";"), re.compile(_HEAD + r"\s*\{")
_POINTER = re.compile(r"(\w+)\*\s+__restrict__ (\w+)")
_SHARED = re.compile(r"__shared__ (?:alignas\(\d+\) )?(\w+) (\w+)\[(\d+)\];")
_DYNAMIC = re.compile(r"extern __shared__ (?:(?:alignas|__align__)\(\d+\) )?(\w+) (\w+)\[\];")
_VECTOR = re.compile(r"\*\((\w+)\*\)\(")
_VOLATILE = re.compile(r"\(\(volatile \w+\*\)(\w+)\)\[")


def kernel_of(source: str) -> tuple[str, list[tuple[str, str]]]:
    """Return the name of the one kernel, and the type and name of each of its parameters."""
    ((name, parameters),) = _KERNEL.findall(source)
    return name, _POINTER.findall(parameters)


def kernels_apart(source: str) -> list[str]:
    """Return the source with one kernel each time, in the order in which they are launched."""
    heads = list(_DEFINITION.finditer(source))
    ends = [head.start() for head in heads[1:]] + [len(source)]
    first = _DECLARATION.search(source)
    before = source[: first.start() if first else heads[0].start()]
    bodies = {
        head.group(1): source[head.start() : end] for head, end in zip(heads, ends, strict=True)
    }
    return [before + bodies[name] for name in sorted(bodies, key=_launch_number)]


def _launch_number(name: str) -> int:
    """Return which launch a kernel is: TVM numbers all but the first."""
    number = name.rpartition("_")[2]
    return int(number) if number.isdigit() else 0


def translated(source: str) -> str:
    """Return the source, and in front of it the memory that its blocks share."""
    name, parameters = kernel_of(source)
    text, shared = _VOLATILE.sub(r"\1[", source), []
    for _, buffer in dict.fromkeys(_DYNAMIC.findall(text)):
        shared.append(f"alignas(1024) __shared__ char simt_{buffer}[{_MOST_SHARED}];")
        text = re.sub(rf"\(\((\w+)\*\){buffer}\)", rf"simt_view<\1>(simt_{buffer})", text)
    text = _DYNAMIC.sub(r"auto \2 = simt_view<\1>(simt_\2);", text)
    for kind, buffer, count in dict.fromkeys(_SHARED.findall(text)):
        shared.append(f"alignas(64) __shared__ {kind} simt_{buffer}[{count}];")
    text = _SHARED.sub(_block_array, text)
    text = _POINTER.sub(r"simt::Array<\1> \2", _VECTOR.sub(r"simt::vector<\1>(", text))
    call = ", ".join(_argument(n, kind, p) for n, (kind, p) in enumerate(parameters))
    parts = [
        '#include "simt.h"',
        '#include "halves.h"',
        *shared,
        _VIEW,
        f"#line 1\n{text}",
        f"void simt_kernel(void** args, const size_t* counts) {{ {name}({call}); }}",
        f'extern "C" const size_t simt_items[] = {{{", ".join(map(_size, parameters))}}};',
    ]
    return "\n".join(parts)


_VIEW = """template <typename T, size_t N> simt::Array<T> simt_view(char (&bytes)[N]) {
  auto* memory = simt::memory_of("shared", simt::Kind::kShared);
  return {reinterpret_cast<T*>(bytes), N / sizeof(T), memory};
}"""


def _block_array(found: re.Match) -> str:
    kind, buffer, count = found.groups()
    memory = f'simt::memory_of("{_plain(buffer)}", simt::Kind::kShared)'
    return f"simt::Array<{kind}> {buffer}(simt_{buffer}, {count}, {memory});"


def _argument(number: int, kind: str, name: str) -> str:
    memory = f'simt::memory_of("{_plain(name)}", simt::Kind::kGlobal)'
    return f"simt::Array<{kind}>(({kind}*)args[{number}], counts[{number}], {memory})"


def _size(parameter: tuple[str, str]) -> str:
    return f"sizeof({parameter[0]})"


def _plain(name: str) -> str:
    return name.removesuffix("_ptr")
