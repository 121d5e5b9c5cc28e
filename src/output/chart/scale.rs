//! Axes: where a value stands, and which values are written beside the axis.

/// A horizontal axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Scale {
    Linear {
        label: String,
        values: Vec<f64>,
    },
    /// For positive values over more than a decade or so
    Logarithmic {
        label: String,
        values: Vec<f64>,
    },
    /// Names, one after the other; a point's x is the index of its name
    Names {
        label: String,
        names: Vec<String>,
    },
}

/// A value that is written beside an axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub value: f64,
    pub label: String,
}

/// From this ratio on, positive values are drawn on a logarithmic axis.
const WIDE: f64 = 50.0;
/// Up to this many different values, each gets a label.
const MOST_TICKS: usize = 10;

impl Scale {
    /// The axis that fits these numbers.
    pub fn of(label: &str, values: &[f64]) -> Self {
        let mut values: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let label = label.to_owned();
        match (values.first(), values.last()) {
            (Some(&first), Some(&last)) if first > 0.0 && last / first >= WIDE => Self::Logarithmic { label, values },
            _ => Self::Linear { label, values },
        }
    }

    /// From zero to a round number at or above `high`, with round numbers between.
    pub fn from_zero(label: &str, high: f64) -> Self {
        let ticks = linear_ticks(0.0, if high > 0.0 && high.is_finite() { high } else { 1.0 }, 5);
        Self::Linear {
            label: label.to_owned(),
            values: ticks.iter().map(|tick| tick.value).collect(),
        }
    }

    /// The last value of the axis.
    pub fn end(&self) -> f64 {
        match self {
            Self::Linear { values, .. } | Self::Logarithmic { values, .. } => values.last().copied().unwrap_or(1.0),
            Self::Names { names, .. } => names.len().saturating_sub(1) as f64,
        }
    }

    pub(super) fn label(&self) -> &str {
        match self {
            Self::Linear { label, .. } | Self::Logarithmic { label, .. } | Self::Names { label, .. } => label,
        }
    }

    /// Where a value stands, from 0 to 1.
    pub(super) fn position(&self, value: f64) -> f64 {
        let between = |low: f64, high: f64, value: f64| {
            if high > low { (value - low) / (high - low) } else { 0.5 }
        };
        match self {
            Self::Linear { values, .. } => match (values.first(), values.last()) {
                (Some(&low), Some(&high)) => between(low, high, value),
                _ => 0.5,
            },
            Self::Logarithmic { values, .. } => between(values[0].ln(), values[values.len() - 1].ln(), value.ln()),
            Self::Names { names, .. } => between(0.0, names.len() as f64 - 1.0, value),
        }
    }

    pub(super) fn ticks(&self) -> Vec<Tick> {
        match self {
            Self::Linear { values, .. } if values.len() <= MOST_TICKS => {
                values.iter().map(|&value| tick(value)).collect()
            }
            Self::Linear { values, .. } => linear_ticks(values[0], values[values.len() - 1], 8)
                .into_iter()
                .filter(|tick| (0.0..=1.0).contains(&self.position(tick.value)))
                .collect(),
            Self::Logarithmic { values, .. } => {
                let (low, high) = (values[0].log10(), values[values.len() - 1].log10());
                // Measured values, unless they crowd; else whole decades.
                let apart = values
                    .windows(2)
                    .all(|pair| (pair[1] / pair[0]).log10() > (high - low) / 14.0);
                if apart {
                    return values.iter().map(|&value| tick(value)).collect();
                }
                (low.ceil() as i32..=high.floor() as i32)
                    .map(|exponent| tick(10f64.powi(exponent)))
                    .collect()
            }
            Self::Names { names, .. } => (0..)
                .zip(names)
                .map(|(index, name)| Tick {
                    value: f64::from(index),
                    label: name.clone(),
                })
                .collect(),
        }
    }
}

fn tick(value: f64) -> Tick {
    Tick {
        value,
        label: shown(value),
    }
}

