//! A small proportional bitmap font, so that pictures can be labelled without any font file.

/// Rows above and on the baseline; two more below it hold descenders.
const ASCENT: usize = 7;
const ROWS: usize = 9;
const COLUMNS: usize = 5;
const PER_BAND: usize = 12;

/// Columns of a space.
const SPACE: usize = 3;
/// Every font pixel becomes this many picture pixels each way.
const SCALE: usize = 2;

/// Height of a line of text without its descenders, in picture pixels.
pub(super) const HEIGHT: u32 = (ASCENT * SCALE) as u32;
/// Distance from one line of text to the next.
pub(super) const LINE: u32 = HEIGHT + 8;

/// The glyphs of the characters 0x20 to 0x7E, then ±: eight bands of twelve.
#[rustfmt::skip]
const GLYPHS: [[&str; ROWS]; 8] = [
    [
        "..... ..#.. .#.#. .#.#. ..#.. ##... .##.. ..#.. ...#. .#... ..... .....",
        "..... ..#.. .#.#. .#.#. .#### ##..# #..#. ..#.. ..#.. ..#.. ..#.. ..#..",
        "..... ..#.. .#.#. ##### #.#.. ...#. #.#.. ..#.. .#... ...#. #.#.# ..#..",
        "..... ..#.. ..... .#.#. .###. ..#.. .#... ..... .#... ...#. .###. #####",
        "..... ..#.. ..... ##### ..#.# .#... #.#.# ..... .#... ...#. #.#.# ..#..",
        "..... ..... ..... .#.#. ####. #..## #..#. ..... ..#.. ..#.. ..#.. ..#..",
        "..... ..#.. ..... .#.#. ..#.. ...## .##.# ..... ...#. .#... ..... .....",
        "..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... .....",
        "..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... .....",
    ],
    [
        "..... ..... ..... ....# ..#.. ..#.. .###. .###. ...#. ##### ..##. #####",
        "..... ..... ..... ....# .#.#. .##.. #...# #...# ..##. #.... .#... ....#",
        "..... ..... ..... ...#. #...# ..#.. ....# ....# .#.#. ####. #.... ...#.",
        "..... .###. ..... ..#.. #...# ..#.. ...#. ..##. #..#. ....# ####. ..#..",
        "..... ..... ..... .#... #...# ..#.. ..#.. ....# ##### ....# #...# .#...",
        ".##.. ..... .##.. #.... .#.#. ..#.. .#... #...# ...#. #...# #...# .#...",
        ".##.. ..... .##.. #.... ..#.. .###. ##### .###. ...#. .###. .###. .#...",
        "..#.. ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... .....",
        ".#... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... .....",
    ],
    [
        ".###. .###. ..... ..... ...#. ..... .#... .###. .###. .###. ####. .###.",
        "#...# #...# .##.. .##.. ..#.. ..... ..#.. #...# #...# #...# #...# #...#",
        "#...# #...# .##.. .##.. .#... ##### ...#. ....# #.### #...# #...# #....",
        ".###. .#### ..... ..... #.... ..... ....# ...#. #.#.# ##### ####. #....",
        "#...# ....# .##.. ..... .#... ##### ...#. ..#.. #.### #...# #...# #....",
        "#...# ...#. .##.. .##.. ..#.. ..... ..#.. ..... #.... #...# #...# #...#",
        ".###. .##.. ..... .##.. ...#. ..... .#... ..#.. .###. #...# ####. .###.",
        "..... ..... ..... ..#.. ..... ..... ..... ..... ..... ..... ..... .....",
        "..... ..... ..... .#... ..... ..... ..... ..... ..... ..... ..... .....",
    ],
    [
        "####. ##### ##### .###. #...# .###. ..### #...# #.... #...# #...# .###.",
        "#...# #.... #.... #...# #...# ..#.. ...#. #..#. #.... ##.## ##..# #...#",
        "#...# #.... #.... #.... #...# ..#.. ...#. #.#.. #.... #.#.# ##..# #...#",
        "#...# ####. ####. #.### ##### ..#.. ...#. ##... #.... #.#.# #.#.# #...#",
        "#...# #.... #.... #...# #...# ..#.. ...#. #.#.. #.... #...# #..## #...#",
        "#...# #.... #.... #...# #...# ..#.. #..#. #..#. #.... #...# #..## #...#",
        "####. ##### #.... .###. #...# .###. .##.. #...# ##### #...# #...# .###.",
        "..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... .....",
        "..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... .....",
    ],
    [
        "####. .###. ####. .###. ##### #...# #...# #...# #...# #...# ##### .###.",
        "#...# #...# #...# #...# ..#.. #...# #...# #...# #...# #...# ....# .#...",
        "#...# #...# #...# #.... ..#.. #...# #...# #...# .#.#. .#.#. ...#. .#...",
        "####. #...# ####. .###. ..#.. #...# #...# #.#.# ..#.. ..#.. ..#.. .#...",
        "#.... #.#.# #.#.. ....# ..#.. #...# .#.#. #.#.# .#.#. ..#.. .#... .#...",
        "#.... #..#. #..#. #...# ..#.. #...# .#.#. ##.## #...# ..#.. #.... .#...",
        "#.... .##.# #...# .###. ..#.. .###. ..#.. #...# #...# ..#.. ##### .###.",
        "..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... .....",
        "..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... .....",
    ],
    [
        "#.... .###. ..#.. ..... .#... ..... #.... ..... ....# ..... ..##. .....",
        "#.... ...#. .#.#. ..... ..#.. ..... #.... ..... ....# ..... .#..# .....",
        ".#... ...#. #...# ..... ..... .###. ####. .###. .#### .###. .#... .####",
        "..#.. ...#. ..... ..... ..... ....# #...# #...# #...# #...# ####. #...#",
        "...#. ...#. ..... ..... ..... .#### #...# #.... #...# ##### .#... #...#",
        "....# ...#. ..... ..... ..... #...# #...# #...# #...# #.... .#... #...#",
        "....# .###. ..... ..... ..... .#### ####. .###. .#### .###. .#... .####",
        "..... ..... ..... ##### ..... ..... ..... ..... ..... ..... ..... ....#",
        "..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... .###.",
    ],
    [
        "#.... ..#.. ...#. #.... .##.. ..... ..... ..... ..... ..... ..... .....",
        "#.... ..... ..... #.... ..#.. ..... ..... ..... ..... ..... ..... .....",
        "####. .##.. ..##. #..#. ..#.. ##.#. ####. .###. ####. .#### #.##. .####",
        "#...# ..#.. ...#. #.#.. ..#.. #.#.# #...# #...# #...# #...# ##..# #....",
        "#...# ..#.. ...#. ##... ..#.. #.#.# #...# #...# #...# #...# #.... .###.",
        "#...# ..#.. ...#. #.#.. ..#.. #.#.# #...# #...# #...# #...# #.... ....#",
        "#...# .###. ...#. #..#. .###. #.#.# #...# .###. ####. .#### #.... ####.",
        "..... ..... #..#. ..... ..... ..... ..... ..... #.... ....# ..... .....",
        "..... ..... .##.. ..... ..... ..... ..... ..... #.... ....# ..... .....",
    ],
    [
        ".#... ..... ..... ..... ..... ..... ..... ...## ..#.. ##... ..... ..#..",
        ".#... ..... ..... ..... ..... ..... ..... ..#.. ..#.. ..#.. ..... ..#..",
        "####. #...# #...# #...# #...# #...# ##### ..#.. ..#.. ..#.. .#..# #####",
        ".#... #...# #...# #...# .#.#. #...# ...#. .#... ..#.. ...#. #.#.# ..#..",
        ".#... #...# #...# #.#.# ..#.. #...# ..#.. ..#.. ..#.. ..#.. #..#. ..#..",
        ".#..# #...# .#.#. #.#.# .#.#. #...# .#... ..#.. ..#.. ..#.. ..... .....",
        "..##. .#### ..#.. .#.#. #...# .#### ##### ...## ..#.. ##... ..... #####",
        "..... ..... ..... ..... ..... ....# ..... ..... ..... ..... ..... .....",
        "..... ..... ..... ..... ..... .###. ..... ..... ..... ..... ..... .....",
    ],
];

