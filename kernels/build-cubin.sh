#!/bin/bash
# Assembles the committed PTX to machine code, kernels/cubin/qcs_sm_*.cubin.gz: the fallback where a driver has no compiler.
#
#   kernels/build-cubin.sh            rebuild the committed files
#   kernels/build-cubin.sh --check    assemble elsewhere and compare with the committed files
#
# Needs ptxas 12.9 (the wheel nvidia-cuda-nvcc-cu12 12.9.86) on the PATH or named by QCS_PTXAS; CUDA 13's does not know sm_70.
# To be run after build-ptx.sh, once a change is whole: the files are 1.2 MB.
set -euo pipefail
kernels=$(cd "$(dirname "$0")" && pwd)
ptxas=${QCS_PTXAS:-ptxas}
out=$kernels/cubin
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if [ "${1:-}" = --check ]; then out=$scratch; fi
mkdir -p "$out"

# One digest ties sources, PTX and machine code together; build.rs compares it.
digest() { sed -n '1s/^\/\/ qcs-kernels //p' "$kernels/ptx/qcs_sm_$1.ptx"; }
if [ -z "$(digest 70)" ] || [ "$(digest 70)" != "$(digest 80)" ]; then
    echo "build-cubin.sh: the two PTX files are not of one source: run kernels/build-ptx.sh" >&2
    exit 1
fi
for architecture in 70 75 80 86 89 90; do
    ptx=80
    if [ "$architecture" -lt 80 ]; then ptx=70; fi
    cubin=$scratch/$architecture.cubin
    "$ptxas" -arch=sm_$architecture "$kernels/ptx/qcs_sm_$ptx.ptx" -o "$cubin"
    if [ "$out" = "$scratch" ]; then
        gunzip -c "$kernels/cubin/qcs_sm_$architecture.cubin.gz" | cmp - "$cubin"
    else
        gzip -9 -n -c "$cubin" > "$out/qcs_sm_$architecture.cubin.gz"
    fi
done
digest 70 > "$out/DIGEST"
if [ "$out" = "$scratch" ]; then
    cmp "$kernels/cubin/DIGEST" "$out/DIGEST"
    echo "the committed machine code is what the PTX gives"
fi
