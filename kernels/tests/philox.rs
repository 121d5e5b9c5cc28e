//! The random generator: known answers, independence of how it is asked, and the law of its normal values.

use qcs_kernels::philox::{Domain, Stream, ln, normals, philox4x32, sin_cos_turns, uniform};

const STREAM: Stream = Stream {
    seed: 0x0123_4567_89ab_cdef,
    domain: Domain::Noise,
    image: 3,
    chain: 1,
    step: 7,
};

#[test]
fn philox_gives_the_known_answers_of_random123() {
    let cases = [
        ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
        (
            [u32::MAX; 4],
            [u32::MAX; 2],
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd],
        ),
        (
            [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
            [0xa409_3822, 0x299f_31d0],
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
        ),
    ];
    for (counter, key, words) in cases {
        assert_eq!(philox4x32(counter, key), words);
    }
}

#[test]
fn every_part_of_a_stream_has_its_own_place_in_counter_and_key() {
    let stream = Stream {
        seed: 0x2222_2222_1111_1111,
        domain: Domain::Measurement,
        image: 6,
        chain: 5,
        step: 4,
    };
    assert_eq!(
        stream.words(9),
        philox4x32([9, 4, 0x0300_0005, 6], [0x1111_1111, 0x2222_2222])
    );
}

#[test]
fn any_sub_range_gives_the_same_values() {
    let mut whole = [0.0; 67];
    let mut uniforms = [0.0; 67];
    STREAM.fill_normals(0, &mut whole);
    STREAM.fill_uniforms(0, &mut uniforms);
    for (e, (&normal, &flat)) in whole.iter().zip(&uniforms).enumerate() {
        let words = STREAM.words((e / 4) as u32);
        assert_eq!((normal, flat), (normals(words)[e % 4], uniform(words[e % 4])));
    }
    for first in 0..whole.len() {
        for end in first..=whole.len() {
            let mut part = vec![0.0; end - first];
            STREAM.fill_normals(first, &mut part);
            assert_eq!(part, whole[first..end], "{first}..{end}");
            STREAM.fill_uniforms(first, &mut part);
            assert_eq!(part, uniforms[first..end], "{first}..{end}");
        }
    }
}

#[test]
fn uniforms_lie_in_the_half_open_unit_interval() {
    assert_eq!(uniform(0), 0.0);
    assert_eq!(uniform(u32::MAX), 1.0 - 1.0 / 16_777_216.0);
    assert_eq!(uniform(1 << 31), 0.5);
}

#[test]
fn the_largest_and_smallest_words_give_finite_normals() {
    let words = [
        0,
        1,
        255,
        256,
        1 << 29,
        1 << 30,
        3 << 29,
        1 << 31,
        0xc000_0000,
        u32::MAX - 1,
        u32::MAX,
    ];
    for radius in words {
        for angle in words {
            let [a, b, c, d] = normals([radius, angle, radius, angle]);
            assert!(
                (a, b) == (c, d) && a.is_finite() && b.is_finite() && a.hypot(b) < 6.77,
                "{radius:x} {angle:x}"
            );
        }
    }
}

/// Error in units of the last place that an f32 of the exact size has.
fn ulps(value: f32, exact: f64) -> f64 {
    let nearest = exact.abs() as f32;
    (f64::from(value) - exact).abs() / f64::from(nearest.next_up() - nearest)
}

#[test]
fn ln_is_within_two_units_in_the_last_place() {
    let mut worst = (0.0, 0.0);
    let dense = (0..3_000_000u32).map(|i| f32::from_bits(0x2f80_0000 + i.wrapping_mul(2_654_435_761) % 0x1000_0001));
    let near_one = (0..100_000u32).map(|i| f32::from_bits(1f32.to_bits() - i));
    for x in dense.chain(near_one).filter(|&x| x != 1.0) {
        let error = ulps(ln(x), f64::from(x).ln());
        worst = if error > worst.0 { (error, x) } else { worst };
    }
    println!("ln: {:.3} ulp at {:e}", worst.0, worst.1);
    assert_eq!(ln(1.0), 0.0);
    assert!(worst.0 <= 2.0, "{worst:?}");
}

/// The reference is given the angle reduced to an eighth turn: f64's sine of an angle near π errs by the rounding of π.
fn exact_sin_cos(turns: u32) -> (f64, f64) {
    let quarter = turns.wrapping_add(1 << 29) >> 30;
    let angle = f64::from(turns.wrapping_sub(quarter << 30) as i32) * std::f64::consts::PI / 2_147_483_648.0;
    let (s, c) = angle.sin_cos();
    [(s, c), (c, -s), (-s, -c), (-c, s)][quarter as usize]
}