/// A number beside an axis: 0.05, 400, 10⁶.
pub(super) fn shown(value: f64) -> String {
    let exponent = value.abs().log10();
    let whole = exponent.round();
    if value > 0.0 && (exponent - whole).abs() < 1e-9 && !(-2.0..=2.0).contains(&whole) {
        let raised = |digit: char| match digit {
            '-' => '⁻',
            '1' => '¹',
            '2' => '²',
            '3' => '³',
            other => char::from_u32(0x2070 + other as u32 - '0' as u32).unwrap_or(other),
        };
        return "10"
            .chars()
            .chain(format!("{}", whole as i32).chars().map(raised))
            .collect();
    }
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text.is_empty() || text == "-0" {
        "0".to_owned()
    } else {
        text.to_owned()
    }
}

/// About `count` round values that hold `low` and `high` between them; at least two.
pub(super) fn linear_ticks(low: f64, high: f64, count: usize) -> Vec<Tick> {
    let span = if high > low {
        high - low
    } else {
        (high.abs() * 0.1).max(1e-3)
    };
    let raw = span / count as f64;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|&step| step >= raw * (1.0 - 1e-9))
        .unwrap_or(10.0 * power);
    let first = (low / step + 1e-9).floor() as i64;
    let last = ((high / step - 1e-9).ceil() as i64).max(first + 1);
    let digits = (-step.log10().floor()).max(0.0) as usize;
    (first..=last)
        .map(|index| {
            let value = index as f64 * step;
            let label = format!("{value:.digits$}");
            Tick {
                value,
                label: if label.trim_start_matches(['-', '0', '.']).is_empty() {
                    format!("{:.digits$}", 0.0)
                } else {
                    label
                },
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ticks: &[Tick]) -> Vec<&str> {
        ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_and_hold_the_values_between_them() {
        assert_eq!(labels(&linear_ticks(13.7, 27.2, 6)), ["10", "15", "20", "25", "30"]);
        assert_eq!(
            labels(&linear_ticks(0.0, 1.0, 6)),
            ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]
        );
        assert_eq!(
            labels(&linear_ticks(-0.1, 0.1, 4)),
            ["-0.10", "-0.05", "0.00", "0.05", "0.10"]
        );
        assert!(linear_ticks(5.0, 5.0, 6).len() >= 2);
    }

    #[test]
    fn an_axis_from_zero_ends_at_a_round_number() {
        let ends = [0.073, 0.54, 1.0, 0.0, f64::NAN].map(|high| Scale::from_zero("error", high).end());
        for (end, expected) in ends.into_iter().zip([0.08, 0.6, 1.0, 1.0, 1.0]) {
            assert!((end - expected).abs() < 1e-12, "{end} for {expected}");
        }
        assert_eq!(
            labels(&Scale::from_zero("error", 0.073).ticks()),
            ["0", "0.02", "0.04", "0.06", "0.08"]
        );
    }

    #[test]
    fn numbers_are_written_as_a_person_would() {
        let values = [0.0, 0.05, 400.0, 1e3, 1e6, 1e-3, 2e5, 1.0, 100.0];
        let shown: Vec<String> = values.iter().map(|&value| shown(value)).collect();
        assert_eq!(shown, ["0", "0.05", "400", "10³", "10⁶", "10⁻³", "200000", "1", "100"]);
    }

    #[test]
    fn wide_positive_values_are_logarithmic_and_others_linear() {
        assert!(matches!(Scale::of("kappa", &[1e6, 1.0]), Scale::Logarithmic { .. }));
        assert!(matches!(Scale::of("rho", &[0.0, 0.9]), Scale::Linear { .. }));
        let kappa = Scale::of("kappa", &[1.0, 1e3, 1e6]);
        assert!((kappa.position(1e3) - 0.5).abs() < 1e-12);
        assert_eq!(labels(&kappa.ticks()), ["1", "10³", "10⁶"]);
        assert_eq!(Scale::of("m", &[400.0]).position(400.0), 0.5);
    }
}
