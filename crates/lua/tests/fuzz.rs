//! The targets of fuzzers on seeded mutations.

use esker_lua::fuzz;
use esker_redis_testkit::Random;

const ROUNDS: usize = 1_500;

/// Runs a target on mutations of its seeds.
fn mutate(target: fn(&[u8]), seeds: &[&[u8]]) {
    let mut random = Random::new(25);
    for _ in 0..ROUNDS {
        let mut bytes = random.choose(seeds).to_vec();
        random.mutate(&mut bytes);
        if random.once_in(3) {
            random.mutate(&mut bytes);
        }
        target(&bytes);
    }
}

#[test]
fn text_of_json_is_read_in_one_way() {
    mutate(
        fuzz::cjson,
        &[
            b"[1,{\"a\":[true,null,\"x\\u0041\"],\"b\":-0.5e-3},\"text\"]",
            b"{\"k\":{\"k\":{\"k\":[[[]]]}},\"\\ud83d\\ude00\":\"\\\\\\n\"}",
            b"[0x1F,nan,-inf,1e400,01,1.]",
        ],
    );
}

#[test]
fn messages_are_read_in_one_way() {
    mutate(
        fuzz::cmsgpack,
        &[
            b"\x93\x01\xa3abc\x82\xa1k\xcb\x3f\xf0\0\0\0\0\0\0\xc0\xdc\0\x02\x05\xd1\xff\0\xc3",
            b"\xde\0\x02\xa1a\x91\x91\x91\xc0\xd9\x03xyz\xcf\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\xdd\0\0\0\x02\xdf\0\0\0\x01\x01\xca\x3f\x80\0\0\xd3\x80\0\0\0\0\0\0\0",
        ],
    );
}

#[test]
fn packed_data_is_read_or_refused() {
    mutate(
        fuzz::packed_struct,
        &[
            b">!4bi4sc3\n\x01\0\0\0\0\0\0\x02abc\0xyz",
            b"<Bc0dfLT\n\x03abc0123456789012345678901234567890",
            b"!hi8xs\nab",
        ],
    );
}
