//! Keys that are text of 20 to 80 bytes, in the order of their records: addresses of pages in one tenant,
//! such as `t0002:https://shop.example.com/books/0a7/quiet-river`, fields of users in the next, such as
//! `t0003:user:4711042:email`.
//!
//! A tenant has 65,536 records, and there are as many tenants at most. A tenant's number leads all its keys,
//! so that tenants with different keys have an order. In a tenant of addresses come a section of 16 that are
//! sorted, a page in hex, and a slug of varying length, which no order depends on. In a tenant of users come
//! numbers of one length, and eight fields that are sorted. So a key has its record in it. An absent key is a
//! present one with a `!`, which sorts before every byte in keys: nothing lies between the two.
//!
//! A key is made by copies of fixed lengths, which overlap: each is cut by the next.

use super::KEY_BUFFER_BYTES;
use super::hex;
use super::random::{Random, mix};

/// Bits of a record's number within its tenant.
const TENANT_BITS: u32 = 16;
/// Bits of a page within its section.
const PAGE_BITS: u32 = 12;
/// Bits of a field of a user.
const FIELD_BITS: u32 = 3;
/// Bytes of `t0002:`, which begins all keys.
const TENANT_BYTES: usize = 6;
/// Bytes of `user:` and of a user's number and its colon.
const USER_BYTES: usize = 5;
const NUMBER_BYTES: usize = 8;
/// Users of a tenant have numbers of seven digits from a first one on, which is a hash of the tenant below
/// this: the last of 8,192 users still has seven digits.
const FIRST_USERS: u64 = 8_900_000;
const LEAST_USER: u64 = 1_000_000;
/// Bytes of a page and its slash.
const PAGE_BYTES: usize = 4;
/// Bytes of slugs: so many that the longest key has 80 bytes.
const SHORTEST_SLUG: u64 = 3;
const SLUG_LENGTHS: u64 = 30;
/// Bytes of copies of an address and of a slug or a field.
const SITE_BYTES: usize = 48;
const TAIL_BYTES: usize = 32;
/// Words of the pool that slugs are cut from.
const SLUG_WORDS: usize = 1024;

/// Longest key, without the mark of absent ones.
pub(crate) const MOST_TEXT_BYTES: usize = 80;
/// Shortest key.
#[cfg(test)]
pub(crate) const LEAST_TEXT_BYTES: usize = 20;
/// What makes an absent key of a present one.
const ABSENT: u8 = b'!';

/// In the order of bytes, each with a first letter of its own.
const SECTIONS: [&str; 16] = [
    "articles",
    "books",
    "comments",
    "downloads",
    "events",
    "forum",
    "guides",
    "help",
    "images",
    "jobs",
    "kitchen",
    "library",
    "music",
    "news",
    "orders",
    "products",
];
/// In the order of bytes, each with a first letter of its own.
const FIELDS: [&str; 1 << FIELD_BITS] = [
    "address.city",
    "created_at",
    "email",
    "last_login",
    "name",
    "preferences.notifications",
    "sessions",
    "timezone",
];
const HOSTS: [&str; 8] = [
    "shop.example.com",
    "www.example.org",
    "media.example.net",
    "blog.example.org",
    "docs.example.com",
    "api-eu.example.com",
    "cdn2.example.net",
    "a.example.io",
];
const WORDS: [&str; 32] = [
    "quiet", "river", "stone", "how", "to", "build", "a", "the", "garden", "winter", "best", "of", "small",
    "engine", "with", "paper", "2024", "review", "first", "light", "and", "green", "market", "guide", "for",
    "travel", "2025", "open", "city", "stories", "new", "kitchen",
];

/// A part of a key, padded for copies of one length.
#[derive(Clone, Copy)]
struct Cut<const BYTES: usize> {
    bytes: [u8; BYTES],
    len: usize,
}

impl<const BYTES: usize> Cut<BYTES> {
    fn new(text: &str) -> Cut<BYTES> {
        let mut bytes = [0; BYTES];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Cut { bytes, len: text.len() }
    }
}

/// Text keys.
pub(super) struct TextKeys {
    /// The address before a page, by host and section.
    sites: Vec<Cut<SITE_BYTES>>,
    /// Bytes of an address up to its section, by host.
    host_bytes: [usize; HOSTS.len()],
    fields: [Cut<TAIL_BYTES>; FIELDS.len()],
    /// Words with dashes between, long enough for a copy from each of the starts.
    slugs: Vec<u8>,
    /// Where words begin.
    starts: Vec<usize>,
}

