//! The status page in a real browser: what it shows of a database, that names are no markup, and that it
//! draws many tables. Skipped with a message where there is no Chromium.

#![expect(clippy::disallowed_methods, reason = "tests start a browser and give it a directory")]
#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]
#![expect(clippy::print_stdout, reason = "a test says why it shows nothing")]

mod common;

use common::TestServer;
use esker::KeyspaceOptions;
use esker_redis_server::local_client::LocalClient;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

/// Programs that are looked for; a package of Debian, and names that other systems have.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Time that passes in the page before its content is read: two refreshes and some.
const BUDGET_MS: u32 = 6_000;

/// A window and what it prefers.
struct Window {
    size: &'static str,
    dark: bool,
    name: &'static str,
}

const DESKTOP: Window = Window { size: "1280,1800", dark: false, name: "desktop" };
const PHONE: Window = Window { size: "500,3200", dark: false, name: "phone" };
const DARK: Window = Window { size: "1280,1800", dark: true, name: "dark" };

/// The page's elements after its script has drawn; `None` without a browser. With `ESKER_SCREENSHOTS=DIR` a
/// picture is left in that directory.
fn page(server: &TestServer, window: &Window) -> Option<String> {
    let profile =
        std::env::temp_dir().join(format!("esker-page-{}-{}", std::process::id(), server.address.port()));
    let browse = |more: &[String]| {
        BROWSERS.iter().find_map(|browser| {
            let mut command = Command::new(browser);
            command.args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]);
            command.arg(format!("--user-data-dir={}", profile.display()));
            command.args([
                format!("--window-size={}", window.size),
                format!("--virtual-time-budget={BUDGET_MS}"),
            ]);
            if window.dark {
                command.arg("--blink-settings=preferredColorScheme=0");
            }
            command.args(more).arg(format!("http://{}/", server.address)).output().ok()
        })
    };
    if let Some(directory) = std::env::var_os("ESKER_SCREENSHOTS") {
        let picture = PathBuf::from(directory).join(format!("{}.png", window.name));
        browse(&[format!("--screenshot={}", picture.display())]);
    }
    let Some(output) = browse(&["--dump-dom".to_owned()]) else {
        println!("skipped: there is none of {BROWSERS:?}");
        return None;
    };
    std::fs::remove_dir_all(profile).ok();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("</html>"),
        "the browser gave no page: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(text)
}

/// How often the page drew.
fn drawn(text: &str) -> u32 {
    let (_, behind) = text.split_once("data-drawn=\"").unwrap_or_else(|| panic!("nothing was drawn: {text}"));
    behind.split('"').next().and_then(|times| times.parse().ok()).unwrap()
}

/// A database with some levels, deletes, a promise and names that would be markup.
fn server() -> TestServer {
    let server = TestServer::new("page");
    let options = KeyspaceOptions::default().max_space_amp(1.5).table_size(64 << 10);
    let keyspace = server.database.keyspace_with("<img src=x onerror=alert(1)>", options).unwrap();
    for round in 0..6_u32 {
        for number in 0..3_000_u32 {
            let key = (number.wrapping_mul(7_919 + round) % 20_000).to_be_bytes();
            if number % 9 == round {
                keyspace.delete(key).unwrap();
            } else {
                keyspace.put(key, number.wrapping_mul(2_654_435_761).to_be_bytes().repeat(12)).unwrap();
            }
        }
        server.database.flush().unwrap();
    }
    let redis = Arc::clone(&server.redis);
    let mut client = LocalClient::new(&redis);
    client.request(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
    for number in 0..200 {
        client.request(&["SET", &format!("user:{number}"), "</script><b>bold</b>"]);
    }
    drop(client);
    server
}

#[test]
fn the_page_shows_the_database_and_takes_names_for_text() {
    let server = server();
    let _snapshot = server.database.snapshot();
    let Some(text) = page(&server, &DESKTOP) else { return };
    let times = drawn(&text);
    assert!(times >= 2, "it was drawn {times} times");
    let body = text.split_once("<body").unwrap().1;
    assert!(body.contains("Writes are not slowed") && body.contains(">ready<"), "{body}");
    assert!(body.contains("&lt;img src=x onerror=alert(1)&gt;") && !body.contains("<img"), "{body}");
    assert!(body.contains("&lt;b&gt;bold") && !body.contains("<b>"), "{body}");
    let trees = server.database.levels();
    let tree = trees.iter().find(|tree| tree.name.starts_with("<img")).unwrap();
    let tables = tree.levels.iter().flat_map(|level| &level.runs).flat_map(|run| &run.tables);
    for table in tables {
        let told = format!("table {}: ", table.file.get());
        assert!(body.contains(&told), "{told} is not shown");
    }
    for level in &tree.levels {
        assert!(
            level.runs.is_empty() || body.contains(&format!("{}, run 1: ", level.label())),
            "{}",
            level.label()
        );
    }
    for words in [
        "The same as a table",
        "snapshot",
        "times the live data",
        "Commands that took the most time",
        "block cache",
    ] {
        assert!(body.contains(words), "'{words}' is not shown");
    }
    assert!(body.contains("id=\"trouble\" role=\"alert\" hidden"), "{body}");
    page(&server, &PHONE);
    page(&server, &DARK);
}

#[test]
fn a_tree_of_a_thousand_tables_is_drawn() {
    let server = TestServer::new("thousand");
    let options = KeyspaceOptions::default().table_size(16 << 10).write_buffer_size(1 << 20);
    let keyspace = server.database.keyspace_with("many", options).unwrap();
    let mut number = 0_u32;
    let tables =
        |server: &TestServer| server.database.metrics().keyspaces.iter().map(|one| one.tables).sum::<usize>();
    // A compaction that still runs may merge some of them.
    while tables(&server) < 1_000 || (server.database.drain().is_ok() && tables(&server) < 1_000) {
        for _ in 0..5_000 {
            let key = number.wrapping_mul(2_654_435_761).to_be_bytes();
            let word = |at: u32| (number * 31 + at).wrapping_mul(2_654_435_761).to_be_bytes();
            keyspace.put(key, (0..25).map(word).collect::<Vec<_>>().concat()).unwrap();
            number += 1;
        }
        server.database.flush().unwrap();
        assert!(number < 2_000_000, "{number} entries have made {} tables", tables(&server));
    }
    let Some(text) = page(&server, &Window { name: "thousand", ..DESKTOP }) else { return };
    assert!(drawn(&text) >= 2);
    assert_eq!(text.matches("class=\"table\"").count(), tables(&server));
    // The tables of the last level stand side by side and fill its strip, whatever lies above them.
    let (_, strip) = text.split_once("aria-label=\"Llast, run 1").unwrap();
    let cells = strip.split("</svg>").next().unwrap().split("<rect ").skip(1);
    let widths =
        cells.filter_map(|cell| cell.split("width=\"").nth(1)?.split('"').next()?.parse::<f64>().ok());
    let covered: f64 = widths.sum();
    assert!(covered > 900.0, "the tables cover {covered} of 1,000");
}
