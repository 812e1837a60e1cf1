//! The secret that all roles of one cluster share, and how one side proves to the other that it knows it.
//!
//! The token itself never leaves the process: a proof is a keyed BLAKE3 hash over everything both sides said.

use std::fmt;
use std::path::Path;

use crate::error::{Error, ErrorKind, Result};

const MIN_CHARACTERS: usize = 16;
const KEY_CONTEXT: &str = "headrace 2026 peer protocol, key of the shared token";

/// A shared secret. Never prints itself.
#[derive(Clone)]
pub struct Token {
    key: [u8; 32],
}

/// Who proves; a proof of one side is worth nothing as a proof of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Client,
    Server,
}

impl Token {
    /// Any text of at least 16 characters; white space around it is not part of it.
    pub fn new(text: &str) -> Result<Token> {
        let text = text.trim();
        if text.chars().count() < MIN_CHARACTERS {
            let message = format!("the cluster's token is shorter than {MIN_CHARACTERS} characters");
            return Err(Error::config(message).with_hint("use a random one: `openssl rand -hex 32`"));
        }
        Ok(Token { key: blake3::derive_key(KEY_CONTEXT, text.as_bytes()) })
    }

    /// The token in a file, as `new` takes it.
    pub fn from_file(path: &Path) -> Result<Token> {
        let text = std::fs::read_to_string(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::InvalidData => Error::config(format!("the token in {} is not text", path.display())),
            _ => Error::from_io("read the token in", path, error),
        })?;
        Self::new(&text).map_err(|error| error.with_context("file", path.display()))
    }

    /// What `side` sends to prove that it knows the token.
    pub(super) fn proof(&self, side: Side, transcript: &[u8]) -> [u8; 32] {
        *self.hash(side, transcript).as_bytes()
    }

    /// `PermissionDenied` unless `proof` is what `side` would have sent. Takes the same time for every wrong proof.
    pub(super) fn check(&self, side: Side, transcript: &[u8], proof: [u8; 32]) -> Result<()> {
        // Comparing two `blake3::Hash` takes constant time.
        if self.hash(side, transcript) == blake3::Hash::from_bytes(proof) {
            return Ok(());
        }
        let message = match side {
            Side::Client => "the peer refused this process: it does not have the cluster's token",
            Side::Server => "the peer does not have the cluster's token",
        };
        Err(Error::new(ErrorKind::PermissionDenied, message)
            .with_hint("give the same token to the master, all workers and all mounts of the cluster"))
    }

    fn hash(&self, side: Side, transcript: &[u8]) -> blake3::Hash {
        let label: &[u8] = match side {
            Side::Client => b"headrace peer client\0",
            Side::Server => b"headrace peer server\0",
        };
        blake3::Hasher::new_keyed(&self.key).update(label).update(transcript).finalize()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_holds_for_one_side_one_token_and_one_transcript() {
        let (token, other) =
            (Token::new("0123456789abcdef").expect("long"), Token::new("fedcba9876543210").expect("long"));
        let proof = token.proof(Side::Client, b"nonces");
        assert!(token.check(Side::Client, b"nonces", proof).is_ok());
        assert!(token.check(Side::Server, b"nonces", proof).is_err());
        assert!(token.check(Side::Client, b"other", proof).is_err());
        assert_eq!(other.check(Side::Client, b"nonces", proof).expect_err("wrong").kind(), ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_token_never_prints_itself_and_is_not_short() {
        assert_eq!(format!("{:?}", Token::new(" 0123456789abcdef\n").expect("long")), "***");
        let error = Token::new("  0123456789abcde  ").expect_err("short");
        assert!(!format!("{error:?}").contains("0123456789abcde"));
    }
}
