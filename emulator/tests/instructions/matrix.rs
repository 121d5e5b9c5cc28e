//! `mma` and `ldmatrix` against plain matrix products. The fragment layouts are written down here
//! from the tables of the PTX manual, case by case.

use crate::harness::random;
use qcs_emulator::number::half::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use qcs_emulator::{Device, LaunchConfig, Params};

/// Runs one mma with registers loaded from `a`, `b`, `c` (lane-major) and returns D's registers.
fn mma(shape_and_types: &str, regs: [usize; 4], a: &[u32], b: &[u32], c: &[u32]) -> Vec<u32> {
    let [nd, na, nb, nc] = regs;
    let list = |name: &str, n: usize| (0..n).map(|i| format!("%{name}{i}")).collect::<Vec<_>>().join(", ");
    let loads = |name: &str, n: usize| {
        let load = |i| format!("ld.global.u32 %{name}{i}, [%p{name}+{}];\n", 4 * i);
        let advance = format!(
            "ld.param.u64 %p{name}, [{name}];\nmul.wide.u32 %off, %tid, {};\nadd.s64 %p{name}, %p{name}, %off;\n",
            4 * n
        );
        advance + &(0..n).map(load).collect::<String>()
    };
    let stores: String = (0..nd)
        .map(|i| format!("st.global.u32 [%pd+{}], %d{i};\n", 4 * i))
        .collect();
    let ptx = format!(
        ".version 7.0
.target sm_80
.address_size 64
.visible .entry test(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d) {{
    .reg .b32 %a<8>, %b<8>, %c<8>, %d<8>, %tid;
    .reg .b64 %pa, %pb, %pc, %pd, %off;
    mov.u32 %tid, %tid.x;
    {}{}{}
    ld.param.u64 %pd, [d];
    mul.wide.u32 %off, %tid, {};
    add.s64 %pd, %pd, %off;
    mma.sync.aligned.{shape_and_types} {{{}}}, {{{}}}, {{{}}}, {{{}}};
    {stores}
    ret;
}}",
        loads("a", na),
        loads("b", nb),
        loads("c", nc),
        4 * nd,
        list("d", nd),
        list("a", na),
        list("b", nb),
        list("c", nc)
    );
    let device = Device::default();
    let module = device.load(&ptx).unwrap_or_else(|e| panic!("{e}\n{ptx}"));
    let (a, b, c) = (device.buffer(a), device.buffer(b), device.buffer(c));
    let d = device.poisoned::<u32>(32 * nd);
    let params = Params::new().buffer(&a).buffer(&b).buffer(&c).buffer(&d);
    device
        .launch(&module, "test", LaunchConfig::linear(1, 32), &params)
        .unwrap();
    d.read()
}

/// Small integers: every product and sum is exact in all formats.
fn matrix(rows: usize, columns: usize, seed: u64) -> Vec<Vec<f32>> {
    let state = &mut { seed };
    (0..rows)
        .map(|_| (0..columns).map(|_| (random(state) % 9) as f32 - 4.0).collect())
        .collect()
}

fn product(a: &[Vec<f32>], b: &[Vec<f32>], c: &[Vec<f32>]) -> Vec<Vec<f32>> {
    let dot = |i: usize, j: usize| (0..b.len()).map(|k| a[i][k] * b[k][j]).sum::<f32>();
    (0..a.len())
        .map(|i| (0..c[0].len()).map(|j| dot(i, j) + c[i][j]).collect())
        .collect()
}

fn pack(low: u16, high: u16) -> u32 {
    low as u32 | (high as u32) << 16
}

/// Accumulators of the m16n8 shapes: c0, c1 in row g, c2, c3 in row g + 8.
fn accumulator_registers(c: &[Vec<f32>]) -> Vec<u32> {
    let mut registers = Vec::new();
    for lane in 0..32 {
        let (g, t) = (lane / 4, lane % 4);
        for (row, column) in [(g, 2 * t), (g, 2 * t + 1), (g + 8, 2 * t), (g + 8, 2 * t + 1)] {
            registers.push(c[row][column].to_bits());
        }
    }
    registers
}

