//! Commands by a client within the process.

mod common;

use common::TestServer;

#[test]
fn strings_are_set_and_read_in_one_pipeline() {
    let server = TestServer::new("local-strings");
    let mut client = server.client();
    assert_eq!(client.request(&["get", "a"]), b"$-1\r\n");
    assert_eq!(
        client.pipeline(b"SET a 1\r\nGET a\r\nSET b 2\r\nGET b\r\n"),
        b"+OK\r\n$1\r\n1\r\n+OK\r\n$1\r\n2\r\n"
    );
    let wrong = client.request(&["get"]);
    assert_eq!(String::from_utf8_lossy(&wrong), "-ERR wrong number of arguments for 'get' command\r\n");
    assert_eq!(server.store_keys(0), 2);
}
