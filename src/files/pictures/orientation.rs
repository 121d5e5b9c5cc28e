//! How a camera was held: the orientation in a picture's EXIF data.

/// EXIF's tag 0x0112, from 1 (as stored) to 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Orientation(u16);

impl Orientation {
    const UPRIGHT: Self = Self(1);

    /// What the data say; upright if they say nothing that makes sense.
    pub fn from_exif(exif: &[u8]) -> Self {
        parse(exif)
            .filter(|tag| (1..=8).contains(tag))
            .map_or(Self::UPRIGHT, Self)
    }

    /// Height and width once upright.
    pub fn size(self, height: usize, width: usize) -> (usize, usize) {
        if self.0 < 5 { (height, width) } else { (width, height) }
    }

    /// Row and column, in a stored picture of this size, of the pixel that stands at `row` and `column` once upright.
    pub fn source(self, row: usize, column: usize, height: usize, width: usize) -> (usize, usize) {
        // From 5 on, rows are stored as columns.
        let (row, column) = if self.0 < 5 { (row, column) } else { (column, row) };
        let (from_below, from_right) = match self.0 {
            2 => (false, true),
            3 => (true, true),
            4 => (true, false),
            6 => (true, false),
            7 => (true, true),
            8 => (false, true),
            _ => (false, false),
        };
        (
            if from_below { height - 1 - row } else { row },
            if from_right { width - 1 - column } else { column },
        )
    }
}

/// The tag's value in the first directory of a TIFF header.
fn parse(exif: &[u8]) -> Option<u16> {
    const ORIENTATION: u16 = 0x0112;
    const SHORT: u16 = 3;
    let big = match exif.get(..4)? {
        b"II*\0" => false,
        b"MM\0*" => true,
        _ => return None,
    };
    let bytes = |at: usize| exif.get(at..at.checked_add(4)?)?.try_into().ok();
    let word = |at: usize| {
        let [a, b, ..]: [u8; 4] = bytes(at)?;
        Some(if big {
            u16::from_be_bytes([a, b])
        } else {
            u16::from_le_bytes([a, b])
        })
    };
    let directory = bytes(4).map(if big { u32::from_be_bytes } else { u32::from_le_bytes })? as usize;
    let entries = usize::from(word(directory)?);
    // An entry is tag, type, count and value: 12 bytes.
    (0..entries)
        .map(|entry| directory + 2 + 12 * entry)
        .take_while(|&at| at < exif.len())
        .find(|&at| word(at) == Some(ORIENTATION) && word(at + 2) == Some(SHORT))
        .and_then(|at| word(at + 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exif(big: bool, tag: u16) -> Vec<u8> {
        let short = |v: u16| if big { v.to_be_bytes() } else { v.to_le_bytes() };
        let long = |v: u32| if big { v.to_be_bytes() } else { v.to_le_bytes() };
        let mut bytes = if big { b"MM\0*".to_vec() } else { b"II*\0".to_vec() };
        bytes.extend(long(8));
        bytes.extend(short(2));
        for (name, value) in [(0x010f, 7), (0x0112, tag)] {
            bytes.extend([short(name), short(3)].concat());
            bytes.extend(long(1));
            bytes.extend([short(value), short(0)].concat());
        }
        bytes
    }

    #[test]
    fn the_tag_is_found_in_both_byte_orders() {
        for big in [false, true] {
            assert_eq!(Orientation::from_exif(&exif(big, 6)), Orientation(6));
        }
    }

    #[test]
    fn data_that_make_no_sense_leave_the_picture_as_it_is() {
        let whole = exif(true, 6);
        for cut in 0..whole.len() - 4 {
            assert_eq!(Orientation::from_exif(&whole[..cut]), Orientation::UPRIGHT, "{cut}");
        }
        for tag in [0, 9, 65535] {
            assert_eq!(Orientation::from_exif(&exif(false, tag)), Orientation::UPRIGHT);
        }
        let mut far = whole;
        far[4..8].copy_from_slice(&[0xff; 4]);
        assert_eq!(Orientation::from_exif(&far), Orientation::UPRIGHT);
    }

    /// A picture of 2 rows and 3 columns, turned upright.
    fn upright(tag: u16) -> Vec<Vec<u8>> {
        let stored = [[1, 2, 3], [4, 5, 6]];
        let orientation = Orientation(tag);
        let (height, width) = orientation.size(2, 3);
        let pixel = |row, column| {
            let (row, column) = orientation.source(row, column, 2, 3);
            stored[row][column]
        };
        (0..height)
            .map(|row| (0..width).map(|column| pixel(row, column)).collect())
            .collect()
    }

    #[test]
    fn each_of_the_eight_orientations_is_turned_upright() {
        assert_eq!(upright(1), [[1, 2, 3], [4, 5, 6]]);
        assert_eq!(upright(2), [[3, 2, 1], [6, 5, 4]]);
        assert_eq!(upright(3), [[6, 5, 4], [3, 2, 1]]);
        assert_eq!(upright(4), [[4, 5, 6], [1, 2, 3]]);
        assert_eq!(upright(5), [[1, 4], [2, 5], [3, 6]]);
        assert_eq!(upright(6), [[4, 1], [5, 2], [6, 3]]);
        assert_eq!(upright(7), [[6, 3], [5, 2], [4, 1]]);
        assert_eq!(upright(8), [[3, 6], [2, 5], [1, 4]]);
    }
}
