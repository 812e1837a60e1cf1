//! Frames out of a connection. A payload is read from the kernel straight into the buffer that is handed on.

use std::io;
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::error::{Error, ErrorKind, Result, Retry};
use crate::wire::frame::{HEADER_BYTES, Header, Kind, damaged};
use crate::wire::heard::Heard;

/// A frame whose payload is not compared with its checksum yet.
#[derive(Debug)]
pub struct Frame {
    pub header: Header,
    payload: Bytes,
}

/// The receiving half of a connection.
pub struct FrameReader {
    source: Box<dyn AsyncRead + Send + Unpin>,
    buffer: BytesMut,
    heard: Arc<Heard>,
    /// Bytes that may be read beyond what the frame at hand needs: they may have to be moved.
    ahead: usize,
}

impl Frame {
    /// The payload, if its checksum is right.
    pub fn payload(self) -> Result<Bytes> {
        if crc32c::crc32c(&self.payload) == self.header.payload_crc {
            return Ok(self.payload);
        }
        Err(damaged(format!("a {:?} frame of a peer does not match its checksum", self.header.kind)))
    }
}

impl FrameReader {
    pub fn new(source: Box<dyn AsyncRead + Send + Unpin>, heard: Arc<Heard>) -> Self {
        FrameReader { source, buffer: BytesMut::new(), heard, ahead: HEADER_BYTES }
    }

    /// For sides that receive only small frames: several of them with one system call.
    pub fn expecting_small_frames(mut self) -> Self {
        self.ahead = 8 << 10;
        self
    }

    /// The next frame; `None` when the other side closed the connection between two frames. A payload of a frame other
    /// than `Data` is at most `most` bytes.
    pub async fn next(&mut self, most: usize) -> Result<Option<Frame>> {
        let Some(header) = self.header().await? else { return Ok(None) };
        let length = header.length as usize;
        if header.kind != Kind::Data && length > most {
            let message = format!("a {:?} frame of {length} bytes is not allowed here (limit {most})", header.kind);
            return Err(damaged(message));
        }
        self.buffer.advance(HEADER_BYTES);
        if !self.fill(length).await? {
            return Err(ended("in the middle of a frame", None));
        }
        Ok(Some(Frame { header, payload: self.buffer.split_to(length).freeze() }))
    }

    /// The next frame of a conversation that is not over yet, with its checksum compared.
    pub async fn expect(&mut self, most: usize) -> Result<(Header, Bytes)> {
        let frame = self.next(most).await?.ok_or_else(|| ended("during the handshake", None))?;
        Ok((frame.header, frame.payload()?))
    }

    async fn header(&mut self) -> Result<Option<Header>> {
        if !self.fill(HEADER_BYTES).await? {
            return if self.buffer.is_empty() { Ok(None) } else { Err(ended("in the middle of a frame", None)) };
        }
        let mut bytes = [0; HEADER_BYTES];
        bytes.copy_from_slice(&self.buffer[..HEADER_BYTES]);
        Header::decode(&bytes).map(Some)
    }

    /// Reads until `wanted` bytes are in the buffer; false at the end of the connection.
    async fn fill(&mut self, wanted: usize) -> Result<bool> {
        if self.buffer.len() < wanted && self.buffer.capacity() < wanted + self.ahead {
            // A new buffer, not a grown one: the payloads handed on share the old one.
            let mut fresh = BytesMut::with_capacity(wanted + self.ahead);
            fresh.extend_from_slice(&self.buffer);
            self.buffer = fresh;
        }
        while self.buffer.len() < wanted {
            let room = wanted + self.ahead - self.buffer.len();
            let read = self.source.read_buf(&mut (&mut self.buffer).limit(room)).await;
            match read {
                Ok(0) => return Ok(false),
                Ok(_) => self.heard.note(),
                Err(error) => return Err(ended("in an error", Some(error))),
            }
        }
        Ok(true)
    }
}

/// The connection is over before it should be. Another one, or another replica, may do better.
pub fn ended(how: &str, cause: Option<io::Error>) -> Error {
    let error = match cause {
        None => Error::new(ErrorKind::Unreachable, format!("the connection to a peer ended {how}")),
        Some(cause) => {
            Error::new(ErrorKind::Unreachable, format!("the connection to a peer ended: {cause}")).with_source(cause)
        }
    };
    error.with_retry(Retry::Temporary)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::frame::{MAX_CONTROL_BYTES, control_frame};
    use proptest::prelude::*;

    /// What `work` gets from a reader whose source hands out at most `piece` bytes at a time, and then ends.
    fn read<T>(bytes: &[u8], piece: usize, small: bool, work: impl AsyncFnOnce(&mut FrameReader) -> T) -> T {
        let (mut sender, receiver) = tokio::io::duplex(piece);
        let mut reader = FrameReader::new(Box::new(receiver), Arc::new(Heard::new()));
        if small {
            reader = reader.expecting_small_frames();
        }
        let sending = async move {
            // The reader may give up before the end.
            let _ = tokio::io::AsyncWriteExt::write_all(&mut sender, bytes).await;
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async { futures::join!(sending, async move { work(&mut reader).await }).1 })
    }

    proptest! {
        #[test]
        fn frames_arrive_whole_however_they_are_cut(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..600), 0..8),
            piece in 1usize..700,
            small: bool,
        ) {
            let stream: Vec<u8> = payloads.iter().flat_map(|payload| control_frame(1, Kind::Get, 5, payload)).collect();
            read(&stream, piece, small, async |reader| {
                for payload in &payloads {
                    let (header, bytes) = reader.expect(MAX_CONTROL_BYTES).await.expect("our own frame");
                    assert_eq!((header.request, &bytes[..]), (5, &payload[..]));
                }
                assert!(reader.next(MAX_CONTROL_BYTES).await.expect("a clean end").is_none());
            });
        }

        #[test]
        fn a_cut_stream_is_an_error_and_never_a_short_frame(payload in prop::collection::vec(any::<u8>(), 1..600), cut: prop::sample::Index) {
            let mut stream = control_frame(1, Kind::Get, 5, &payload);
            stream.truncate(1 + cut.index(stream.len() - 1));
            let error = read(&stream, 100, false, async |reader| reader.next(MAX_CONTROL_BYTES).await.expect_err("cut"));
            prop_assert!(error.is_temporary());
        }

        #[test]
        fn garbage_is_an_error(bytes in prop::collection::vec(any::<u8>(), 24..200)) {
            prop_assert!(read(&bytes, 64, true, async |reader| reader.next(1024).await.is_err()));
        }
    }
}
