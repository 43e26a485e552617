//! A strict reader of the text format of Prometheus: what its own parser would refuse is refused here, and
//! more.

use std::collections::{BTreeMap, BTreeSet};

/// A sample.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) value: f64,
}

impl Sample {
    pub(crate) fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }
}

/// A family: its kind and its samples.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) kind: String,
    pub(crate) samples: Vec<Sample>,
}

/// Reads a scrape.
pub(crate) fn parse(text: &str) -> Result<BTreeMap<String, Family>, String> {
    if !text.ends_with('\n') {
        return Err("the last line does not end".to_owned());
    }
    let mut families = BTreeMap::<String, Family>::new();
    let (mut helped, mut current) = (None, String::new());
    let mut seen = BTreeSet::new();
    for line in text.lines() {
        let wrong = |what: &str| Err(format!("{what}: {line}"));
        if let Some(help) = line.strip_prefix("# HELP ") {
            helped = help.split_once(' ').map(|(name, _)| name.to_owned());
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let Some((name, kind)) = kind.split_once(' ') else { return wrong("no kind") };
            if helped.as_deref() != Some(name) || !matches!(kind, "gauge" | "counter" | "histogram") {
                return wrong("no help before it, or an unknown kind");
            }
            let family = Family { kind: kind.to_owned(), samples: Vec::new() };
            if families.insert(name.to_owned(), family).is_some() {
                return wrong("the family stands twice");
            }
            current = name.to_owned();
        } else {
            let sample = sample(line)?;
            let Some(family) = families.get_mut(&current) else { return wrong("a sample without a family") };
            let suffix = sample.name.strip_prefix(&current);
            let fits = match family.kind.as_str() {
                "histogram" => matches!(suffix, Some("_bucket" | "_sum" | "_count")),
                _ => suffix == Some(""),
            };
            if !fits || !seen.insert((sample.name.clone(), sample.labels.clone())) {
                return wrong("not of this family, or twice");
            }
            if family.kind != "gauge" && !(sample.value >= 0.0 && sample.value.is_finite()) {
                return wrong("no count");
            }
            family.samples.push(sample);
        }
    }
    for (name, family) in &families {
        if family.kind == "histogram" {
            histogram(name, &family.samples)?;
        }
        if family.samples.is_empty() {
            return Err(format!("{name} has no samples"));
        }
    }
    Ok(families)
}

/// Buckets do not fall, end at +Inf with the count, and each series has all its parts.
fn histogram(name: &str, samples: &[Sample]) -> Result<(), String> {
    let mut series = BTreeMap::<BTreeMap<String, String>, (Vec<(f64, f64)>, Option<f64>, Option<f64>)>::new();
    for sample in samples {
        let mut labels = sample.labels.clone();
        let bound = labels.remove("le");
        let parts = series.entry(labels).or_default();
        match (sample.name.rsplit('_').next(), bound) {
            (Some("bucket"), Some(bound)) => {
                let bound =
                    bound.replace("+Inf", "inf").parse().map_err(|_| format!("{name}: le {bound}"))?;
                parts.0.push((bound, sample.value));
            }
            (Some("sum"), None) => parts.1 = Some(sample.value),
            (Some("count"), None) => parts.2 = Some(sample.value),
            _ => return Err(format!("{name}: {sample:?}")),
        }
    }
    for (labels, (buckets, sum, count)) in series {
        let rises = buckets.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
        let last = buckets.last().copied().unwrap_or_default();
        if !rises || sum.is_none() || count.is_none() || last != (f64::INFINITY, count.unwrap_or_default()) {
            return Err(format!("{name} {labels:?}: {buckets:?}, sum {sum:?}, count {count:?}"));
        }
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    let first = name.bytes().next();
    first.is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn sample(line: &str) -> Result<Sample, String> {
    let wrong = |what: &str| format!("{what}: {line}");
    let end = line.find(['{', ' ']).ok_or_else(|| wrong("no value"))?;
    let (name, mut rest) = line.split_at(end);
    if !is_name(name) {
        return Err(wrong("no name"));
    }
    let mut labels = BTreeMap::new();
    if let Some(mut inner) = rest.strip_prefix('{') {
        loop {
            let (label, value) = inner.split_once("=\"").ok_or_else(|| wrong("no label"))?;
            let (value, behind) = quoted(value).ok_or_else(|| wrong("no end of a value"))?;
            if !is_name(label) || labels.insert(label.to_owned(), value).is_some() {
                return Err(wrong("a wrong label, or one twice"));
            }
            match (behind.strip_prefix(','), behind.strip_prefix('}')) {
                (Some(more), _) => inner = more,
                (_, Some(behind)) => {
                    rest = behind;
                    break;
                }
                _ => return Err(wrong("neither , nor } behind a label")),
            }
        }
    }
    let value =
        rest.strip_prefix(' ').and_then(|value| value.parse().ok()).ok_or_else(|| wrong("no number"))?;
    Ok(Sample { name: name.to_owned(), labels, value })
}

/// A value up to its quotation mark, and what is behind.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                escaped @ ('\\' | '"') => escaped,
                _ => return None,
            }),
            char => value.push(char),
        }
    }
    None
}

#[test]
fn the_reader_refuses_what_is_wrong() {
    let head = "# HELP a b.\n# TYPE a gauge\n";
    let ok = parse(&format!("{head}a{{x=\"1\\n\\\"\"}} 1\na 2.5\n")).unwrap();
    assert_eq!(ok["a"].samples[0].label("x"), "1\n\"");
    for wrong in [
        "a 1",
        "b 1\n",
        "a{x=1} 1\n",
        "a{x=\"1\"} one\n",
        "a 1\na 1\n",
        "a{x=\"\\q\"} 1\n",
        "a{x=\"1\"}1\n",
        "",
    ] {
        assert!(parse(&format!("{head}{wrong}")).is_err(), "{wrong}");
    }
    let head = "# HELP h b.\n# TYPE h histogram\n";
    assert!(
        parse(&format!("{head}h_bucket{{le=\"1\"}} 1\nh_bucket{{le=\"+Inf\"}} 2\nh_sum 1\nh_count 2\n"))
            .is_ok()
    );
    assert!(
        parse(&format!("{head}h_bucket{{le=\"1\"}} 3\nh_bucket{{le=\"+Inf\"}} 2\nh_sum 1\nh_count 2\n"))
            .is_err()
    );
    assert!(parse(&format!("{head}h_bucket{{le=\"+Inf\"}} 1\nh_sum 1\nh_count 2\n")).is_err());
    assert!(parse(&format!("{head}h_sum 1\nh_count 2\n")).is_err());
}
