//! Positions, distances and units as arguments.

use crate::call::Call;
use crate::failure::Outcome;
use esker_redis_data::geo::{Position, Shape};
use esker_resp::double::parse_double;

const UNKNOWN_UNIT: &str = "ERR unsupported unit provided. please use M, KM, FT, MI";

/// The position of the arguments from `at` on: longitude and latitude.
pub(super) fn position(call: &Call<'_, '_>, at: usize) -> Outcome<Position> {
    let (longitude, latitude) = (call.double(at)?, call.double(at + 1)?);
    Position::new(longitude, latitude).map_err(|error| format!("ERR {error}").into())
}

/// How many metres a unit is.
pub(super) fn unit(text: &[u8]) -> Outcome<f64> {
    match text.to_ascii_lowercase().as_slice() {
        b"m" => Ok(1.0),
        b"km" => Ok(1000.0),
        b"ft" => Ok(0.3048),
        b"mi" => Ok(1609.34),
        _ => Err(UNKNOWN_UNIT.into()),
    }
}

/// The circle of the arguments from `at` on, radius and unit; and how many metres the unit is.
pub(super) fn circle(call: &Call<'_, '_>, at: usize) -> Outcome<(Shape, f64)> {
    let radius = parse_double(call.args[at]).ok_or("ERR need numeric radius")?;
    if radius < 0.0 {
        return Err("ERR radius cannot be negative".into());
    }
    let metres = unit(call.args[at + 1])?;
    Ok((Shape::Circle { radius_metres: radius * metres }, metres))
}

/// The box of the arguments from `at` on, width, height and unit; and how many metres the unit is.
pub(super) fn rectangle(call: &Call<'_, '_>, at: usize) -> Outcome<(Shape, f64)> {
    let width = parse_double(call.args[at]).ok_or("ERR need numeric width")?;
    let height = parse_double(call.args[at + 1]).ok_or("ERR need numeric height")?;
    if width < 0.0 || height < 0.0 {
        return Err("ERR height or width cannot be negative".into());
    }
    let metres = unit(call.args[at + 2])?;
    Ok((Shape::Box { width_metres: width * metres, height_metres: height * metres }, metres))
}
