//! Values of clients that mean harm: fields of bits at the ends of their ranges, and payloads of RESTORE with
//! damage behind a right checksum. What is computed is right, and what is accepted is a sound value.

mod common;

use common::TestServer;
use esker_redis_data::crc64;
use esker_redis_server::local_client::LocalClient;
use esker_redis_testkit::Random;

fn ask(client: &mut LocalClient<'_>, request: &str) -> String {
    ask_bytes(client, &request.split(' ').map(str::as_bytes).collect::<Vec<_>>())
}

fn ask_bytes(client: &mut LocalClient<'_>, request: &[&[u8]]) -> String {
    String::from_utf8_lossy(&client.request(request)).into_owned()
}

/// Bits of a string, and what BITFIELD says of them, computed bit by bit in wider integers.
#[derive(Default)]
struct Bits(Vec<bool>);

impl Bits {
    fn read(&self, at: usize, width: usize, is_signed: bool) -> i128 {
        let bit = |position: usize| i128::from(self.0.get(position).copied().unwrap_or(false));
        let value = (at..at + width).fold(0, |value, position| value << 1 | bit(position));
        if is_signed && bit(at) == 1 { value - (1 << width) } else { value }
    }

    /// A field that is to be written is there afterwards, also when OVERFLOW FAIL refuses the value.
    fn write(&mut self, at: usize, width: usize, value: Option<i128>) {
        self.0.resize(self.0.len().max((at + width).next_multiple_of(8)), false);
        for position in 0..width {
            if let Some(value) = value {
                self.0[at + position] = value >> (width - 1 - position) & 1 == 1;
            }
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let byte = |bits: &[bool]| bits.iter().fold(0, |byte, bit| byte << 1 | u8::from(*bit));
        self.0.chunks(8).map(byte).collect()
    }
}

/// What a value becomes in a field of this width; `None` if OVERFLOW FAIL refuses it.
fn fitted(value: i128, width: usize, is_signed: bool, overflow: &str) -> Option<i128> {
    let (least, most) =
        if is_signed { (-(1 << (width - 1)), (1 << (width - 1)) - 1) } else { (0, (1 << width) - 1) };
    match overflow {
        "SAT" => Some(value.clamp(least, most)),
        "FAIL" => (least..=most).contains(&value).then_some(value),
        _ => {
            let wrapped = value.rem_euclid(1 << width);
            Some(if wrapped > most { wrapped - (1 << width) } else { wrapped })
        }
    }
}

/// What SET makes of a value. For an unsigned field its bits are taken as an unsigned number.
fn set_to(value: i64, width: usize, is_signed: bool, overflow: &str) -> Option<i128> {
    if !is_signed {
        return fitted(i128::from(value as u64), width, false, overflow);
    }
    let (value, most) = (i128::from(value), (1i128 << (width - 1)) - 1);
    // Redis subtracts within 64 bits, and saturates at the other end if that overflows.
    if width < 64 && overflow == "SAT" && value < most - i128::from(i64::MAX) {
        return Some(most);
    }
    fitted(value, width, true, overflow)
}

#[test]
fn fields_of_bits_of_every_width_and_place_are_those_of_wider_integers() {
    let server = TestServer::new("hostile-bit-model");
    let mut client = server.client();
    let mut random = Random::new(6);
    let mut bits = Bits::default();
    for _ in 0..4_000 {
        if random.once_in(60) {
            client.request(&["DEL", "f"]);
            bits = Bits::default();
        }
        let (mut request, mut expected) = ("BITFIELD f".to_owned(), Vec::new());
        let mut overflow = "WRAP";
        for _ in 0..=random.below(5) {
            let is_signed = random.once_in(2);
            let width = 1 + random.below(if is_signed { 64 } else { 63 });
            let field = format!("{}{width}", if is_signed { 'i' } else { 'u' });
            let (offset, at) = if random.once_in(2) {
                let number = random.below(12);
                (format!("#{number}"), number * width)
            } else {
                let at = random.below(500);
                (at.to_string(), at)
            };
            let value = if random.once_in(3) {
                *random.pick(&[0, 1, -1, i64::MIN, i64::MAX, i64::MIN + 1])
            } else {
                random.integer()
            };
            let old = bits.read(at, width, is_signed);
            match random.below(4) {
                0 => {
                    request += &format!(" GET {field} {offset}");
                    expected.push(Some(old));
                    continue;
                }
                1 => {
                    overflow = random.choose(&["WRAP", "SAT", "FAIL"]);
                    request += &format!(" OVERFLOW {overflow}");
                    continue;
                }
                2 => {
                    let new = set_to(value, width, is_signed, overflow);
                    request += &format!(" SET {field} {offset} {value}");
                    expected.push(new.map(|_| old));
                    bits.write(at, width, new);
                }
                _ => {
                    let new = fitted(old + i128::from(value), width, is_signed, overflow);
                    request += &format!(" INCRBY {field} {offset} {value}");
                    expected.push(new);
                    bits.write(at, width, new);
                }
            }
        }
        let text = |value: &Option<i128>| value.map_or("$-1\r\n".to_owned(), |value| format!(":{value}\r\n"));
        let expected = expected.iter().map(text).collect::<Vec<_>>();
        let answer = ask(&mut client, &request);
        assert_eq!(answer, format!("*{}\r\n{}", expected.len(), expected.concat()), "{request}");
        let value = client.request(&["GET", "f"]);
        let bytes = bits.bytes();
        let wanted = [format!("${}\r\n", bytes.len()).as_bytes(), &bytes, b"\r\n"].concat();
        let is_absent = bytes.is_empty() && value == b"$-1\r\n";
        assert!(is_absent || value == wanted, "{request}: {}", value.escape_ascii());
    }
}

/// DUMP of a value of each way in which one is stored.
fn payloads(client: &mut LocalClient<'_>) -> Vec<Vec<u8>> {
    let numbers = |count: usize| (0..count).map(|number| number.to_string()).collect::<Vec<_>>();
    let texts = |count: usize| (0..count).map(|number| format!("element {number}")).collect::<Vec<_>>();
    let values: [(&[&str], Vec<String>); 12] = [
        (&["SET", "text"], vec!["x".repeat(90)]),
        (&["SET", "number"], vec!["12345".to_owned()]),
        (&["RPUSH", "list"], texts(9)),
        (&["RPUSH", "long-list"], texts(400)),
        (&["SADD", "intset"], numbers(20)),
        (&["SADD", "set"], texts(9)),
        (&["ZADD", "zset"], numbers(20)),
        (&["ZADD", "long-zset"], numbers(400)),
        (&["HSET", "hash"], texts(10)),
        (&["HSET", "long-hash"], texts(300)),
        (&["PFADD", "sketch"], texts(9)),
        (&["XADD", "stream", "1-1"], texts(6)),
    ];
    let dump = |(words, elements): (&[&str], Vec<String>)| {
        let request: Vec<&str> = words.iter().copied().chain(elements.iter().map(String::as_str)).collect();
        assert!(!client.request(&request).starts_with(b"-"), "{words:?}");
        let reply = client.request(&["DUMP", words[1]]);
        let start = reply.windows(2).position(|end| end == b"\r\n").expect("a bulk") + 2;
        reply[start..reply.len() - 2].to_vec()
    };
    values.map(dump).into()
}

/// A payload with one to three changes and a checksum that fits.
fn damaged(payload: &[u8], random: &mut Random) -> Vec<u8> {
    let mut body = payload[..payload.len() - 10].to_vec();
    for _ in 0..=random.below(3) {
        let at = random.below(body.len());
        match random.below(4) {
            0 => body[at] = random.next_u64() as u8,
            1 => body[at] = *random.pick(&[0, 1, 0x7f, 0x80, 0xc0, 0xfe, 0xff]),
            2 => drop(body.drain(at..(at + random.below(6)).min(body.len()))),
            _ => body.insert(at, random.next_u64() as u8),
        }
        if body.is_empty() {
            body.push(0);
        }
    }
    body.extend_from_slice(&[10, 0]);
    let checksum = crc64::checksum(&body);
    body.extend_from_slice(&checksum.to_le_bytes());
    body
}

#[test]
fn damaged_payloads_are_refused_or_are_sound_values() {
    let server = TestServer::new("hostile-payloads");
    let mut client = server.client();
    let payloads = payloads(&mut client);
    let mut random = Random::new(12);
    let mut accepted = 0;
    for round in 0..6_000 {
        let payload = damaged(random.pick(&payloads).as_slice(), &mut random);
        let reply = ask_bytes(&mut client, &[b"RESTORE", b"k", b"0", &payload, b"REPLACE"]);
        if reply != "+OK\r\n" {
            assert!(reply.starts_with("-ERR Bad data format"), "round {round}: {reply}");
            continue;
        }
        accepted += 1;
        for request in [
            "GET k",
            "APPEND k x",
            "LRANGE k 0 -1",
            "LPOP k",
            "SMEMBERS k",
            "SPOP k",
            "ZRANGE k 0 -1 WITHSCORES",
            "ZPOPMAX k",
            "HGETALL k",
            "HDEL k element",
            "XRANGE k - +",
            "XINFO STREAM k FULL",
            "XTRIM k MAXLEN 0",
            "PFCOUNT k",
            "PFADD k y",
            "SORT k ALPHA",
            "OBJECT ENCODING k",
            "DUMP k",
        ] {
            ask(&mut client, request);
        }
    }
    println!("{accepted} of 6000 damaged payloads are values");
    assert!(accepted > 100, "the damage is too heavy to show anything");
    assert_eq!(server.server().store().check().expect("a check"), [""; 0]);
}