/// One character, cut to the columns that carry ink.
struct Glyph {
    band: usize,
    first_column: usize,
    width: usize,
}

impl Glyph {
    fn of(character: char) -> Self {
        let slot = match character {
            ' '..='~' => character as usize - 0x20,
            '±' => 0x5f,
            '–' | '—' | '−' => '-' as usize - 0x20,
            _ => '?' as usize - 0x20,
        };
        let (band, start) = (slot / PER_BAND, slot % PER_BAND * (COLUMNS + 1));
        let inked = |column: &usize| GLYPHS[band].iter().any(|row| row.as_bytes()[*column] == b'#');
        let mut columns = start..start + COLUMNS;
        let (first_column, width) = match (columns.clone().find(inked), columns.rfind(inked)) {
            // Digits keep their full width, so that numbers stand in columns.
            (Some(_), Some(_)) if character.is_ascii_digit() => (start, COLUMNS),
            (Some(first), Some(last)) => (first, last - first + 1),
            _ => (start, SPACE),
        };
        Self {
            band,
            first_column,
            width,
        }
    }

    fn bitmap(&self) -> Bitmap {
        let rows = GLYPHS[self.band].iter();
        Bitmap {
            width: self.width,
            ink: rows
                .flat_map(|row| &row.as_bytes()[self.first_column..][..self.width])
                .map(|&byte| byte == b'#')
                .collect(),
        }
    }
}

