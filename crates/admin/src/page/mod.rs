//! The status page: three texts that are part of the program, and load nothing from elsewhere.
//!
//! The script fetches `/api/v1/status` and draws it. What comes from users, names of keyspaces and arguments
//! of commands, goes into the page as text, and the policy of [`crate::response`] forbids every other
//! script.

use crate::response::{HTML_TYPE, SCRIPT_TYPE, STYLE_TYPE};

/// Each path, the type of its text, and the text.
const FILES: [(&str, &str, &str); 3] = [
    ("/", HTML_TYPE, include_str!("page.html")),
    ("/page.css", STYLE_TYPE, include_str!("page.css")),
    ("/page.js", SCRIPT_TYPE, include_str!("page.js")),
];

/// The type and the text of a path.
pub(crate) fn file(path: &str) -> Option<(&'static str, &'static str)> {
    FILES.iter().find(|(known, ..)| *known == path).map(|(_, content_type, text)| (*content_type, *text))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the page may take on its way to a phone.
    const MAX_BYTES: usize = 60 << 10;

    #[test]
    fn the_page_is_small_and_is_text_alone() {
        let bytes: usize = FILES.iter().map(|(.., text)| text.len()).sum();
        assert!(bytes < MAX_BYTES, "{bytes}");
        for (path, _, text) in FILES {
            // The name of SVG's elements is no address that is fetched.
            let text = text.replace("http://www.w3.org/2000/svg", "");
            for forbidden in [
                "http:",
                "https:",
                "//cdn",
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "eval(",
                "style=",
                "onclick",
            ] {
                assert!(!text.contains(forbidden), "{path} has {forbidden}");
            }
        }
    }
}
