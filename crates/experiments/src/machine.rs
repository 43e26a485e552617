//! Describes the machine of a run, as part of the results.

use std::fmt::Write;

/// Processor features that select code somewhere in the store.
const FEATURES: [&str; 9] =
    ["sse4_2", "avx2", "avx512f", "avx512bw", "avx512vl", "pclmulqdq", "aes", "bmi2", "vaes"];

/// Facts about the machine; `None` where the system does not provide one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The processor's model name.
    pub processor: Option<String>,
    /// Threads that run at once.
    pub cores: usize,
    /// The largest cache, as the system writes its size.
    pub largest_cache: Option<String>,
    /// Memory that this process may use.
    pub memory_bytes: u64,
    /// The operating system and its version.
    pub system: String,
    /// Instruction sets, of those that matter here.
    pub features: Vec<&'static str>,
    /// Load average of the last minute when the run began.
    pub load: Option<String>,
    /// Whether the program was compiled with optimisations.
    pub is_optimised: bool,
}

impl Machine {
    /// This machine, now.
    pub fn look() -> Machine {
        let processors = read("/proc/cpuinfo").unwrap_or_default();
        let flags = field(&processors, "flags").unwrap_or_default();
        let has = |feature: &&'static str| flags.split(' ').any(|flag| flag == *feature);
        let release = read("/proc/sys/kernel/osrelease").unwrap_or_default();
        Machine {
            processor: field(&processors, "model name").map(str::to_owned),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            largest_cache: (0..8).rev().find_map(|index| {
                read(&format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size"))
                    .map(|size| size.trim().to_owned())
            }),
            memory_bytes: esker::parts::env::host::memory_limit_bytes(),
            system: format!("{} {}", std::env::consts::OS, release.trim()).trim().to_owned(),
            features: FEATURES.into_iter().filter(has).collect(),
            load: read("/proc/loadavg").and_then(|text| Some(text.split(' ').next()?.to_owned())),
            is_optimised: !cfg!(debug_assertions),
        }
    }

    /// A line for each fact, `name: value`.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut fact = |name: &str, value: &str| {
            let _ = writeln!(text, "{name}: {value}");
        };
        let unknown = "not told by the system";
        fact("processor", self.processor.as_deref().unwrap_or(unknown));
        fact("cores", &self.cores.to_string());
        fact("largest cache", self.largest_cache.as_deref().unwrap_or(unknown));
        fact("memory", &format!("{:.1} GiB", self.memory_bytes as f64 / f64::from(1 << 30)));
        fact("system", &self.system);
        fact("instruction sets", &self.features.join(" "));
        fact("load when it began", self.load.as_deref().unwrap_or(unknown));
        let build =
            if self.is_optimised { "release" } else { "WITHOUT OPTIMISATION, the numbers mean nothing" };
        fact("build", &format!("esker {}, {build}", env!("CARGO_PKG_VERSION")));
        text
    }
}

/// The text of a file through which the system provides facts.
pub(crate) fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// Ticks of processor time in a second, as Linux reports it to programs.
const TICKS_PER_SECOND: f64 = 100.0;

/// Processor time of this process, if the system provides it.
pub(crate) fn processor_seconds() -> Option<f64> {
    let text = read("/proc/self/stat")?;
    // The name of the program may hold anything but ends with the last parenthesis.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS_PER_SECOND)
}

/// The value of the first line `name : value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == name).then(|| value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found() {
        let text = "processor\t: 0\nmodel name\t: A: b\nflags\t\t: avx2 aes\n";
        assert_eq!(field(text, "model name"), Some("A: b"));
        assert_eq!(field(text, "nothing"), None);
    }

    #[test]
    fn machines_without_facts_are_described() {
        let machine = Machine { processor: None, largest_cache: None, load: None, ..Machine::look() };
        assert!(machine.text().contains("processor: not told by the system\n"));
        assert!(machine.cores >= 1 && machine.memory_bytes > 0);
    }
}
