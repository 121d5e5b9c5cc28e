//! Rounding modes are checked by residuals: the sign of `exact - result`, which a fused
//! multiply-add gives without error, decides on which side a result must lie.

use crate::harness::{Case, expect32, expect64, random, run, run16, run32};

fn f(x: f32) -> u32 {
    x.to_bits()
}

/// f32 operands of moderate size.
fn operands(seed: u64, count: usize) -> Vec<[f32; 3]> {
    let state = &mut { seed };
    let mut next = || f32::from_bits(random(state) as u32 & 0x83ff_ffff | 0x3c00_0000);
    (0..count).map(|_| [next(), next(), next()]).collect()
}

fn cases(operands: &[[f32; 3]]) -> Vec<Case> {
    operands.iter().map(|o| o.map(|x| x.to_bits() as u64)).collect()
}

fn doubles(seed: u64, count: usize) -> Vec<[f64; 3]> {
    let state = &mut { seed };
    let mut next = || f64::from_bits(random(state) & 0x803f_ffff_ffff_ffff | 0x3fc0_0000_0000_0000);
    (0..count).map(|_| [next(), next(), next()]).collect()
}

/// Checks the four modes of one f32 operation, given the exact value relative to a candidate.
fn check_modes(name: &str, sources: &str, inputs: &[[f32; 3]], compare: impl Fn(&[f32; 3], f32) -> f64) {
    let results = ["rn", "rz", "rm", "rp"].map(|mode| {
        let instruction = format!("{name}.{mode}.f32 %r, {sources}");
        run32(&instruction, &cases(inputs))
            .into_iter()
            .map(f32::from_bits)
            .collect::<Vec<_>>()
    });
    for (i, input) in inputs.iter().enumerate() {
        let [nearest, zero, down, up] = [0, 1, 2, 3].map(|mode: usize| results[mode][i]);
        // compare() is the sign of exact - candidate.
        assert!(
            compare(input, down) >= 0.0 && compare(input, up) <= 0.0,
            "{name} {input:?}: {down:e} {up:e}"
        );
        if compare(input, down) == 0.0 {
            assert_eq!(down, up, "{name} {input:?} is exact");
        } else {
            assert_eq!(down.next_up(), up, "{name} {input:?}: neighbours");
        }
        assert_eq!(zero, if down >= 0.0 { down } else { up }, "{name} {input:?}");
        assert!(nearest == down || nearest == up);
    }
}

#[test]
fn f32_sums_in_all_modes() {
    // a + b - candidate is exact in f64 for these exponents.
    check_modes("add", "%ra, %rb", &operands(1, 1000), |[a, b, _], r| {
        (*a as f64 + *b as f64) - r as f64
    });
    check_modes("sub", "%ra, %rb", &operands(2, 1000), |[a, b, _], r| {
        (*a as f64 - *b as f64) - r as f64
    });
}

#[test]
fn f32_products_in_all_modes() {
    check_modes("mul", "%ra, %rb", &operands(3, 1000), |[a, b, _], r| {
        *a as f64 * *b as f64 - r as f64
    });
}

#[test]
fn f32_fused_multiply_add_in_all_modes() {
    check_modes("fma", "%ra, %rb, %rc", &operands(4, 1000), |[a, b, c], r| {
        let product = *a as f64 * *b as f64;
        // Both differences are exact: operands have 24 and 48 bits and similar exponents.
        let (sum, back) = (product + *c as f64, product + *c as f64 - product);
        let error = (product - (sum - back)) + (*c as f64 - back);
        (sum - r as f64) + error
    });
}

