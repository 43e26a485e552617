//! A generator of JSON documents as services store them: few schemas, whose names repeat; ids, times, words,
//! numbers and nested objects, which do not.

use crate::data::random::Random;
use std::fmt::Write;

/// Kinds of what fields hold.
#[derive(Clone, Copy)]
enum Kind {
    Id,
    Url,
    Time,
    Millis,
    Person,
    Email,
    Address,
    /// Phrases, up to so many.
    Text(u64),
    Choice(&'static [&'static str]),
    Flag,
    /// A number below a limit.
    Count(u64),
    Price,
    Place,
    Nothing,
}

type Field = (&'static str, Kind);

const USER: &[Field] = &[
    ("id", Kind::Id),
    ("active", Kind::Flag),
    ("name", Kind::Person),
    ("created_at", Kind::Time),
    ("email", Kind::Email),
    ("subscription", Kind::Choice(&["free", "basic", "professional", "enterprise"])),
    ("email_verified", Kind::Flag),
    ("preferred_locale", Kind::Choice(&["en-US", "de-CH", "fr-FR"])),
    ("resource_url", Kind::Url),
    ("number_of_logins", Kind::Count(5_000)),
    ("location", Kind::Place),
    ("description", Kind::Text(8)),
    ("schema_version", Kind::Choice(&["2.4"])),
    ("deleted_at", Kind::Nothing),
];
const EVENT: &[Field] = &[
    ("id", Kind::Id),
    ("timestamp", Kind::Millis),
    ("created_at", Kind::Time),
    ("level", Kind::Choice(&["debug", "info", "warning", "error"])),
    ("service", Kind::Choice(&["checkout", "search-frontend", "billing", "session-store"])),
    ("client", Kind::Address),
    ("request_method", Kind::Choice(&["GET", "POST", "DELETE"])),
    ("status", Kind::Choice(&["200 OK", "201 Created", "404 Not Found", "503 Service Unavailable"])),
    ("response_from_cache", Kind::Flag),
    ("duration_microseconds", Kind::Count(50_000)),
    ("resource_url", Kind::Url),
    ("description", Kind::Text(10)),
    ("schema_version", Kind::Choice(&["2.4"])),
    ("deleted_at", Kind::Nothing),
];
const ORDER: &[Field] = &[
    ("id", Kind::Id),
    ("paid", Kind::Flag),
    ("total_amount", Kind::Price),
    ("currency", Kind::Choice(&["USD", "EUR", "CHF"])),
    ("name", Kind::Person),
    ("created_at", Kind::Time),
    ("order_state", Kind::Choice(&["pending", "packed", "shipped", "delivered"])),
    ("location", Kind::Place),
    ("resource_url", Kind::Url),
    ("description", Kind::Text(6)),
    ("schema_version", Kind::Choice(&["2.4"])),
    ("deleted_at", Kind::Nothing),
];
/// What a document holds beside its fields, as often as its length wants it.
const ITEM: &[Field] = &[
    ("item_id", Kind::Count(100_000)),
    ("title", Kind::Text(2)),
    ("quantity", Kind::Count(10)),
    ("unit_price", Kind::Price),
    ("currency", Kind::Choice(&["USD", "EUR", "CHF"])),
    ("tax_category", Kind::Choice(&["standard"])),
    ("gift_wrapped", Kind::Flag),
    ("warehouse", Kind::Choice(&["zurich-north", "rotterdam", "leipzig"])),
    ("backordered_until", Kind::Nothing),
];
const SCHEMAS: [&[Field]; 3] = [USER, EVENT, ORDER];

const FIRST_NAMES: [&str; 16] = [
    "Alice", "Bruno", "Chiara", "David", "Elena", "Farid", "Grace", "Hiro", "Ines", "Jakob", "Keiko", "Liam",
    "Maya", "Noah", "Olga", "Priya",
];
const SECOND_NAMES: [&str; 16] = [
    "Anderson", "Baumann", "Costa", "Dubois", "Eriksen", "Fischer", "Garcia", "Haddad", "Ito", "Jensen",
    "Keller", "Lopez", "Moreau", "Novak", "Okafor", "Patel",
];
/// What texts are made of: people and programs say the same things in other orders.
const PHRASES: [&str; 16] = [
    "the delivery was late because of the weather",
    "the request timed out",
    "thank you for your order",
    "a new version of the document",
    "is not available in your country",
    "connection to the server was closed",
    "could not be found",
    "retrying after two seconds",
    "the customer asked for an answer",
    "as soon as possible",
    "on the second day",
    "small and large pictures",
    "has changed its address",
    "update of the system",
    "to travel together",
    "in the evening",
];

/// Writes one document.
pub(super) struct Writer<'a> {
    random: &'a mut Random,
    text: String,
    /// Most bytes.
    most: usize,
    /// Number of what it is about.
    id: u64,
    /// First and second name of the person in it.
    person: (&'static str, &'static str),
}

