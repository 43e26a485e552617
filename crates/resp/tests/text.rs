//! Numbers, patterns, words and configuration files from hostile hands.

use esker_redis_testkit::Random;

#[test]
fn random_texts_never_panic_and_are_read_back() {
    let mut random = Random::new(21);
    let starts: [&[u8]; 12] = [
        b"-9223372036854775808",
        b"0x1.fffffffffffffp1023",
        b"1.18973149535723176502e4932",
        b"4.9e-324",
        b"-Infinity",
        b"99999999999gb",
        b"set \"a\\x00 \\n\" 'b\\'c'",
        b"# a\nsave \"900 1 300 10\"\nuser default on >p ~* &* +@all\n",
        b"a*[^b-c]\\?*?\nabcdefghi",
        b"*[\xff-\x01]*[^\n]\x80\x7f",
        b"0.000000000000000000000000000000000000000000001e45",
        b"",
    ];
    for _ in 0..20_000 {
        let mut text = random.pick(&starts).to_vec();
        for _ in 0..random.below(4) {
            random.mutate(&mut text);
        }
        esker_resp::fuzz::text(&text);
    }
}

#[test]
fn the_longest_numbers_take_milliseconds() {
    // Hundreds of them end within the test; each is at the limit of what is read.
    let digits = esker_resp::long_double::LONGEST_TEXT;
    for text in [
        "9".repeat(digits),
        format!("0.{}", "9".repeat(digits - 2)),
        format!("{}e-4999", "7".repeat(digits - 6)),
        format!("0.{}1e5000", "0".repeat(digits - 8)),
    ] {
        for _ in 0..5 {
            let _ = esker_resp::long_double::LongDouble::parse(text.as_bytes());
        }
        assert!(esker_resp::double::parse_double(text.as_bytes()).is_none_or(f64::is_finite));
    }
}
