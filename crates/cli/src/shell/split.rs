//! Splits a line of the shell into words.

/// The words of a line, separated by white space. Single quotes keep everything between them literally; in
/// double quotes a backslash escapes a quote or a backslash.
pub(super) fn split(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        match char {
            char if char.is_whitespace() => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('\'') => break,
                        Some(char) => word.push(char),
                        None => return Err("the closing single quote is missing".into()),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('"') => break,
                        Some('\\') => match chars.next() {
                            Some(char @ ('"' | '\\')) => word.push(char),
                            Some(char) => word.extend(['\\', char]),
                            None => {}
                        },
                        Some(char) => word.push(char),
                        None => return Err("the closing double quote is missing".into()),
                    }
                }
            }
            char => word.get_or_insert_default().push(char),
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn words_and_quotes() {
        let words = |line: &str| split(line).unwrap();
        assert_eq!(words("  put  a\tb "), ["put", "a", "b"]);
        assert_eq!(words("put 'a b' \"c \\\"d\\\" \\n\""), ["put", "a b", "c \"d\" \\n"]);
        assert_eq!(words("put a'b c'd ''"), ["put", "ab cd", ""]);
        assert!(words("").is_empty());
        assert!(split("put 'a").is_err() && split("put \"a").is_err() && split("\"\\").is_err());
    }
}
