//! Text of positions: geohashes of eleven characters, and coordinates and distances as Redis writes them.

use super::cell::Position;

const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
/// Characters of five bits each that 52 bits fill; one more is always zero.
const FULL_CHARACTERS: u32 = 10;

/// The geohash of a member's position, as GEOHASH answers.
///
/// ```
/// use esker_redis_data::geo::{Position, geohash};
/// assert_eq!(&geohash(Position::of_score(3_479_099_956_230_698.0)), b"sqc8b49rny0");
/// ```
pub fn geohash(position: Position) -> [u8; 11] {
    let bits = position.text_cell().bits;
    let mut text = [ALPHABET[0]; 11];
    for (at, character) in (0..FULL_CHARACTERS).zip(&mut text) {
        *character = ALPHABET[(bits >> (52 - 5 * (at + 1)) & 0x1f) as usize];
    }
    text
}

/// Appends a longitude or latitude as GEOPOS answers it: seventeen digits behind the point, without zeros at
/// the end.
pub fn append_coordinate(out: &mut Vec<u8>, degrees: f64) {
    let text = format!("{degrees:.17}");
    let trimmed = text.trim_end_matches('0').trim_end_matches('.');
    out.extend_from_slice(if trimmed == "-0" { b"0" } else { trimmed.as_bytes() });
}

/// Appends a distance in any unit as GEODIST answers it: four digits behind the point.
pub fn append_distance(out: &mut Vec<u8>, distance: f64) {
    let scaled = (distance * 10_000.0).round_ties_even() as i64;
    let (whole, fraction) = (scaled / 10_000, (scaled % 10_000).abs());
    out.extend_from_slice(format!("{whole}.{fraction:04}").as_bytes());
}
