use super::*;

fn int(number: i64) -> Scalar {
    Scalar::Integer(number)
}

fn text(bytes: &[u8]) -> Scalar {
    Scalar::Text(bytes.to_vec())
}

#[test]
fn every_command_parses() {
    let cases: [(&[u8], Command); 16] = [
        (b"p 1 2", Command::Put { key: int(1), value: int(2) }),
        (b"p -1 \"two\"", Command::Put { key: int(-1), value: text(b"two") }),
        (b"p \"a b\" 2\r\n", Command::Put { key: text(b"a b"), value: int(2) }),
        (b"  p\t1   2  ", Command::Put { key: int(1), value: int(2) }),
        (b"g 007", Command::Get { key: int(7) }),
        (b"g \"\"", Command::Get { key: text(b"") }),
        (b"r 1 -5", Command::Range { start: int(1), end: int(-5) }),
        (b"r \"a\" \"b\"", Command::Range { start: text(b"a"), end: text(b"b") }),
        (b"d -9223372036854775808", Command::Delete { key: int(i64::MIN) }),
        (b"l \"dir/a file.bin\"", Command::Load { path: "dir/a file.bin".into() }),
        (b"s", Command::Show { limit: None }),
        (b"s 10\n", Command::Show { limit: Some(10) }),
        (b"use", Command::Use { keyspace: None }),
        (b"use cities", Command::Use { keyspace: Some("cities".into()) }),
        (b"use  17 ", Command::Use { keyspace: Some("17".into()) }),
        (b"use \"the cities\"\r\n", Command::Use { keyspace: Some("the cities".into()) }),
    ];
    for (line, command) in cases {
        assert_eq!(parse_line(line), Ok(command), "{}", line.escape_ascii());
    }
    assert_eq!(parse_line(b"q"), Ok(Command::Quit));
}

#[test]
fn escapes_are_resolved() {
    let line = br#"g "a\"b\\c\nd\te\x00\xfF""#;
    assert_eq!(parse_line(line), Ok(Command::Get { key: text(b"a\"b\\c\nd\te\0\xff") }));
}

#[test]
fn errors_are_one_precise_line() {
    let cases: [(&[u8], &str); 25] = [
        (b"", "the line holds no command"),
        (b"x 1", "unknown command 'x'; the commands are p, g, r, d, l, s, use and q"),
        (b"P 1 2", "unknown command 'P'; the commands are p, g, r, d, l, s, use and q"),
        (b"put 1 2", "unknown command 'put'; the commands are p, g, r, d, l, s, use and q"),
        (b"\"p\" 1 2", "unknown command 'p'; the commands are p, g, r, d, l, s, use and q"),
        (b"p", "a key is missing; write p KEY VALUE"),
        (b"p 1", "a value is missing; write p KEY VALUE"),
        (b"p 1 2 3", "extra words after the command; write p KEY VALUE"),
        (b"g 1 \"", "extra words after the command; write g KEY"),
        (b"q now", "extra words after the command; write q"),
        (b"g abc", "'abc' is not a number; write a 64-bit integer, or a string in double quotes"),
        (b"g +1", "'+1' is not a number; write a 64-bit integer, or a string in double quotes"),
        (b"g -", "'-' is not a number; write a 64-bit integer, or a string in double quotes"),
        (b"g 1.5", "'1.5' is not a number; write a 64-bit integer, or a string in double quotes"),
        (
            b"g 9223372036854775808",
            "'9223372036854775808' is out of range; integers go from -9223372036854775808 to 9223372036854775807",
        ),
        (b"r 1 \"b\"", "a range goes from integer to integer or from string to string"),
        (b"s -1", "'-1' is not a count; write s or s LIMIT"),
        (b"s \"1\"", "'1' is not a count; write s or s LIMIT"),
        (b"use a b", "extra words after the command; write use [KEYSPACE]"),
        (b"use \xff", "'\\xff' is no name of a keyspace: names are UTF-8"),
        (b"use \"a\\xFF\"", "'a\\xff' is no name of a keyspace: names are UTF-8"),
        (b"l file", "the file name must be UTF-8 in double quotes; write l \"FILE\""),
        (b"g \"abc", "the closing double quote is missing"),
        (b"g \"abc\"d", "a space must follow the closing double quote"),
        (
            b"g \"\\q\"",
            "'\\\\q' is no escape; there are \\\", \\\\, \\n, \\t and \\xHH with two hexadecimal digits",
        ),
    ];
    for (line, message) in cases {
        let error = parse_line(line).expect_err(&line.escape_ascii().to_string());
        assert_eq!(error.to_string(), message, "{}", line.escape_ascii());
    }
}

#[test]
fn echoed_text_is_shortened_and_printable() {
    let long = [b"g ".as_slice(), &[b'\n' + 1; 1000]].concat();
    let message = parse_line(&[b"\x1b[2J".as_slice(), &long].concat()).expect_err("no command").to_string();
    assert!(message.is_ascii() && message.len() < 300, "{message}");
    assert!(!message.bytes().any(|byte| byte.is_ascii_control()), "{message}");
}

#[test]
fn no_line_makes_the_parser_panic() {
    // All short lines over the bytes that have a meaning.
    let alphabet = b"pgrdlsq \"\\xn0-9\xff\r";
    let mut line = [0u8; 4];
    for index in 0..alphabet.len().pow(4) {
        let mut rest = index;
        for byte in &mut line {
            *byte = alphabet[rest % alphabet.len()];
            rest /= alphabet.len();
        }
        for start in ["", "g \"", "p 1 ", "use "] {
            let line = [start.as_bytes(), &line].concat();
            if let Err(error) = parse_line(&line) {
                assert!(!error.to_string().contains('\n'));
            }
        }
    }
}

#[test]
fn a_printed_scalar_parses_back() {
    for bytes in [&b""[..], b"a b", b"a:b", b"\"", b"\\", b"\n\t\r\0", b"\xff\xfe", "grüße: x".as_bytes()] {
        let mut line = b"g ".to_vec();
        crate::answer::scalar(text(bytes).borrowed(), &mut line);
        assert_eq!(parse_line(&line), Ok(Command::Get { key: text(bytes) }), "{}", line.escape_ascii());
    }
}
