use crate::harness::{Case, expect32, expect64, random, run, run16, run32};

const MINUS_ONE: u32 = u32::MAX;

#[test]
fn sums_wrap_and_saturate() {
    expect32("add.s32 %r, %ra, %rb", [0x7fff_ffff, 1, 0], 0x8000_0000);
    expect32("add.u32 %r, %ra, -1", [0, 0, 0], MINUS_ONE);
    expect32("add.sat.s32 %r, %ra, %rb", [0x7fff_ffff, 1, 0], 0x7fff_ffff);
    expect32("sub.sat.s32 %r, %ra, %rb", [0x8000_0000, 1, 0], 0x8000_0000);
    expect32("sub.s32 %r, %ra, %rb", [3, 5, 0], -2i32 as u32);
    expect64("add.s64 %d, %da, %db;", [0xffff_ffff, 1, 0], 1 << 32);
    expect64("sub.u64 %d, %da, %db;", [0, 1, 0], u64::MAX);
    assert_eq!(run16("add.u16 %h, %ha, %hb", &[[0xffff, 2, 0]]), [1]);
    assert_eq!(run16("sub.s16 %h, %ha, %hb", &[[1, 2, 0]]), [0xffff]);
}

#[test]
fn products_low_high_and_wide() {
    expect32("mul.lo.s32 %r, %ra, %rb", [0x1_0001, 0x1_0001, 0], 0x2_0001);
    expect32("mul.hi.u32 %r, %ra, %rb", [MINUS_ONE, MINUS_ONE, 0], 0xffff_fffe);
    expect32("mul.hi.s32 %r, %ra, %rb", [MINUS_ONE, MINUS_ONE, 0], 0);
    expect64("mul.wide.s32 %d, %ra, %rb;", [MINUS_ONE as u64, 5, 0], -5i64 as u64);
    expect64("mul.wide.u32 %d, %ra, %rb;", [MINUS_ONE as u64, 5, 0], 0x4_ffff_fffb);
    expect64("mul.lo.u64 %d, %da, %db;", [1 << 40, 1 << 30, 0], 0);
    expect64("mul.hi.u64 %d, %da, %db;", [1 << 40, 1 << 30, 0], 1 << 6);
    expect64("mul.hi.u64 %d, %da, %db;", [u64::MAX, u64::MAX, 0], u64::MAX - 1);
    expect64("mul.hi.s64 %d, %da, %db;", [u64::MAX, 7, 0], u64::MAX);
    expect32("mul.wide.u16 %r, %ha, %hb", [0xffff, 0xffff, 0], 0xfffe_0001);
    expect32("mul.wide.s16 %r, %ha, %hb", [0xffff, 3, 0], -3i32 as u32);
    expect32("mul24.lo.u32 %r, %ra, %rb", [0xff00_0002, 0x0000_0003, 0], 6);
    expect32("mul24.lo.s32 %r, %ra, %rb", [0x00ff_ffff, 7, 0], -7i32 as u32);
}

#[test]
fn multiply_add() {
    expect32("mad.lo.s32 %r, %ra, %rb, %rc", [7, 6, 100], 142);
    expect32("mad.hi.u32 %r, %ra, %rb, %rc", [0x8000_0000, 4, 5], 7);
    expect64("mad.wide.s32 %d, %ra, %rb, %dc;", [-3i32 as u32 as u64, 4, 100], 88);
    expect64("mad.wide.u32 %d, %ra, %rb, %dc;", [MINUS_ONE as u64, 2, 2], 1 << 33);
    expect64("mad.lo.s64 %d, %da, %db, %dc;", [1 << 20, 1 << 20, 9], (1 << 40) + 9);
}

#[test]
fn division_truncates_and_does_not_trap() {
    expect32("div.s32 %r, %ra, %rb", [-7i32 as u32, 2, 0], -3i32 as u32);
    expect32("rem.s32 %r, %ra, %rb", [-7i32 as u32, 2, 0], -1i32 as u32);
    expect32("div.u32 %r, %ra, %rb", [MINUS_ONE, 16, 0], 0x0fff_ffff);
    expect32("rem.u32 %r, %ra, %rb", [MINUS_ONE, 16, 0], 15);
    expect32("div.u32 %r, %ra, %rb", [1, 0, 0], MINUS_ONE);
    expect32("div.s32 %r, %ra, %rb", [0x8000_0000, MINUS_ONE, 0], 0x8000_0000);
    expect64("div.s64 %d, %da, %db;", [-9i64 as u64, 4, 0], -2i64 as u64);
    expect64("rem.u64 %d, %da, %db;", [1 << 40, 1000, 0], 776);
}