impl<'a> Writer<'a> {
    /// A writer of a document of at most so many bytes, if they are enough for the first field of each
    /// schema.
    pub(super) fn new(random: &'a mut Random, most: usize) -> Writer<'a> {
        let id = 10_000_000 + random.below(90_000_000);
        let person = (one_of(random, &FIRST_NAMES), one_of(random, &SECOND_NAMES));
        Writer { random, text: String::new(), most, id, person }
    }

    /// A document without its opening brace: the fields of a schema that fit, and then items. A document
    /// below `least` bytes gets a number that fills it.
    pub(super) fn document(mut self, least: usize) -> String {
        let schema = SCHEMAS[self.random.below(SCHEMAS.len() as u64) as usize];
        for field in schema {
            self.field_that_fits(field);
        }
        self.items();
        if self.text.len() + "}".len() < least {
            self.text.push_str(",\"v\":1");
            while self.text.len() + "}".len() < least {
                let _ = write!(self.text, "{}", self.random.below(10));
            }
        }
        self.text.push('}');
        self.text
    }

    /// Adds a field, and takes it back if it leaves no room for the closing brace.
    fn field_that_fits(&mut self, field: &Field) {
        let before = self.text.len();
        if before > 0 {
            self.text.push(',');
        }
        self.field(field);
        if self.text.len() + "}".len() > self.most {
            self.text.truncate(before);
        }
    }

    /// Adds an array of items, as many as fit.
    fn items(&mut self) {
        let start = self.text.len();
        self.text.push_str(",\"items\":[");
        let mut count = 0;
        loop {
            let before = self.text.len();
            self.text.push_str(if count == 0 { "{" } else { ",{" });
            for (place, field) in ITEM.iter().enumerate() {
                self.text.push_str(if place == 0 { "" } else { "," });
                self.field(field);
            }
            self.text.push('}');
            if self.text.len() + "]}".len() > self.most {
                self.text.truncate(before);
                break;
            }
            count += 1;
        }
        if count == 0 {
            self.text.truncate(start);
        } else {
            self.text.push(']');
        }
    }

    fn field(&mut self, (name, kind): &Field) {
        let _ = write!(self.text, "\"{name}\":");
        self.value(*kind);
    }

    fn value(&mut self, kind: Kind) {
        // Writing to a string cannot fail.
        let _ = match kind {
            Kind::Id => write!(self.text, "{}", self.id),
            Kind::Url => {
                let path = one_of(self.random, &["users", "orders", "images/small", "search"]);
                write!(self.text, "\"https://api.example.com/v2/{path}/{}\"", self.id)
            }
            Kind::Millis => write!(self.text, "{}", 1_774_000_000_000 + self.random.below(10_000_000)),
            Kind::Flag => write!(self.text, "{}", self.random.below(2) == 0),
            Kind::Count(limit) => write!(self.text, "{}", self.random.below(limit)),
            Kind::Price => {
                write!(self.text, "{}.{:02}", self.random.below(500), self.random.below(100))
            }
            Kind::Nothing => write!(self.text, "null"),
            Kind::Choice(names) => write!(self.text, "\"{}\"", one_of(self.random, names)),
            Kind::Address => {
                let mut part = || self.random.below(256);
                write!(self.text, "\"10.0.{}.{}\"", part(), part())
            }
            Kind::Person => {
                let (first, second) = self.person;
                write!(self.text, "\"{first} {second}\"")
            }
            Kind::Email => {
                let (first, second) = self.person;
                write!(self.text, "\"{}.{}@example.com\"", first.to_lowercase(), second.to_lowercase())
            }
            Kind::Time => self.time(),
            Kind::Place => {
                let (north, east) = (self.random.below(1_800_000), self.random.below(3_600_000));
                let north = north as f64 / 1e4 - 90.0;
                write!(self.text, "{{\"lat\":{north:.4},\"lon\":{:.4}}}", east as f64 / 1e4 - 180.0)
            }
            Kind::Text(most) => self.text(most),
        };
    }

    fn time(&mut self) -> std::fmt::Result {
        let mut below = |limit| self.random.below(limit);
        let day = below(28) + 1;
        let (hour, minute, second) = (below(24), below(60), below(60));
        write!(self.text, "\"2026-03-{day:02}T{hour:02}:{minute:02}:{second:02}Z\"")
    }

    fn text(&mut self, most: u64) -> std::fmt::Result {
        self.text.push('"');
        for place in 0..=self.random.below(most) {
            self.text.push_str(if place == 0 { "" } else { " " });
            self.text.push_str(one_of(self.random, &PHRASES));
        }
        self.text.write_char('"')
    }
}

fn one_of(random: &mut Random, names: &[&'static str]) -> &'static str {
    names[random.below(names.len() as u64) as usize]
}
