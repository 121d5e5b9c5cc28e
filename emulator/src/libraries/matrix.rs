//! Operands: column-major matrices and plain ranges of device memory.

use crate::device::memory::GlobalMemory;
use crate::driver::DevicePtr;

/// A column-major matrix in device memory; a vector is one column.
#[derive(Clone, Copy, Debug)]
pub struct Operand {
    pub name: &'static str,
    pub at: DevicePtr,
    pub rows: usize,
    pub columns: usize,
    /// Elements from one column to the next.
    pub leading: usize,
    /// Bytes of an element.
    pub element: usize,
}

impl Operand {
    pub fn vector(name: &'static str, at: DevicePtr, length: usize, element: usize) -> Operand {
        Operand {
            name,
            at,
            rows: length,
            columns: 1,
            leading: length,
            element,
        }
    }

    /// From its first element to the end of its last one: the last column is not padded.
    pub fn bytes(&self) -> usize {
        if self.rows == 0 || self.columns == 0 {
            return 0;
        }
        ((self.columns - 1) * self.leading + self.rows) * self.element
    }

    fn overlaps(&self, other: &Operand) -> bool {
        self.at < other.at + other.bytes() as u64 && other.at < self.at + self.bytes() as u64
    }

    /// Why the matrix cannot be read or written, if so.
    fn check(&self, memory: &GlobalMemory) -> Result<(), String> {
        let Operand { name, at, .. } = self;
        if self.leading < self.rows.max(1) {
            return Err(format!(
                "leading dimension {} of {name} is less than its {} rows",
                self.leading, self.rows
            ));
        }
        if self.bytes() == 0 {
            return Ok(());
        }
        if *at == 0 {
            return Err(format!("{name} is null"));
        }
        if !at.is_multiple_of(self.element as u64) {
            return Err(format!("{name} at {at:#x} is not aligned to {} bytes", self.element));
        }
        if !memory.contains(*at, self.bytes()) {
            return Err(format!(
                "{name} is {} x {} with leading dimension {}: {} bytes at {at:#x} are not in one allocation",
                self.rows,
                self.columns,
                self.leading,
                self.bytes()
            ));
        }
        Ok(())
    }
}

/// Checks all operands of a call; what is written may not overlap anything else.
pub fn check(read: &[Operand], written: &[Operand], memory: &GlobalMemory) -> Result<(), String> {
    for operand in read.iter().chain(written) {
        operand.check(memory)?;
    }
    for (n, target) in written.iter().enumerate() {
        if let Some(other) = read
            .iter()
            .chain(&written[n + 1..])
            .find(|other| target.overlaps(other))
        {
            return Err(format!("{} overlaps {}", target.name, other.name));
        }
    }
    Ok(())
}
