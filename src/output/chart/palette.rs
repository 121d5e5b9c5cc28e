//! Colours that readers with any kind of colour vision tell apart (Okabe and Ito's), each with a marker of its own.

use crate::output::picture::Colour;

/// What something is drawn with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ink {
    Text,
    Muted,
    Hairline,
    /// A line of the chart
    Series(usize),
}

/// The form of a line's points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marker {
    Circle,
    Square,
    Triangle,
    Diamond,
    Cross,
}

const MARKERS: [Marker; 5] = [
    Marker::Square,
    Marker::Circle,
    Marker::Triangle,
    Marker::Diamond,
    Marker::Cross,
];

impl Marker {
    pub fn of(style: usize) -> Self {
        MARKERS[style % MARKERS.len()]
    }
}

/// Of lines, on white and on a dark page.
const SERIES: [(Colour, Colour); 7] = [
    ([0xd5, 0x5e, 0x00], [0xf0, 0x8a, 0x3c]),
    ([0x00, 0x72, 0xb2], [0x56, 0xb4, 0xe9]),
    ([0x00, 0x9e, 0x73], [0x2f, 0xc9, 0x9b]),
    ([0xcc, 0x79, 0xa7], [0xe0, 0x98, 0xc1]),
    ([0xb8, 0x86, 0x00], [0xf0, 0xc8, 0x42]),
    ([0x56, 0x4f, 0xa5], [0xa7, 0xa0, 0xf0]),
    ([0x5f, 0x63, 0x68], [0xa9, 0xae, 0xb6]),
];

/// Colours of lines before they repeat.
pub(super) const STYLES: usize = SERIES.len();

pub(super) fn light(ink: Ink) -> Colour {
    match ink {
        Ink::Text => [0x20, 0x21, 0x24],
        Ink::Muted => [0x5f, 0x63, 0x68],
        Ink::Hairline => [0xde, 0xe1, 0xe6],
        Ink::Series(style) => SERIES[style % STYLES].0,
    }
}

pub(super) fn dark(ink: Ink) -> Colour {
    match ink {
        Ink::Text => [0xe8, 0xea, 0xed],
        Ink::Muted => [0xa9, 0xae, 0xb6],
        Ink::Hairline => [0x3c, 0x40, 0x43],
        Ink::Series(style) => SERIES[style % STYLES].1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance by the W3C's definition.
    fn luminance(colour: Colour) -> f64 {
        let linear = |c: u8| {
            let c = f64::from(c) / 255.0;
            if c <= 0.04045 {
                c / 12.92
            } else {
                ((c + 0.055) / 1.055).powf(2.4)
            }
        };
        0.2126 * linear(colour[0]) + 0.7152 * linear(colour[1]) + 0.0722 * linear(colour[2])
    }

    #[test]
    fn every_line_stands_out_from_its_page() {
        let contrast = |a: f64, b: f64| (a.max(b) + 0.05) / (a.min(b) + 0.05);
        for style in 0..STYLES {
            let ink = Ink::Series(style);
            assert!(contrast(luminance(light(ink)), 1.0) >= 2.7, "{style} on white");
            assert!(
                contrast(luminance(dark(ink)), luminance([0x20, 0x21, 0x24])) >= 4.5,
                "{style} on dark"
            );
        }
    }
}
