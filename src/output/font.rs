//! Text for pictures, in Noto Sans Mono: its glyphs are part of the program, so that no font file is needed.

use noto_sans_mono_bitmap::{FontWeight, RasterHeight, RasterizedChar, get_raster, get_raster_width};

const WEIGHT: FontWeight = FontWeight::Regular;
const SIZE: RasterHeight = RasterHeight::Size24;
/// Width of every character, in pixels.
const ADVANCE: u32 = get_raster_width(WEIGHT, SIZE) as u32;
/// Rows of a glyph's raster above the highest letter; they are for accents, which nothing here has.
const ABOVE: usize = 5;
/// The row of the raster that stands on the baseline.
const BASELINE: usize = 18;

/// Height of a line of text without its descenders.
pub(super) const HEIGHT: u32 = (BASELINE + 1 - ABOVE) as u32;
/// Distance from one line of text to the next.
pub(super) const LINE: u32 = HEIGHT + 8;

fn glyph(character: char) -> RasterizedChar {
    let known = match character {
        '–' | '—' | '−' => '-',
        other => other,
    };
    get_raster(known, WEIGHT, SIZE)
        .or_else(|| get_raster('?', WEIGHT, SIZE))
        .expect("the font has ASCII")
}

/// Width of `text` in pixels.
pub(super) fn width(text: &str) -> u32 {
    text.chars().count() as u32 * ADVANCE
}

/// Calls `ink(x, y, coverage)` for every pixel `text` touches, (0, 0) being its upper left corner and
/// coverage in (0, 1].
pub(super) fn draw(text: &str, mut ink: impl FnMut(u32, u32, f32)) {
    for (character, left) in text.chars().zip((0..).step_by(ADVANCE as usize)) {
        for (row, y) in glyph(character).rows().skip(ABOVE).zip(0..) {
            for (&value, x) in row.iter().zip(left..) {
                if value > 0 {
                    ink(x, y, f32::from(value) / 255.0);
                }
            }
        }
    }
}

/// Breaks `text` at spaces into lines of at most `limit` pixels; a longer word keeps a line of its own.
pub(super) fn wrap(text: &str, limit: u32) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(&format!("{line} {word}")) <= limit => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inked(text: &str) -> Vec<(u32, u32, f32)> {
        let mut pixels = Vec::new();
        draw(text, |x, y, coverage| pixels.push((x, y, coverage)));
        pixels
    }

    #[test]
    fn every_character_of_a_label_has_a_glyph_of_its_own() {
        let unknown = inked("?");
        for character in (' '..='~').chain(['±', '×']).filter(|&c| c != '?') {
            assert_ne!(inked(&character.to_string()), unknown, "{character}");
        }
        assert_eq!(inked("λ"), unknown);
        assert_eq!(inked("−"), inked("-"));
    }

    #[test]
    fn no_letter_is_cut_off_above_and_capitals_stand_on_the_baseline() {
        for character in (' '..='~').chain(['±']) {
            let cut = glyph(character).rows().take(ABOVE).flatten().any(|&value| value > 0);
            assert!(!cut, "{character}");
        }
        let lowest = inked("ABC012")
            .into_iter()
            .filter(|pixel| pixel.2 > 0.5)
            .map(|pixel| pixel.1);
        assert_eq!(lowest.max(), Some(HEIGHT - 1));
    }

    #[test]
    fn ink_stays_within_the_measured_width() {
        let text = "QCS-SGM+ 18.53 ± 0.4 dB (jgy)";
        assert!(inked(text).iter().all(|pixel| pixel.0 < width(text)));
    }

    #[test]
    fn text_is_wrapped_at_spaces_only() {
        assert_eq!(wrap("posterior std", width("posterior")), ["posterior", "std"]);
        assert_eq!(wrap("a b", 1000), ["a b"]);
        assert!(wrap("", 10).is_empty());
    }
}
