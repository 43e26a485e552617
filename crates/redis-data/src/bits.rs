//! Bit operations on strings: BITCOUNT, BITPOS, BITOP and BITFIELD.
//!
//! Bit 0 is the highest of the first byte. Positions are 64-bit, so no string is too long for them.

mod field;
mod operation;
mod range;

pub use field::{FieldType, Overflow, get_field, increment_field, parse_offset, set_field};
pub use operation::{BitOperation, combine};
pub use range::{BitRange, BitUnit, count, position};
