//! Frames of the control socket: one byte for the kind, four for the length, then the bytes.

use std::io::{self, Read, Write};

/// Longest frame. Arguments of a process are at most 2 MiB on Linux, and pieces of input and output are
/// smaller.
const MAX_FRAME_BYTES: usize = 4 << 20;

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A command line, from the caller.
    Request,
    /// A piece of the caller's standard input; an empty one is its end.
    Input,
    /// A piece of the caller's standard output.
    Output,
    /// A piece of the caller's standard error.
    Errors,
    /// The command reads: the caller answers with [`Kind::Input`].
    WantsInput,
    /// The command has ended with this exit code.
    Exit,
}

impl Kind {
    const ALL: [Kind; 6] =
        [Kind::Request, Kind::Input, Kind::Output, Kind::Errors, Kind::WantsInput, Kind::Exit];

    fn byte(self) -> u8 {
        Kind::ALL.iter().position(|kind| *kind == self).map_or(0, |place| place as u8 + 1)
    }
}

/// Writes a frame, or several if the bytes are more than one holds.
pub(super) fn write(stream: &mut impl Write, kind: Kind, bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() {
        return write_one(stream, kind, bytes);
    }
    bytes.chunks(MAX_FRAME_BYTES).try_for_each(|piece| write_one(stream, kind, piece))
}

fn write_one(stream: &mut impl Write, kind: Kind, bytes: &[u8]) -> io::Result<()> {
    let mut head = [kind.byte(); 5];
    head[1..].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
    stream.write_all(&head)?;
    stream.write_all(bytes)
}

/// Reads a frame into `bytes`.
pub(super) fn read(stream: &mut impl Read, bytes: &mut Vec<u8>) -> io::Result<Kind> {
    let mut head = [0; 5];
    stream.read_exact(&mut head)?;
    let [kind, length @ ..] = head;
    let length = u32::from_le_bytes(length) as usize;
    let kind = Kind::ALL.into_iter().find(|known| known.byte() == kind);
    let bad = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let kind = kind.ok_or_else(|| bad(format!("a frame of the unknown kind {}", head[0])))?;
    if length > MAX_FRAME_BYTES {
        return Err(bad(format!("a frame of {length} bytes, more than {MAX_FRAME_BYTES}")));
    }
    bytes.clear();
    let read = stream.take(length as u64).read_to_end(bytes)?;
    if read < length { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(kind) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_were_written() {
        let mut stream = Vec::new();
        for kind in Kind::ALL {
            write(&mut stream, kind, format!("{kind:?}").as_bytes()).unwrap();
            write(&mut stream, kind, b"").unwrap();
        }
        let (mut stream, mut bytes) = (stream.as_slice(), Vec::new());
        for kind in Kind::ALL {
            assert_eq!(read(&mut stream, &mut bytes).unwrap(), kind);
            assert_eq!(bytes, format!("{kind:?}").as_bytes());
            assert_eq!(read(&mut stream, &mut bytes).unwrap(), kind);
            assert!(bytes.is_empty());
        }
        assert!(read(&mut stream, &mut bytes).is_err());
    }

    #[test]
    fn what_is_no_frame_is_refused_before_memory_is_asked_for() {
        let mut bytes = Vec::new();
        for stream in
            [&b"\x00\0\0\0\0"[..], b"\x07\0\0\0\0", b"\x01\xff\xff\xff\xff", b"\x01\x05\0\0\0abc", b"\x01"]
        {
            assert!(read(&mut &stream[..], &mut bytes).is_err());
            assert!(bytes.capacity() < 1 << 20);
        }
    }

    #[test]
    fn long_output_takes_several_frames() {
        let mut stream = Vec::new();
        write(&mut stream, Kind::Output, &vec![7; MAX_FRAME_BYTES + 1]).unwrap();
        let (mut stream, mut bytes) = (stream.as_slice(), Vec::new());
        read(&mut stream, &mut bytes).unwrap();
        assert_eq!(bytes.len(), MAX_FRAME_BYTES);
        read(&mut stream, &mut bytes).unwrap();
        assert_eq!(bytes, [7]);
    }
}