#[test]
fn m16n8k16_f16_and_bf16() {
    let (a, b, c) = (matrix(16, 16, 1), matrix(16, 8, 2), matrix(16, 8, 3));
    let expected = accumulator_registers(&product(&a, &b, &c));
    for (ty, narrow) in [("f16", f32_to_f16 as fn(f32) -> u16), ("bf16", f32_to_bf16)] {
        let (mut ra, mut rb) = (Vec::new(), Vec::new());
        for lane in 0..32 {
            let (g, t) = (lane / 4, lane % 4);
            for (row, column) in [(g, 2 * t), (g + 8, 2 * t), (g, 2 * t + 8), (g + 8, 2 * t + 8)] {
                ra.push(pack(narrow(a[row][column]), narrow(a[row][column + 1])));
            }
            for row in [2 * t, 2 * t + 8] {
                rb.push(pack(narrow(b[row][g]), narrow(b[row + 1][g])));
            }
        }
        let op = format!("m16n8k16.row.col.f32.{ty}.{ty}.f32");
        assert_eq!(
            mma(&op, [4, 4, 2, 4], &ra, &rb, &accumulator_registers(&c)),
            expected,
            "{ty}"
        );
    }
}

#[test]
fn m16n8k8_f16_with_half_accumulators() {
    let (a, b, c) = (matrix(16, 8, 4), matrix(8, 8, 5), matrix(16, 8, 6));
    let sums = product(&a, &b, &c);
    let (mut ra, mut rb, mut rc, mut expected) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let h = f32_to_f16;
    for lane in 0..32 {
        let (g, t) = (lane / 4, lane % 4);
        for row in [g, g + 8] {
            ra.push(pack(h(a[row][2 * t]), h(a[row][2 * t + 1])));
            rc.push(pack(h(c[row][2 * t]), h(c[row][2 * t + 1])));
            expected.push(pack(h(sums[row][2 * t]), h(sums[row][2 * t + 1])));
        }
        rb.push(pack(h(b[2 * t][g]), h(b[2 * t + 1][g])));
    }
    assert_eq!(
        mma("m16n8k8.row.col.f16.f16.f16.f16", [2, 2, 1, 2], &ra, &rb, &rc),
        expected
    );
}

#[test]
fn m16n8k8_and_m16n8k4_tf32() {
    for depth in [8, 4] {
        let (a, b, c) = (matrix(16, depth, 7), matrix(depth, 8, 8), matrix(16, 8, 9));
        let (mut ra, mut rb) = (Vec::new(), Vec::new());
        for lane in 0..32 {
            let (g, t) = (lane / 4, lane % 4);
            for column in (t..depth).step_by(4) {
                ra.push(a[g][column].to_bits());
                ra.push(a[g + 8][column].to_bits());
                // The low 13 bits of a TF32 operand do not count.
                rb.push(b[column][g].to_bits() | if b[column][g] == 0.0 { 0 } else { 0x1fff });
            }
        }
        let op = format!("m16n8k{depth}.row.col.f32.tf32.tf32.f32");
        let regs = [4, depth / 2, depth / 4, 4];
        let expected = accumulator_registers(&product(&a, &b, &c));
        assert_eq!(
            mma(&op, regs, &ra, &rb, &accumulator_registers(&c)),
            expected,
            "k = {depth}"
        );
    }
}

/// The byte shapes, signed and unsigned: (rows, depth).
#[test]
fn bytes_in_all_shapes() {
    for ((rows, depth), ty) in [
        ((16, 32), "s8"),
        ((16, 32), "u8"),
        ((16, 16), "s8"),
        ((8, 16), "s8"),
        ((8, 16), "u8"),
    ] {
        let shift = if ty == "u8" { 4.0 } else { 0.0 };
        let lift = |m: Vec<Vec<f32>>| -> Vec<Vec<f32>> {
            m.into_iter()
                .map(|row| row.into_iter().map(|x| x + shift).collect())
                .collect()
        };
        let (a, b, c) = (
            lift(matrix(rows, depth, 10)),
            lift(matrix(depth, 8, 11)),
            matrix(rows, 8, 12),
        );
        let four = |f: &dyn Fn(usize) -> f32| (0..4).fold(0, |r, i| r | (f(i) as i32 as u8 as u32) << (8 * i));
        let (mut ra, mut rb) = (Vec::new(), Vec::new());
        for lane in 0..32 {
            let (g, t) = (lane / 4, lane % 4);
            for column in (4 * t..depth).step_by(16) {
                for row in (g..rows).step_by(8) {
                    ra.push(four(&|i| a[row][column + i]));
                }
                rb.push(four(&|i| b[column + i][g]));
            }
        }
        let integers = |m: &[Vec<f32>]| -> Vec<u32> {
            let places = |lane: usize| (0..rows / 4).map(move |i| (lane / 4 + i / 2 * 8, 2 * (lane % 4) + i % 2));
            (0..32).flat_map(places).map(|(r, c)| m[r][c] as i32 as u32).collect()
        };
        let op = format!("m{rows}n8k{depth}.row.col.s32.{ty}.{ty}.s32");
        let regs = [rows / 4, rows * depth / 128, depth / 16, rows / 4];
        assert_eq!(
            mma(&op, regs, &ra, &rb, &integers(&c)),
            integers(&product(&a, &b, &c)),
            "{op}"
        );
    }
}

