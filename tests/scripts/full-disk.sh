#!/bin/bash
# Runs every command that writes on a disk that is too small, at every size from almost nothing to just enough: each must say
# in one line that it cannot write (exit code 1) or succeed, leave no half file, and what has a state (`run`, `sample`) must go on
# to the same bytes once there is room.
#
#   tests/scripts/full-disk.sh target/release/qcs        as root, on Linux: the disk is a tmpfs
set -euo pipefail
qcs=$(realpath "$1")
work=$(mktemp -d)
disk=$work/disk
mkdir "$disk"
trap 'umount "$disk" 2> /dev/null || true; rm -rf "$work"' EXIT
export QCS_DEVICE=cpu
cd "$work"
"$qcs" measure bundled:digits --count 2 -m 50 -o p.safetensors --quiet
"$qcs" run p.safetensors --method all --levels 4 --chains 2 --out whole --quiet > /dev/null
cp whole/truth.npy x.npy
"$qcs" sample --count 2 --levels 2 -o whole/sheet.png --quiet

fail() { echo "full-disk.sh: $1" >&2; cat said >&2; exit 1; }
refused=0 done=0 resumed=0
# A command at a size in KiB: it succeeds, or says why not and leaves nothing but whole files.
try() {
    local size=$1 kind=$2; shift 2
    mount -t tmpfs -o "size=${size}k" tmpfs "$disk"
    local code=0
    "$qcs" "$@" --quiet > /dev/null 2> said || code=$?
    case $code in
    0) done=$((done + 1)) ;;
    1)
        refused=$((refused + 1))
        [ "$(grep -c '^error: .*cannot ' said)" = 1 ] && [ "$(wc -l < said)" = 1 ] || fail "$kind at $size KiB says something else"
        if [ "$kind" != run ] && find "$disk" -type f ! -name '*.checkpoint' | grep -q .; then
            fail "$kind at $size KiB leaves a file"
        fi
        if find "$disk" -name '*.tmp' | grep -q .; then fail "$kind at $size KiB leaves a temporary file"; fi
        case $kind in
        run)
            if [ -e "$disk/run/metrics.json" ]; then fail "an incomplete run has metrics at $size KiB"; fi
            mount -o remount,size=64m "$disk"
            "$qcs" "$@" --resume --quiet > /dev/null 2> said || fail "no resuming after $size KiB"
            for file in config.toml metrics.csv grid.png {diag,ep,turbo}/{samples,mean,std}.npy; do
                cmp "$disk/run/$file" "whole/$file" > said || fail "other bytes after $size KiB"
            done
            resumed=$((resumed + 1))
            ;;
        sample)
            mount -o remount,size=64m "$disk"
            "$qcs" "$@" --resume --quiet > /dev/null 2> said || fail "no resuming after $size KiB"
            cmp "$disk/sheet.png" whole/sheet.png > said || fail "another sheet after $size KiB"
            if [ "$(ls -A "$disk")" != sheet.png ]; then fail "something lies beside the sheet after $size KiB"; fi
            resumed=$((resumed + 1))
            ;;
        esac
        ;;
    *) fail "$kind at $size KiB: exit code $code" ;;
    esac
    umount "$disk"
}

for size in 4 8 16 32 64 128 256 512 1024; do
    try $size measure measure bundled:digits --count 2 -m 50 -o "$disk/p.safetensors"
    try $size score score --x x.npy --beta 1 -o "$disk/s.npy"
    try $size likelihood likelihood --problem p.safetensors --x x.npy --beta 1 -o "$disk/g.npy"
    try $size sample sample --count 2 --levels 2 -o "$disk/sheet.png"
done
for size in 4 8 12 16 20 24 28 32 40 48 56 64 80 96 112 128 160 192 224 256 320 384 448 512 768 1024; do
    try $size run run p.safetensors --method all --levels 4 --chains 2 --out "$disk/run"
done
echo "$((refused + done)) commands on small disks: $refused refused in one line, $done had room; $resumed runs resumed to the same bytes"
