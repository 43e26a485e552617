//! Recognises HTTP requests, which a browser can be made to send to a port of the local machine.
//!
//! Lines of such a request that are commands would be executed: its body is text that the author of a web
//! page chooses. A server of a line protocol therefore ends the connection at the first line that HTTP begins
//! with, as Redis does for `POST` and `Host:`.

/// Whether a line begins an HTTP request or is its `Host` header: `METHOD target HTTP/version`, or `Host:` in
/// any case. No command of the DSL has this form: their names are of lower case.
///
/// ```
/// use esker_protocol::is_http;
/// assert!(is_http(b"POST / HTTP/1.1\r"));
/// assert!(!is_http(b"p 10 7"));
/// ```
pub fn is_http(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    let is_host = line.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"host:"));
    is_host || is_request(line)
}

fn is_request(line: &[u8]) -> bool {
    let mut words = line.split(|&byte| byte == b' ');
    let is_method = |word: &[u8]| !word.is_empty() && word.iter().all(u8::is_ascii_uppercase);
    words.next().is_some_and(is_method) && words.next_back().is_some_and(|word| word.starts_with(b"HTTP/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_host_headers_are_recognised() {
        for line in
            ["GET / HTTP/1.0", "POST /a%20b?c HTTP/1.1\r", "PRI * HTTP/2.0\r", "Host: x", "host:127.0.0.1:9"]
        {
            assert!(is_http(line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn commands_are_not() {
        for line in [
            "",
            "p 10 7",
            "g \"HTTP/1.1\"",
            "p \"a\" \"x HTTP/1.1\"",
            "l \"HTTP/1.1\"",
            "q",
            "P 1 2",
            "HTTP/1.1",
        ] {
            assert!(!is_http(line.as_bytes()), "{line}");
        }
    }
}
