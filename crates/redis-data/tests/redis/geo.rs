//! Positions and searches against the server.

use crate::redis;
use esker_redis_data::geo::{
    Area, Position, Shape, append_coordinate, append_distance, distance, geohash, search_ranges,
};
use esker_redis_testkit::{ExpectKind, Random};
use esker_resp::value::Value as Reply;

fn random_position(random: &mut Random) -> Position {
    let (longitude, latitude) = match random.below(6) {
        0 => ([-180.0, 180.0, 0.0][random.below(3)], [-85.05112878, 85.05112878, 0.0][random.below(3)]),
        1 => (179.0 + random.unit(), random.unit() * 170.0 - 85.0),
        _ => (random.unit() * 360.0 - 180.0, random.unit() * 170.0 - 85.0),
    };
    Position::new(longitude, latitude).expect("it can be stored")
}

/// A position up to some degrees from another.
fn near(position: Position, random: &mut Random) -> Position {
    let degrees = (10f64).powf(random.unit() * 7.0 - 6.0);
    let longitude = position.longitude() + (random.unit() - 0.5) * degrees;
    let latitude = position.latitude() + (random.unit() - 0.5) * degrees;
    Position::new(longitude, latitude).unwrap_or(position)
}

fn text(position: Position) -> String {
    format!("{:?} {:?}", position.longitude(), position.latitude())
}

fn written(append: fn(&mut Vec<u8>, f64), number: f64) -> Reply {
    let mut out = Vec::new();
    append(&mut out, number);
    Reply::Bulk(out)
}

#[test]
fn scores_texts_and_distances_are_those_of_redis() {
    let Some(process) = redis() else { return };
    let mut server = process.connect();
    let mut random = Random::new(13);
    for _ in 0..4000 {
        let (a, b) = (random_position(&mut random), random_position(&mut random));
        server.words("DEL k");
        server.words(&format!("GEOADD k {} a {} b", text(a), text(b)));
        let score = server.words("ZSCORE k a").bulk();
        assert_eq!(String::from_utf8_lossy(&score).parse(), Ok(a.score()), "{a:?}");
        let (near_a, near_b) = (Position::of_score(a.score()), Position::of_score(b.score()));
        let coordinates =
            [near_a.longitude(), near_a.latitude()].map(|degrees| written(append_coordinate, degrees));
        assert_eq!(server.words("GEOPOS k a"), Reply::Array(vec![Reply::Array(coordinates.into())]));
        assert_eq!(server.words("GEOHASH k a"), Reply::Array(vec![Reply::Bulk(geohash(near_a).to_vec())]));
        assert_eq!(server.words("GEODIST k a b"), written(append_distance, distance(near_a, near_b)));
    }
}

#[test]
fn any_score_has_a_position() {
    let Some(process) = redis() else { return };
    let mut server = process.connect();
    let mut random = Random::new(14);
    for _ in 0..2000 {
        let score = match random.below(3) {
            0 => random.next_u64() as f64,
            1 => [0.0, 1.0, 4_503_599_627_370_495.0, 4_503_599_627_370_496.0][random.below(4)],
            _ => (random.next_u64() >> 12) as f64 + random.unit(),
        };
        server.words("DEL k");
        server.words(&format!("ZADD k {score:?} a"));
        let position = Position::of_score(score);
        let coordinates =
            [position.longitude(), position.latitude()].map(|degrees| written(append_coordinate, degrees));
        let theirs = server.words("GEOPOS k a");
        if theirs != Reply::Array(vec![Reply::NullBulk]) {
            assert_eq!(theirs, Reply::Array(vec![Reply::Array(coordinates.into())]), "{score}");
            assert_eq!(
                server.words("GEOHASH k a"),
                Reply::Array(vec![Reply::Bulk(geohash(position).to_vec())])
            );
        }
    }
    for score in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0] {
        Position::of_score(score);
    }
    assert!(Position::new(f64::NAN, 0.0).is_err());
    assert!(Position::new(0.0, 85.06).is_err());
}

/// The members in the ranges and the area, in the order they are read in.
fn search(members: &[(f64, String)], area: &Area) -> Vec<Reply> {
    let mut found = Vec::new();
    for (from, to) in search_ranges(area) {
        for (score, name) in members.iter().filter(|(score, _)| (from..to).contains(score)) {
            if let Some(distance) = area.distance_within(Position::of_score(*score)) {
                let name = Reply::Bulk(name.clone().into_bytes());
                found.push(Reply::Array(vec![name, written(append_distance, distance)]));
            }
        }
    }
    found
}

#[test]
fn searches_find_what_redis_finds_in_its_order() {
    let Some(process) = redis() else { return };
    let mut server = process.connect();
    let mut random = Random::new(15);
    for _ in 0..40 {
        server.words("DEL k");
        let mut members = Vec::new();
        let mut positions = vec![random_position(&mut random)];
        for name in 0..300 {
            let position = match random.below(3) {
                0 => random_position(&mut random),
                _ => near(positions[random.below(positions.len())], &mut random),
            };
            positions.push(position);
            server.words(&format!("GEOADD k {} {name}", text(position)));
            members.push((position.score(), name.to_string()));
        }
        members.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
        for _ in 0..100 {
            let centre = match random.below(3) {
                0 => random_position(&mut random),
                _ => near(positions[random.below(positions.len())], &mut random),
            };
            let mut metres = || (10f64).powf(random.unit() * 7.6).floor();
            let (width, height) = (metres(), metres());
            let (shape, words) = match random.below(2) {
                0 => (Shape::Circle { radius_metres: width }, format!("BYRADIUS {width} m")),
                _ => {
                    let words = format!("BYBOX {width} {height} m");
                    (Shape::Box { width_metres: width, height_metres: height }, words)
                }
            };
            let command = format!("GEOSEARCH k FROMLONLAT {} {words} WITHDIST", text(centre));
            let ours = search(&members, &Area { centre, shape });
            assert_eq!(server.words(&command), Reply::Array(ours), "{command}");
        }
    }
}
