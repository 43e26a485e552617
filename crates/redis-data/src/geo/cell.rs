//! Geohash: a cell of the Earth by halving longitude and latitude in turns, their bits interleaved.

use std::fmt;

/// Halvings of each axis in a score.
pub(super) const MAX_STEP: u32 = 26;
/// The longitudes that can be stored.
const LONGITUDES: Interval = Interval { min: -180.0, max: 180.0 };
/// The latitudes that can be stored: those of the square Mercator map.
const LATITUDES: Interval = Interval { min: -85.051_128_78, max: 85.051_128_78 };
/// All latitudes, which geohashes as text count from.
const ALL_LATITUDES: Interval = Interval { min: -90.0, max: 90.0 };

/// A position in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Position {
    longitude: f64,
    latitude: f64,
}

/// A position that cannot be stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PositionError {
    /// Degrees.
    pub longitude: f64,
    /// Degrees.
    pub latitude: f64,
}

impl fmt::Display for PositionError {
    /// What Redis answers.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "invalid longitude,latitude pair {:.6},{:.6}", self.longitude, self.latitude)
    }
}

impl std::error::Error for PositionError {}

/// Degrees from `min` to `max`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Interval {
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Interval {
    fn contains(self, value: f64) -> bool {
        (self.min..=self.max).contains(&value)
    }

    /// Which of 2^`step` equal parts a value is in; beyond the last for the maximum.
    fn part(self, value: f64, step: u32) -> u64 {
        ((value - self.min) / (self.max - self.min) * (1u64 << step) as f64) as u64
    }

    /// A part.
    fn of_part(self, part: u32, step: u32) -> Self {
        let parts = (1u64 << step) as f64;
        let at = |part: f64| self.min + part / parts * (self.max - self.min);
        // The end of the last of 2^32 parts would overflow; there are 2^26 at most.
        Self { min: at(f64::from(part)), max: at(f64::from(part.wrapping_add(1))) }
    }

    fn middle(self) -> f64 {
        (self.min + self.max) / 2.0
    }
}

/// A cell: `step` bits of latitude and as many of longitude, interleaved, the lowest of latitude.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) bits: u64,
    pub(super) step: u32,
}

/// The bits of any score, as the processors that Redis runs on convert it: what no unsigned number is equal
/// to wraps, and what is beyond 64 bits is zero.
fn bits_of(score: f64) -> u64 {
    match score {
        0.0..18_446_744_073_709_551_616.0 => score as u64,
        18_446_744_073_709_551_616.0.. => 0,
        _ => (score as i64).cast_unsigned(),
    }
}

impl Position {
    /// A position that can be stored.
    ///
    /// # Errors
    ///
    /// Beyond 180 degrees of longitude or 85.05112878 of latitude, and for NaN.
    pub fn new(longitude: f64, latitude: f64) -> Result<Self, PositionError> {
        if LONGITUDES.contains(longitude) && LATITUDES.contains(latitude) {
            Ok(Self { longitude, latitude })
        } else {
            Err(PositionError { longitude, latitude })
        }
    }

    /// Degrees east.
    pub fn longitude(self) -> f64 {
        self.longitude
    }

    /// Degrees north.
    pub fn latitude(self) -> f64 {
        self.latitude
    }

    /// The score of a member at this position.
    ///
    /// ```
    /// use esker_redis_data::geo::Position;
    /// assert_eq!(Position::new(13.361389, 38.115556)?.score(), 3_479_099_956_230_698.0);
    /// # Ok::<(), esker_redis_data::geo::PositionError>(())
    /// ```
    pub fn score(self) -> f64 {
        self.cell(MAX_STEP).bits as f64
    }

    /// The position of a score: the middle of its cell. Every score gives one.
    pub fn of_score(score: f64) -> Self {
        let cell = Cell { bits: bits_of(score), step: MAX_STEP };
        let (longitudes, latitudes) = cell.intervals();
        Self {
            longitude: longitudes.middle().clamp(LONGITUDES.min, LONGITUDES.max),
            latitude: latitudes.middle().clamp(LATITUDES.min, LATITUDES.max),
        }
    }

