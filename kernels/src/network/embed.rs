//! The noise level as a network is told it: sines and cosines of one number at many frequencies.
//!
//! Networks trained on numbered steps are told which step has a level, as a real number between the steps; the others its logarithm.
//! Angles reach a thousand radians: all of it is f64 until the end.

use crate::global::Global;
use crate::launch::{Arguments, Launch};
use crate::special::{ln, sin_cos};

/// The number that stands for a level; a kernel gets the code. sigma' = 2·sigma is the level of images in [-1, 1].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Told {
    /// ln(sigma')/4
    QuarterLog = 0,
    /// ln(sigma'/2)
    Log = 1,
    /// The step of that level, between those of a table
    Step = 2,
}

/// Embeds the levels of a batch. A thread takes one frequency of a state.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EmbedArgs {
    /// The noise level of each state, `[states]`
    pub level: Global<f64>,
    /// `[2, frequencies]`: two numbers whose sum is one
    pub frequencies: Global<f32>,
    /// ln sigma' of every step, `[2, entries]`, or none
    pub table: Global<f32>,
    /// `[states, 2·frequencies]`
    pub output: Global<f32>,
    /// States of the batch.
    pub states: u32,
    /// How many there are.
    pub count: u32,
    /// Of the table.
    pub entries: u32,
    /// The code of the [`Told`].
    pub told: u32,
    /// 1 if the cosines stand in front.
    pub cosines_first: u32,
    /// Nothing.
    pub unused: u32,
}

// SAFETY: repr(C), words of eight bytes and six of four.
unsafe impl Arguments for EmbedArgs {
    fn kernel(&self) -> &'static str {
        "embed"
    }
    fn launch(&self) -> Launch {
        Launch::over(self.states * self.count)
    }
}

/// Where a logarithm lies in a rising table of so many: its number, linear between neighbours, and the ends beyond them.
#[inline(always)]
fn step_of(log: f64, entries: u32, table: impl Fn(u32) -> f64) -> f64 {
    let last = entries - 1;
    let (mut low, mut high) = (0, last);
    // The least and the largest step are those of all levels beyond.
    if log <= table(0) || log.is_nan() {
        return 0.0;
    }
    if log >= table(last) {
        return f64::from(last);
    }
    while high - low > 1 {
        let middle = (low + high) / 2;
        if table(middle) <= log {
            low = middle;
        } else {
            high = middle;
        }
    }
    let (below, above) = (table(low), table(high));
    f64::from(low) + (log - below) / (above - below)
}

/// The number that stands for a level.
#[inline(always)]
fn number(told: u32, level: f64, entries: u32, table: impl Fn(u32) -> f64) -> f64 {
    let log = ln(2.0 * level);
    if told == Told::QuarterLog as u32 {
        0.25 * log
    } else if told == Told::Log as u32 {
        log - core::f64::consts::LN_2
    } else {
        step_of(log, entries, table)
    }
}

/// The twin: one state. `frequencies` and `table` as the kernel gets them.
#[cfg(not(target_arch = "nvptx64"))]
pub fn embed(told: Told, level: f64, frequencies: &[f32], table: &[f32], cosines_first: bool, output: &mut [f32]) {
    let pair = |all: &[f32], at: usize| f64::from(all[at]) + f64::from(all[all.len() / 2 + at]);
    let number = number(told as u32, level, (table.len() / 2) as u32, |at| {
        pair(table, at as usize)
    });
    let count = frequencies.len() / 2;
    for k in 0..count {
        let (sine, cosine) = sin_cos(number * pair(frequencies, k));
        let (first, second) = if cosines_first { (cosine, sine) } else { (sine, cosine) };
        output[k] = first as f32;
        output[count + k] = second as f32;
    }
}

/// A number as two of f32, for a table of [`EmbedArgs`].
pub fn halves(value: f64) -> (f32, f32) {
    let high = value as f32;
    (high, (value - f64::from(high)) as f32)
}

#[cfg(target_arch = "nvptx64")]
mod kernel {
    use super::*;
    use crate::device::{divide, global_thread};

    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn embed(args: EmbedArgs) {
        let index = global_thread();
        if index >= args.states * args.count {
            return;
        }
        // SAFETY: there are frequencies, and the table has its entries; each thread has its own two numbers.
        unsafe {
            let (state, k) = divide(index, args.count);
            let pair = |all: Global<f32>, count: u32, at: u32| {
                f64::from(all.read(at as usize)) + f64::from(all.read((count + at) as usize))
            };
            let level = args.level.read(state as usize);
            let number = number(args.told, level, args.entries, |at| pair(args.table, args.entries, at));
            let (sine, cosine) = sin_cos(number * pair(args.frequencies, args.count, k));
            let (first, second) = if args.cosines_first != 0 {
                (cosine, sine)
            } else {
                (sine, cosine)
            };
            let at = (state * 2 * args.count + k) as usize;
            args.output.store(at, first as f32);
            args.output.store(at + args.count as usize, second as f32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figures that the families' own code gives for ten and a half steps.
    #[test]
    fn sines_and_cosines_are_those_of_the_published_networks() {
        let table = |values: &[f64]| -> std::vec::Vec<f32> {
            let halves = values.iter().map(|&v| halves(v));
            halves.clone().map(|h| h.0).chain(halves.map(|h| h.1)).collect()
        };
        // Steps whose logarithms are even: ten and a half is what the level of 10.5 logarithms stands for.
        let steps = table(&(0..20).map(f64::from).collect::<std::vec::Vec<f64>>());
        let level = 10.5f64.exp() / 2.0;
        let mut output = [0.0; 8];
        let frequencies = |shift: f64| -> std::vec::Vec<f64> {
            (0..4)
                .map(|k| (-(1e4f64.ln()) * f64::from(k) / (4.0 - shift)).exp())
                .collect()
        };
        embed(Told::Step, level, &table(&frequencies(1.0)), &steps, false, &mut output);
        let google = [
            -0.8796958, 0.4683009, 0.0226196, 0.00105, -0.4755369, 0.883569, 0.9997441, 0.9999994,
        ];
        assert!(
            output.iter().zip(google).all(|(a, b)| (a - b).abs() < 1e-6),
            "{output:?}"
        );
        embed(Told::Step, level, &table(&frequencies(0.0)), &steps, true, &mut output);
        let adm = [
            -0.4755369, 0.497571, 0.9944926, 0.9999449, -0.8796958, 0.8674232, 0.1048072, 0.0104998,
        ];
        assert!(output.iter().zip(adm).all(|(a, b)| (a - b).abs() < 1e-6), "{output:?}");
    }

    #[test]
    fn levels_beyond_the_table_are_its_ends() {
        let table = |at: u32| f64::from(at * at);
        let step = |log: f64| step_of(log, 5, table);
        assert_eq!([step(-3.0), step(0.0), step(16.0), step(1e9)], [0.0, 0.0, 4.0, 4.0]);
        assert_eq!([step(0.5), step(4.0), step(6.5)], [0.5, 2.0, 2.5]);
    }
}