#[test]
fn f32_quotients_roots_and_reciprocals_in_all_modes() {
    let positive: Vec<[f32; 3]> = operands(5, 1000).iter().map(|o| o.map(f32::abs)).collect();
    // sign(a/b - r) = sign(a - r b) for b > 0; r b is exact in f64.
    check_modes("div", "%ra, %rb", &positive, |[a, b, _], r| {
        *a as f64 - r as f64 * *b as f64
    });
    check_modes("rcp", "%ra", &positive, |[a, ..], r| 1.0 - r as f64 * *a as f64);
    check_modes("sqrt", "%ra", &positive, |[a, ..], r| *a as f64 - r as f64 * r as f64);
}

#[test]
fn f64_arithmetic_in_all_modes() {
    let inputs = doubles(6, 300);
    let cases: Vec<Case> = inputs.iter().map(|o| o.map(f64::to_bits)).collect();
    type Residual = fn(&[f64; 3], f64) -> f64;
    let operations: [(&str, &str, Residual); 5] = [
        ("mul", "%da, %db", |[a, b, _], r| a.mul_add(*b, -r)),
        ("div", "%da, %db", |[a, b, _], r| (-r).mul_add(*b, *a) * b.signum()),
        ("sqrt", "%da", |[a, ..], r| (-r).mul_add(r, *a)),
        ("rcp", "%da", |[a, ..], r| (-r).mul_add(*a, 1.0) * a.signum()),
        ("add", "%da, %db", |[a, b, _], r| {
            let (s, back) = (a + b, a + b - a);
            ((a - (s - back)) + (b - back)) + (s - r)
        }),
    ];
    for (name, sources, residual) in operations {
        let at = |mode: &str| {
            let instruction = format!("{name}.{mode}.f64 %d, {sources};");
            run(&instruction, &cases)
                .into_iter()
                .map(f64::from_bits)
                .collect::<Vec<_>>()
        };
        let (nearest, zero, down, up) = (at("rn"), at("rz"), at("rm"), at("rp"));
        for (i, input) in inputs.iter().enumerate() {
            if name == "sqrt" && input[0] < 0.0 {
                assert!(nearest[i].is_nan() && down[i].is_nan());
                continue;
            }
            assert!(
                residual(input, down[i]) >= 0.0 && residual(input, up[i]) <= 0.0,
                "{name} {input:?}"
            );
            assert!(down[i] == up[i] || down[i].next_up() == up[i], "{name} {input:?}");
            assert_eq!(zero[i], if down[i] >= 0.0 { down[i] } else { up[i] });
            assert!(nearest[i] == down[i] || nearest[i] == up[i]);
        }
    }
}

#[test]
fn f64_fused_multiply_add_keeps_what_the_product_loses() {
    let (a, b) = (1.0 + f64::EPSILON, 1.0 - f64::EPSILON);
    let case = [a.to_bits(), b.to_bits(), (-1f64).to_bits()];
    expect64(
        "fma.rn.f64 %d, %da, %db, %dc;",
        case,
        (-f64::EPSILON * f64::EPSILON).to_bits(),
    );
    let tiny = [1f64.to_bits(), f64::MIN_POSITIVE.to_bits(), 1f64.to_bits()];
    expect64("fma.rp.f64 %d, %da, %db, %dc;", tiny, 1f64.next_up().to_bits());
    expect64("fma.rm.f64 %d, %da, %db, %dc;", tiny, 1f64.to_bits());
}

#[test]
fn subnormals_are_flushed_only_on_request() {
    let tiny = f32::MIN_POSITIVE / 2.0;
    expect32("add.f32 %r, %ra, %rb", [f(tiny), f(0.0), 0], f(tiny));
    expect32("add.ftz.f32 %r, %ra, %rb", [f(-tiny), f(-0.0), 0], f(-0.0));
    expect32("mul.ftz.f32 %r, %ra, %rb", [f(f32::MIN_POSITIVE), f(0.5), 0], 0);
    expect32("abs.ftz.f32 %r, %ra", [f(-tiny), 0, 0], 0);
}