    /// The cell of this position with `step` halvings of each axis.
    pub(super) fn cell(self, step: u32) -> Cell {
        self.cell_of(LATITUDES, step)
    }

    /// The cell whose bits a geohash as text shows.
    pub(super) fn text_cell(self) -> Cell {
        self.cell_of(ALL_LATITUDES, MAX_STEP)
    }

    fn cell_of(self, latitudes: Interval, step: u32) -> Cell {
        let latitude = spread(latitudes.part(self.latitude, step));
        let longitude = spread(LONGITUDES.part(self.longitude, step));
        Cell { bits: latitude | longitude << 1, step }
    }
}

impl Cell {
    /// Longitudes and latitudes of the cell.
    pub(super) fn intervals(self) -> (Interval, Interval) {
        let longitudes = LONGITUDES.of_part(gather(self.bits >> 1), self.step);
        (longitudes, LATITUDES.of_part(gather(self.bits), self.step))
    }

    /// The cell so many cells east and north, the map closing on itself.
    ///
    /// A part of the largest longitude or latitude lies beyond the last. It stays there on an axis without a
    /// move, as in Redis.
    pub(super) fn moved(self, east: i32, north: i32) -> Self {
        let mask = (1u64 << self.step) - 1;
        let moved = |part: u32, by: i32| match by {
            0 => u64::from(part),
            _ => u64::from(part.wrapping_add_signed(by)) & mask,
        };
        let longitude = spread(moved(gather(self.bits >> 1), east));
        let latitude = spread(moved(gather(self.bits), north));
        Self { bits: latitude | longitude << 1, step: self.step }
    }

    /// The scores in the cell, from the first to before the second.
    pub(super) fn scores(self) -> (f64, f64) {
        let shift = 2 * (MAX_STEP - self.step);
        ((self.bits << shift) as f64, ((self.bits + 1) << shift) as f64)
    }
}

/// Puts the lowest 32 bits on the even places.
fn spread(number: u64) -> u64 {
    let mut spread = number & 0xffff_ffff;
    for (shift, mask) in [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ] {
        spread = (spread | spread << shift) & mask;
    }
    spread
}

/// The bits on the even places.
fn gather(spread: u64) -> u32 {
    let mut gathered = spread & 0x5555_5555_5555_5555;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff),
    ] {
        gathered = (gathered | gathered >> shift) & mask;
    }
    gathered as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_bits_are_gathered() {
        for number in [0u32, 1, 2, 0x8000_0000, 0xdead_beef, u32::MAX] {
            assert_eq!(gather(spread(u64::from(number))), number);
        }
    }

    #[test]
    fn every_score_has_the_position_that_redis_gives_it() {
        let (east, north, west, south) = (180.0, 85.051_128_78, -179.999_997_317_791, -85.051_127_512_639_43);
        for (score, longitude, latitude) in [
            (-3.0, east, north),
            (-1e300, east, south),
            (1e300, west, south),
            (1.5e19, east, north),
            (9.3e18, east, north),
            (-9.3e18, east, south),
            (f64::INFINITY, west, south),
            (f64::NEG_INFINITY, east, south),
        ] {
            let position = Position::of_score(score);
            assert!((position.longitude() - longitude).abs() < 1e-9, "{score}: {position:?}");
            assert!((position.latitude() - latitude).abs() < 1e-9, "{score}: {position:?}");
        }
    }

    #[test]
    fn cells_at_the_edge_have_neighbours_across_it() {
        let cell = Cell { bits: 0, step: 2 };
        assert_eq!(cell.moved(-1, 0).bits, 0b1010);
        assert_eq!(cell.moved(0, -1).bits, 0b0101);
        assert_eq!(cell.moved(-1, 0).moved(1, 0), cell);
    }
}