/// Volta: quad-pair q is lanes 4q..4q+4 and 16 above; the manual's tables for `.row.col` and f32.
#[test]
fn m8n8k4_multiplies_four_matrices() {
    let h = f32_to_f16;
    let matrices: Vec<_> = (0..4)
        .map(|q| (matrix(8, 4, 20 + q), matrix(4, 8, 30 + q), matrix(8, 8, 40 + q)))
        .collect();
    let (mut ra, mut rb, mut rc, mut expected) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for lane in 0..32usize {
        let (a, b, c) = &matrices[lane % 16 / 4];
        let upper = if lane < 16 { 0 } else { 4 };
        let line = lane % 4 + upper;
        ra.extend([pack(h(a[line][0]), h(a[line][1])), pack(h(a[line][2]), h(a[line][3]))]);
        rb.extend([pack(h(b[0][line]), h(b[1][line])), pack(h(b[2][line]), h(b[3][line]))]);
        let sums = product(a, b, c);
        for i in 0..8 {
            let row = if lane < 16 { 0 } else { 4 } + (lane & 1) + (i & 2);
            let column = (i & 4) + (lane & 2) + (i & 1);
            rc.push(c[row][column].to_bits());
            expected.push(sums[row][column].to_bits());
        }
    }
    assert_eq!(
        mma("m8n8k4.row.col.f32.f16.f16.f32", [8, 2, 2, 8], &ra, &rb, &rc),
        expected
    );
}

#[test]
fn m8n8k4_takes_transposed_factors() {
    let h = f32_to_f16;
    let (a, b, c) = (matrix(8, 4, 50), matrix(4, 8, 51), vec![vec![0.0; 8]; 8]);
    let (mut ra, mut rb) = (Vec::new(), Vec::new());
    for lane in 0..32usize {
        let (t, upper) = (lane % 4, if lane < 16 { 0 } else { 4 });
        // A by columns: lane t holds column t, four rows of its half. B by rows: row t, four columns.
        ra.extend([
            pack(h(a[upper][t]), h(a[upper + 1][t])),
            pack(h(a[upper + 2][t]), h(a[upper + 3][t])),
        ]);
        rb.extend([
            pack(h(b[t][upper]), h(b[t][upper + 1])),
            pack(h(b[t][upper + 2]), h(b[t][upper + 3])),
        ]);
    }
    let sums = product(&a, &b, &c);
    let result = mma("m8n8k4.col.row.f16.f16.f16.f16", [4, 2, 2, 4], &ra, &rb, &[0; 128]);
    for lane in 0..32 {
        let row = lane % 4 + if lane < 16 { 0 } else { 4 };
        for i in 0..8 {
            let word = result[4 * lane + i / 2];
            assert_eq!(f16_to_f32((word >> (16 * (i % 2))) as u16), sums[row][i]);
        }
    }
}