impl TextKeys {
    pub(super) fn new(seed: u64) -> TextKeys {
        let mut random = Random::new(seed ^ 0x74_65_78_74);
        let (mut slugs, mut starts) = (String::new(), Vec::new());
        for _ in 0..SLUG_WORDS {
            starts.push(slugs.len());
            slugs.push_str(WORDS[random.below(WORDS.len() as u64) as usize]);
            slugs.push('-');
        }
        starts.retain(|start| start + TAIL_BYTES <= slugs.len());
        let site = |host: &str, section: &str| Cut::new(&format!("https://{host}/{section}/"));
        let sites = HOSTS.iter().flat_map(|host| SECTIONS.iter().map(|section| site(host, section)));
        TextKeys {
            sites: sites.collect(),
            host_bytes: HOSTS.map(|host| "https://".len() + host.len() + "/".len()),
            fields: FIELDS.map(Cut::new),
            slugs: slugs.into_bytes(),
            starts,
        }
    }

    // Cold, as all that is not for records of one length: it stays out of their way.
    #[cold]
    #[inline(never)]
    pub(super) fn key<'b>(&self, record: u64, buffer: &'b mut [u8; KEY_BUFFER_BYTES]) -> &'b [u8] {
        let len = self.make(record, buffer);
        &buffer[..len]
    }

    #[cold]
    #[inline(never)]
    pub(super) fn absent_key<'b>(&self, record: u64, buffer: &'b mut [u8; KEY_BUFFER_BYTES]) -> &'b [u8] {
        let len = self.make(record, buffer);
        buffer[len] = ABSENT;
        &buffer[..=len]
    }

    /// Makes a key, and returns its length.
    fn make(&self, record: u64, buffer: &mut [u8; KEY_BUFFER_BYTES]) -> usize {
        let tenant = record >> TENANT_BITS;
        buffer[0] = b't';
        buffer[1..5].copy_from_slice(&hex::digits(tenant as u32).to_be_bytes()[4..]);
        buffer[5] = b':';
        let low = record & ((1 << TENANT_BITS) - 1);
        if is_of_users(tenant) {
            self.user(tenant, low, buffer)
        } else {
            self.address(record, tenant, low, buffer)
        }
    }

    fn user(&self, tenant: u64, low: u64, buffer: &mut [u8; KEY_BUFFER_BYTES]) -> usize {
        let mut at = TENANT_BYTES;
        buffer[at..at + USER_BYTES].copy_from_slice(b"user:");
        at += USER_BYTES;
        let mut number = first_user(tenant) + (low >> FIELD_BITS);
        buffer[at + NUMBER_BYTES - 1] = b':';
        for digit in buffer[at..at + NUMBER_BYTES - 1].iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
        at += NUMBER_BYTES;
        let field = &self.fields[low as usize & (FIELDS.len() - 1)];
        buffer[at..at + TAIL_BYTES].copy_from_slice(&field.bytes);
        at + field.len
    }

    fn address(&self, record: u64, tenant: u64, low: u64, buffer: &mut [u8; KEY_BUFFER_BYTES]) -> usize {
        let mut at = TENANT_BYTES;
        let site = &self.sites[host_of(tenant) * SECTIONS.len() + (low >> PAGE_BITS) as usize];
        buffer[at..at + SITE_BYTES].copy_from_slice(&site.bytes);
        at += site.len;
        let page = hex::digits(low as u32 & ((1 << PAGE_BITS) - 1)).to_be_bytes();
        buffer[at..at + 3].copy_from_slice(&page[5..]);
        buffer[at + 3] = b'/';
        at += PAGE_BYTES;
        let hash = mix(record ^ 0x736c_7567);
        let start = self.starts[(hash >> 32) as usize % self.starts.len()];
        buffer[at..at + TAIL_BYTES].copy_from_slice(&self.slugs[start..start + TAIL_BYTES]);
        at + (SHORTEST_SLUG + (((hash & 0xffff_ffff) * SLUG_LENGTHS) >> 32)) as usize
    }

    /// The record in a key, of which what no order depends on may be wrong; `u64::MAX` of what is no key.
    #[cold]
    #[inline(never)]
    pub(super) fn record_of(&self, key: &[u8]) -> u64 {
        self.parse(key).unwrap_or(u64::MAX)
    }

    fn parse(&self, key: &[u8]) -> Option<u64> {
        let (head, rest) = key.split_first_chunk::<TENANT_BYTES>()?;
        let tenant = u64::from(hex::number(u64::from_be_bytes([
            b'0', b'0', b'0', b'0', head[1], head[2], head[3], head[4],
        ])));
        let low = if is_of_users(tenant) {
            let (number, field) = rest.get(USER_BYTES..)?.split_first_chunk::<NUMBER_BYTES>()?;
            let digits = &number[..NUMBER_BYTES - 1];
            let number = digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit & 0xf));
            let field = FIELDS.iter().position(|name| name.as_bytes()[0] == *field.first().unwrap_or(&0))?;
            (number.checked_sub(first_user(tenant))? << FIELD_BITS) | field as u64
        } else {
            let host = host_of(tenant);
            let section = usize::from(rest.get(self.host_bytes[host])?.checked_sub(b'a')?);
            let site = self.sites.get(host * SECTIONS.len() + section)?;
            let page = rest.get(site.len..)?.first_chunk::<3>()?;
            let page = [b'0', b'0', b'0', b'0', b'0', page[0], page[1], page[2]];
            ((section as u64) << PAGE_BITS) | u64::from(hex::number(u64::from_be_bytes(page)))
        };
        (low < 1 << TENANT_BITS).then_some((tenant << TENANT_BITS) | low)
    }
}

