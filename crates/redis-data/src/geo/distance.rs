//! Distance by the haversine formula on a sphere, as Redis computes it.

use super::cell::Position;

/// Radius of the sphere in metres: the quadratic mean of the Earth's.
pub(super) const EARTH_RADIUS_METRES: f64 = 6_372_797.560856;
const RADIANS_PER_DEGREE: f64 = std::f64::consts::PI / 180.0;

pub(super) fn radians(degrees: f64) -> f64 {
    degrees * RADIANS_PER_DEGREE
}

pub(super) fn degrees(radians: f64) -> f64 {
    radians / RADIANS_PER_DEGREE
}

/// Metres between two positions.
pub fn distance(from: Position, to: Position) -> f64 {
    between(from.longitude(), from.latitude(), to.longitude(), to.latitude())
}

/// Metres between two latitudes along a meridian.
pub(super) fn between_latitudes(from: f64, to: f64) -> f64 {
    EARTH_RADIUS_METRES * (radians(to) - radians(from)).abs()
}

/// Metres between two points in degrees.
pub(super) fn between(from_longitude: f64, from_latitude: f64, to_longitude: f64, to_latitude: f64) -> f64 {
    let across = ((radians(to_longitude) - radians(from_longitude)) / 2.0).sin();
    if across == 0.0 {
        return between_latitudes(from_latitude, to_latitude);
    }
    let (from, to) = (radians(from_latitude), radians(to_latitude));
    let along = ((to - from) / 2.0).sin();
    let chord = along * along + from.cos() * to.cos() * across * across;
    2.0 * EARTH_RADIUS_METRES * chord.sqrt().asin()
}