#[test]
fn saturation_maps_to_the_unit_interval() {
    expect32("add.sat.f32 %r, %ra, %rb", [f(0.75), f(0.5), 0], f(1.0));
    expect32("fma.rn.sat.f32 %r, %ra, %rb, %rc", [f(-1.0), f(0.5), f(0.25)], 0);
    expect32("mul.sat.f32 %r, %ra, %rb", [f(f32::INFINITY), f(0.0), 0], 0);
    expect32("mul.sat.f32 %r, %ra, %rb", [f(-0.0), f(1.0), 0], 0);
}

#[test]
fn minimum_and_maximum_treat_nan_and_signed_zero_as_ptx_does() {
    let nan = f(f32::NAN);
    expect32("min.f32 %r, %ra, %rb", [nan, f(2.0), 0], f(2.0));
    expect32("max.f32 %r, %ra, %rb", [f(2.0), nan, 0], f(2.0));
    expect32("min.NaN.f32 %r, %ra, %rb", [nan, f(2.0), 0], 0x7fff_ffff);
    expect32("min.f32 %r, %ra, %rb", [f(0.0), f(-0.0), 0], f(-0.0));
    expect32("max.f32 %r, %ra, %rb", [f(-0.0), f(0.0), 0], f(0.0));
    expect64(
        "max.f64 %d, %da, %db;",
        [f64::NAN.to_bits(), 3f64.to_bits(), 0],
        3f64.to_bits(),
    );
    expect64(
        "min.f64 %d, %da, %db;",
        [(-1f64).to_bits(), 3f64.to_bits(), 0],
        (-1f64).to_bits(),
    );
}

#[test]
fn signs() {
    expect32("neg.f32 %r, %ra", [f(0.0), 0, 0], f(-0.0));
    expect32("abs.f32 %r, %ra", [f(-3.5), 0, 0], f(3.5));
    // copysign takes the sign of a and the magnitude of b.
    expect32("copysign.f32 %r, %ra, %rb", [f(-1.0), f(7.0), 0], f(-7.0));
    expect64("neg.f64 %d, %da;", [2f64.to_bits(), 0, 0], (-2f64).to_bits());
    expect64("abs.f64 %d, %da;", [(-2f64).to_bits(), 0, 0], 2f64.to_bits());
}

