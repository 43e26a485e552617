//! The query of a request: names with values, percent-encoded bytes.

/// Pairs of a query, decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query(Vec<(String, Vec<u8>)>);

impl Query {
    /// Reads a query; only these names may stand in it, each once. A `+` is a plus.
    ///
    /// # Errors
    /// A sentence that names what is wrong.
    pub(crate) fn parse(text: &str, names: &[&str]) -> Result<Query, String> {
        let mut pairs: Vec<(String, Vec<u8>)> = Vec::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if !names.contains(&name) {
                let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                return Err(format!("there is no parameter '{}'; known are: {known}", name.escape_debug()));
            }
            if pairs.iter().any(|(known, _)| known == name) {
                return Err(format!("the parameter {name} is given twice"));
            }
            let value = decoded(value).map_err(|at| {
                format!("the parameter {name} has no two hexadecimal digits behind the % at byte {at}")
            })?;
            pairs.push((name.to_owned(), value));
        }
        Ok(Query(pairs))
    }

    /// The bytes of a parameter.
    pub(crate) fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_slice())
    }

    /// A parameter as text.
    ///
    /// # Errors
    /// A sentence, if it is not UTF-8.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, String> {
        let text = self.bytes(name).map(std::str::from_utf8).transpose();
        text.map_err(|_| format!("the parameter {name} is not UTF-8"))
    }

    /// A parameter as a number from 1 to `most`.
    ///
    /// # Errors
    /// A sentence, if it is none.
    pub(crate) fn number(&self, name: &str, most: u64) -> Result<Option<u64>, String> {
        let wrong = || format!("the parameter {name} is no number from 1 to {most}");
        let parse = |text: &str| text.parse().ok().filter(|number| (1..=most).contains(number));
        self.text(name)?.map(|text| parse(text).ok_or_else(wrong)).transpose()
    }

    /// Whether a parameter says yes: it stands alone, or is `true` or `1`.
    ///
    /// # Errors
    /// A sentence, if it is something else.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, String> {
        match self.bytes(name) {
            None | Some(b"false" | b"0") => Ok(false),
            Some(b"" | b"true" | b"1") => Ok(true),
            Some(_) => Err(format!("the parameter {name} is neither true nor false")),
        }
    }
}

/// Percent-decoded bytes, or where the `%` stands that has no digits.
fn decoded(text: &str) -> Result<Vec<u8>, usize> {
    let (bytes, mut decoded) = (text.as_bytes(), Vec::with_capacity(text.len()));
    let digit = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] != b'%' {
            decoded.push(bytes[at]);
            at += 1;
            continue;
        }
        let (Some(high), Some(low)) = (digit(at + 1), digit(at + 2)) else { return Err(at) };
        decoded.push((high * 16 + low) as u8);
        at += 3;
    }
    Ok(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Result<Query, String> {
        Query::parse(text, &["key", "limit", "reverse"])
    }

    #[test]
    fn values_are_bytes() {
        let parsed = query("key=a%20b+%2B%00%ff%3D&limit=7&reverse").unwrap();
        assert_eq!(parsed.bytes("key"), Some(&b"a b++\0\xff="[..]));
        assert_eq!((parsed.number("limit", 10), parsed.flag("reverse")), (Ok(Some(7)), Ok(true)));
        assert!(parsed.text("key").is_err() && parsed.number("limit", 6).is_err());
        assert_eq!(query("").unwrap(), Query::default());
        assert_eq!(query("key=").unwrap().bytes("key"), Some(&b""[..]));
        assert_eq!(query("reverse=0").unwrap().flag("reverse"), Ok(false));
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (text, told) in [
            ("kye=a", "no parameter 'kye'"),
            ("key=a&key=b", "twice"),
            ("key=%", "byte 0"),
            ("key=a%2", "byte 1"),
            ("key=ab%g0", "byte 2"),
            ("key=%\u{e9}0", "byte 0"),
        ] {
            let reason = query(text).unwrap_err();
            assert!(reason.contains(told), "{text}: {reason}");
        }
        assert!(query("limit=0").unwrap().number("limit", 10).is_err());
        assert!(query("reverse=maybe").unwrap().flag("reverse").is_err());
        assert!(Query::parse("a", &[]).unwrap_err().contains("known are: none"));
    }
}
