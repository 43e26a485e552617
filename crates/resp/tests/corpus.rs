//! The corpus of the fuzz targets: it is handled, and its valid part is read to its end.

#![expect(clippy::disallowed_methods, reason = "the corpus is read from the repository")]

use esker_resp::fuzz;
use esker_resp::limits::Limits;
use esker_resp::value::Value;
use std::path::Path;

/// Names and contents of a target's files.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files: Vec<_> = std::fs::read_dir(folder)
        .expect("the corpus")
        .map(|file| {
            let file = file.expect("the corpus");
            let name = file.file_name().to_string_lossy().into_owned();
            (name, std::fs::read(file.path()).expect("a file of the corpus"))
        })
        .collect();
    assert!(files.iter().any(|(name, _)| name.starts_with("valid-")), "{target} has valid files");
    files
}

#[test]
fn the_corpus_is_handled_and_its_valid_part_is_read_whole() {
    for (name, bytes) in corpus("resp_request") {
        fuzz::request(&bytes);
        let stream = [&bytes[1..], b"last\r\n"].concat();
        let (requests, error) = fuzz::read_requests(&stream, 1, &Limits::default());
        let whole = error.is_none() && requests.last().is_some_and(|last| last == &[b"last"]);
        assert!(whole || !name.starts_with("valid-"), "{name}");
    }
    for (name, bytes) in corpus("resp_reply") {
        fuzz::reply(&bytes);
        let (replies, error) = fuzz::read_replies(&[&bytes[1..], b"+last\r\n"].concat(), 1);
        let whole = error.is_none() && replies.last() == Some(&Value::Status(b"last".to_vec()));
        assert!(whole || !name.starts_with("valid-"), "{name}");
    }
    for (_, bytes) in corpus("resp_text") {
        fuzz::text(&bytes);
    }
}