/// The bounds the PTX manual gives for the approximations.
#[test]
fn approximations_stay_within_the_bounds_of_the_manual() {
    let inputs: Vec<[f32; 3]> = operands(8, 1000).iter().map(|o| o.map(f32::abs)).collect();
    type Check = (&'static str, fn(f64) -> f64, f64);
    let checks: [Check; 8] = [
        ("ex2.approx.ftz.f32 %r, %ra", f64::exp2, 2f64.powi(-22)),
        ("rcp.approx.ftz.f32 %r, %ra", f64::recip, 2f64.powi(-23)),
        ("sqrt.approx.f32 %r, %ra", f64::sqrt, 2f64.powi(-23)),
        ("rsqrt.approx.f32 %r, %ra", |x| 1.0 / x.sqrt(), 2f64.powi(-22)),
        ("tanh.approx.f32 %r, %ra", f64::tanh, 2f64.powi(-11)),
        ("lg2.approx.f32 %r, %ra", f64::log2, 2f64.powi(-22)),
        ("sin.approx.f32 %r, %ra", f64::sin, 2f64.powi(-20)),
        ("cos.approx.f32 %r, %ra", f64::cos, 2f64.powi(-20)),
    ];
    for (instruction, exact, bound) in checks {
        for (input, bits) in inputs.iter().zip(run32(instruction, &cases(&inputs))) {
            let (actual, expected) = (f32::from_bits(bits) as f64, exact(input[0] as f64));
            assert!(
                (actual - expected).abs() <= bound * expected.abs().max(1.0),
                "{instruction} {input:?}"
            );
        }
    }
    expect32("ex2.approx.ftz.f32 %r, %ra", [f(3.0), 0, 0], f(8.0));
    expect32("lg2.approx.ftz.f32 %r, %ra", [f(0.0), 0, 0], f(f32::NEG_INFINITY));
    expect32("div.full.f32 %r, %ra, %rb", [f(1.0), f(4.0), 0], f(0.25));
    expect32("div.approx.f32 %r, %ra, %rb", [f(1.0), f(4.0), 0], f(0.25));
    expect64("rsqrt.approx.f64 %d, %da;", [4f64.to_bits(), 0, 0], 0.5f64.to_bits());
}

#[test]
fn half_precision() {
    // 0x3c00 is 1, 0x4000 is 2, 0x3800 is 0.5, 0x7bff is 65504.
    assert_eq!(run16("add.f16 %h, %ha, %hb", &[[0x3c00, 0x4000, 0]]), [0x4200]);
    assert_eq!(run16("sub.f16 %h, %ha, %hb", &[[0x3c00, 0x4000, 0]]), [0xbc00]);
    assert_eq!(run16("mul.f16 %h, %ha, %hb", &[[0x7bff, 0x4000, 0]]), [0x7c00]);
    assert_eq!(
        run16("fma.rn.f16 %h, %ha, %hb, %hc", &[[0x4000, 0x4000, 0x3c00]]),
        [0x4500]
    );
    assert_eq!(
        run16("fma.rn.relu.f16 %h, %ha, %hb, %hc", &[[0xc000, 0x4000, 0x3c00]]),
        [0]
    );
    assert_eq!(run16("max.f16 %h, %ha, %hb", &[[0xbc00, 0x3800, 0]]), [0x3800]);
    assert_eq!(run16("neg.f16 %h, %ha", &[[0x3c00, 0, 0]]), [0xbc00]);
    assert_eq!(run16("ex2.approx.f16 %h, %ha", &[[0x4000, 0, 0]]), [0x4400]);
    expect32(
        "fma.rn.f16x2 %r, %ra, %rb, %rc",
        [0x4000_3c00, 0x4000_4000, 0x3c00_0000],
        0x4500_4000,
    );
    expect32("add.f16x2 %r, %ra, %rb", [0x3c00_0000, 0x3c00_3c00, 0], 0x4000_3c00);
}

#[test]
fn brain_floats() {
    expect32("max.bf16x2 %r, %ra, %rb", [0x4000_3f80, 0x3f80_4000, 0], 0x4000_4000);
    expect32("min.f16x2 %r, %ra, %rb", [0x4000_3c00, 0x3c00_4000, 0], 0x3c00_3c00);
    expect32("neg.bf16x2 %r, %ra", [0x4000_3f80, 0, 0], 0xc000_bf80);
    expect32("abs.f16x2 %r, %ra", [0xc000_3c00, 0, 0], 0x4000_3c00);
    assert_eq!(run16("add.sat.f16 %h, %ha, %hb", &[[0x3c00, 0x4000, 0]]), [0x3c00]);
    // 0x3f80 is 1, 0x4000 is 2.
    assert_eq!(
        run16("fma.rn.bf16 %h, %ha, %hb, %hc", &[[0x4000, 0x4000, 0x3f80]]),
        [0x40a0]
    );
    expect32(
        "fma.rn.bf16x2 %r, %ra, %rb, %rc",
        [0x4000_3f80, 0x4000_4000, 0x3f80_0000],
        0x40a0_4000,
    );
    // 1.0625² = 1.12890625 is a tie between 0x3f90 and 0x3f91; an addend of 2^-100, which f64 would lose, breaks it.
    let breaks = [[0x3f88, 0x3f88, 0], [0x3f88, 0x3f88, 0x0d80], [0x3f88, 0x3f88, 0x8d80]];
    assert_eq!(
        run16("fma.rn.bf16 %h, %ha, %hb, %hc", &breaks),
        [0x3f90, 0x3f91, 0x3f90]
    );
}