fn is_of_users(tenant: u64) -> bool {
    tenant & 1 == 1
}

fn first_user(tenant: u64) -> u64 {
    LEAST_USER + mix(tenant ^ 0x7573_6572) % FIRST_USERS
}

fn host_of(tenant: u64) -> usize {
    mix(tenant ^ 0x686f_7374) as usize % HOSTS.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_order_and_have_first_letters_of_their_own() {
        let first = |names: &[&str]| names.iter().map(|name| name.as_bytes()[0]).collect::<Vec<u8>>();
        assert_eq!(first(&SECTIONS), (b'a'..=b'p').collect::<Vec<u8>>());
        assert!(first(&FIELDS).windows(2).all(|pair| pair[0] < pair[1]));
    }

    /// Over the ends of tenants, users and sections as well.
    #[test]
    fn keys_are_text_in_the_order_of_records_with_absent_ones_between() {
        let keys = TextKeys::new(7);
        let (mut one, mut other) = ([0; KEY_BUFFER_BYTES], [0; KEY_BUFFER_BYTES]);
        let mut lens = [usize::MAX, 0];
        for record in (0..200_000).chain(3_999_900_000..4_000_000_000) {
            let key = keys.key(record, &mut one);
            assert_eq!(keys.record_of(key), record, "{}", String::from_utf8_lossy(key));
            assert!(key.iter().all(|byte| byte.is_ascii_graphic() && *byte > ABSENT), "{key:?}");
            lens = [lens[0].min(key.len()), lens[1].max(key.len())];
            let absent = keys.absent_key(record, &mut other);
            assert!(key < absent);
            let absent = absent.to_vec();
            assert!(absent.as_slice() < keys.key(record + 1, &mut one), "after record {record}");
        }
        assert!(lens[0] >= LEAST_TEXT_BYTES && lens[0] < 25, "{lens:?}");
        assert!(lens[1] <= MOST_TEXT_BYTES && lens[1] > 70, "{lens:?}");
    }

    #[test]
    fn what_is_no_key_has_no_record() {
        let keys = TextKeys::new(7);
        let mut buffer = [0; KEY_BUFFER_BYTES];
        for record in [5, 70_000] {
            let key = keys.key(record, &mut buffer).to_vec();
            for len in 0..TENANT_BYTES + USER_BYTES + NUMBER_BYTES {
                assert_eq!(keys.record_of(&key[..len]), u64::MAX, "{len} bytes of record {record}");
            }
            for place in 0..key.len() {
                let mut damaged = key.clone();
                damaged[place] = 0xff;
                keys.record_of(&damaged);
            }
        }
    }
}
