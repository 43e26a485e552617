//! Plan of a search: the cell of the centre and its neighbours, as ranges of scores.
//!
//! Cells are chosen so large that the nine together cover the shape; those that the shape does not reach are
//! left out.

use super::cell::{Cell, MAX_STEP, Position};
use super::distance::{EARTH_RADIUS_METRES, between, between_latitudes, degrees, radians};

/// Half the width of the Mercator map in metres.
const MERCATOR_MAX_METRES: f64 = 20_037_726.37;

/// What is searched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Area {
    /// Its middle.
    pub centre: Position,
    /// Its form.
    pub shape: Shape,
}

/// The form of an area.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// All within a distance.
    Circle {
        /// The distance.
        radius_metres: f64,
    },
    /// All within half a width east and west and half a height north and south.
    Box {
        /// From west to east.
        width_metres: f64,
        /// From south to north.
        height_metres: f64,
    },
}

impl Area {
    /// Metres from the centre to a position, if it is in the area.
    pub fn distance_within(&self, position: Position) -> Option<f64> {
        let distance = super::distance(self.centre, position);
        let is_within = match self.shape {
            Shape::Circle { radius_metres } => distance <= radius_metres,
            Shape::Box { width_metres, height_metres } => {
                let latitude = position.latitude();
                let east = between(position.longitude(), latitude, self.centre.longitude(), latitude);
                between_latitudes(latitude, self.centre.latitude()) <= height_metres / 2.0
                    && east <= width_metres / 2.0
            }
        };
        is_within.then_some(distance)
    }

    /// Half the width and half the height.
    fn half_extent(&self) -> (f64, f64) {
        match self.shape {
            Shape::Circle { radius_metres } => (radius_metres, radius_metres),
            Shape::Box { width_metres, height_metres } => (width_metres / 2.0, height_metres / 2.0),
        }
    }

    /// The box of degrees around the area.
    fn bounds(&self) -> Bounds {
        let (half_width, half_height) = self.half_extent();
        let (longitude, latitude) = (self.centre.longitude(), self.centre.latitude());
        let up = degrees(half_height / EARTH_RADIUS_METRES);
        // A degree of longitude is shortest, and so the box widest, on the side of the pole.
        let polar = if latitude < 0.0 { latitude - up } else { latitude + up };
        let across = degrees(half_width / EARTH_RADIUS_METRES / radians(polar).cos());
        Bounds {
            west: longitude - across,
            east: longitude + across,
            south: latitude - up,
            north: latitude + up,
        }
    }

    /// Metres from the centre to the farthest point.
    fn reach_metres(&self) -> f64 {
        match self.shape {
            Shape::Circle { radius_metres } => radius_metres,
            Shape::Box { width_metres, height_metres } => {
                let (half_width, half_height) = (width_metres / 2.0, height_metres / 2.0);
                (half_width * half_width + half_height * half_height).sqrt()
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Bounds {
    west: f64,
    east: f64,
    south: f64,
    north: f64,
}

/// The ranges of scores to read, each from its first to before its second, in the order in which Redis reads
/// them: with `COUNT ... ANY` the order decides what is found. Up to nine.
///
/// ```
/// use esker_redis_data::geo::{Area, Position, Shape, search_ranges};
/// let area = Area { centre: Position::new(15.0, 37.0)?, shape: Shape::Circle { radius_metres: 200_000.0 } };
/// let ranges = search_ranges(&area);
/// let palermo = Position::new(13.361389, 38.115556)?.score();
/// assert!(ranges.iter().any(|&(from, to)| (from..to).contains(&palermo)));
/// # Ok::<(), esker_redis_data::geo::PositionError>(())
/// ```
pub fn search_ranges(area: &Area) -> Vec<(f64, f64)> {
    let bounds = area.bounds();
    let mut step = estimated_step(area.reach_metres(), area.centre.latitude());
    if step > 1 && !neighbours_cover(area.centre.cell(step), bounds) {
        step -= 1;
    }
    let cell = area.centre.cell(step);
    let mut read: Vec<Cell> = vec![cell];
    for (east, north) in NEIGHBOURS {
        let neighbour = cell.moved(east, north);
        // With large cells, neighbours may be the same cell. Redis compares with the last one read alone, and
        // never with the centre.
        let is_repeated = read.len() > 1 && read.last() == Some(&neighbour);
        if is_reached(cell, bounds, east, north) && !is_repeated {
            read.push(neighbour);
        }
    }
    read.into_iter().map(Cell::scores).collect()
}

/// North, south, east, west, then the corners, north first.
const NEIGHBOURS: [(i32, i32); 8] = [(0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];

/// Whether the area may reach a neighbour of its cell. With one halving all are neighbours of all.
fn is_reached(cell: Cell, bounds: Bounds, east: i32, north: i32) -> bool {
    let (longitudes, latitudes) = cell.intervals();
    let is_apart = (north < 0 && latitudes.min < bounds.south)
        || (north > 0 && latitudes.max > bounds.north)
        || (east < 0 && longitudes.min < bounds.west)
        || (east > 0 && longitudes.max > bounds.east);
    cell.step < 2 || !is_apart
}

/// Halvings after which a cell is about as large as the reach.
fn estimated_step(reach_metres: f64, latitude: f64) -> u32 {
    if reach_metres == 0.0 {
        return MAX_STEP;
    }
    let mut step = 1i32;
    let mut metres = reach_metres;
    while metres < MERCATOR_MAX_METRES {
        metres *= 2.0;
        step += 1;
    }
    // Two larger, so that the nine cells cover the area, and larger still where meridians run together.
    step -= 2;
    if latitude.abs() > 66.0 {
        step -= 1;
    }
    if latitude.abs() > 80.0 {
        step -= 1;
    }
    step.clamp(1, MAX_STEP as i32) as u32
}

/// Whether the neighbours to the four sides reach the bounds.
fn neighbours_cover(cell: Cell, bounds: Bounds) -> bool {
    let north = cell.moved(0, 1).intervals().1;
    let south = cell.moved(0, -1).intervals().1;
    let east = cell.moved(1, 0).intervals().0;
    let west = cell.moved(-1, 0).intervals().0;
    !(north.max < bounds.north
        || south.min > bounds.south
        || east.max < bounds.east
        || west.min > bounds.west)
}
