//! Clients and the descriptors of the process: those beyond are refused, and none is left without an answer.

mod common;

use common::victim::{Victim, serve_if_asked};
use esker_redis_testkit::{Client, ExpectKind};

/// Descriptors of the server's process.
const FILES: u32 = 200;

#[test]
fn serves_when_it_is_asked_to() {
    serve_if_asked();
}

fn max_clients(client: &mut Client) -> usize {
    let pair = client.words("CONFIG GET maxclients").array();
    let value = pair.into_iter().nth(1).expect("a value").bulk();
    String::from_utf8(value).expect("text").parse().expect("a number")
}

#[test]
fn clients_beyond_the_descriptors_of_the_process_are_refused() {
    let server = Victim::with_files("file-limit", "maxclients=5000", FILES);
    let mut admin = server.client();
    let most = max_clients(&mut admin);
    assert!((20..FILES as usize - 32).contains(&most), "{most}");
    let error = admin.words("CONFIG SET maxclients 5000");
    let error = String::from_utf8_lossy(error.error().expect("refused")).into_owned();
    assert!(error.ends_with(&format!("the specified number of clients, try with {most}")), "{error}");
    assert_eq!(max_clients(&mut admin), most, "the refused value is not set");
    let mut clients: Vec<Client> = (1..most).map(|_| server.client()).collect();
    clients.iter_mut().for_each(|client| assert!(client.words("SET k 1").error().is_none()));
    for _ in 0..10 {
        let refusal = server.client().read();
        assert_eq!(refusal.error(), Some(&b"ERR max number of clients reached"[..]));
    }
    assert_eq!(admin.words("GET k").bulk(), b"1");
    let fewer = format!("CONFIG SET maxclients {}", most - 1);
    assert!(admin.words(&fewer).error().is_none());
}
