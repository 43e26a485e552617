//! Explanations as JSON: the same for commands, servers and programs.

use super::{Explanation, Measure, Step};
use std::fmt::Write;

/// The number below which all whole numbers are exact.
const EXACT: f64 = 9e15;

/// An explanation as an object on one line.
pub(super) fn written(explanation: &Explanation) -> String {
    let mut json = String::new();
    write_step(&mut json, &explanation.root, Some(&explanation.conclusion));
    json
}

fn write_step(json: &mut String, step: &Step, conclusion: Option<&str>) {
    json.push_str("{\"what\":");
    write_text(json, &step.what);
    json.push_str(",\"outcome\":");
    write_text(json, &step.outcome);
    json.push_str(",\"figures\":");
    write_figures(json, step, |measure| measure.actual);
    json.push_str(",\"expected\":");
    write_figures(json, step, |measure| measure.expected);
    json.push_str(",\"steps\":[");
    for (at, below) in step.steps.iter().enumerate() {
        if at > 0 {
            json.push(',');
        }
        write_step(json, below, None);
    }
    json.push(']');
    if let Some(conclusion) = conclusion {
        json.push_str(",\"conclusion\":");
        write_text(json, conclusion);
    }
    json.push('}');
}

/// The figures that are known, by name. A step has no figure twice.
fn write_figures(json: &mut String, step: &Step, of: fn(&Measure) -> Option<f64>) {
    json.push('{');
    let known = step.measures.iter().filter_map(|measure| Some((measure.figure.name(), of(measure)?)));
    for (at, (name, value)) in known.enumerate() {
        if at > 0 {
            json.push(',');
        }
        write_text(json, name);
        json.push(':');
        write_number(json, value);
    }
    json.push('}');
}

/// A whole number without a point; what is no number is null.
fn write_number(json: &mut String, value: f64) {
    // A String takes everything.
    let _written = match value {
        whole if whole.fract() == 0.0 && (0.0..EXACT).contains(&whole) => write!(json, "{}", whole as u64),
        value if value.is_finite() => write!(json, "{value}"),
        _ => write!(json, "null"),
    };
}

fn write_text(json: &mut String, text: &str) {
    json.push('"');
    for character in text.chars() {
        match character {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\n' => json.push_str("\\n"),
            control if control < ' ' => {
                // A String takes everything.
                let _written = write!(json, "\\u{:04x}", u32::from(control));
            }
            other => json.push(other),
        }
    }
    json.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::Figure;

    #[test]
    fn texts_are_escaped_and_numbers_as_short_as_they_are() {
        let mut root = Step::new("a \"b\\\n\u{1}", "").with(Figure::Runs, 3);
        root.add_beside(Figure::WriteAmplification, 1.5, Some(f64::INFINITY));
        root.steps.push(Step::new("c", "d"));
        root.steps.push(Step::new("e", ""));
        let explanation = Explanation { root, conclusion: "So.".to_owned() };
        let expected = concat!(
            r#"{"what":"a \"b\\\n\u0001","outcome":"","figures":{"runs":3,"write_amplification":1.5},"#,
            r#""expected":{"write_amplification":null},"steps":["#,
            r#"{"what":"c","outcome":"d","figures":{},"expected":{},"steps":[]},"#,
            r#"{"what":"e","outcome":"","figures":{},"expected":{},"steps":[]}],"conclusion":"So."}"#,
        );
        assert_eq!(explanation.to_json(), expected);
    }
}
