//! Directives on the command line, as redis-server reads them.
//!
//! A word with two hyphens is a name, and those behind it up to the next such word are its values. The first
//! value may begin with two hyphens itself; of `save` it does not, which may be without any. Name and values
//! may be one word, with the quotes of redis.conf: `--maxmemory '1 gb'`. The very first name may lack its
//! hyphens.

use esker_resp::quoting::split;
use esker_resp::redis_conf::Directive;

/// The directive that begins with `first`, and how many of the words behind it are its values.
pub(super) fn directive(first: &[u8], behind: &[Vec<u8>]) -> Result<(Directive, usize), String> {
    let shown = String::from_utf8_lossy(first);
    let is_option = |word: &[u8]| word.starts_with(b"--");
    let mut arguments = match first.strip_prefix(b"--") {
        Some(text) => split(text).map_err(|_| format!("'{shown}': unbalanced quotes"))?,
        None => vec![first.to_vec()],
    };
    let is_alone = behind.first().is_none_or(|word| is_option(word));
    if arguments.first().is_none_or(Vec::is_empty) || (!is_option(first) && is_alone) {
        return Err(format!("'{shown}' stands where a directive is expected, such as --port"));
    }
    let name = String::from_utf8_lossy(&arguments.remove(0)).to_ascii_lowercase();
    let takes_any = is_option(first) && arguments.is_empty() && name != "save";
    let sure = usize::from(takes_any).min(behind.len());
    let taken = sure + behind[sure..].iter().take_while(|word| !is_option(word)).count();
    arguments.extend_from_slice(&behind[..taken]);
    Ok((Directive { line: 0, name, arguments }, taken))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each directive as `name=value,value`.
    fn read(words: &[&str]) -> Result<Vec<String>, String> {
        let words: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        let (mut rest, mut read) = (&words[..], Vec::new());
        while let Some((first, behind)) = rest.split_first() {
            let (found, taken) = directive(first, behind)?;
            read.push(format!("{}={}", found.name, String::from_utf8_lossy(&found.arguments.join(&b','))));
            rest = &behind[taken..];
        }
        Ok(read)
    }

    #[test]
    fn words_are_taken_as_redis_server_takes_them() {
        let cases: [(&[&str], &[&str]); 9] = [
            (&["--port", "7", "--Bind", "a", "b"], &["port=7", "bind=a,b"]),
            (&["--requirepass", "--secret", "--port", "7"], &["requirepass=--secret", "port=7"]),
            (&["--port", "--loglevel", "verbose"], &["port=--loglevel,verbose"]),
            (&["--maxmemory 700mb", "--logfile \"a b\""], &["maxmemory=700mb", "logfile=a b"]),
            (&["--save 60 5", "1", "2"], &["save=60,5,1,2"]),
            (&["--save", "--port", "7", "--save"], &["save=", "port=7", "save="]),
            (&["--save", "", "--port", "7"], &["save=", "port=7"]),
            (&["--logfile", "--save", "--save", "1 2"], &["logfile=--save", "save=1 2"]),
            (&["loglevel", "verbose", "--port", "7"], &["loglevel=verbose", "port=7"]),
        ];
        for (words, directives) in cases {
            assert_eq!(read(words).expect("right"), directives, "{words:?}");
        }
        for wrong in [&["--"][..], &["7000"], &["7000", "--port", "1"]] {
            let error = read(wrong).expect_err("no directive");
            assert!(error.ends_with("stands where a directive is expected, such as --port"), "{error}");
        }
        assert!(read(&["--logfile 'x"]).expect_err("a quote").contains("unbalanced quotes"));
    }
}
