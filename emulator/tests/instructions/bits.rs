use crate::harness::{expect32, expect64, run16};

#[test]
fn logic() {
    expect32("and.b32 %r, %ra, %rb", [0b1100, 0b1010, 0], 0b1000);
    expect32("or.b32 %r, %ra, %rb", [0b1100, 0b1010, 0], 0b1110);
    expect32("xor.b32 %r, %ra, %rb", [0b1100, 0b1010, 0], 0b0110);
    expect32("not.b32 %r, %ra", [0xffff_0000, 0, 0], 0xffff);
    expect32("cnot.b32 %r, %ra", [0, 0, 0], 1);
    expect32("cnot.b32 %r, %ra", [9, 0, 0], 0);
    expect64("xor.b64 %d, %da, %db;", [u64::MAX, 1, 0], u64::MAX - 1);
    assert_eq!(run16("not.b16 %h, %ha", &[[1, 0, 0]]), [0xfffe]);
}

#[test]
fn shifts_clamp_at_the_width() {
    expect32("shl.b32 %r, %ra, %rb", [1, 31, 0], 1 << 31);
    expect32("shl.b32 %r, %ra, %rb", [1, 32, 0], 0);
    expect32("shr.u32 %r, %ra, %rb", [0x8000_0000, 31, 0], 1);
    expect32("shr.u32 %r, %ra, %rb", [0x8000_0000, 99, 0], 0);
    expect32("shr.s32 %r, %ra, %rb", [0x8000_0000, 99, 0], u32::MAX);
    expect64("shl.b64 %d, %da, 63;", [1, 0, 0], 1 << 63);
    expect64("shr.s64 %d, %da, %rb;", [1 << 63, 63, 0], u64::MAX);
    expect64("shr.u64 %d, %da, %rb;", [1 << 63, 64, 0], 0);
    assert_eq!(run16("shr.s16 %h, %ha, 4", &[[0x8000, 0, 0]]), [0xf800]);
}

#[test]
fn counting() {
    expect32("popc.b32 %r, %ra", [0xf0f0_0001, 0, 0], 9);
    expect32("popc.b64 %r, %da", [0xff, 0, 0], 8);
    expect32("clz.b32 %r, %ra", [1, 0, 0], 31);
    expect32("clz.b32 %r, %ra", [0, 0, 0], 32);
    expect32("clz.b64 %r, %da", [1, 0, 0], 63);
    expect32("brev.b32 %r, %ra", [0b1011, 0, 0], 0xd000_0000);
    expect32("bfind.u32 %r, %ra", [0x0001_0000, 0, 0], 16);
    expect32("bfind.s32 %r, %ra", [-2i32 as u32, 0, 0], 0);
    expect32("bfind.u32 %r, %ra", [0, 0, 0], u32::MAX);
    expect32("bfind.shiftamt.u32 %r, %ra", [1, 0, 0], 31);
}

#[test]
fn fields() {
    expect32("bfe.u32 %r, %ra, 8, 8", [0x1234_5678, 0, 0], 0x56);
    expect32("bfe.s32 %r, %ra, 4, 4", [0x0000_00f0, 0, 0], u32::MAX);
    expect32("bfe.u32 %r, %ra, 28, 16", [0xa000_0000, 0, 0], 0xa);
    expect32("bfe.s32 %r, %ra, 28, 16", [0xa000_0000, 0, 0], 0xffff_fffa);
    expect32("bfe.u32 %r, %ra, 3, 0", [u32::MAX, 0, 0], 0);
    expect64("bfe.u64 %d, %da, 32, 8;", [0x0000_00ab_0000_0000, 0, 0], 0xab);
    expect32("bfi.b32 %r, %ra, %rb, 8, 8", [0xff, 0x1234_5678, 0], 0x1234_ff78);
    expect32("bfi.b32 %r, %ra, %rb, 40, 8", [0xff, 0x1234_5678, 0], 0x1234_5678);
}

#[test]
fn bytes_and_tables() {
    expect32(
        "prmt.b32 %r, %ra, %rb, 0x7610",
        [0x3322_1100, 0x7766_5544, 0],
        0x7766_1100,
    );
    expect32("prmt.b32 %r, %ra, %rb, 0x0123", [0x3322_1100, 0, 0], 0x0011_2233);
    expect32("prmt.b32 %r, %ra, %rb, 0x888b", [0x8033_2211, 0, 0], 0x0000_00ff);
    // 0x80: a & b & c; 0xe8: majority; 0x96: parity.
    expect32(
        "lop3.b32 %r, %ra, %rb, %rc, 0x80",
        [0b1111_0000, 0b1100_1100, 0b1010_1010],
        0b1000_0000,
    );
    expect32(
        "lop3.b32 %r, %ra, %rb, %rc, 0xe8",
        [0b1111_0000, 0b1100_1100, 0b1010_1010],
        0b1110_1000,
    );
    expect32(
        "lop3.b32 %r, %ra, %rb, %rc, 0x96",
        [0b1111_0000, 0b1100_1100, 0b1010_1010],
        0b1001_0110,
    );
}

#[test]
fn funnel_shifts() {
    expect32(
        "shf.l.wrap.b32 %r, %ra, %rb, %rc",
        [0xaaaa_bbbb, 0x1111_2222, 8],
        0x1122_22aa,
    );
    expect32(
        "shf.r.wrap.b32 %r, %ra, %rb, %rc",
        [0xaaaa_bbbb, 0x1111_2222, 8],
        0x22aa_aabb,
    );
    expect32("shf.l.wrap.b32 %r, %ra, %rb, %rc", [1, 2, 32], 2);
    expect32("shf.l.clamp.b32 %r, %ra, %rb, %rc", [1, 2, 40], 1);
    expect32("shf.r.clamp.b32 %r, %ra, %rb, %rc", [1, 2, 40], 2);
}
