//! Dense registers: six bits each, the lowest bits of a byte first.

use super::REGISTERS;

const BITS: usize = 6;
const MASK: u16 = (1 << BITS) - 1;
/// Bytes of all registers.
pub(super) const BYTES: usize = REGISTERS * BITS / 8;

/// The two bytes that a register is in, and its shift. The last register ends with the last byte.
fn place(bytes: &[u8], register: usize) -> (u16, usize) {
    let at = register * BITS / 8;
    let next = bytes.get(at + 1).copied().unwrap_or(0);
    (u16::from_le_bytes([bytes[at], next]), register * BITS % 8)
}

/// The value of a register.
pub(super) fn get(bytes: &[u8], register: usize) -> u8 {
    let (word, shift) = place(bytes, register);
    (word >> shift & MASK) as u8
}

/// Raises a register to `value` and says whether it was lower.
pub(super) fn raise(bytes: &mut [u8], register: usize, value: u8) -> bool {
    let (word, shift) = place(bytes, register);
    if word >> shift & MASK >= u16::from(value) {
        return false;
    }
    let changed = word & !(MASK << shift) | u16::from(value) << shift;
    let at = register * BITS / 8;
    let [low, high] = changed.to_le_bytes();
    bytes[at] = low;
    if let Some(next) = bytes.get_mut(at + 1) {
        *next = high;
    }
    true
}
