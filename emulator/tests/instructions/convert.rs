use crate::harness::{expect32, expect64, run16};

fn f(x: f32) -> u32 {
    x.to_bits()
}

#[test]
fn integers_extend_truncate_and_saturate() {
    expect64("cvt.s64.s32 %d, %ra;", [0xffff_fffe, 0, 0], -2i64 as u64);
    expect64("cvt.u64.u32 %d, %ra;", [0xffff_fffe, 0, 0], 0xffff_fffe);
    expect32("cvt.s32.s8 %r, %ha", [0x00f0, 0, 0], 0xffff_fff0);
    expect32("cvt.u32.u8 %r, %ha", [0xabcd, 0, 0], 0xcd);
    expect32("cvt.s32.s16 %r, %ha", [0x8000, 0, 0], 0xffff_8000);
    expect32("cvt.sat.u8.s32 %r, %ra", [-5i32 as u32, 0, 0], 0);
    expect32("cvt.sat.u8.s32 %r, %ra", [300, 0, 0], 255);
    expect32("cvt.sat.s8.s32 %r, %ra", [300, 0, 0], 127);
    expect32("cvt.u32.u64 %r, %da", [0x1234, 0, 0], 0x1234);
}

#[test]
fn floats_become_integers_in_four_modes() {
    for (mode, plus, minus) in [("rni", 2, -2), ("rzi", 2, -2), ("rmi", 2, -3), ("rpi", 3, -2i32)] {
        expect32(&format!("cvt.{mode}.s32.f32 %r, %ra"), [f(2.5), 0, 0], plus);
        expect32(&format!("cvt.{mode}.s32.f32 %r, %ra"), [f(-2.5), 0, 0], minus as u32);
    }
    expect32("cvt.rzi.s32.f32 %r, %ra", [f(1e20), 0, 0], i32::MAX as u32);
    expect32("cvt.rzi.u32.f32 %r, %ra", [f(-1.0), 0, 0], 0);
    expect32("cvt.rzi.s32.f32 %r, %ra", [f(f32::NAN), 0, 0], 0);
    expect64(
        "cvt.rzi.u64.f64 %d, %da;",
        [1e15f64.to_bits(), 0, 0],
        1_000_000_000_000_000,
    );
    expect64("cvt.rni.s64.f32 %d, %ra;", [f(-3.5) as u64, 0, 0], -4i64 as u64);
}

#[test]
fn integers_become_floats_in_four_modes() {
    // 2^24 + 1 lies between two f32.
    let odd = (1 << 24) + 1;
    let (below, above) = (f(16_777_216.0), f(16_777_218.0));
    for (mode, expected) in [("rn", below), ("rz", below), ("rm", below), ("rp", above)] {
        expect32(&format!("cvt.{mode}.f32.u32 %r, %ra"), [odd, 0, 0], expected);
    }
    for (mode, expected) in [("rz", below), ("rm", above), ("rp", below)] {
        expect32(
            &format!("cvt.{mode}.f32.s32 %r, %ra"),
            [(odd as i32).wrapping_neg() as u32, 0, 0],
            expected | 1 << 31,
        );
    }
    expect64(
        "cvt.rn.f64.s32 %d, %ra;",
        [-7i32 as u32 as u64, 0, 0],
        (-7f64).to_bits(),
    );
    expect64(
        "cvt.rz.f64.u64 %d, %da;",
        [u64::MAX, 0, 0],
        18_446_744_073_709_549_568f64.to_bits(),
    );
    expect64(
        "cvt.rp.f64.u64 %d, %da;",
        [u64::MAX, 0, 0],
        18_446_744_073_709_551_616f64.to_bits(),
    );
    assert_eq!(run16("cvt.rn.f16.s32 %h, %ra", &[[2049, 0, 0]]), [0x6800]);
    assert_eq!(run16("cvt.rp.f16.s32 %h, %ra", &[[2049, 0, 0]]), [0x6801]);
}