#[test]
fn sine_and_cosine_of_turns_are_within_two_units_in_the_last_place() {
    let mut worst = (0.0, 0);
    let dense = (0..3_000_000u32).map(|i| i.wrapping_mul(2_654_435_761));
    let near_axes = (0..40_000u32)
        .map(|i| (i % 4) << 30)
        .zip(0..)
        .map(|(axis, i): (u32, u32)| axis.wrapping_add(i).wrapping_sub(20_000));
    for turns in dense.chain(near_axes) {
        let (sine, cosine) = exact_sin_cos(turns);
        let value = sin_cos_turns(turns);
        let error = ulps(value.0, sine).max(ulps(value.1, cosine));
        worst = if error > worst.0 { (error, turns) } else { worst };
    }
    println!("sin, cos: {:.3} ulp at {:#x}", worst.0, worst.1);
    assert!(worst.0 <= 2.0, "{worst:?}");
    assert_eq!(sin_cos_turns(0), (0.0, 1.0));
    assert_eq!(sin_cos_turns(1 << 30), (1.0, 0.0));
    assert_eq!(sin_cos_turns(1 << 31), (0.0, -1.0));
    assert_eq!(sin_cos_turns(3 << 30), (-1.0, 0.0));
}

#[test]
fn normals_are_the_box_muller_transform_of_their_words() {
    // Two units for the sine, two for the logarithm under the root (halved), one half for each rounding.
    let mut worst = (0.0, 0);
    for block in 0..500_000 {
        let words = STREAM.words(block);
        let values = normals(words);
        for pair in 0..2 {
            // The uniform value itself is an f32 by definition.
            let u = f64::from(((f64::from(words[2 * pair] as f32) + 0.5) / 4_294_967_296.0) as f32);
            let radius = (-2.0 * u.ln()).sqrt();
            let (sine, cosine) = (f64::from(words[2 * pair + 1]) * std::f64::consts::TAU / 4_294_967_296.0).sin_cos();
            for (value, exact) in [
                (values[2 * pair], radius * cosine),
                (values[2 * pair + 1], radius * sine),
            ] {
                let error = ulps(value, exact);
                worst = if error > worst.0 { (error, block) } else { worst };
            }
        }
    }
    println!("normals: {:.3} ulp in block {}", worst.0, worst.1);
    assert!(worst.0 <= 4.0, "{worst:?}");
}

/// A million values; every tolerance below is five standard errors of its statistic at this number.
fn million_normals() -> Vec<f32> {
    let mut values = vec![0.0; 1_000_000];
    STREAM.fill_normals(0, &mut values);
    values
}

#[test]
fn normals_have_the_moments_of_the_normal_law() {
    let values = million_normals();
    let n = values.len() as f64;
    let moment = |power: i32| values.iter().map(|&v| f64::from(v).powi(power)).sum::<f64>() / n;
    // Var(xᵖ) = E x²ᵖ − (E xᵖ)²: 1, 2, 15, 96 for p = 1 to 4.
    for (power, expected, variance) in [(1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)] {
        let error: f64 = moment(power) - expected;
        assert!(
            error.abs() < 5.0 * (variance / n).sqrt(),
            "moment {power}: off by {error:e}"
        );
    }
}

#[test]
fn normals_fall_into_the_tails_as_often_as_they_should() {
    let values = million_normals();
    let n = values.len() as f64;
    // (x, Φ(−x))
    let tails = [
        (0.0, 0.5),
        (0.5, 0.308_537_538_725_987),
        (1.0, 0.158_655_253_931_457),
        (2.0, 0.022_750_131_948_179),
        (3.0, 0.001_349_898_031_630),
        (4.0, 3.167_124_183_312e-5),
    ];
    for (x, share) in tails {
        for sign in [-1.0, 1.0] {
            let count = values.iter().filter(|&&v| f64::from(sign * v) > x).count() as f64;
            let error = count - n * share;
            assert!(
                error.abs() < 5.0 * (n * share * (1.0 - share)).sqrt(),
                "beyond {x}: off by {error}"
            );
        }
    }
}

#[test]
fn neighbouring_values_streams_and_steps_are_uncorrelated() {
    let values = million_normals();
    let n = values.len() as f64;
    let other = |stream: Stream| {
        let mut values = vec![0.0; 1_000_000];
        stream.fill_normals(0, &mut values);
        values
    };
    let correlation = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>();
    for lag in 1..=8 {
        assert!(correlation(&values[lag..], &values).abs() < 5.0 * n.sqrt(), "lag {lag}");
    }
    let relatives = [
        Stream {
            seed: STREAM.seed + 1,
            ..STREAM
        },
        Stream {
            domain: Domain::Start,
            ..STREAM
        },
        Stream {
            image: STREAM.image + 1,
            ..STREAM
        },
        Stream {
            chain: STREAM.chain + 1,
            ..STREAM
        },
        Stream {
            step: STREAM.step + 1,
            ..STREAM
        },
    ];
    for relative in relatives {
        assert!(
            correlation(&other(relative), &values).abs() < 5.0 * n.sqrt(),
            "{relative:?}"
        );
    }
}
