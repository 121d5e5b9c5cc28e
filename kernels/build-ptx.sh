#!/bin/bash
# Compiles the kernels to kernels/ptx/qcs_sm_70.ptx and qcs_sm_80.ptx with stable rustc 1.95.0; the result is the same
# byte for byte wherever it runs.
#
#   kernels/build-ptx.sh            rebuild the committed files
#   kernels/build-ptx.sh --check    rebuild elsewhere and compare with the committed files
#
# `core` is compiled from source: from the toolchain's `rust-src` component, or from the archive that QCS_CORE_SRC names
# (by default rust-1.95.0-core-src.tar.xz in ../shared/toolchain beside the checkout). Intermediate files are kept in
# QCS_PTX_WORK, by default target/ptx: the first run takes a minute, later ones a few seconds.
set -euo pipefail
kernels=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$kernels")
work=${QCS_PTX_WORK:-$root/target/ptx}
archive=${QCS_CORE_SRC:-$root/../shared/toolchain/rust-1.95.0-core-src.tar.xz}
architectures=(sm_70 sm_80)

rustc=(rustc)
if [ -n "${RUSTUP_HOME:-}" ] || command -v rustup > /dev/null; then rustc=(rustc +1.95.0); fi
case $("${rustc[@]}" --version) in
"rustc 1.95.0 "*) ;;
*) echo "build-ptx.sh: rustc 1.95.0 is needed, another compiler would give other PTX: rustup toolchain install 1.95.0" >&2; exit 1 ;;
esac

out=$kernels/ptx
if [ "${1:-}" = --check ]; then out=$work/check; fi
mkdir -p "$work" "$out"

library=$("${rustc[@]}" --print sysroot)/lib/rustlib/src/rust/library
if [ ! -d "$library/core" ]; then
    library=$work/library
    if [ ! -d "$library/core" ]; then
        if [ ! -f "$archive" ]; then
            echo "build-ptx.sh: no source of core: rustup component add rust-src --toolchain 1.95.0, or set QCS_CORE_SRC" >&2
            exit 1
        fi
        tar -C "$work" -xf "$archive"
    fi
fi

# The digest of the sources goes into the first line of each file; build.rs compares it with the sources it sees.
"${rustc[@]}" --edition 2024 -O -o "$work/digest" "$kernels/digest.rs"
digest=$("$work/digest" "$kernels")

# The PTX target and its intrinsics are unstable; the pinned version makes that safe.
export RUSTC_BOOTSTRAP=1
cat > "$work/compiler_builtins.rs" <<'RUST'
#![feature(compiler_builtins)]
#![allow(internal_features)]
#![compiler_builtins]
#![no_std]
RUST

for architecture in "${architectures[@]}"; do
    case $architecture in
    sm_70) isa=ptx64 ;;
    sm_80) isa=ptx70 ;;
    esac
    # -JumpThreading: in 1.95 and 1.96 that pass copies barriers into divergent branches.
    flags=(--target nvptx64-nvidia-cuda -C target-cpu=$architecture -C target-feature=+$architecture,+$isa
        -C opt-level=3 -C codegen-units=1 -C panic=abort -C debug-assertions=off -C overflow-checks=off
        -Z mir-enable-passes=-JumpThreading
        --remap-path-prefix "$library=/library" --remap-path-prefix "$kernels=/kernels" --remap-path-prefix "$work=/build")
    deps=$work/$architecture
    mkdir -p "$deps"
    if [ ! -f "$deps/libcompiler_builtins.rlib" ]; then
        "${rustc[@]}" "${flags[@]}" --crate-name core --edition 2024 --crate-type rlib -Z force-unstable-if-unmarked \
            --cap-lints allow --out-dir "$deps" "$library/core/src/lib.rs"
        "${rustc[@]}" "${flags[@]}" --crate-name compiler_builtins --edition 2024 --crate-type rlib \
            -Z force-unstable-if-unmarked -L "$deps" --out-dir "$deps" "$work/compiler_builtins.rs"
    fi
    # Fat LTO, and a linker that does nothing: everything, core included, is left in one assembly file, which is PTX.
    "${rustc[@]}" "${flags[@]}" -C lto=fat -C linker=true --crate-name qcs_kernels --edition 2024 --crate-type cdylib \
        --emit=asm,link -L "$deps" --out-dir "$deps" "$kernels/src/lib.rs"
    # Launch bounds, which Rust cannot express, stand as a comment in the body; they belong between header and body.
    awk -v digest="$digest" '
        FNR == 1 && NR == 1 { print "// qcs-kernels " digest }
        /\.entry/ { split($3, name, "("); entry = name[1] }
        NR == FNR { if (sub(/.*\/\/ launch bounds: /, "")) bounds[entry] = $0; next }
        /^{/ && entry in bounds { print bounds[entry]; delete bounds[entry] }
        !/\/\/ launch bounds: / { print }
    ' "$deps/qcs_kernels.s" "$deps/qcs_kernels.s" > "$work/qcs_$architecture.ptx"
    mv "$work/qcs_$architecture.ptx" "$out/"
done

if [ "$out" != "$kernels/ptx" ]; then
    for architecture in "${architectures[@]}"; do
        cmp "$kernels/ptx/qcs_$architecture.ptx" "$out/qcs_$architecture.ptx"
    done
    echo "the committed PTX is what the sources give"
fi