#[test]
fn floats_change_their_precision_in_four_modes() {
    let x = 1.0 + f64::EPSILON;
    for (mode, expected) in [("rn", 1.0), ("rz", 1.0), ("rm", 1.0), ("rp", 1f32.next_up())] {
        let actual = crate::harness::run32(&format!("cvt.{mode}.f32.f64 %r, %da"), &[[x.to_bits(), 0, 0]]);
        assert_eq!(f32::from_bits(actual[0]), expected, "{mode}");
    }
    expect64("cvt.f64.f32 %d, %ra;", [f(0.1) as u64, 0, 0], (0.1f32 as f64).to_bits());
    // 1 + 2^-11 is a tie between two f16; 65519.99 rounds down, 65520 up to infinity.
    assert_eq!(
        run16("cvt.rn.f16.f32 %h, %ra", &[[f(1.000_488_3) as u64, 0, 0]]),
        [0x3c00]
    );
    assert_eq!(
        run16("cvt.rp.f16.f32 %h, %ra", &[[f(1.000_488_3) as u64, 0, 0]]),
        [0x3c01]
    );
    assert_eq!(run16("cvt.rz.f16.f32 %h, %ra", &[[f(1e9) as u64, 0, 0]]), [0x7bff]);
    assert_eq!(run16("cvt.rn.f16.f32 %h, %ra", &[[f(1e9) as u64, 0, 0]]), [0x7c00]);
    assert_eq!(run16("cvt.rn.bf16.f32 %h, %ra", &[[f(3.0) as u64, 0, 0]]), [0x4040]);
    assert_eq!(run16("cvt.rz.bf16.f32 %h, %ra", &[[0x3f80_ffff, 0, 0]]), [0x3f80]);
    expect32("cvt.f32.f16 %r, %ha", [0xc200, 0, 0], f(-3.0));
    expect32("cvt.f32.bf16 %r, %ha", [0x4040, 0, 0], f(3.0));
}

#[test]
fn floats_round_to_integral_floats() {
    expect32("cvt.rmi.f32.f32 %r, %ra", [f(-1.5), 0, 0], f(-2.0));
    expect32("cvt.rpi.f32.f32 %r, %ra", [f(-1.5), 0, 0], f(-1.0));
    expect32("cvt.rni.f32.f32 %r, %ra", [f(2.5), 0, 0], f(2.0));
    expect64(
        "cvt.rzi.f64.f64 %d, %da;",
        [(-1.9f64).to_bits(), 0, 0],
        (-1f64).to_bits(),
    );
}

#[test]
fn conversion_modifiers() {
    expect32("cvt.sat.f32.f32 %r, %ra", [f(7.0), 0, 0], f(1.0));
    expect32("cvt.ftz.f32.f32 %r, %ra", [1, 0, 0], 0);
    expect32("cvt.rna.tf32.f32 %r, %ra", [0x3f80_1000, 0, 0], 0x3f80_2000);
    expect32("cvt.rna.tf32.f32 %r, %ra", [0x3f80_0fff, 0, 0], 0x3f80_0000);
    // The first source becomes the upper half.
    expect32("cvt.rn.f16x2.f32 %r, %ra, %rb", [f(1.0), f(2.0), 0], 0x3c00_4000);
    expect32("cvt.rn.relu.f16x2.f32 %r, %ra, %rb", [f(-1.0), f(2.0), 0], 0x0000_4000);
    expect32("cvt.rn.bf16x2.f32 %r, %ra, %rb", [f(1.0), f(2.0), 0], 0x3f80_4000);
}

#[test]
fn moves_pack_and_unpack() {
    expect64("mov.b64 %d, {%ra, %rb};", [1, 2, 0], 0x2_0000_0001);
    expect32("mov.b64 {%s, %r}, %da", [0, 0, 0], 0);
    expect64(
        "mov.b64 {%r, %s}, %da; cvt.u64.u32 %d, %s;",
        [0x1234_0000_5678, 0, 0],
        0x1234,
    );
    expect32("mov.b32 %r, {%ha, %hb}", [0x1111, 0x2222, 0], 0x2222_1111);
    assert_eq!(run16("mov.b32 {_, %h}, %ra", &[[0x2222_1111, 0, 0]]), [0x2222]);
    expect32("mov.b32 %r, 0f3F800000", [0; 3], f(1.0));
    expect32("mov.u32 %r, WARP_SZ", [0; 3], 32);
}
