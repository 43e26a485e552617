use super::*;
use crate::format::Format;
use esker_protocol::scalar::encode_integer;

fn shape(key: Format, value: Format) -> Shape {
    Shape { key, value, ..Shape::default() }
}

fn text() -> Shape {
    shape(Format::Text, Format::Text)
}

/// The pairs and the bad lines of a file.
fn read(format: FileFormat, shape: &Shape, header: bool, file: &[u8]) -> (Vec<Record>, Vec<(u64, String)>) {
    let mut reader = format.reader(Box::new(file), shape, header);
    let (mut records, mut bad) = (Vec::new(), Vec::new());
    loop {
        match reader.next() {
            Ok(Some(record)) => records.push(record),
            Ok(None) => break,
            Err(ReadError::Bad { number, reason }) => bad.push((number, reason)),
            Err(ReadError::Io(error)) => panic!("{error}"),
        }
    }
    assert_eq!(reader.position(), file.len() as u64);
    (records, bad)
}

fn record(key: &[u8], value: &[u8]) -> Record {
    Record { key: key.to_vec(), value: value.to_vec() }
}

#[test]
fn every_format_reads_what_it_wrote() {
    let mut odd: Vec<Record> = (0..=255u8).map(|byte| record(&[byte], &[byte, b'\\', byte])).collect();
    odd.extend([
        record(b"", b""),
        record(b"", b"x"),
        record(b"x", b""),
        record(b"a,b\tc\nd\r\ne\"f\"\"", b"\"\""),
        record(b"\xef\xbb\xbfmark", b"\r"),
        record(b" rim ", b"\n\n"),
        record("gr\u{fc}n".as_bytes(), b"\xff\xfe\0"),
        record(b"key\\x00", b"C:\\new\\table"),
    ]);
    for format in [FileFormat::Csv, FileFormat::Tsv, FileFormat::Jsonl] {
        for shape in [text(), shape(Format::Hex, Format::Text), shape(Format::Text, Format::Hex)] {
            for rotation in 0..odd.len() {
                odd.rotate_left(1);
                // All rotations: every pair comes first once, where a mark or a header would stand.
                if rotation > 8 && rotation < odd.len() - 8 {
                    continue;
                }
                let mut file = Vec::new();
                let mut writer = format.writer(&shape);
                for pair in &odd {
                    writer.write(&mut file, &pair.key, &pair.value).unwrap();
                }
                let (records, bad) = read(format, &shape, false, &file);
                assert_eq!(bad, [], "{format:?}");
                assert_eq!(records, odd, "{format:?}");
            }
        }
    }
}

#[test]
fn integers_are_integers_in_every_format() {
    let shape = shape(Format::Int, Format::Int);
    let pairs: Vec<Record> = [(0, 1), (-5, i32::MAX), (i32::MIN, -1)]
        .map(|(key, value)| record(&encode_integer(key.into()), &encode_integer(value.into())))
        .to_vec();
    for (format, expected) in [
        (FileFormat::Csv, "0,1\n-5,2147483647\n-2147483648,-1\n"),
        (FileFormat::Tsv, "0\t1\n-5\t2147483647\n-2147483648\t-1\n"),
        (
            FileFormat::Jsonl,
            "{\"key\":0,\"value\":1}\n{\"key\":-5,\"value\":2147483647}\n{\"key\":-2147483648,\"value\":-1}\n",
        ),
        (FileFormat::Pairs, "\0\0\0\0\x01\0\0\0"),
    ] {
        let mut file = Vec::new();
        let mut writer = format.writer(&shape);
        for pair in &pairs {
            writer.write(&mut file, &pair.key, &pair.value).unwrap();
        }
        assert!(file.starts_with(expected.as_bytes()), "{format:?}");
        assert_eq!(read(format, &shape, false, &file), (pairs.clone(), vec![]), "{format:?}");
    }
    assert!(FileFormat::Csv.writer(&shape).write(&mut Vec::new(), b"text", b"text").is_err());
    let large = encode_integer(1 << 40);
    assert!(FileFormat::Pairs.writer(&shape).write(&mut Vec::new(), &large, &large).is_err());
}

#[test]
fn bad_lines_have_their_numbers_and_cost_no_other() {
    let (good, bad) = read(
        FileFormat::Csv,
        &text(),
        true,
        b"key,value\r\na,1\nb\n\"c\nc\",\"3\"\"\"\nd,4,5\n\"e\"x,5\nf\"f,6\n\ng,7\n\"h,8\ni,9\n",
    );
    let expected = [record(b"a", b"1"), record(b"c\nc", b"3\""), record(b"g", b"7"), record(b"i", b"9")];
    assert_eq!(good, expected);
    let numbers: Vec<u64> = bad.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [3, 6, 7, 8, 11], "{bad:?}");

    let (good, bad) = read(FileFormat::Tsv, &text(), false, b"\xef\xbb\xbfa\t1\nb\nc\t3\t4\nd\\q\t4\n\ne\t5");
    assert_eq!(good, [record(b"a", b"1"), record(b"e", b"5")]);
    assert_eq!(bad.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [2, 3, 4], "{bad:?}");

    let file = br#"{"key":"a","value":"1"}
{"key":"b"}
[1]
{"key":"c","value":3}
{"key_hex":"00ff","value_hex":"","note":"ignored"}
{"key":"d","key_hex":"64","value":"4"}
{"key":"e","value":"5"
"#;
    let (good, bad) = read(FileFormat::Jsonl, &text(), false, file);
    assert_eq!(good, [record(b"a", b"1"), record(&[0, 255], b"")]);
    assert_eq!(bad.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [2, 3, 4, 6, 7], "{bad:?}");

    let (good, bad) = read(FileFormat::Pairs, &text(), false, &[1, 0, 0, 0, 2, 0, 0, 0, 3]);
    assert_eq!(good, [record(&encode_integer(1), &encode_integer(2))]);
    assert_eq!(bad, [(2, "the file ends after 1 of the 8 bytes of a pair".to_owned())]);
}

#[test]
fn extensions_name_formats() {
    for (name, format) in [
        ("a.csv", Some(FileFormat::Csv)),
        ("a.b.TSV", Some(FileFormat::Tsv)),
        ("a.ndjson", Some(FileFormat::Jsonl)),
        ("a.bin", Some(FileFormat::Pairs)),
        ("a.txt", None),
        ("-", None),
    ] {
        assert_eq!(FileFormat::of(Path::new(name)), format, "{name}");
    }
}