/// The double-precision shape of sm_80: one element of A and B per lane, two of C.
#[test]
fn m8n8k4_in_double_precision() {
    let ptx = ".version 7.0
.target sm_80
.address_size 64
.visible .entry test(.param .u64 a, .param .u64 b, .param .u64 d) {
    .reg .b32 %t;
    .reg .b64 %p<4>, %o, %x<4>;
    mov.u32 %t, %tid.x;
    mul.wide.u32 %o, %t, 8;
    ld.param.u64 %p0, [a];
    ld.param.u64 %p1, [b];
    ld.param.u64 %p2, [d];
    add.s64 %p0, %p0, %o;
    add.s64 %p1, %p1, %o;
    add.s64 %p2, %p2, %o;
    add.s64 %p2, %p2, %o;
    ld.global.f64 %x0, [%p0];
    ld.global.f64 %x1, [%p1];
    mov.f64 %x2, 0d3FF0000000000000;
    mov.f64 %x3, 0d3FF0000000000000;
    mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%x2, %x3}, {%x0}, {%x1}, {%x2, %x3};
    st.global.v2.f64 [%p2], {%x2, %x3};
    ret;
}";
    let (a, b) = (matrix(8, 4, 60), matrix(4, 8, 61));
    let device = Device::default();
    let module = device.load(ptx).unwrap();
    let lanes = |f: &dyn Fn(usize) -> f32| device.buffer(&(0..32).map(|l| f(l) as f64).collect::<Vec<_>>());
    let (ra, rb) = (lanes(&|l| a[l / 4][l % 4]), lanes(&|l| b[l % 4][l / 4]));
    let d = device.poisoned::<f64>(64);
    let params = Params::new().buffer(&ra).buffer(&rb).buffer(&d);
    device
        .launch(&module, "test", LaunchConfig::linear(1, 32), &params)
        .unwrap();
    let expected = product(&a, &b, &vec![vec![1.0; 8]; 8]);
    assert!(
        d.read()
            .iter()
            .enumerate()
            .all(|(i, x)| *x == expected[i / 8][i % 8] as f64)
    );
}

#[test]
fn sums_are_rounded_once() {
    // 1 + 2^-13 products that f16 accumulation would lose one by one: exact in f32.
    let (one, tiny) = (f32_to_f16(1.0), f32_to_f16(2f32.powi(-13)));
    let ra = vec![pack(one, one); 128];
    let rb = vec![pack(tiny, tiny); 64];
    let result = mma(
        "m16n8k16.row.col.f32.f16.f16.f32",
        [4, 4, 2, 4],
        &ra,
        &rb,
        &[1f32.to_bits(); 128],
    );
    assert!(
        result
            .iter()
            .all(|bits| f32::from_bits(*bits) == 1.0 + 16.0 * 2f32.powi(-13))
    );
    assert_eq!(bf16_to_f32(0x3f80), 1.0);
}

/// Lane l holds elements (l / 4, 2 (l % 4)) and the one to its right of each 8×8 tile.
#[test]
fn ldmatrix_spreads_tiles_over_the_warp() {
    for (transpose, suffix, count) in [(false, "", 4), (true, ".trans", 4), (false, "", 2), (true, ".trans", 1)] {
        let targets = ["%r8", "%r9", "%r10", "%r11"][..count].join(", ");
        let ptx = format!(
            ".version 7.0
.target sm_80
.address_size 64
.visible .entry test(.param .u64 tiles, .param .u64 out) {{
    .shared .align 16 .b8 tile[512];
    .reg .b32 %r<12>;
    .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [tiles];
    ld.param.u64 %rd2, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 16;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    ld.global.v4.u32 {{%r2, %r3, %r4, %r5}}, [%rd4];
    mov.u32 %r6, tile;
    shl.b32 %r7, %r1, 4;
    add.u32 %r6, %r6, %r7;
    st.shared.v4.u32 [%r6], {{%r2, %r3, %r4, %r5}};
    bar.sync 0;
    ldmatrix.sync.aligned.m8n8.x{count}{suffix}.shared.b16 {{{targets}}}, [%r6];
    st.global.v4.u32 [%rd5], {{%r8, %r9, %r10, %r11}};
    ret;
}}"
        );
        let device = Device::default();
        let module = device.load(&ptx).unwrap();
        // Element (r, c) of tile t is 64 t + 8 r + c.
        let tiles: Vec<u16> = (0..256).collect();
        let tiles = device.buffer(&tiles);
        let out = device.poisoned::<u16>(256);
        let params = Params::new().buffer(&tiles).buffer(&out);
        device
            .launch(&module, "test", LaunchConfig::linear(1, 32), &params)
            .unwrap();
        let out = out.read();
        for lane in 0..32 {
            for tile in 0..count {
                for part in 0..2 {
                    let (row, column) = (lane / 4, 2 * (lane % 4) + part);
                    let (row, column) = if transpose { (column, row) } else { (row, column) };
                    assert_eq!(out[8 * lane + 2 * tile + part] as usize, 64 * tile + 8 * row + column);
                }
            }
        }
    }
}