#[test]
fn absolute_negative_minimum_maximum_and_difference() {
    expect32("abs.s32 %r, %ra", [-5i32 as u32, 0, 0], 5);
    expect32("neg.s32 %r, %ra", [5, 0, 0], -5i32 as u32);
    expect32("min.s32 %r, %ra, %rb", [MINUS_ONE, 1, 0], MINUS_ONE);
    expect32("min.u32 %r, %ra, %rb", [MINUS_ONE, 1, 0], 1);
    expect32("max.s32 %r, %ra, %rb", [MINUS_ONE, 1, 0], 1);
    expect32("max.u32 %r, %ra, %rb", [MINUS_ONE, 1, 0], MINUS_ONE);
    expect64("max.s64 %d, %da, %db;", [u64::MAX, 3, 0], 3);
    expect64("min.u64 %d, %da, %db;", [u64::MAX, 3, 0], 3);
    expect32("sad.s32 %r, %ra, %rb, %rc", [-4i32 as u32, 6, 100], 110);
    assert_eq!(run16("min.s16 %h, %ha, %hb", &[[0x8000, 1, 0]]), [0x8000]);
    assert_eq!(run16("max.u16 %h, %ha, %hb", &[[0x8000, 1, 0]]), [0x8000]);
}

#[test]
fn dot_product_of_bytes() {
    // 1·5 + 2·6 + 3·7 + (-1)·8 and with the last byte as 255.
    expect32("dp4a.s32.s32 %r, %ra, %rb, %rc", [0xff03_0201, 0x0807_0605, 10], 40);
    expect32(
        "dp4a.u32.u32 %r, %ra, %rb, %rc",
        [0xff03_0201, 0x0807_0605, 10],
        10 + 38 + 2040,
    );
}

/// 128-bit sums as compilers write them: two halves chained by the carry flag.
#[test]
fn carry_chains_compute_128_bit_sums() {
    let state = &mut 7;
    let cases: Vec<Case> = (0..200).map(|_| [random(state), random(state), 0]).collect();
    let sum = "add.cc.u64 %dc, %da, %db; addc.u64 %d, 0, 0;";
    let difference = "sub.cc.u64 %dc, %da, %db; subc.u64 %d, 0, 0;";
    for (i, [a, b, _]) in cases.iter().enumerate() {
        let (carry, borrow) = (
            a.overflowing_add(*b).1 as u64,
            0u64.wrapping_sub(a.overflowing_sub(*b).1 as u64),
        );
        assert_eq!(run(sum, &cases[i..=i])[0], carry);
        assert_eq!(run(difference, &cases[i..=i])[0], borrow);
        if i == 20 {
            break;
        }
    }
    let products = run(
        "mul.lo.u64 %dc, %da, %db; mad.lo.cc.u64 %dc, %da, %db, %dc; madc.hi.u64 %d, %da, %db, 0;",
        &cases,
    );
    for ([a, b, _], high) in cases.iter().zip(products) {
        let product = *a as u128 * *b as u128;
        let carry = (product as u64).overflowing_add(product as u64).1 as u64;
        assert_eq!(high, (product >> 64) as u64 + carry);
    }
}

/// A carry or borrow must also pass through a limb that produces none by itself.
#[test]
fn carries_ripple_through_the_middle_limb() {
    expect32(
        "sub.cc.u32 %s, 0, 1; subc.cc.u32 %s, %ra, %ra; subc.u32 %r, 0, 0",
        [7, 0, 0],
        MINUS_ONE,
    );
    expect32(
        "add.cc.u32 %s, %ra, 1; addc.cc.u32 %s, %ra, 0; addc.u32 %r, 0, 0",
        [MINUS_ONE, 0, 0],
        1,
    );
}

#[test]
fn random_operands_agree_with_wide_arithmetic() {
    let state = &mut 11;
    let cases: Vec<Case> = (0..1024)
        .map(|_| [random(state), random(state), random(state)])
        .collect();
    let low = run32("mad.lo.u32 %r, %ra, %rb, %rc", &cases);
    let high = run32("mul.hi.s32 %r, %ra, %rb", &cases);
    for (i, [a, b, c]) in cases.iter().enumerate() {
        let (x, y, z) = (*a as u32, *b as u32, *c as u32);
        assert_eq!(low[i] as u128, (x as u128 * y as u128 + z as u128) % (1 << 32));
        assert_eq!(high[i] as i32, ((x as i32 as i64 * y as i32 as i64) >> 32) as i32);
    }
}