/// Black and white pixels, row by row.
struct Bitmap {
    width: usize,
    ink: Vec<bool>,
}

impl Bitmap {
    fn height(&self) -> usize {
        self.ink.len() / self.width
    }

    /// Whether there is ink; beyond the edge there is none.
    fn at(&self, x: isize, y: isize) -> bool {
        let inside = (0..self.width as isize).contains(&x) && (0..self.height() as isize).contains(&y);
        inside && self.ink[y as usize * self.width + x as usize]
    }

    /// Twice the size, by Scale2x: a quarter of a pixel takes the colour its two outer neighbours agree
    /// on, which turns stairs into slopes and leaves straight strokes alone.
    fn doubled(&self) -> Self {
        let quarter = |x: usize, y: usize| {
            let (column, row) = ((x / 2) as isize, (y / 2) as isize);
            let side = if x.is_multiple_of(2) { -1 } else { 1 };
            let end = if y.is_multiple_of(2) { -1 } else { 1 };
            let (beside, opposite) = (self.at(column + side, row), self.at(column - side, row));
            let (beyond, behind) = (self.at(column, row + end), self.at(column, row - end));
            if beside == beyond && beside != behind && beyond != opposite {
                beside
            } else {
                self.at(column, row)
            }
        };
        let width = 2 * self.width;
        Self {
            width,
            ink: (0..2 * self.height())
                .flat_map(|y| (0..width).map(move |x| (x, y)))
                .map(|(x, y)| quarter(x, y))
                .collect(),
        }
    }
}

/// Width of `text` in picture pixels.
pub(super) fn width(text: &str) -> u32 {
    let columns: usize = text.chars().map(|c| Glyph::of(c).width + 1).sum();
    (columns.saturating_sub(1) * SCALE) as u32
}

/// Calls `ink(x, y, coverage)` for every pixel `text` touches, (0, 0) being its upper left corner and
/// coverage in (0, 1].
pub(super) fn draw(text: &str, mut ink: impl FnMut(u32, u32, f32)) {
    let mut left = 0;
    for character in text.chars() {
        let glyph = Glyph::of(character);
        // Drawn at twice the size it is shown at: each pixel is the mean of four.
        let fine = glyph.bitmap().doubled().doubled();
        for y in 0..fine.height() / 2 {
            for x in 0..fine.width / 2 {
                let four = [(0, 0), (1, 0), (0, 1), (1, 1)];
                let inked = four
                    .iter()
                    .filter(|(dx, dy)| fine.ink[(2 * y + dy) * fine.width + 2 * x + dx]);
                match inked.count() {
                    0 => {}
                    count => ink((left + x) as u32, y as u32, count as f32 / 4.0),
                }
            }
        }
        left += (glyph.width + 1) * SCALE;
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

    #[test]
    fn the_table_is_rectangular_and_every_character_differs() {
        let printable = || (' '..='~').chain(['±']);
        for row in GLYPHS.iter().flatten() {
            assert_eq!(row.len(), PER_BAND * (COLUMNS + 1) - 1, "{row}");
        }
        let mut drawn: Vec<Vec<(u32, u32, u32)>> = printable()
            .map(|character| {
                // Behind a bar, so that glyphs that differ only in place differ.
                let mut pixels = Vec::new();
                draw(&format!("|{character}"), |x, y, coverage| {
                    pixels.push((x, y, coverage.to_bits()));
                });
                pixels
            })
            .collect();
        let count = drawn.len();
        drawn.sort();
        drawn.dedup();
        assert_eq!(drawn.len(), count);
    }

    #[test]
    fn ink_stays_within_the_measured_width() {
        let text = "QCS-SGM+ 18.53 ± 0.4 dB (jgy)";
        let mut rightmost = 0;
        draw(text, |x, _, _| rightmost = rightmost.max(x));
        assert_eq!(rightmost + 1, width(text));
    }

    #[test]
    fn text_is_wrapped_at_spaces_only() {
        assert_eq!(wrap("posterior std", width("posterior")), ["posterior", "std"]);
        assert_eq!(wrap("a b", 1000), ["a b"]);
        assert!(wrap("", 10).is_empty());
    }
}
