//! Positions on the Earth as scores of a sorted set: geohashes of 52 bits, distances, and the score ranges to
//! search for what is within a circle or a box.
//!
//! A search reads the members whose scores are in [`search_ranges`] and keeps those of which
//! [`Area::distance_within`] gives a distance. Units are degrees and metres.

mod cell;
mod distance;
mod search;
mod text;

pub use cell::{Position, PositionError};
pub use distance::distance;
pub use search::{Area, Shape, search_ranges};
pub use text::{append_coordinate, append_distance, geohash};
