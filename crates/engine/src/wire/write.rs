//! Frames into a connection: header and payload leave together, and file content without passing through this process.

use std::fs::File;
use std::io::{self, IoSlice};

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::net::tcp::OwnedWriteHalf;

use crate::wire::frame::HEADER_BYTES;
use crate::wire::socket::{send_before_more, send_file};

/// The sending half of a connection.
pub enum FrameWriter {
    Plain(OwnedWriteHalf),
    /// Everything passes through this process, for encryption.
    Covered(Box<dyn AsyncWrite + Send + Unpin>),
}

impl FrameWriter {
    /// Whether `write_file` can be used.
    pub fn sends_files(&self) -> bool {
        matches!(self, FrameWriter::Plain(_))
    }

    /// Whole frames.
    pub async fn write_all(&mut self, frames: &[u8]) -> io::Result<()> {
        match self {
            FrameWriter::Plain(stream) => stream.write_all(frames).await,
            FrameWriter::Covered(stream) => {
                stream.write_all(frames).await?;
                stream.flush().await
            }
        }
    }

    /// One frame.
    pub async fn write(&mut self, header: &[u8; HEADER_BYTES], payload: &[u8]) -> io::Result<()> {
        match self {
            FrameWriter::Plain(stream) => write_both(stream, header, payload).await,
            FrameWriter::Covered(stream) => {
                write_both(stream, header, payload).await?;
                stream.flush().await
            }
        }
    }

    /// One frame whose payload is `length` bytes of `file` from `offset`. When the file has become shorter the frame is
    /// filled with zeros, so that the connection goes on; returns false then.
    pub async fn write_file(
        &mut self,
        header: &[u8; HEADER_BYTES],
        file: &File,
        offset: u64,
        length: u32,
    ) -> io::Result<bool> {
        let FrameWriter::Plain(stream) = self else { return Err(io::ErrorKind::Unsupported.into()) };
        send_before_more(stream.as_ref(), header).await?;
        // A file that cannot be read is as good as one that is too short; a broken connection shows in what follows.
        let sent = send_file(stream.as_ref(), file, offset, length).await.unwrap_or(0);
        if sent < length {
            stream.write_all(&vec![0; (length - sent) as usize]).await?;
        }
        Ok(sent == length)
    }
}

async fn write_both(stream: &mut (impl AsyncWrite + Unpin), mut header: &[u8], mut payload: &[u8]) -> io::Result<()> {
    while !(header.is_empty() && payload.is_empty()) {
        let count = stream.write_vectored(&[IoSlice::new(header), IoSlice::new(payload)]).await?;
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        let of_header = count.min(header.len());
        header = &header[of_header..];
        payload = &payload[count - of_header..];
    }
    Ok(())
}
