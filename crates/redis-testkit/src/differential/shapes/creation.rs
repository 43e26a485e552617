//! Requests that make keys: small ones of each type, and large ones over the sizes at which encodings change.

use crate::differential::pools::{double, element, integer, key};
use crate::differential::request::{Request, arguments};
use crate::random::Random;

/// A value of each type, so that commands find something.
pub(in crate::differential) fn creations(random: &mut Random) -> Vec<Request> {
    let (a, b, c) = (element(random), element(random), element(random));
    let request = match random.below(14) {
        0 => arguments(&["SET"], &[key(random, "string"), a]),
        1 => arguments(&["SET"], &[key(random, "string"), integer(random)]),
        2 => arguments(&["RPUSH"], &[key(random, "list"), a, b, c]),
        3 => arguments(&["SADD"], &[key(random, "set"), a, b, c]),
        4 => arguments(&["SADD"], &[b"intset".to_vec(), integer(random), integer(random)]),
        5 => arguments(&["ZADD"], &[key(random, "sorted-set"), double(random), a, double(random), b]),
        6 => arguments(&["HSET"], &[key(random, "hash"), a, b, c, integer(random)]),
        7 => {
            let id = format!("{}-{}", random.below(9), random.below(4)).into_bytes();
            arguments(&["XADD"], &[key(random, "stream"), id, a, b])
        }
        8 => {
            // No two at one place: members of one distance stand in no order.
            let mut place = |degrees: i64| format!("{degrees}.{}", random.below(1_000_000)).into_bytes();
            let places = [place(13), place(38), a, place(15), place(37), b];
            [arguments(&["GEOADD"], &[key(random, "geo")]), places.to_vec()].concat()
        }
        12 => {
            let key = random.choose(&["lex1", "lex2"]);
            arguments(&["ZADD", key, "0"], &[a, b"0".to_vec(), b, b"0".to_vec(), c])
        }
        9 => arguments(&["PFADD"], &[key(random, "hyperloglog"), a, b, c]),
        10 => {
            let bit = random.below(300).to_string().into_bytes();
            arguments(&["SETBIT"], &[key(random, "bitmap"), bit, b"1".to_vec()])
        }
        _ => arguments(&["MSET", "string1", "10", "number", "5", "float", "1.5"], &[]),
    };
    vec![request]
}

/// The arguments of the element at a position, of its text.
type Parts = fn(usize, Vec<u8>) -> Vec<Vec<u8>>;

/// Many elements at once, over the sizes at which Redis changes encodings, and long ones.
pub(super) fn conversions(random: &mut Random) -> Vec<Request> {
    let count = *random.pick(&[3, 60, 127, 128, 129, 200, 511, 512, 513, 600]);
    let length = *random.pick(&[1, 3, 64, 65]);
    let word = |at: usize| format!("{at:0>length$}").into_bytes();
    let numbers = |at: usize| at.to_string().into_bytes();
    let (name, group, parts): (_, _, Parts) = match random.below(6) {
        0 => ("RPUSH", "list", |_, word| vec![word]),
        1 | 2 => ("SADD", "set", |_, word| vec![word]),
        3 => ("ZADD", "sorted-set", |at, word| vec![(at / 3).to_string().into_bytes(), word]),
        4 => ("HSET", "hash", |_, word| vec![word.clone(), word]),
        _ => ("PFADD", "hyperloglog", |_, word| vec![word]),
    };
    let plain = random.once_in(2);
    let mut request = arguments(&[name], &[key(random, group)]);
    for at in 0..count {
        request.extend(parts(at, if plain { numbers(at) } else { word(at) }));
    }
    vec![request]
}
